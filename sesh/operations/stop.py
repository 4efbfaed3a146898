"""Stop sessions: ask, wait, kill, confirm. `stopped` is written only when all is proven gone.

The wish is written first (`desired = stopped`), so that a stop that is interrupted anywhere is
`stopping` and the next pass goes on from there. Signals go to the agent, its tree and whatever
carries its marker; never to the keeper, a tmux server, or an ancestor of ours.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, NotPermittedError, SeshError
from sesh.model.observation import Observation, Session, seen
from sesh.model.place import Agent, Process
from sesh.model.progress import Report
from sesh.model.record import Record, Status
from sesh.model.states import ALIVE, ENDED, Cause, Desired, State
from sesh.model.value_object import Value, replace
from sesh.operations import report_progress
from sesh.places import launch_files, panes, registry
from sesh.places.host import tmux_server
from sesh.state import events, judge, lookup, records
from sesh.state.judge import Seen
from sesh.state.lookup import Orphan
from sesh.system import process_marks, processes, tmux

KILL_PATIENCE = 3.0  # how long a killed process may take to vanish (disk sleep)
CLEAN_PASSES = 2
Progress = Callable[[list[str], int, float], None]


class Ending(Value):
    """Why a session is ended that no person wants to stop."""

    reason: str
    cause: Cause
    ran_well: bool = False  # before that, for so long that it has all retries again

    def retries_used(self, status: Status) -> int:
        return 0 if self.ran_well else status.retries


class _Target:
    """One session on its way down."""

    def __init__(
        self,
        name: str,
        session_id: str,
        run: str,
        generation: int,
        agent: Agent | None,
        *,
        asked: Iterable[Process] = (),
        until: float,
        launch_until: float = 0.0,
        since: int = 0,
    ) -> None:
        self.name = name
        self.id = session_id
        self.run = run
        self.generation = generation
        self.agent = agent
        self.asked = set(asked)
        self.until = until  # monotonic: when asking ends and killing begins
        self.launch_until = launch_until  # until when a launch under way may still show its agent
        self.since = since
        self.uids: set[int] = set()  # that its agent was seen with
        self.foreign: set[Process] = set()  # of its tree, but another user's: not ours to signal
        self.clean = 0
        self.inside = False

    @property
    def mark(self) -> process_marks.Mark:
        agent = self.agent.process if self.agent else None
        return process_marks.Mark(self.id, self.run, self.since, agent, tuple(self.uids))

    @property
    def done(self) -> bool:
        return self.clean >= CLEAN_PASSES


def stop(
    found: Sequence[Seen],
    config: Config,
    grace: float,
    progress: Progress | None = None,
    *,
    close_panes: bool = True,
    keep: bool = False,
    endings: Mapping[str, Ending] = MappingProxyType({}),
    tell: Callable[[str], None] = lambda _: None,
) -> list[Seen]:
    """Stop sessions together and return what is true of each afterwards. `endings`: why sesh ends a
    session that no person stops; with `keep` containers stay. `tell` gets a line for each session
    or process that could not be asked to stop; an error with all of them is raised."""
    if not found:
        return []
    begin = datetime.now(UTC)
    asked, problems = [], []
    for one in found:
        try:
            asked.append(ask(one, grace, endings.get(one.name), keep=keep))
        except NotPermittedError as error:  # it stays as it is
            tell(str(error))
        except SeshError as error:
            problems.append((one.name, error))
    if problems and len(problems) == len(found):
        raise problems[0][1]
    for name, problem in problems:
        tell(str(problem) if str(problem).startswith(name) else f"{name}: {problem}")
    wished = [one for one in asked if one is not None]
    foreign = bring_down(wished, config, begin, progress)
    after = confirm(found, config, close_panes=close_panes)
    for name, process in foreign:
        if processes.alive(process):
            tell(f"{name}: {_not_permitted(process.pid)}: it is left")
    return after


def go_on(found: Sequence[Seen], config: Config) -> list[Seen]:
    """Go on with stops that were interrupted. Returns what is true of each afterwards."""
    begin = datetime.now(UTC)
    mine = [one for one in map(take_over, found) if one is not None]
    bring_down(mine, config, begin)
    after = {one.name: one for one in confirm(mine, config)}
    return [after.get(one.name) or lookup.one(one.name) for one in found]


def bring_down(
    asked: Sequence[Seen], config: Config, begin: datetime, progress: Progress | None = None
) -> list[tuple[str, Process]]:
    """End what was asked to stop; together, so that the grace of one keeps no other waiting.
    Returns what could not be asked to end, because it has become another user's."""
    sessions = [one.session.record for one in asked if one.session]
    hosted = [record for record in sessions if record.place.calls_back]
    targets = [_target(record, begin) for record in hosted]
    with _going_down([r for r in sessions if not r.place.calls_back], config):
        if targets:
            _one_pass(targets)  # before a server is waited for that may hang: the grace runs
            _insure(hosted, config)
        _end_all(targets, progress)
    for target in targets:
        if target.inside:
            _hand_over(target.name, config)
    return [(target.name, process) for target in targets for process in target.foreign]


def under_way(found: Seen) -> bool:
    """Does somebody bring it down at this moment?"""
    stopper = found.session.record.status.stopper if found.session else None
    return found.state is State.STOPPING and stopper is not None and processes.alive(stopper)


@contextmanager
def _going_down(sessions: Sequence[Record], config: Config) -> Iterator[None]:
    """End sessions in other places meanwhile, some at a time: an engine is slow."""
    if not sessions:
        yield
        return
    from concurrent.futures import ThreadPoolExecutor

    def end(record: Record) -> None:
        wished = _still_wished(record)
        if wished is not None:
            registry.elsewhere(wished).terminate(wished, config, _grace_left(wished))

    with ThreadPoolExecutor(min(8, len(sessions))) as pool:
        done = [pool.submit(end, record) for record in sessions]
        yield
        for one in done:
            one.result()


def _still_wished(record: Record) -> Record | None:
    """The record as it is by now; None when it is another launch, or has ended: what others do
    meanwhile may take its time."""
    entry = records.entry(record.name)
    fresh = entry.record if entry else None
    if not isinstance(fresh, Record):
        return record
    status = fresh.status
    wished = status.desired is Desired.STOPPED and status.outcome is None
    return fresh if wished and fresh.launch == record.launch else None


def _grace_left(record: Record) -> float:
    status = record.status
    grace = status.stop_grace or 0.0
    asked = status.stop_asked or datetime.now(UTC)
    return _within(asked + timedelta(seconds=grace), grace) - time.monotonic()


def stop_orphans(orphans: Sequence[Orphan], config: Config, grace: float) -> list[Orphan]:
    """End agents that no readable record claims, and close their panes. Returns those that could
    not be ended."""
    run = processes.run_dir()
    until = time.monotonic() + grace
    targets = [_Target(o.name, o.id, run, o.generation, o.agent, until=until) for o in orphans]
    _end_all(targets, None)
    ended = [target for target in targets if target.done]
    for target in ended:
        launch_files.remove(run, target.id)
    with suppress(CannotTellError):  # without tmux there is no pane to close
        server = tmux_server.server(f"{run}/tmux.sock", run, config)
        panes.close_dead({target.name for target in ended}, server)
    return [orphan for orphan, target in zip(orphans, targets, strict=True) if not target.done]


def ask(
    found: Seen, grace: float, ending: Ending | None, *, keep: bool, mine: bool = True
) -> Seen | None:
    """Write that it shall stop. Returns the session to bring down, or None when it has ended, or
    when what ends it was true of another launch than this one, or is being stopped anyway. Unless
    it is `mine` to bring down, whoever comes first does. Raises when its agent may not be
    signalled."""

    def wish(now: Seen) -> Record | None:
        if now.session is None or now.state is State.UNKNOWN:
            raise CannotTellError(f"{now.name}: {_why(now)}")
        record, alive = now.session.record, _lives(now.state)
        if not record.place.has_process and now.state in ALIVE:
            report_progress.say(record.name, Report(phase="abandoned"))  # nothing to signal
            return None
        status, stopping = record.status, now.state is State.STOPPING
        begun = stopping and _has_begun(status)
        if ending is not None and (stopping or not (alive and lookup.same(found, now))):
            return None
        if alive and (why := refused(now)):
            let_be(now)
            raise NotPermittedError(f"{record.name}: {why}")
        status = replace(
            status,
            desired=Desired.STOPPED,
            stop_asked=datetime.now(UTC),
            stop_grace=min(float(grace), _grace_left(record)) if begun else float(grace),
            stopper=processes.myself() if mine else None,
            stop_tries=status.stop_tries if stopping else 0,
            stop_reason=ending.reason if ending else None,
            stop_cause=ending.cause if ending else None,
            outcome=None if alive else status.outcome,
            retry_at=None,
            retries=ending.retries_used(status) if ending else status.retries,
            waits_for=None,
            keep=keep,
        )
        return replace(record, status=status)

    written = lookup.update(found, wish, _tell_stopping)
    return written if written and written.intact.record.status.outcome is None else None


def _tell_stopping(before: Session, after: Session) -> None:
    state = before.verdict.state
    if _lives(state) and state is not State.STOPPING:
        events.append("stopping", after.record)


def _lives(state: State) -> bool:
    return state in ALIVE or state is State.ORPHAN


def take_over(found: Seen) -> Seen | None:
    """Become the one who brings it down, of a stop that somebody has left half-way, or has only
    asked for: then its grace begins now. None when another was faster."""
    if found.session is None or found.state is not State.STOPPING:
        return None
    if refused(found):
        let_be(found)
        return None
    record, status = found.session.record, found.session.record.status
    asked = status.stop_asked if _has_begun(status) else datetime.now(UTC)
    status = replace(status, stopper=processes.myself(), stop_asked=asked)
    return lookup.write(found, replace(record, status=status))


def refused(found: Seen) -> str | None:
    """Why its agent can't be ended by us, if that is so: it has become another user's."""
    record = found.session.record if found.session else None
    if record is None or not record.place.calls_back or record.place.machine != processes.here():
        return None
    agent = record.place.agent
    if agent is None or not processes.foreign(agent.process.pid):
        return None
    stat = processes.look(agent.process.pid)
    if stat is not None and stat.process != agent.process:
        return None  # another one of that pid
    return _not_permitted(agent.process.pid)


def _not_permitted(pid: int) -> str:
    uid = processes.uid(pid)
    whose = "another user's" if uid is None else f"uid {uid}"
    return f"not permitted to signal process {pid} ({whose})"


def let_be(found: Seen) -> None:
    """Take back the wish to stop what can't be stopped: it runs, and is not on its way down."""
    if found.session is None or found.state is not State.STOPPING:
        return
    record = found.session.record
    status = replace(
        record.status,
        desired=Desired.RUNNING,
        stop_asked=None,
        stop_grace=None,
        stopper=None,
        stop_tries=0,
        stop_reason=None,
        stop_cause=None,
    )
    lookup.write(found, replace(record, status=status))


def _has_begun(status: Status) -> bool:
    """Has anybody begun to bring it down, and so asked its processes to end?"""
    return status.stopper is not None or status.stop_tries > 0


def _insure(sessions: Sequence[Record], config: Config) -> None:
    """Set a wake-up for after the grace: should this process be killed, a pass goes on."""
    for record in {record.place.socket: record for record in sessions}.values():
        with suppress(CannotTellError):
            server = registry.of(record).tmux(record, config)
            grace = max(r.status.stop_grace or 0.0 for r in sessions)
            server.wake_at(time.time() + grace + KILL_PATIENCE)


def _why(found: Seen) -> str:
    if found.damaged:
        return f"its record is damaged ({found.damaged.reason})"
    assert found.session is not None
    return found.session.verdict.reason or "can't be asked"


def _target(record: Record, begin: datetime) -> _Target:
    """What was asked since `begin` has all of its grace before it, however long it took to write
    that down for all."""
    status = record.status
    asked = status.stop_asked or datetime.now(UTC)
    asked = asked if asked < begin else datetime.now(UTC)
    grace = 0.0 if status.stop_grace is None else status.stop_grace
    launch = status.launched + timedelta(seconds=record.spec.launch_timeout)
    return _Target(
        record.name,
        record.id,
        record.place.run,
        record.place.generation,
        record.place.agent,
        asked=status.remains,
        until=_within(asked + timedelta(seconds=grace), grace),
        launch_until=_within(launch, record.spec.launch_timeout),
        since=process_marks.mark(record).since,
    )


def _within(moment: datetime, longest: float) -> float:
    """When that is by the monotonic clock. Never in the past: what is due still gets its patience.
    Never further off than was asked for: the clock on the wall may have been set."""
    left = (moment - datetime.now(UTC)).total_seconds()
    return time.monotonic() + min(max(left, 0.0), longest)


# --- bringing down -----------------------------------------------------------------------------


def _end_all(targets: list[_Target], progress: Progress | None) -> None:
    """Signal and look, in one pass for all, until all are gone or nothing more can be done."""
    pause = 0.01
    while True:
        waiting = [t for t in targets if not t.done and not t.inside]
        if not waiting:
            return
        _one_pass(waiting)
        now = time.monotonic()
        if all(
            now > max(t.until, t.launch_until if t.agent is None else 0) + KILL_PATIENCE
            for t in waiting
        ):
            return
        if progress:
            left = max(0.0, min(t.until for t in waiting) - now)
            progress([t.name for t in waiting], len(targets), left)
        time.sleep(pause)
        pause = min(pause * 1.3, 0.1)


def _one_pass(targets: list[_Target]) -> None:
    table = processes.table()
    family = processes.children(table)
    for target in targets:
        _learn_agent(target)
    marked = process_marks.marked(table, [target.mark for target in targets])
    above = processes.ancestors(table)
    for target in targets:
        members = _members(target, table, family, marked[target.id])
        if members.keys() & above:
            target.inside = True
            continue
        if _others(target, members) and _launched_again(target):
            members = _of_this_launch(target, members, family)
            if not members:
                target.clean = CLEAN_PASSES  # what was to be ended is gone; this is the next launch
                continue
        sure = process_marks.ours(marked[target.id], target.run)
        unsure = {stat.process for pid, stat in members.items() if pid not in sure}
        _remember(target, unsure - target.asked)
        _signal(target, members)
        starting = target.agent is None and time.monotonic() < target.launch_until
        target.clean = 0 if members or starting else target.clean + 1


def _others(target: _Target, members: processes.Table) -> bool:
    """Is there something that was not asked to end yet?"""
    return any(stat.process not in target.asked for stat in members.values())


def _of_this_launch(
    target: _Target, members: processes.Table, family: dict[int, list[int]]
) -> processes.Table:
    """Those that are known not to be of a later one: its agent's tree, and who was asked before."""
    agent = target.agent.process if target.agent else None
    lives = agent is not None and _same(members, agent)
    tree = set(processes.tree(family, agent.pid)) if agent and lives else set()
    return {
        pid: stat for pid, stat in members.items() if pid in tree or stat.process in target.asked
    }


def _launched_again(target: _Target) -> bool:
    entry = records.entry(target.name)
    record = entry.record if entry else None
    if not isinstance(record, Record) or record.id != target.id:
        return False
    return record.place.generation > target.generation


def _learn_agent(target: _Target) -> None:
    if target.agent is None:
        word = launch_files.read_launch(target.run, target.id, target.generation)
        target.agent = word.agent if word else None
    if target.agent and processes.alive(target.agent.process):
        uid = processes.uid(target.agent.process.pid)
        target.uids |= set() if uid is None else {uid}


def _members(
    target: _Target, table: processes.Table, family: dict[int, list[int]], marked: list[int]
) -> processes.Table:
    """The living processes of a session, without its keeper: the agent's tree, whatever carries its
    marker, and whatever was once found and asked to end. Not what has become another user's, which
    we may not signal."""
    pids = set(marked) | {process.pid for process in target.asked if _same(table, process)}
    agent = target.agent
    if agent:
        if _same(table, agent.process) and _still_ours(agent, table, marked):
            pids.update(processes.tree(family, agent.process.pid))
        pids -= {agent.keeper, agent.leader}
    living = {
        pid: table[pid]
        for pid in pids
        if pid in table and table[pid].alive and not processes.is_tmux(table[pid])
    }
    foreign = {pid for pid in living if processes.foreign(pid)}
    target.foreign |= {living[pid].process for pid in foreign}
    return {pid: stat for pid, stat in living.items() if pid not in foreign}


def _still_ours(agent: Agent, table: processes.Table, marked: list[int]) -> bool:
    """Not another process of the same pid and the same tick: that happens when pids are used up
    within a hundredth of a second."""
    stat = table[agent.process.pid]
    return stat.pid in marked or processes.belongs(stat, agent)


def _same(table: processes.Table, process: Process) -> bool:
    stat = table.get(process.pid)
    return stat is not None and stat.start == process.start


def _remember(target: _Target, found: set[Process]) -> None:
    """Record the processes that no marker finds once their parent is gone, before they are
    signalled: the stop is not confirmed while one of them lives, whichever process goes on with
    it."""
    if not found or (target.agent and found == {target.agent.process}):
        return

    def with_remains(now: Seen) -> Record:
        record = now.intact.record
        remains = tuple(sorted({*record.status.remains, *found}, key=lambda p: p.pid))
        return replace(record, status=replace(record.status, remains=remains, outcome=None))

    recorded = _recorded(target)
    if recorded:
        with suppress(ConflictError):
            lookup.update(recorded, with_remains, look=lambda _: _recorded(target))


def _recorded(target: _Target) -> Seen | None:
    """The record of the launch that is being ended."""
    entry = records.entry(target.name)
    record = entry.record if entry else None
    if entry is None or not isinstance(record, Record):
        return None
    if (record.id, record.place.generation) != (target.id, target.generation):
        return None
    return judge.seen_as(entry, record, Observation(seen("it is being ended")))


def _signal(target: _Target, members: processes.Table) -> None:
    """TERM at first (HUP too for a shell with a person in front: it ignores TERM), KILL after the
    grace. CONT lets a stopped process hear it. What the agent starts while it cleans up is left in
    peace until the agent is gone or the grace is over."""
    killing = time.monotonic() >= target.until
    cleaning_up = (
        bool(target.asked) and target.agent is not None and (target.agent.process.pid in members)
    )
    for stat in members.values():
        process = stat.process
        if killing:
            target.asked.add(process)
            processes.send(process, signal.SIGKILL)
        elif process not in target.asked and not cleaning_up:
            target.asked.add(process)
            processes.send(process, signal.SIGTERM)
            if processes.interactive_shell(stat.pid):
                processes.send(process, signal.SIGHUP)
            processes.send(process, signal.SIGCONT)


# --- confirming --------------------------------------------------------------------------------


def confirm(found: Sequence[Seen], config: Config, *, close_panes: bool = True) -> list[Seen]:
    """Look at all again, close what is left of their places, and return what is true now. The
    number of tmux calls does not depend on the number of sessions."""
    after = {one.name: one for one in lookup.some([one.name for one in found])}
    by_socket: dict[str, list[Seen]] = {}
    for one in after.values():
        if one.session is None or not one.has_process:
            continue
        record = one.session.record
        if not record.place.calls_back:
            after[one.name] = _confirm_elsewhere(one, record, config, close_panes=close_panes)
        else:
            by_socket.setdefault(record.place.socket, []).append(one)
    for some in by_socket.values():
        after |= {one.name: one for one in _confirm_hosted(some, config, close_panes=close_panes)}
    return [after[one.name] for one in found]


def _confirm_hosted(found: Sequence[Seen], config: Config, *, close_panes: bool) -> list[Seen]:
    """The same for sessions of one tmux server on this host."""
    sessions = [one.session.record for one in found if one.session]
    stopping = [one for one in found if one.state is State.STOPPING and not _inside(one)]
    try:
        server = registry.of(sessions[0]).tmux(sessions[0], config)
    except CannotTellError:
        return [_count_try(one) if one.state is State.STOPPING else one for one in found]
    stale = {one.name for one in found if one.state is State.STALE}
    ended = {one.name for one in found if close_panes and one.state not in ALIVE} - stale
    if stale:
        _close_others({r.id for r in sessions if r.name in stale}, server)
    if ended:
        panes.tell_attached(ended, server, server.watched())
    panes.put_away([r for r in sessions if r.name in stale | ended], server)
    if stopping:
        server.wake_at(time.time() + 5)
    again = lookup.some([*stale]) if stale else []
    fresh = {one.name: one for one in (*again, *map(_count_try, stopping))}
    return [fresh.get(one.name, one) for one in found]


def _hand_over(name: str, config: Config) -> None:
    """We are a part of what is to be ended: its server ends us too, and finishes the stop."""
    found = lookup.one(name)
    if found.session is None or found.state is not State.STOPPING:
        return
    record = found.session.record
    lookup.write(found, replace(record, status=replace(record.status, stopper=None)))
    with suppress(CannotTellError):
        registry.of(record).tmux(record, config).call_back_now()


def _confirm_elsewhere(found: Seen, record: Record, config: Config, *, close_panes: bool) -> Seen:
    if found.state is State.STOPPING:
        return _count_try(found)
    if found.state not in ENDED:
        return found
    up = found.session is not None and found.session.seen.container.present
    registry.elsewhere(record).clear(record, config, close_panes=close_panes and up)
    return found if record.status.keep else lookup.one(found.name)


def _count_try(found: Seen) -> Seen:
    """It could not be confirmed: after some tries a person should look. Whoever comes next may try.
    (When another sesh has changed the record meanwhile, or is at it, that one counts.)"""
    record = found.intact.record
    if under_way(found) and record.status.stopper != processes.myself():
        return found
    status = replace(record.status, stop_tries=record.status.stop_tries + 1, stopper=None)
    return lookup.write(found, replace(record, status=status)) or found


def _close_others(ids: Collection[str], server: tmux.Tmux) -> None:
    """Close the panes that make sessions stale: a stop of such a session means that."""
    listed = server.panes()
    living = [p for p in listed if not p.dead] if isinstance(listed, list) else []
    server.kill_panes([pane.id for pane in living if pane.sesh_id in ids])


def _inside(found: Seen) -> bool:
    return found.session is not None and inside(found.session)


def inside(session: Session) -> bool:
    """Does this very command run in the session's own process tree?"""
    agent = session.record.place.agent
    return agent is not None and agent.process.pid in processes.ancestors(processes.table())
