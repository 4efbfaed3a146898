"""gc: the plan, carried out. Each step checks its proof again just before it acts; a step whose
proof no longer holds is skipped and reported. After a kill anywhere, the next gc makes a new plan
and converges."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from sesh.gc import plan, remove_files, scan
from sesh.gc.plan import CHANGED, Options, Outcome, Outcomes, Step, Verb, What
from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, SeshError, StateError
from sesh.model.record import Record
from sesh.model.states import ALIVE, ENDED, Cause, State
from sesh.operations import panes, recover, worktrees
from sesh.operations.stop import Ending, go_on, stop, under_way
from sesh.operations.stop_orphans import stop_leftovers
from sesh.places import environment
from sesh.places.docker import mailbox
from sesh.state import clocks, events, lookup, observe, records, unclaimed
from sesh.state.lookup import Seen
from sesh.state.orphans import Leftover, Stray
from sesh.state.unclaimed import Adrift
from sesh.supervision import run_pass
from sesh.system import files, paths, processes, tmux


def apply(steps: Sequence[Step], config: Config, options: Options) -> list[Outcome]:
    """Do them, those of one kind together. What fails is told, and the others go on."""
    doers: dict[tuple[Verb, What], Callable[[list[Step]], Outcomes]] = {
        (Verb.FINISH, What.STOP): lambda some: _finish(some, config),
        (Verb.END, What.SESSION): lambda some: _end(some, config),
        (Verb.KILL, What.AGENT): lambda some: _kill_agents(some, config),
        (Verb.KILL, What.PROCESS): lambda some: _kill_processes(some, config),
        (Verb.REMOVE, What.CONTAINER): lambda some: _remove_containers(some, config),
        (Verb.CLOSE, What.PANE): lambda some: _close(some, config),
        (Verb.CLOSE, What.STRAY): lambda some: _close_strays(some, config),
        (Verb.REMOVE, What.WORKTREE): lambda some: _remove_worktrees(some, config, options),
        (Verb.ARCHIVE, What.RECORD): lambda some: _archive(some, config, options),
        (Verb.REMOVE, What.HISTORY): remove_files.remove_history,
        (Verb.REMOVE, What.TRANSCRIPT): remove_files.remove_files,
        (Verb.REMOVE, What.LEAVING): remove_files.remove_files,
        (Verb.REMOVE, What.BOX): lambda some: remove_files.remove_boxes(some, config),
        (Verb.REMOVE, What.TEMP): remove_files.remove_files,
        (Verb.REMOVE, What.NOTICE): remove_files.drop_notices,
        (Verb.REMOVE, What.EVENTS): remove_files.remove_files,
        (Verb.ROTATE, What.EVENTS): remove_files.rotate,
    }
    told = [outcome for step in steps if (outcome := kept(step)) is not None]
    for kind, doer in doers.items():
        some = [step for step in steps if (step.verb, step.what) == kind]
        if some:
            told += _guarded(doer, some)
    return told


def kept(step: Step) -> Outcome | None:
    if step.verb is not Verb.KEEP:
        return None
    return Outcome(step, done=False, skipped=f"kept {step.why}")


def _guarded(doer: Callable[[list[Step]], Outcomes], steps: list[Step]) -> list[Outcome]:
    """An error ends this kind of step, not the others."""
    told: list[Outcome] = []
    try:
        for outcome in doer(steps):
            told.append(outcome)
    except (SeshError, OSError) as error:
        reached = {id(one.step) for one in told}
        rest = [step for step in steps if id(step) not in reached]
        told += [Outcome(step, done=False, skipped=str(error), failed=True) for step in rest]
    return told


# --- sessions ------------------------------------------------------------------------------------


def _again(steps: Iterable[Step]) -> list[tuple[Step, Seen | None]]:
    """Each step with its session, judged now; None when the name means another session by now."""
    steps = list(steps)
    entries = [entry for step in steps if (entry := records.entry(step.subject)) is not None]
    fresh = {seen.name: seen for seen in lookup.judge(entries)}
    return [(step, _same(step, fresh.get(step.subject))) for step in steps]


def _same(step: Step, seen: Seen | None) -> Seen | None:
    record = seen.entry.record if seen else None
    return seen if isinstance(record, Record) and record.id == step.session_id else None


def _split(
    judged: Iterable[tuple[Step, Seen | None]], state: State
) -> tuple[list[tuple[Step, Seen]], list[Outcome]]:
    """Those that are still in this state, and the others as skipped."""
    still, skipped = [], []
    for step, seen in judged:
        if seen is not None and seen.state is state:
            still.append((step, seen))
        else:
            skipped.append(Outcome(step, done=False, skipped=CHANGED))
    return still, skipped


def _stopped(step: Step, after: Seen) -> Outcome:
    going_on = (ALIVE - {State.RECOVERING}) | {State.ORPHAN, State.UNKNOWN}
    if after.state in going_on:
        reason = after.session.verdict.reason if after.session else None
        return Outcome(step, done=False, skipped=reason or after.state.value, failed=True)
    return Outcome(step, done=True)


def _finish(steps: list[Step], config: Config) -> Outcomes:
    still, skipped = _split(_again(steps), State.STOPPING)
    yield from skipped
    for step, seen in still:
        if under_way(seen):
            yield Outcome(step, done=False, skipped="another sesh is at it")
    still = [(step, seen) for step, seen in still if not under_way(seen)]
    after = go_on([seen for _, seen in still], config)
    for (step, _), now in zip(still, after, strict=True):
        yield _stopped(step, now)


def _end(steps: list[Step], config: Config) -> Outcomes:
    """End sessions that are still over their limit."""
    still, skipped = _split(_again(steps), State.RUNNING)
    yield from skipped
    over = []
    for step, seen in still:
        why = _limit_of(seen, config)
        if why:
            over.append((step, seen, why))
        else:
            yield Outcome(step, done=False, skipped=CHANGED)
    endings = {seen.name: Ending(why, Cause.LIMIT) for _, seen, why in over}
    after = stop([seen for _, seen, _ in over], config, config.stop.grace, endings=endings)
    for (step, _, _), now in zip(over, after, strict=True):
        yield _stopped(step, now)


def _limit_of(seen: Seen, config: Config) -> str | None:
    one = scan.running_of(seen)
    if one is None:
        return None
    try:
        printed = os.stat(paths.transcript(one.session_id)).st_mtime
    except FileNotFoundError:
        printed = 0.0
    age = processes.age(one.process, processes.uptime())
    now, naps = time.time(), clocks.naps()
    why = plan.limit_reached(one, printed, config.gc, now=now, age=age, naps=naps)
    return why[1] if why else None


def _close(steps: list[Step], config: Config) -> Outcomes:
    """Close the dead panes of what has ended, their screens saved first."""
    for step, seen in _again(steps):
        if seen is None or scan.ended_of(seen) is None or seen.session is None:
            yield Outcome(step, done=False, skipped=CHANGED)
            continue
        record = seen.session.record
        panes.put_away([record], observe.server_of(record, config))
        yield Outcome(step, done=True)


def _archive(steps: list[Step], config: Config, options: Options) -> Outcomes:
    """Move records to the history, and remove what only a restart would have needed."""
    due = {}
    for step, seen in _again(steps):
        one = scan.ended_of(seen) if seen else None
        if not seen or not one or not plan.archive_due(one, config.gc, options, time.time()):
            yield Outcome(step, done=False, skipped=CHANGED)
        elif isinstance(seen.entry.record, Record) and worktrees.stands(seen.entry.record):
            yield Outcome(step, done=False, skipped="its worktree stays")
        elif why := _container_left(seen, config):
            yield Outcome(step, done=False, skipped=why)
        else:
            due[one.session_id] = (step, seen)
    moved = records.archive([seen.entry for _, seen in due.values()])
    sessions = {e.record.id: e.record for e in moved if isinstance(e.record, Record)}
    _forget_launches(sessions.values())
    _release(sessions.values(), config)
    for session_id, (step, _) in due.items():
        if session_id not in sessions:
            yield Outcome(step, done=False, skipped=CHANGED)
            continue
        events.append("archived", sessions[session_id])
        yield Outcome(step, done=True)


def _remove_worktrees(steps: list[Step], config: Config, options: Options) -> Outcomes:
    """Remove worktrees of what is still to leave the list, if git says again that nothing is lost
    by that."""
    for step, seen in _again(steps):
        one = scan.ended_of(seen) if seen else None
        record = seen.entry.record if seen else None
        due = one and plan.archive_due(one, config.gc, options, time.time())
        if not due or not isinstance(record, Record):
            yield Outcome(step, done=False, skipped=CHANGED)
            continue
        stays = worktrees.remove(record)
        yield Outcome(step, done=not stays, skipped=stays)


def _container_left(seen: Seen, config: Config) -> str | None:
    """Remove the container of an ended session, unless it shall be kept; why that failed."""
    record = seen.entry.record
    if not isinstance(record, Record) or record.status.keep:
        return None
    if record.spec.box is None or record.spec.box.image is None:
        return None
    said = mailbox.remove_container(record, config.docker.timeout * 2)
    return None if said.ok else f"its container: {said.text}"


def _release(sessions: Iterable[Record], config: Config) -> None:
    """Take our marks off tmux sessions of a person's own server: they stand on, and are no more
    ours."""
    here, run = processes.here(), processes.run_dir()
    hosted = [r for r in sessions if r.place.calls_back and r.place.machine == here]
    for socket in {r.place.socket for r in hosted} - {f"{run}/tmux.sock"}:
        with suppress(CannotTellError):  # without tmux nothing stands there
            server = observe.server(socket, run, config)
            listed = server.panes()
            standing = {p.sesh_id for p in listed} if isinstance(listed, list) else set()
            mine = (r for r in hosted if r.place.socket == socket and r.id in standing)
            server.release({record.name: record.id for record in mine})


def _forget_launches(sessions: Iterable[Record]) -> None:
    here = processes.here()
    gone = {record.id for record in sessions if record.place.machine.id == here.id}
    if gone:
        for path in run_pass.launch_leavings(processes.run_dir()):
            if os.path.basename(path).partition(".")[0] in gone:
                with suppress(FileNotFoundError):
                    os.unlink(path)
    for record in sessions:
        environment.forget(record.place.snapshot)
        if record.spec.box and record.id in gone and not record.status.keep:
            mailbox.remove(record.place.run)


# --- orphans -------------------------------------------------------------------------------------


def _kill_agents(steps: list[Step], config: Config) -> Outcomes:
    """End the agents of sessions that are orphans; the very processes that were seen before."""
    still, skipped = _split(_again(steps), State.ORPHAN)
    yield from skipped
    proven = []
    for step, seen in still:
        agent = seen.session.record.place.agent if seen.session else None
        if agent is not None and agent.process == step.target:
            proven.append((step, seen))
        else:
            yield Outcome(step, done=False, skipped=CHANGED)
    endings = {seen.name: _as_orphan(seen) for _, seen in proven}
    after = stop([seen for _, seen in proven], config, config.stop.grace, endings=endings)
    for (step, _), now in zip(proven, after, strict=True):
        yield _stopped(step, now)


def _as_orphan(seen: Seen) -> Ending:
    assert seen.session is not None
    closed = seen.session.seen.terminal.absent
    reason = f"ended by gc as an orphan: {seen.session.verdict.reason}"
    return Ending(reason, Cause.TERMINAL_GONE if closed else Cause.UNKNOWN)


def _kill_processes(steps: list[Step], config: Config) -> Outcomes:
    """End processes whose session is still over."""
    wanted = []
    for step in steps:
        assert isinstance(step.target, Leftover)
        if _over(step.target):
            wanted.append((step, step.target))
        else:
            yield Outcome(step, done=False, skipped=CHANGED)
    left = stop_leftovers([target for _, target in wanted], config.stop.grace)
    for step, target in wanted:
        alive = target in left
        yield Outcome(
            step, done=not alive, skipped="could not be ended" if alive else None, failed=alive
        )


def _over(leftover: Leftover) -> bool:
    """Has its session ended, or does no record name it? (A restart keeps the id.)"""
    entry = records.entry(leftover.name)
    if entry is None:
        return True
    seen = lookup.judge([entry])[0]
    record = seen.entry.record
    if not isinstance(record, Record):
        return False
    return record.id != leftover.session_id or seen.state in ENDED


def _close_strays(steps: list[Step], config: Config) -> Outcomes:
    """Close dead panes that carry the id of a session that no record names."""
    run = processes.run_dir()
    for step in steps:
        assert isinstance(step.target, Stray)
        if remove_files.claimed(step.target.session_id):
            yield Outcome(step, done=False, skipped=CHANGED)
            continue
        server = observe.server(step.target.socket, run, config)
        for pane in step.target.panes:
            _save_screen(step.target.session_id, pane.id, server)
            server.close_all([pane.id])
        yield Outcome(step, done=True)


def _remove_containers(steps: list[Step], config: Config) -> Outcomes:
    """Remove containers in which nothing runs and that still no record claims."""
    for step in steps:
        assert isinstance(step.target, Adrift)
        if not unclaimed.still(step.target, config):
            yield Outcome(step, done=False, skipped=CHANGED)
            continue
        done = recover.remove(step.target, config)
        yield Outcome(
            step, done=done, skipped=None if done else "could not be removed", failed=not done
        )


def _save_screen(session_id: str, pane: str, server: tmux.Tmux) -> None:
    """Keep the last screen of a session whose transcript is kept."""
    if os.path.exists(paths.transcript(session_id)) and not os.path.exists(
        paths.screen(session_id)
    ):
        captured = server.capture(pane)
        if captured.ok:
            with suppress(StateError):  # a full disk: its transcript has it, too
                files.write_private(paths.screen(session_id), captured.out.encode(), durable=False)
