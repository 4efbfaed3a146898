"""Restart sessions: the next generation of each, in its old place where that still exists.

Sessions on this host go together, in few calls of tmux. Each one is crash-safe in the order files,
claim, tmux, confirmation, like a start; an error with one session does not affect the others.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from math import ceil

from sesh.model.configuration import Config, with_long_timeout
from sesh.model.errors import CannotTellError, ConflictError, SeshError, StateError, noted, only
from sesh.model.observation import Observation, unknown
from sesh.model.reconcile import reconcile
from sesh.model.record import LaunchMode, Record
from sesh.model.states import ALIVE, Desired, State
from sesh.model.value_object import replace
from sesh.operations import worktrees
from sesh.operations.launch import claim, start_elsewhere
from sesh.operations.launch.launch import (
    Claimed,
    Results,
    failed,
    launch,
    now,
    ready_server,
    record_failure,
    stage,
)
from sesh.operations.stop.request import refused
from sesh.operations.stop.stop import stop
from sesh.places import environment, launch_files, panes
from sesh.places.host.launch import next_place, next_socket
from sesh.state import lookup, records
from sesh.state.judge import Seen
from sesh.system import processes
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Tmux, Trouble

LIVING = (ALIVE | {State.ORPHAN}) - {State.RECOVERING}
_AT_ONCE = 50  # launches: agents that all start together must start in time
_MOST_ROUNDS = 2  # of launches, for any number of sessions: tmux gets few calls
_LEFT = "; not restarted"  # in an error: what was done
_EACH = 0.2  # seconds longer that a server may take for each session: all keepers call it


def restart_all(found: Sequence[Seen], config: Config, grace: float, *, fresh: bool) -> Results:
    """Restart sessions; living ones are stopped first, all together. A living session that could
    not be launched again stays requested."""
    results: Results = {}
    ended: list[Seen] = []
    living: list[Seen] = []
    alive = any(one.state in LIVING for one in found)
    above = processes.ancestors(processes.table()) if alive else set[int]()
    for one in found:
        with noted(results, one.name):
            (living if _must_stop(one, above, fresh=fresh) else ended).append(one)
    stopped = _stopped(living, config, grace, results)
    results |= relaunch([*ended, *stopped], config, fresh=fresh)
    for one in living:
        result = results[one.name]
        if isinstance(result, SeshError):
            with noted(results, one.name):
                keep_requested(one, str(result))
    return results


def check_all(found: Sequence[Seen], *, fresh: bool) -> dict[str, SeshError | None]:
    """Why sessions could not be restarted, by name, as far as that is known beforehand."""
    results: dict[str, SeshError | None] = {one.name: None for one in found}
    above = processes.ancestors(processes.table())
    for one in found:
        with noted(results, one.name):
            if not _must_stop(one, above, fresh=fresh):
                check(one.intact.record, fresh=fresh)
    return results


def _must_stop(one: Seen, above: Container[int], *, fresh: bool) -> bool:
    """Is it alive, so that it must be stopped? Raises when it cannot be restarted, before it is
    stopped for nothing. `above` are the processes that this command runs in."""
    record = one.intact.record
    lookup.need_process(one)
    if one.state is State.UNKNOWN:
        raise CannotTellError(f"{one.name}: {one.reason}{_LEFT}; next: sesh show {one.name}")
    if one.state not in LIVING:
        return False
    agent = record.place.agent
    if agent and agent.process.pid in above:
        raise ConflictError(f"{one.name} cannot restart itself; run this in another terminal")
    if one.state is State.STARTING:
        raise ConflictError(
            f"{one.name} is still starting; next: sesh wait {one.name} --for running"
        )
    check(record, fresh=fresh)
    return True


def _stopped(living: Sequence[Seen], config: Config, grace: float, results: Results) -> list[Seen]:
    """Stop sessions together. Returns those that have ended; the others are noted in `results`."""
    remarks: list[str] = []
    try:
        found = stop(living, config, grace, close_panes=False, keep=True, note=remarks.append)
    except SeshError as error:  # with all of them
        results |= {one.name: error for one in living}
        return []
    stopped = []
    for one, after in zip(living, found, strict=True):
        with noted(results, one.name):
            lookup.check_same_launch(one, after)
            if after.state in LIVING:
                own = [line.removeprefix(f"{one.name}: ") for line in remarks if _of(one, line)]
                why = refused(after) or (*own, after.state)[0]
                raise SeshError(
                    f"{one.name} could not be stopped: {why}{_LEFT}; next: sesh stop {one.name}"
                )
            stopped.append(after)
    _await_keepers([one.intact.record for one in stopped])
    return stopped


def _await_keepers(sessions: Sequence[Record]) -> None:
    """Wait until the keepers of ended agents are gone: they all call the tmux server before."""
    agents = [record.place.agent for record in sessions if record.place.calls_back]
    keepers = [one.leader for one in agents if one and panes.is_keeper(one.leader)]
    panes.await_gone(keepers, panes.CALL_PATIENCE + _EACH * len(keepers))


def _of(one: Seen, line: str) -> bool:
    return line.split(maxsplit=1)[0].removesuffix(":") == one.name


def check(record: Record, *, fresh: bool) -> None:
    """Raise when a session could not be launched again: before it is stopped for nothing."""
    records.check_room()
    worktrees.check(record)
    snapshot = record.place.snapshot
    if not os.path.exists(snapshot):
        claim.lacking(record)
    claim.resumed(record, record, environment.known(snapshot), fresh=fresh)


# --- the next generation -------------------------------------------------------------------------


def restart(found: Seen, config: Config, attempt: int = 0, *, fresh: bool = False) -> Seen:
    """The next generation of an ended session: same name, same tmux session where it is still
    there, same conversation unless a `fresh` one is requested. `attempt` is the number of the
    retry, 0 when the user restarts it."""
    return only(relaunch([found], config, attempt, fresh=fresh))


def relaunch(
    found: Iterable[Seen], config: Config, attempt: int = 0, *, fresh: bool = False
) -> Results:
    """The next generation of ended sessions; in other places than this host one after the other."""
    results: Results = {}
    by_socket: dict[str, list[Seen]] = {}
    for one in found:
        with noted(results, one.name):
            record = one.intact.record
            worktrees.check(record)
            if record.place.calls_back:
                by_socket.setdefault(next_socket(record, config), []).append(one)
            else:
                results[one.name] = start_elsewhere.restart(one, config, attempt, fresh=fresh)
    for socket, some in by_socket.items():
        results |= _relaunch_here(socket, some, with_long_timeout(config), attempt, fresh=fresh)
    return results


def _relaunch_here(
    socket: str, found: Sequence[Seen], config: Config, attempt: int, *, fresh: bool
) -> Results:
    """The same in one tmux server of this host."""
    try:
        records.prepare()
        server, wrap = ready_server(socket, processes.run_dir(), config)
    except SeshError as error:
        return {one.name: error for one in found}
    server = replace(server, timeout=server.timeout + _EACH * len(found))
    sessions = [one.intact.record for one in found]
    here = [record for record in sessions if record.place.machine == processes.here()]
    listed = server.panes() if here else []
    if isinstance(listed, Reply) and listed.trouble is not Trouble.NO_SERVER:
        why = f"tmux: {listed.text}{_LEFT}; next: sesh doctor"  # no reason to make second sessions
        return {one.name: CannotTellError(f"{one.name}: {why}") for one in found}
    kept = [record for record in here if panes.find(record, listed)]
    if kept:
        panes.save_screens(kept, server)
    old_panes = {record.id: record.place.pane for record in kept}
    results: Results = {}
    size = max(_AT_ONCE, ceil(len(found) / _MOST_ROUNDS))
    for at in range(0, len(found), size):
        some = found[at : at + size]
        claims = _claims(some, server, old_panes, attempt, results, fresh=fresh)
        results |= launch(claims, server, wrap, "restarted")
        wrap = ()
        for one in claims:
            if isinstance(results[one.record.name], Seen):
                launch_files.forget(one.record, below=one.record.place.generation)
    return results


def _claims(
    found: Sequence[Seen],
    server: Tmux,
    old_panes: Mapping[str, str | None],
    attempt: int,
    results: Results,
    *,
    fresh: bool,
) -> list[Claimed]:
    """Write the files of all launches, then claim their generations."""
    drafts: dict[str, Record] = {}
    staged: list[tuple[Seen, Record]] = []
    claims: list[Claimed] = []
    try:
        for one in found:
            with noted(results, one.name):
                old = one.intact.record
                record, mode = _next(old, server, old_panes.get(old.id), attempt, fresh=fresh)
                drafts[one.name] = record
                stage(record, mode)
                staged.append((one, record))
        for one, draft in staged:
            with noted(results, one.name):
                record = replace(draft, status=claim.launched_now(draft.status))
                claims.append(Claimed(claim.claim_generation(one, record), record))
                del drafts[one.name]
    finally:
        for record in drafts.values():
            launch_files.discard(record)
    return claims


def _next(
    old: Record, server: Tmux, pane: str | None, attempt: int, *, fresh: bool
) -> tuple[Record, LaunchMode]:
    """The next generation of a session, and how it is launched."""
    snapshot = _snapshot(old, server.run)
    place = next_place(old, server, snapshot, pane)
    record = claim.next_generation(old, place, attempt)
    return claim.resumed(record, old, _variables(old, snapshot), fresh=fresh)


def _variables(record: Record, snapshot: str) -> environment.Environment:
    try:
        return environment.load(snapshot)
    except OSError as error:
        why = f"its saved environment can't be read: {error.strerror}"
        raise StateError(f"{record.name}: {why}") from None


def _snapshot(record: Record, run: str) -> str:
    """The saved environment; if a reboot took it, the caller's, when it has every -e name."""
    if os.path.exists(record.place.snapshot):
        return record.place.snapshot
    claim.lacking(record)
    path = environment.snapshot_path(record.id, run)
    environment.save(path, environment.caller())
    return path


# --- a restart that has failed -------------------------------------------------------------------


def keep_requested(before: Seen, why: str) -> None:
    """Record that a session shall run which a restart has stopped, or has begun to stop, and could
    not launch again. Not if another sesh has changed the request meanwhile."""
    entry = records.entry(before.name)
    record = entry.readable if entry else None
    if not entry or not record or record.launch != before.intact.record.launch:
        return
    status = record.status
    if status.desired is not Desired.STOPPED or status.stopper not in (None, processes.myself()):
        return
    wanted = replace(record, status=replace(status.without_stop(), outcome=None, keep=False))
    if status.outcome is not None:
        why = why.partition(_LEFT)[0]
        record_failure(entry, wanted, failed(f"not restarted: {why}"), "restarted")
        return
    sight = Observation(unknown("its restart has just failed"))
    records.swap(entry, wanted, reconcile(wanted, sight, now()))
