"""gc: the plan, carried out. Each step checks its proof again just before it acts; a step whose
proof no longer holds is skipped and reported. After a kill anywhere, the next gc makes a new plan
and converges."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from sesh.gc import plan, remove_files, scan
from sesh.gc.plan import CHANGED, Options, Outcome, Step, Verb, What, done, failed, skipped
from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, SeshError, StateError
from sesh.model.observation import Session
from sesh.model.record import Record
from sesh.model.states import ALIVE, ENDED, Cause, State
from sesh.operations import recover, worktrees
from sesh.operations.stop.orphans import stop_leftovers
from sesh.operations.stop.request import Ending, under_way
from sesh.operations.stop.stop import continue_stops, stop
from sesh.places import environment, panes, registry
from sesh.places.host import tmux_server
from sesh.places.unclaimed import Leftover, UnclaimedPlace
from sesh.state import clocks, events, history, judge, records, unclaimed
from sesh.state.judge import Seen
from sesh.state.orphans import Stray
from sesh.supervision import run_pass
from sesh.system import files, paths, processes, tmux

Action = Callable[[list[Step], Config, Options], Iterable[Outcome]]


def apply(steps: Sequence[Step], config: Config, options: Options) -> list[Outcome]:
    """Take the steps, those of one kind together. A failure is reported and
    does not stop the others."""
    outcomes = [outcome for step in steps if (outcome := kept(step)) is not None]
    for kind, act_on in _ACTIONS.items():
        some = [step for step in steps if (step.verb, step.what) == kind]
        if some:
            outcomes += _guarded(act_on(some, config, options), some)
    return outcomes


def kept(step: Step) -> Outcome | None:
    return skipped(step, f"kept {step.why}") if step.verb is Verb.KEEP else None


def _guarded(outcomes: Iterable[Outcome], steps: list[Step]) -> list[Outcome]:
    """An error ends this kind of step, not the others."""
    taken: list[Outcome] = []
    try:
        for outcome in outcomes:
            taken.append(outcome)
    except (SeshError, OSError) as error:
        reached = {id(one.step) for one in taken}
        taken += [failed(step, str(error)) for step in steps if id(step) not in reached]
    return taken


def _one_by_one(act: Callable[[Step, Config, Options], Outcome]) -> Action:
    return lambda steps, config, options: (act(step, config, options) for step in steps)


# --- sessions ------------------------------------------------------------------------------------


def _again(steps: Sequence[Step]) -> list[tuple[Step, Seen | None]]:
    """Each step with its session, judged now; None when the name means another session by now."""
    entries = [entry for step in steps if (entry := records.entry(step.subject)) is not None]
    fresh = {seen.record.id: seen for seen in judge.judge(entries) if seen.record}
    return [(step, fresh.get(step.session_id or "")) for step in steps]


def _split(steps: Sequence[Step], state: State) -> tuple[list[tuple[Step, Seen]], list[Outcome]]:
    """The steps whose sessions are still in this state, and the others as skipped."""
    still, changed = [], []
    for step, seen in _again(steps):
        if seen is not None and seen.state is state:
            still.append((step, seen))
        else:
            changed.append(skipped(step))
    return still, changed


def _stopped(step: Step, after: Seen) -> Outcome:
    still_there = (ALIVE - {State.RECOVERING}) | {State.ORPHAN, State.UNKNOWN}
    if after.state in still_there:
        reason = after.session.verdict.reason if after.session else None
        return failed(step, reason or after.state.value)
    return done(step)


def _finish(steps: list[Step], config: Config, options: Options) -> Iterator[Outcome]:
    still, changed = _split(steps, State.STOPPING)
    yield from changed
    stopping = "another sesh is stopping it"
    yield from (skipped(step, stopping) for step, seen in still if under_way(seen))
    mine = [(step, seen) for step, seen in still if not under_way(seen)]
    after = continue_stops([seen for _, seen in mine], config)
    yield from (_stopped(step, now) for (step, _), now in zip(mine, after, strict=True))


def _end(steps: list[Step], config: Config, options: Options) -> Iterator[Outcome]:
    """End sessions that are still over their limit."""
    still, changed = _split(steps, State.RUNNING)
    yield from changed
    limits = {seen.name: _limit_of(seen, config) for _, seen in still}
    endings = {name: Ending(why, Cause.LIMIT) for name, why in limits.items() if why}
    yield from _stop(still, config, endings)


def _stop(
    still: list[tuple[Step, Seen]], config: Config, endings: dict[str, Ending]
) -> Iterator[Outcome]:
    """Stop the sessions for which there is an ending; the others have changed."""
    proven = [(step, seen) for step, seen in still if seen.name in endings]
    yield from (skipped(step) for step, seen in still if seen.name not in endings)
    after = stop([seen for _, seen in proven], config, config.stop.grace, endings=endings)
    yield from (_stopped(step, now) for (step, _), now in zip(proven, after, strict=True))


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


def _close(steps: list[Step], config: Config, options: Options) -> Iterator[Outcome]:
    """Save the screens of ended sessions and close their dead panes."""
    for step, seen in _again(steps):
        if seen is None or scan.ended_of(seen) is None:
            yield skipped(step)
            continue
        record = seen.intact.record
        panes.put_away([record], registry.of(record).tmux(record, config))
        yield done(step)


def _leaving(
    steps: Sequence[Step], config: Config, options: Options
) -> Iterator[tuple[Step, Seen | None]]:
    """Each step with its session; None when that must not leave the list any more."""
    for step, seen in _again(steps):
        one = scan.ended_of(seen) if seen else None
        due = one and plan.archive_due(one, config.gc, options, time.time())
        yield step, seen if due else None


def _archive(steps: list[Step], config: Config, options: Options) -> Iterator[Outcome]:
    """Move records to the history, and remove the files that only a restart would need."""
    due = {}
    for step, seen in _leaving(steps, config, options):
        if seen is None:
            yield skipped(step)
        elif worktrees.existing(seen.intact.record):
            yield skipped(step, "its worktree stays")
        elif why := _place_left(seen.intact.record, config):
            yield skipped(step, why)
        else:
            due[seen.intact.record.id] = (step, seen)
    moved = history.archive([seen.entry for _, seen in due.values()])
    sessions = {entry.readable.id: entry.readable for entry in moved if entry.readable}
    _forget_launches(sessions.values())
    _release(sessions.values(), config)
    for session_id, (step, _) in due.items():
        if session_id not in sessions:
            yield skipped(step)
            continue
        events.append("archived", sessions[session_id])
        yield done(step)


def _remove_worktrees(steps: list[Step], config: Config, options: Options) -> Iterator[Outcome]:
    """Remove worktrees of sessions that leave the list, if git says again that nothing is lost."""
    for step, seen in _leaving(steps, config, options):
        stays = worktrees.remove(seen.intact.record) if seen else CHANGED
        yield skipped(step, stays) if stays else done(step)


def _place_left(record: Record, config: Config) -> str | None:
    """Remove what was made for an ended session, unless it is to be kept; why that failed."""
    if record.place.kind not in registry.ELSEWHERE:
        return None
    try:
        registry.elsewhere(record).clear(record, config, close_panes=False)
    except SeshError as error:
        return str(error).removeprefix(f"{record.name}: ")
    return None


def _release(sessions: Iterable[Record], config: Config) -> None:
    """Remove our marks from tmux sessions in a user's own server, which stay."""
    here, run = processes.here(), processes.run_dir()
    hosted = [r for r in sessions if r.place.calls_back and r.place.machine == here]
    for socket in {r.place.socket for r in hosted} - {f"{run}/tmux.sock"}:
        with suppress(CannotTellError):  # without tmux there is nothing to release
            server = tmux_server.server(socket, run, config)
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
        if record.id in gone and not record.status.keep:
            registry.of(record).remove_files(record)


# --- orphans -------------------------------------------------------------------------------------


def _kill_agents(steps: list[Step], config: Config, options: Options) -> Iterator[Outcome]:
    """End the agents of sessions that are orphans: only the very processes that were planned."""
    still, changed = _split(steps, State.ORPHAN)
    yield from changed
    endings = {seen.name: _as_orphan(seen.intact) for step, seen in still if _is_agent(step, seen)}
    yield from _stop(still, config, endings)


def _is_agent(step: Step, seen: Seen) -> bool:
    agent = seen.intact.record.place.agent
    return agent is not None and agent.process == step.target


def _as_orphan(session: Session) -> Ending:
    reason = f"ended by gc as an orphan: {session.verdict.reason}"
    return Ending(reason, Cause.TERMINAL_GONE if session.seen.terminal.absent else Cause.UNKNOWN)


def _kill_processes(steps: list[Step], config: Config, options: Options) -> Iterator[Outcome]:
    """End processes whose session is still over."""
    wanted = []
    for step in steps:
        assert isinstance(step.target, Leftover)
        if _over(step.target):
            wanted.append((step, step.target))
        else:
            yield skipped(step)
    left = stop_leftovers([target for _, target in wanted], config.stop.grace)
    for step, target in wanted:
        yield failed(step, "could not be ended") if target in left else done(step)


def _over(leftover: Leftover) -> bool:
    """Has its session ended, or does no record name it? (A restart keeps the id.)"""
    entry = records.entry(leftover.name)
    if entry is None:
        return True
    seen = judge.judge([entry])[0]
    if seen.record is None:
        return False
    return seen.record.id != leftover.session_id or seen.state in ENDED


def _close_stray(step: Step, config: Config, options: Options) -> Outcome:
    """Close dead panes that carry the id of a session that no record names."""
    assert isinstance(step.target, Stray)
    if remove_files.claimed(step.target.session_id):
        return skipped(step)
    server = tmux_server.server(step.target.socket, processes.run_dir(), config)
    for pane in step.target.panes:
        _save_screen(step.target.session_id, pane.id, server)
        server.close_all([pane.id])
    return done(step)


def _remove_container(step: Step, config: Config, options: Options) -> Outcome:
    """Remove a place in which nothing runs and that still no record claims."""
    assert isinstance(step.target, UnclaimedPlace)
    if not unclaimed.still(step.target, config):
        return skipped(step)
    removed = recover.remove(step.target, config)
    return done(step) if removed else failed(step, "could not be removed")


def _save_screen(session_id: str, pane: str, server: tmux.Tmux) -> None:
    """Keep the last screen of a session whose transcript is kept."""
    screen = paths.screen(session_id)
    if os.path.exists(paths.transcript(session_id)) and not os.path.exists(screen):
        captured = server.capture(pane)
        if captured.ok:
            with suppress(StateError):  # a full disk: its transcript has it, too
                files.write_private(screen, captured.out.encode(), durable=False)


# In the order in which they are taken.
_ACTIONS: dict[tuple[Verb, What], Action] = {
    (Verb.FINISH, What.STOP): _finish,
    (Verb.END, What.SESSION): _end,
    (Verb.KILL, What.AGENT): _kill_agents,
    (Verb.KILL, What.PROCESS): _kill_processes,
    (Verb.REMOVE, What.CONTAINER): _one_by_one(_remove_container),
    (Verb.CLOSE, What.PANE): _close,
    (Verb.CLOSE, What.STRAY): _one_by_one(_close_stray),
    (Verb.REMOVE, What.WORKTREE): _remove_worktrees,
    (Verb.ARCHIVE, What.RECORD): _archive,
    (Verb.REMOVE, What.HISTORY): _one_by_one(remove_files.remove_history),
    (Verb.REMOVE, What.TRANSCRIPT): _one_by_one(remove_files.remove_files),
    (Verb.REMOVE, What.LAUNCH_FILE): _one_by_one(remove_files.remove_files),
    (Verb.REMOVE, What.MOUNT): _one_by_one(remove_files.remove_mount),
    (Verb.REMOVE, What.TEMP): _one_by_one(remove_files.remove_files),
    (Verb.REMOVE, What.NOTICE): _one_by_one(remove_files.drop_notice),
    (Verb.REMOVE, What.EVENTS): _one_by_one(remove_files.remove_files),
    (Verb.ROTATE, What.EVENTS): _one_by_one(remove_files.rotate),
}
