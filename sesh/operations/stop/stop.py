"""Stop sessions: record the request, end the processes, confirm. `stopped` needs proof.

The request (`desired = stopped`) is recorded first, so that an interrupted stop stays `stopping`
and the next pass continues it. `places/host/terminate.py` and the other places send the signals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, NotPermittedError, SeshError
from sesh.model.observation import Observation, seen
from sesh.model.place import Process
from sesh.model.record import Record
from sesh.model.states import ALIVE, ENDED, Desired, State
from sesh.model.value_object import replace
from sesh.operations.stop.request import (
    Ending,
    ask,
    grace_left,
    left_of,
    not_permitted,
    take_over,
    under_way,
)
from sesh.places import panes, registry
from sesh.places.host import terminate as host
from sesh.places.host.terminate import Progress, SessionTarget
from sesh.state import judge, lookup, records
from sesh.state.judge import Seen, readable
from sesh.state.records import Entry
from sesh.system import process_marks, processes
from sesh.system.tmux import Tmux


def stop(
    found: Sequence[Seen],
    config: Config,
    grace: float,
    progress: Progress | None = None,
    *,
    close_panes: bool = True,
    keep: bool = False,
    endings: Mapping[str, Ending] = MappingProxyType({}),
    note: Callable[[str], None] = lambda _: None,
) -> list[Seen]:
    """Stop sessions together and return their states afterwards. `endings`: why sesh ends a session
    that no person stops; with `keep`, containers stay. `note` gets a line for each session or
    process that could not be asked to stop; if none could, the first error is raised."""
    if not found:
        return []
    begin = datetime.now(UTC)
    asked, problems = [], []
    for one in found:
        try:
            ending = endings.get(one.name) if endings else None
            asked.append(ask(one, grace, ending, keep=keep))
        except NotPermittedError as error:  # it stays as it is
            note(str(error))
        except SeshError as error:
            problems.append((one.name, error))
    if problems and len(problems) == len(found):
        raise problems[0][1]
    for name, problem in problems:
        note(str(problem) if str(problem).startswith(name) else f"{name}: {problem}")
    foreign = terminate([one for one in asked if one is not None], config, begin, progress)
    after = confirm(found, config, close_panes=close_panes)
    for name, process in foreign:
        if processes.alive(process):
            note(f"{name}: {not_permitted(process.pid)}; not stopped")
    return after


def continue_stops(found: Sequence[Seen], config: Config) -> list[Seen]:
    """Continue interrupted stops. Returns the states of the sessions afterwards."""
    begin = datetime.now(UTC)
    mine = [one for one in map(take_over, found) if one is not None]
    terminate(mine, config, begin)
    after = {one.name: one for one in confirm(mine, config)}
    return [after.get(one.name) or lookup.one(one.name) for one in found]


# --- processes -----------------------------------------------------------------------------------


def terminate(
    asked: Sequence[Seen], config: Config, begin: datetime, progress: Progress | None = None
) -> list[tuple[str, Process]]:
    """End the processes of sessions that were asked to stop; of all together, so that no session
    waits for the grace of another. Returns processes of other users that we may not signal."""
    sessions = readable(asked)
    hosted = [record for record in sessions if record.place.calls_back]
    targets = [_target(record, begin) for record in hosted]
    look = partial(host.look, Journal([one.entry for one in asked]))
    with _ending_elsewhere([r for r in sessions if not r.place.calls_back], config):
        if targets:
            with _setting_wakeups(hosted, config):  # a server that hangs does not delay the signals
                look(targets, time.monotonic())
        host.end_all(targets, look, progress)
    for target in targets:
        if target.inside:
            _hand_over(target.name, config)
    return [(target.name, process) for target in targets for process in target.foreign]


def _target(record: Record, begin: datetime) -> SessionTarget:
    """A session that was asked to stop since `begin` has its whole grace left, however long it took
    to write that down for all."""
    status, launch_timeout = record.status, record.spec.launch_timeout
    recent = status.stop_asked is None or status.stop_asked >= begin
    return SessionTarget(
        record.name,
        process_marks.mark(record),
        record.place.generation,
        record.place.agent,
        time.monotonic() + ((status.stop_grace or 0.0) if recent else grace_left(record)),
        remains=status.remains,
        launch_until=time.monotonic() + left_of(launch_timeout, status.launched),
    )


@contextmanager
def _ending_elsewhere(sessions: Sequence[Record], config: Config) -> Iterator[None]:
    """End sessions in other places meanwhile, some at a time: an engine is slow."""
    if not sessions:
        yield
        return
    from concurrent.futures import ThreadPoolExecutor

    def end(record: Record) -> None:
        current = _still_to_stop(record)
        if current is not None:
            registry.elsewhere(current).terminate(current, config, grace_left(current))

    with ThreadPoolExecutor(min(8, len(sessions))) as pool:
        done = [pool.submit(end, record) for record in sessions]
        yield
        for one in done:
            one.result()


def _still_to_stop(record: Record) -> Record | None:
    """The record as it is now; None when it is of another launch or has ended."""
    entry = records.entry(record.name)
    now = entry.readable if entry else None
    if now is None:
        return record
    requested = now.status.desired is Desired.STOPPED and now.status.outcome is None
    return now if requested and now.launch == record.launch else None


@contextmanager
def _setting_wakeups(sessions: Sequence[Record], config: Config) -> Iterator[None]:
    """Have a pass run after the grace: it continues if this process is killed. The servers get the
    command before the signals, because then all of their panes may end at once, and answer later.
    """
    grace = max(record.status.stop_grace or 0.0 for record in sessions)
    at = time.time() + grace + host.KILL_PATIENCE
    answers = [server.wake_later(at) for server, _ in registry.by_server(sessions, config)]
    try:
        yield
    finally:
        for answer in answers:
            answer()


class Journal:
    """The records of the sessions that are being ended (see `places/host/terminate.py`). `entries`:
    as they were when the sessions were asked to stop."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = {entry.record.name: entry for entry in entries}

    def launched_again(self, session: SessionTarget) -> bool:
        known = self._entries.get(session.name)
        if known and records.unchanged(known):
            return False
        record = records.of_id(session.mark.id)
        return record is not None and record.place.generation > session.generation

    def remember(self, session: SessionTarget, found: Collection[Process]) -> None:
        def with_remains(now: Seen) -> Record:
            record = now.intact.record
            remains = tuple(sorted({*record.status.remains, *found}, key=lambda p: p.pid))
            return replace(record, status=replace(record.status, remains=remains, outcome=None))

        recorded = self._recorded(session)
        if recorded:
            with suppress(ConflictError):
                lookup.update(recorded, with_remains, look=lambda _: self._recorded(session))

    def _recorded(self, session: SessionTarget) -> Seen | None:
        """The record of the launch that is being ended."""
        entry = records.entry(session.name)
        record = entry.readable if entry else None
        if not entry or not record or record.id != session.mark.id:
            return None
        if record.place.generation != session.generation:
            return None
        return judge.seen_as(entry, record, Observation(seen("it is being ended")))


def _hand_over(name: str, config: Config) -> None:
    """This command runs in the session: its tmux server has to finish the stop."""
    found = lookup.one(name)
    if found.session is None or found.state is not State.STOPPING:
        return
    record = found.session.record
    lookup.update(found, replace(record, status=replace(record.status, stopper=None)))
    with suppress(CannotTellError):
        registry.of(record).tmux(record, config).call_back_now()


# --- confirmation --------------------------------------------------------------------------------


def confirm(found: Sequence[Seen], config: Config, *, close_panes: bool = True) -> list[Seen]:
    """Judge sessions again, remove what is left of their places, and return their states. The
    number of tmux calls does not depend on the number of sessions."""
    names = [one.name for one in found]
    by_name = dict(zip(names, found, strict=True))
    entries = [records.again(one.entry) or lookup.find(name) for name, one in by_name.items()]
    after = dict(zip(by_name, judge.judge(entries, config), strict=True))
    by_socket: dict[str, dict[str, Seen]] = {}
    for name, one in after.items():
        record = one.session.record if one.session else None
        if record is None or not record.place.has_process:
            continue
        if not record.place.calls_back:
            after[name] = _confirm_elsewhere(one, record, config, close_panes=close_panes)
        else:
            by_socket.setdefault(record.place.socket, {})[name] = one
    for some in by_socket.values():
        after |= _confirm_hosted(some, config, close_panes=close_panes)
    return [after[name] for name in names]


def _confirm_hosted(
    found: Mapping[str, Seen], config: Config, *, close_panes: bool
) -> dict[str, Seen]:
    """The same for sessions of one tmux server on this host. Returns what has changed since."""
    sessions = {name: one.intact.record for name, one in found.items()}
    states = {name: one.state for name, one in found.items()}
    stopping = [found[name] for name, state in states.items() if state is State.STOPPING]
    first = next(iter(sessions.values()))
    try:
        server = registry.of(first).tmux(first, config)
    except CannotTellError:
        return {one.name: _count_try(one) for one in stopping}
    above = processes.ancestors() if stopping else set()
    stopping = [one for one in stopping if _agent_pid(one) not in above]  # else we run in it
    stale = {name for name, state in states.items() if state is State.STALE}
    ended = {name for name, state in states.items() if close_panes and state not in ALIVE} - stale
    if stale:
        _close_others({sessions[name].id for name in stale}, server)
    if ended:
        panes.tell_attached(ended, server, server.watched())
    panes.put_away([sessions[name] for name in sessions if name in stale | ended], server)
    if stopping:
        server.wake_at(time.time() + 5)
    again = lookup.some([*stale]) if stale else []
    return {one.name: one for one in (*again, *map(_count_try, stopping))}


def _confirm_elsewhere(found: Seen, record: Record, config: Config, *, close_panes: bool) -> Seen:
    if found.state is State.STOPPING:
        return _count_try(found)
    if found.state not in ENDED:
        return found
    up = found.session is not None and found.session.seen.container.present
    registry.elsewhere(record).clear(record, config, close_panes=close_panes and up)
    return found if record.status.keep else lookup.one(found.name)


def _count_try(found: Seen) -> Seen:
    """The stop could not be confirmed: count it, so that some tries later the session asks for
    attention, and let the next process try. Not when another process is stopping it."""
    record = found.intact.record
    if under_way(found) and record.status.stopper != processes.myself():
        return found
    status = replace(record.status, stop_tries=record.status.stop_tries + 1, stopper=None)
    return lookup.update(found, replace(record, status=status)) or found


def _close_others(ids: Collection[str], server: Tmux) -> None:
    """Close the other panes of stale sessions: that is what stopping such a session means."""
    listed = server.panes()
    living = [p for p in listed if not p.dead] if isinstance(listed, list) else []
    server.kill_panes([pane.id for pane in living if pane.sesh_id in ids])


def _agent_pid(found: Seen) -> int | None:
    agent = found.intact.record.place.agent
    return agent.process.pid if agent else None
