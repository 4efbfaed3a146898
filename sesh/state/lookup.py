"""Find sessions and change their records.

`one`, `some` and `everything` judge what they find. `update` is the way to change a record. Living
agents without a record are found by the files of their launches.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from sesh.model import digest
from sesh.model.configuration import Config
from sesh.model.digest import Digest
from sesh.model.errors import (
    CannotTellError,
    ConflictError,
    EndedError,
    NoSessionError,
    UsageError,
)
from sesh.model.observation import Session, Verdict
from sesh.model.place import Process
from sesh.model.reconcile import reconcile
from sesh.model.record import Record, name_of, valid_name
from sesh.model.states import ENDED, State
from sesh.places import launch_files
from sesh.places.interface import Answers
from sesh.state import ends, events, freshness, records
from sesh.state.judge import Seen, judge, readable
from sesh.state.records import Entry
from sesh.system import paths, processes, quick_read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sesh.places.unclaimed import Orphan

_TRIES = 200  # to change a record while other processes change it
LOST = "its record is lost; next: sesh adopt {0}, or sesh stop {0}"


def held(among: Iterable[str] | None = None) -> dict[str, Digest]:
    """The records whose digest line still holds, so that they need no look. None: among all."""
    return held_and_explained(among)[0]


def held_and_explained(
    among: Iterable[str] | None = None,
) -> tuple[dict[str, Digest], set[int]]:
    """The same, with the processes of these records: living agents and their keepers."""
    found = {}
    try:
        survey = freshness.Survey()
        names = freshness.names(paths.sessions_dir()) if among is None else among
        directory = quick_read.directory(paths.sessions_dir())
    except OSError:
        return {}, set()
    for name in names:
        try:
            one = freshness.digest_of(name, directory)
        except OSError:
            continue
        if one is not None and survey.holds(one):
            found[name] = one
    os.close(directory)
    return found, {int(pid) for launch in survey.explained for pid in launch}


def sockets(held: Iterable[Digest]) -> set[str]:
    """The tmux servers of the living sessions among these."""
    found = {digest.text(one.view, "socket") for one in held if one.mode == "pid"}
    return {socket for socket in found if socket is not None}


def agent_processes(found: Iterable[Seen], held: Iterable[Digest] = ()) -> dict[str, Process]:
    """Session id → its agent, where pids mean something here: containers too."""
    here = processes.here()
    judged = {
        r.id: r.place.agent.process
        for r in readable(found)
        if r.place.agent and r.place.machine == here and r.place.pids_here
    }
    alive = [one for one in held if one.mode == "pid" or one.mode.startswith("box")]
    return {**judged, **{one.id: Process(int(one.pid), int(one.start)) for one in alive}}


def everything(
    leaving_out: Collection[str] = (),
    config: Config | None = None,
    answers: Answers | None = None,
) -> list[Seen]:
    """Judge all records."""
    return judge(records.entries(leaving_out), config, answers)


def one(name: str) -> Seen:
    """Judge one session. Raises NoSessionError, with a similar name, when there is none."""
    return judge([find(name)])[0]


def some(names: Sequence[str]) -> list[Seen]:
    """Judge the named sessions together. The first unknown name raises."""
    return judge([find(name) for name in dict.fromkeys(names)])


def find(name: str) -> Entry:
    """The record of a session that must exist."""
    check_name(name)
    entry = records.entry(name)
    if entry is None:
        raise missing(name)
    return entry


def check_name(name: str) -> None:
    if not valid_name(name):
        raise UsageError(
            f"invalid name {name!a}: use letters, digits, - and _ (at most 63), "
            "starting with a letter or digit"
        )


def check_labels(group: str | None, tags: Iterable[str]) -> None:
    for word in (*([group] if group is not None else ()), *tags):
        if not word or not word.isprintable() or len(word) > 200:
            raise UsageError(f"{word!r}: a group or tag should be 1 to 200 printable characters")


def must_be(found: Seen, *states: State) -> Record:
    """The record of a session in one of these states; any other state raises."""
    session = found.intact
    need_process(found)
    reason = session.verdict.reason
    if found.state in ENDED:
        restart = f"sesh restart {found.name}"
        raise EndedError(f"{found.name} has ended ({found.state}); next: {restart}")
    if found.state is State.UNKNOWN:
        raise CannotTellError(f"{found.name}: {reason}")
    if found.state in states:
        return session.record
    if found.state is State.PAUSED:
        raise ConflictError(f"{found.name} is paused; next: sesh resume {found.name}")
    raise ConflictError(f"{found.name} is {found.state}: {reason or 'not ready'}")


def need_process(found: Seen) -> None:
    """Raise when sesh runs no process for the session."""
    if not found.has_process:
        raise ConflictError(
            f"{found.name} is a record only (no process); next: sesh show {found.name}"
        )


def again(found: Seen) -> Seen:
    """Judge a session again because its record has changed (a pass has recorded its end, say).
    Raises when it is another launch, or in another state."""
    fresh = one(found.name)
    if not same(found, fresh):
        raise ConflictError(f"{found.name} was changed by another sesh just now; try again")
    return fresh


def same(before: Seen, after: Seen) -> bool:
    """Is it the same launch in the same state?"""
    return _launch_of(before) == _launch_of(after) and after.state is before.state


def check_same_launch(before: Seen, after: Seen) -> None:
    """Raise when another sesh has launched the session again meanwhile."""
    if _launch_of(before) != _launch_of(after):
        raise ConflictError(f"{after.name} was started again by another sesh just now")


def _launch_of(found: Seen) -> str | None:
    return found.record.launch if found.record else None


def missing(name: str) -> NoSessionError:
    if orphans_named(name):
        return NoSessionError(f"{name} is alive, but {LOST.format(name)}")
    from difflib import get_close_matches

    known = [entry.record.name for entry in records.entries() if entry.record.name != name]
    near = get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]}?" if near else "; next: sesh ls"
    return NoSessionError(f"no session named {name}{hint}")


# --- changing a record ---------------------------------------------------------------------------


Tell = Callable[[Session, Session], None]  # appends the events of a change: before, after


def update(
    found: Seen,
    change: Record | Callable[[Seen], Record | None],
    event: str | Tell | None = None,
    *,
    verdict: Verdict | None = None,
    look: Callable[[Seen], Seen | None] | None = None,
) -> Seen | None:
    """Change a record and append the event of the change.

    A new record is written only if the old one is still as it was found; None when another process
    has changed it meanwhile. A function is called again with the changed session, until its record
    could be written; by default with the session that has the name by then, otherwise with what
    `look` returns. None when the function or `look` returned None.
    """
    if isinstance(change, Record):
        return _write(found, change, event, verdict)
    now = found
    for _ in range(_TRIES):
        record = change(now)
        if record is None:
            return None
        written = _write(now, record, event, verdict)
        if written is not None:
            return written
        fresh = look(now) if look else one(now.name)
        if fresh is None:
            return None
        now = fresh
    raise ConflictError(f"{found.name} is being changed by other processes; try again")


def _write(
    found: Seen, record: Record, event: str | Tell | None, verdict: Verdict | None
) -> Seen | None:
    """Replace a record and append its events, and that of its end if the change is an end."""
    before = found.intact
    verdict = verdict or reconcile(record, before.seen, datetime.now(UTC))
    after = Session(record, before.seen, verdict)
    has_ended = _end_of(record) not in (None, _end_of(before.record))
    with ends.announced(record, ended=has_ended) as tell_end:
        entry = records.swap(found.entry, record, verdict)
        if entry is None:
            return None
        if isinstance(event, str):
            events.append(event, record)
        elif event is not None:
            event(before, after)
        if has_ended:
            with suppress(OSError):  # the next look writes the event
                tell_end()
    return Seen(entry, after, has_ended=has_ended)


def _end_of(record: Record) -> tuple[State, str | None] | None:
    """How it ended. A session that was to be retried and is given up ends once more."""
    status = record.status
    return (status.outcome, status.gave_up) if status.outcome else None


# --- living agents without a record --------------------------------------------------------------


def orphans_named(name: str) -> list[Orphan]:
    """The living agents of a name whose record is lost or damaged."""
    return living(one for one in _launches() if name_of(one[0]) == name)


def orphans(found: Iterable[Seen], held: Iterable[Digest]) -> list[Orphan]:
    """Living agents of launches that none of these sessions is."""
    claimed = {(record.id, record.place.generation) for record in readable(found)}
    claimed |= {(one.id, int(one.generation)) for one in held}
    return living(_launches() - claimed)


def _launches() -> set[tuple[str, int]]:
    return launch_files.known(processes.run_dir())


def living(launches: Iterable[tuple[str, int]]) -> list[Orphan]:
    """The launches whose agent lives and that no record claims. Records are read again: one may
    have been created meanwhile."""
    from sesh.places.unclaimed import Orphan

    alive = []
    for session_id, generation in sorted(launches):
        word = launch_files.read_launch(processes.run_dir(), session_id, generation)
        if word is None or not processes.alive(word.agent.process):
            continue
        record = records.of_id(session_id)
        if record is None or record.place.generation != generation:
            alive.append(Orphan(session_id, word.at, (), generation, word.agent))
    return alive
