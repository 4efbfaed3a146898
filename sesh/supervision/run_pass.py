"""The pass: look at all sessions, write down what was learned, run due actions.

Level-triggered: the keeper's callback, the wake-up timer and cron only make it run sooner. Two
passes at once are harmless: the second one leaves a request and ends.
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
from sesh.model.record import ID_PATTERN
from sesh.model.states import ALIVE, ENDED, State
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Value, replace
from sesh.operations.stop.request import take_over, under_way
from sesh.places import keepers, launch_files, panes, registry
from sesh.places.host import tmux_server
from sesh.places.unclaimed import Orphan
from sesh.state import clocks, log_files, lookup, records, settings
from sesh.state.judge import Seen, readable
from sesh.supervision import supervise
from sesh.supervision.notify import notices
from sesh.supervision.notify.targets import surroundings
from sesh.system import bug_log, files, paths, processes, tmux
from sesh.system.subprocesses import Reply, detach

_NAMED = lazy(ID_PATTERN + r"\.")
STOP_POLL = 1.0  # seconds until a watch looks what became of a stop
STOP_AGAIN = 30.0  # seconds until an unfinished stop is tried again
ROUNDS = 5  # of one pass, while others leave requests
USAGE_AT_ONCE = 20  # ended sessions of an older version whose usage one pass keeps
LEFTOVER_GRACE = 60.0  # seconds before a launch's files without a record count as left over

Answers = Mapping[str, list[tmux.Pane] | Reply]  # by socket


class Pass(Value):
    """The result of a pass."""

    found: Sequence[Seen] = ()
    next_due: float | None = None  # when something is due for a session, in seconds of the epoch
    begin: datetime | None = None
    asked: Sequence[Seen] = ()  # sessions that were asked to stop and have to be brought down
    troubles: Sequence[Exception] = ()  # errors that kept an action from being done


def run_pass(config: Config, *, stopping_here: bool = True) -> Pass:
    """Run one pass, unless another one is running: that one then makes another round. After some
    rounds (agents that end as fast as they are retried) a pass in the background continues.

    A stop may take its whole grace period. It is waited for outside of the lock, so that no other
    pass waits; when it is not `stopping_here`, a pass in the background does it.
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
            done = _work(config, run, tried, stopping_here=stopping_here)
        troubles += done.troubles
        tried |= {one.name for one in done.asked}
        if done.asked and stopping_here:
            troubles += _bring_down(done, config)
            _announce(again)
        left = left or bool(done.asked and not stopping_here)
        go_on = os.path.exists(again)
        if not go_on:
            break
    if go_on or left:
        detach([*paths.own_command(), "pass"], env=surroundings())
    return replace(done, troubles=troubles)


def _announce(again: str) -> None:
    """Request another round of a running pass. On a full disk there is no request; this pass still
    runs."""
    with suppress(StateError):
        files.write_private(again, b"%d\n" % os.getpid(), durable=False)


def _bring_down(done: Pass, config: Config) -> Iterator[Exception]:
    """End sessions and confirm it. Panes and containers of sessions that are retried are kept."""
    from sesh.operations.stop.stop import confirm, terminate

    try:
        terminate(done.asked, config, done.begin or datetime.now(UTC))
    except (SeshError, OSError) as error:
        yield error
    for one in done.asked:
        try:
            confirm([one], config, close_panes=not one.intact.record.status.keep)
        except NoSessionError:
            continue  # it was removed meanwhile
        except (SeshError, OSError) as error:
            yield error


def run_anyway() -> int:
    """Run a pass even if settings cannot be read; that and other errors are raised afterwards."""
    done, trouble = run_forgiving()
    for problem in (trouble, *done.troubles):
        if problem is not None:
            raise problem
    return OK


def run_forgiving(*, stopping_here: bool = True) -> tuple[Pass, StateError | None]:
    """Run a pass even if settings cannot be read: a typing error must not end the supervision of
    sessions. Returns the error, too; the bug log gets it once."""
    settings.forgive()
    done = run_pass(settings.load(), stopping_here=stopping_here)
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
            bug_log.write(trouble)  # only the pass that created the file writes


def _work(config: Config, run: str, tried: Collection[str], *, stopping_here: bool) -> Pass:
    """Look at all sessions that have changed or are supervised, and run due actions. A stop that
    this pass has `tried` without success is left to a later one."""
    begin = datetime.now(UTC)
    clocks.note(run)
    held = lookup.held()
    found = lookup.everything(leaving_out=_unattended(held))
    stopping = [one for one in found if one.state is State.STOPPING and one.name not in tried]
    left = [one for one in stopping if not under_way(one)]
    troubles: list[Exception] = []
    asked = _taken_over(left, troubles) if stopping_here else list(filter(_is_time, left))
    outcome = supervise.run_due(found, config, stopping_here=stopping_here)
    times = outcome.times
    if found:  # each look may change records; nothing was looked at when all are held
        held = lookup.held()
        known = {*held, *(one.name for one in outcome.found)}
        found = [*outcome.found, *lookup.everything(leaving_out=known)]
    _note_waiting_agents(held.values(), run)
    _keep_usage(found, held)
    _sweep(leavings(found, held.values(), lookup.orphans(found, held.values()), run), run)
    tend(found, held.values(), config, run, times)
    due = [*times.values()]
    if any(one.state is State.STOPPING for one in found):
        due.append(time.time() + STOP_POLL)
    asked += outcome.asked
    return Pass(found, min(due, default=None), begin, asked, [*troubles, *outcome.troubles])


def _taken_over(left: Sequence[Seen], troubles: list[Exception]) -> list[Seen]:
    """Take over interrupted stops. An error with one of them does not delay the others."""
    asked = []
    for one in left:
        try:
            asked.append(take_over(one))
        except (SeshError, OSError) as error:
            troubles.append(error)
    return [one for one in asked if one is not None]


def _is_time(one: Seen) -> bool:
    """Should a watch, which looks every second, retry this stop now?"""
    status, now = one.intact.record.status, datetime.now(UTC)
    since = (now - (status.stop_asked or now)).total_seconds()
    return abs(since) >= status.stop_tries * STOP_AGAIN


def _sweep(left: Sequence[str], run: str) -> None:
    """Remove these files, unless a keeper shows that their agent lives. A search for keepers reads
    every process, so it is made only if there are files."""
    kept = {session_id for session_id, _ in keepers.by_keepers(run)} if left else set()
    for path in left:
        if os.path.basename(path).partition(".")[0] not in kept:
            with suppress(FileNotFoundError):
                os.unlink(path)


def _unattended(held: Mapping[str, Digest]) -> set[str]:
    """The sessions of these that need no look: unchanged and not supervised."""
    attended = {name for name, one in held.items() if digest.supervised(one.view)}
    attended |= _in_another_conversation(held)
    return {name for name, one in held.items() if one.mode == "ended" or name not in attended}


def _in_another_conversation(held: Mapping[str, Digest]) -> set[str]:
    """Sessions whose agent may be in another conversation than the record says."""
    agents = {name: one for name, one in held.items() if digest.agent(one.view) is not None}
    if not agents:
        return set()
    from sesh.agents import changes

    run = processes.run_dir()
    return {name for name, one in agents.items() if changes.conversation_changed(one, run)}


def _note_waiting_agents(held: Collection[Digest], run: str) -> None:
    agents = [one for one in held if digest.agent(one.view) is not None]
    if agents:
        from sesh.agents import changes

        changes.report_waiting(agents, run)


def _keep_usage(found: Sequence[Seen], held: Mapping[str, Digest]) -> None:
    """Keep what agents have used that have ended since the last pass."""
    ended = [one for one in found if one.state in ENDED and _lacks_usage(one)]
    names = [
        name
        for name, one in held.items()
        if one.mode == "ended" and digest.agent(one.view) and not digest.has_usage(one.view)
    ]
    if not ended and not names:
        return
    from sesh.agents.usage import prices, session

    table = prices.load()
    for name in names[:USAGE_AT_ONCE]:
        with suppress(SeshError):
            ended.append(lookup.one(name))
    for one in ended:
        session.keep(one, table)


def _lacks_usage(one: Seen) -> bool:
    record = one.record
    return record is not None and record.spec.kit is not None and record.agent.usage is None


def tend(
    found: Sequence[Seen],
    held: Collection[Digest],
    config: Config,
    run: str,
    times: Mapping[str, float] = MappingProxyType({}),
    answers: Answers = MappingProxyType({}),
) -> None:
    """The work after every look: trim transcripts, show the menu to clients of ended sessions, set
    the next wake-ups, send notifications. `times`: when something is due, by session id; `answers`:
    what servers have answered in this look."""
    log_files.tend(config.logs.max_size)
    sessions = [one.session for one in found if one.session]
    with suppress(CannotTellError):
        _tell_attached(sessions, config, answers)
        _tend_servers(sessions, held, config, run, times, answers)
    if settings.trouble() is None:  # else it is unknown whom to notify: later
        notices.send_new(config)


def _tell_attached(sessions: Sequence[Session], config: Config, answers: Answers) -> None:
    """Clients of ended sessions get the menu, or a line, instead. (In a container the keeper
    detaches them.)"""
    here = _of_this_machine(sessions)
    ended = [s for s in here if s.verdict.state in ENDED and s.record.place.pane]
    for socket in {s.record.place.socket for s in ended} - _silent(answers):
        mine = [s for s in ended if s.record.place.socket == socket]
        server = registry.of(mine[0].record).tmux(mine[0].record, config)
        panes.tell_attached([s.record.name for s in mine], server, server.watched())


def _silent(answers: Answers) -> set[str]:
    """Servers without a usable answer in this look: another question would wait again."""
    return {socket for socket, answer in answers.items() if tmux.silent(answer)}


def _of_this_machine(sessions: Sequence[Session]) -> list[Session]:
    """Sessions whose tmux server runs on this host, outside of containers."""
    here = processes.here()
    return [s for s in sessions if s.record.place.machine == here and s.record.place.calls_back]


def leavings(
    found: Sequence[Seen], held: Collection[Digest], agents: Sequence[Orphan], run: str
) -> list[str]:
    """Leftovers of a killed start or rm: old launch files and saved environments of ids that no
    record names and whose agent is gone."""
    kept = {r.id for r in readable(found)} | {one.id for one in held} | {one.id for one in agents}
    damaged = {one.name for one in found if one.damaged}
    old = time.time() - LEFTOVER_GRACE
    left = [path for path in launch_leavings(run, kept) if (files.changed(path) or old) < old]
    names = (records.names_of(os.path.basename(path).partition(".")[0]) for path in left)
    return [path for path, some in zip(left, names, strict=True) if not damaged & {*some}]


def launch_leavings(run: str, kept: Collection[str] = ()) -> list[str]:
    """The files that are named after a session, in the run directory and where environments are
    saved, without those of `kept` ids. Directories of containers are removed when the engine says
    that the container is gone, files of health commands when the command is ended."""
    found = []
    for directory in {run, paths.runtime_dir() or run}:
        with suppress(FileNotFoundError):
            names = [n for n in os.listdir(directory) if n.partition(".")[0] not in kept]
            ours = [n for n in names if _NAMED.match(n) and not n.endswith(".check")]
            found += [f"{directory}/{n}" for n in ours if not launch_files.mount_owner(n)]
    return found


def _tend_servers(
    sessions: Sequence[Session],
    held: Collection[Digest],
    config: Config,
    run: str,
    times: Mapping[str, float],
    answers: Answers,
) -> None:
    """Set the next wake-up of each server with living sessions; let our own server exit when it has
    none."""
    here = _of_this_machine(sessions)
    now = time.time()
    wake = dict.fromkeys(lookup.sockets(held), now + tmux.LOOK_EVERY)
    for session in here:
        due = _due(session, times, now)
        if due is not None:
            socket = session.record.place.socket
            wake[socket] = min(due, wake.get(socket, due))
    own = f"{run}/tmux.sock"
    if own in wake:  # it wakes sesh for sessions in containers, too
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
            reply = tmux_server.server(socket, run, config).wake_at(moment)
            armed &= reply.ok or reply.trouble is tmux.Trouble.NO_SERVER
            if not reply.ok:
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
    """When the session needs the next look; None when it has ended."""
    if session.record.id in times:
        return min(times[session.record.id], now + tmux.LOOK_EVERY)
    if session.verdict.valid_until:
        return session.verdict.valid_until.timestamp()
    if session.verdict.state is State.STOPPING:
        return now + STOP_AGAIN
    alive = session.verdict.state in ALIVE | {State.ORPHAN, State.UNKNOWN}
    return now + tmux.LOOK_EVERY if alive else None
