"""The pass: look at everything, write down what was learned, do what is due.

Level-triggered: the keeper's call back, the wake-up timer and cron only make it run sooner. Two at
once are harmless; a second one leaves word and goes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType

from sesh.model import digest
from sesh.model.configuration import Config
from sesh.model.digest import Digest
from sesh.model.errors import OK, CannotTellError, NoSessionError, SeshError, StateError
from sesh.model.observation import Session
from sesh.model.pattern import lazy
from sesh.model.record import ID_PATTERN, Record, name_of
from sesh.model.states import ALIVE, ENDED, State
from sesh.model.value import Value, replace
from sesh.operations.stop import bring_down, confirm, take_over, under_way
from sesh.places import launch_files, panes, registry
from sesh.places.host import tmux_server
from sesh.state import clocks, log_files, lookup, orphans, records, settings
from sesh.state.lookup import Orphan, Seen
from sesh.supervision import supervise
from sesh.supervision.notify import notices
from sesh.supervision.notify.targets import surroundings
from sesh.system import bug_log, files, paths, processes, tmux
from sesh.system.subprocesses import detach

_NAMED = lazy(ID_PATTERN + r"\.")
STOP_POLL = 1.0  # seconds until a watch looks what became of a stop
STOP_AGAIN = 30.0  # seconds until an unfinished stop is tried again
ROUNDS = 5  # of one pass, while others leave word
LEFTOVER_GRACE = 60.0  # seconds before a launch's files without a record count as left over

Said = Mapping[str, list[tmux.Pane] | tmux.Reply]  # socket → what its server has said


class Pass(Value):
    """What came of a pass."""

    found: Sequence[Seen] = ()
    next_due: float | None = None  # when something is due for a session, in seconds of the epoch
    begin: datetime | None = None
    asked: Sequence[Seen] = ()  # to stop; they have yet to be brought down
    troubles: Sequence[Exception] = ()  # what kept it from doing what is due for some


def run_pass(config: Config, *, patient: bool = True) -> Pass:
    """One pass, unless another is at work: then that one runs once more. Where agents end as fast
    as they are launched again there would be no end of it: one in the background goes on.

    What has to be ended may take all of its grace. That is waited for where no other pass has to
    wait: outside of the lock; and, by one who is not `patient`, not at all but in the background.
    """
    if not records.exists():
        return Pass()
    run = processes.run_dir()
    files.make_private(run)
    records.keep_reserve()
    again = launch_files.pass_announced(run)
    _announce(again)
    done = Pass()
    troubles: list[Exception] = []
    tried: set[str] = set()
    left = False
    for _ in range(ROUNDS):
        with files.only_one(f"{run}/pass.lock") as mine:
            if not mine:
                return Pass(troubles=troubles)
            with suppress(FileNotFoundError):
                os.unlink(again)
            done = _work(config, run, tried, patient=patient)
        troubles += done.troubles
        tried |= {one.name for one in done.asked}
        if done.asked and patient:
            troubles += _bring_down(done, config)
            _announce(again)
        left = left or bool(done.asked and not patient)
        go_on = os.path.exists(again)
        if not go_on:
            break
    if go_on or left:
        detach([*paths.own_command(), "pass"], env=surroundings())
    return replace(done, troubles=troubles)


def _announce(again: str) -> None:
    """Leave word for a pass that is under way. A full disk has no room for that: no reason not to
    make one."""
    with suppress(StateError):
        files.write_private(again, b"", durable=False)


def _bring_down(done: Pass, config: Config) -> Iterator[Exception]:
    """The panes of those that come back stay, as their containers do."""
    try:
        bring_down(done.asked, config, done.begin or datetime.now(UTC))
    except (SeshError, OSError) as error:
        yield error
    for one in done.asked:
        assert one.session is not None
        try:
            confirm([one], config, close_panes=not one.session.record.status.keep)
        except NoSessionError:
            continue  # somebody has removed it meanwhile
        except (SeshError, OSError) as error:
            yield error


def run_anyway() -> int:
    """A pass, also with settings that can't be read; they, and what else went wrong, are told
    afterwards. Else the exit code."""
    done, trouble = run_forgiving()
    for problem in (trouble, *done.troubles):
        if problem is not None:
            raise problem
    return OK


def run_forgiving(*, patient: bool = True) -> tuple[Pass, StateError | None]:
    """A pass, also with settings that can't be read: those who are looked after are not to wait
    until somebody has found a typing error. Says what it is; the log of bugs has it once."""
    settings.forgive()
    done = run_pass(settings.load(), patient=patient)
    trouble = settings.trouble()
    if records.exists():
        _note_trouble(trouble, f"{processes.run_dir()}/config.trouble")
    return done, trouble


def _note_trouble(trouble: StateError | None, noted: str) -> None:
    with suppress(OSError):
        if trouble is None:
            os.unlink(noted)
        else:
            os.close(os.open(noted, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            bug_log.write(trouble)  # of several passes, the one that has made the file


def _work(config: Config, run: str, tried: Collection[str], *, patient: bool) -> Pass:
    """Look at what is not as recorded or is looked after, and do what is due. What this pass has
    `tried` to stop in vain is for a later one."""
    begin = datetime.now(UTC)
    clocks.note(run)
    found = lookup.everything(leaving_out=unattended())
    stopping = [one for one in found if one.state is State.STOPPING and one.name not in tried]
    left = [one for one in stopping if not under_way(one)]
    troubles: list[Exception] = []
    asked = _taken_over(left, troubles) if patient else list(filter(_is_time, left))
    cared = supervise.care(found, config, patient=patient)
    times, held = cared.times, lookup.held()
    known = {*held, *(one.name for one in cared.found)}
    found = [*cared.found, *lookup.everything(leaving_out=known)]
    _tell_who_waits(held.values(), run)
    claimed = [(one.id, int(one.generation)) for one in held.values()]
    _sweep(leavings(found, held.values(), lookup.orphans(found, claimed), run), run)
    tend(found, held.values(), config, run, times)
    due = [*times.values()]
    if any(one.state is State.STOPPING for one in found):
        due.append(time.time() + STOP_POLL)
    asked += cared.asked
    return Pass(found, min(due, default=None), begin, asked, [*troubles, *cared.troubles])


def _taken_over(left: Sequence[Seen], troubles: list[Exception]) -> list[Seen]:
    """The stops that are ours now. One that can't be had keeps nobody waiting."""
    asked = []
    for one in left:
        try:
            asked.append(take_over(one))
        except (SeshError, OSError) as error:
            troubles.append(error)
    return [one for one in asked if one is not None]


def _is_time(one: Seen) -> bool:
    """Should a watch, which looks every second, have this stop tried again?"""
    assert one.session is not None
    status, now = one.session.record.status, datetime.now(UTC)
    since = (now - (status.stop_asked or now)).total_seconds()
    return abs(since) >= status.stop_tries * STOP_AGAIN


def _sweep(left: Sequence[str], run: str) -> None:
    """Remove these files, unless their agent lives and only its keeper knows: that is asked of
    every process, so only where there are some."""
    kept = {session_id for session_id, _ in orphans.by_keepers(run)} if left else set()
    for path in left:
        if os.path.basename(path).partition(".")[0] not in kept:
            with suppress(FileNotFoundError):
                os.unlink(path)


def unattended() -> set[str]:
    """The sessions that nobody has to look at: as recorded, and not looked after."""
    held = lookup.held()
    attended = {name for name, one in held.items() if digest.cared_for(one.view)}
    attended |= _elsewhere(held)
    return {name for name, one in held.items() if one.mode == "ended" or name not in attended}


def _elsewhere(held: Mapping[str, Digest]) -> set[str]:
    """Those whose agent may be in another conversation than its record says."""
    agents = {name: one for name, one in held.items() if digest.agent(one.view) is not None}
    if not agents:
        return set()
    from sesh.agents import hearing

    run = processes.run_dir()
    return {name for name, one in agents.items() if hearing.to_be_looked_at(one, run)}


def _tell_who_waits(held: Collection[Digest], run: str) -> None:
    agents = [one for one in held if digest.agent(one.view) is not None]
    if agents:
        from sesh.agents import hearing

        hearing.note(agents, run)


def tend(
    found: Sequence[Seen],
    held: Collection[Digest],
    config: Config,
    run: str,
    times: Mapping[str, float] = MappingProxyType({}),
    answers: Said = MappingProxyType({}),
) -> None:
    """What every look is followed by: transcripts are bounded, whoever is attached to what has
    ended is told, the next wake-ups are set, and whoever wants to know what happened is told.
    `times` says of sessions, by their ids, when something is due for them; `answers` what servers
    have said in this look."""
    log_files.tend(config.logs.max_size)
    sessions = [one.session for one in found if one.session]
    with suppress(CannotTellError):
        _tell_attached(sessions, config, answers)
        _tend_servers(sessions, held, config, run, times, answers)
    if settings.trouble() is None:  # else nobody knows who is to be told: later
        notices.tell(config)


def _tell_attached(sessions: Sequence[Session], config: Config, answers: Said) -> None:
    """Whoever is attached to a session that has ended gets its menu, or a line, instead. (In a
    container the keeper sends them home itself.)"""
    here = _of_this_machine(sessions)
    ended = [s for s in here if s.verdict.state in ENDED and s.record.place.pane]
    for socket in {s.record.place.socket for s in ended} - _silent(answers):
        mine = [s for s in ended if s.record.place.socket == socket]
        server = registry.of(mine[0].record).tmux(mine[0].record, config)
        panes.tell_attached([s.record.name for s in mine], server, server.watched())


def _silent(answers: Said) -> set[str]:
    """The servers that gave no usable answer in this look: they would be waited for again."""
    return {socket for socket, answer in answers.items() if tmux.silent(answer)}


def _of_this_machine(sessions: Sequence[Session]) -> list[Session]:
    """Those whose tmux server runs here, and outside of containers."""
    here = processes.here()
    return [s for s in sessions if s.record.place.machine == here and s.record.place.calls_back]


def leavings(
    found: Sequence[Seen], held: Collection[Digest], agents: Sequence[Orphan], run: str
) -> list[str]:
    """What a killed start or rm has left: launch files and saved environments of ids that no
    record names, whose agent is gone, and that are old."""
    kept = {one.entry.record.id for one in found if isinstance(one.entry.record, Record)}
    kept |= {one.id for one in held}
    kept |= {orphan.id for orphan in agents}
    damaged = {one.name for one in found if one.damaged}
    left = []
    for path in launch_leavings(run, kept):
        if name_of(os.path.basename(path).partition(".")[0]) in damaged:
            continue
        with suppress(FileNotFoundError):
            if time.time() - os.stat(path).st_mtime > LEFTOVER_GRACE:
                left.append(path)
    return left


def launch_leavings(run: str, kept: Collection[str] = ()) -> list[str]:
    """The files that are named after a session, here and where environments are saved; not those of
    `kept` ids. Nor the directory of a container: that goes when its engine says that the container
    is gone; nor the word of a health command, which goes when that is ended."""
    found = []
    for directory in {run, paths.runtime_dir() or run}:
        with suppress(FileNotFoundError):
            names = [n for n in os.listdir(directory) if n.partition(".")[0] not in kept]
            ours = [n for n in names if _NAMED.match(n) and not n.endswith((".box", ".check"))]
            found += [f"{directory}/{n}" for n in ours]
    return found


def _tend_servers(
    sessions: Sequence[Session],
    held: Collection[Digest],
    config: Config,
    run: str,
    times: Mapping[str, float],
    answers: Said,
) -> None:
    """Set the next wake-up of each server with living sessions; let our own server go when it has
    nothing left to do."""
    here = _of_this_machine(sessions)
    now = time.time()
    wake = dict.fromkeys(lookup.sockets(held), now + tmux.LOOK_EVERY)
    for session in here:
        due = _due(session, times, now)
        if due is not None:
            socket = session.record.place.socket
            wake[socket] = min(due, wake.get(socket, due))
    own = f"{run}/tmux.sock"
    if own in wake:  # it can be told of those in containers too
        others = [s.record for s in sessions if not s.record.place.calls_back]
        wake[own] = min([wake[own], *(times[r.id] for r in others if r.id in times)])
    waits = notices.wake()
    if waits is not None and (wake or os.path.exists(own)):
        for socket in [*wake] or [own]:
            wake[socket] = min(now + waits, wake.get(socket, now + waits))
    armed, promised = not _silent(answers), []
    for socket in wake.keys() - _silent(answers):
        moment = wake[socket]
        if not tmux.woken_by(moment, answers.get(socket)):
            said = tmux_server.server(socket, run, config).wake_at(moment)
            armed &= said.ok or said.trouble is tmux.Trouble.NO_SERVER
            if not said.ok:
                continue
        promised.append(moment)
    if own not in wake and os.path.exists(own):
        tmux_server.server(own, run, config).may_exit()
    if armed:
        with suppress(FileNotFoundError):
            os.unlink(launch_files.reserve(run))
        if promised:
            clocks.promise(run, max(0.0, min(promised) - now))


def _due(session: Session, times: Mapping[str, float], now: float) -> float | None:
    """When somebody has to look at it again; None when it has ended."""
    if session.record.id in times:
        return min(times[session.record.id], now + tmux.LOOK_EVERY)
    if session.verdict.valid_until:
        return session.verdict.valid_until.timestamp()
    if session.verdict.state is State.STOPPING:
        return now + STOP_AGAIN
    alive = session.verdict.state in ALIVE | {State.ORPHAN, State.UNKNOWN}
    return now + tmux.LOOK_EVERY if alive else None
