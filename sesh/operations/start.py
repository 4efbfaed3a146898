"""Start a session, or the next generation of one. What is true is decided elsewhere.

Crash-safe in this order: files, claim (the record, `starting`), tmux, confirmation. A sesh killed
in between leaves a record that the next look understands from the launch's files.
"""

from __future__ import annotations

import os

from sesh.model.configuration import Config, patient
from sesh.model.errors import CannotTellError
from sesh.model.observation import Observation, unknown
from sesh.model.place import Host, Machine, Process
from sesh.model.reconcile import reconcile
from sesh.model.record import Record
from sesh.model.states import Desired
from sesh.model.value_object import replace
from sesh.operations import worktrees
from sesh.operations.forget import bury, release
from sesh.operations.launch import claim, start_elsewhere
from sesh.operations.launch.claim import Order
from sesh.operations.launch.launch import failed, forget_files, launch, now, record_failure
from sesh.places import environment, launch_files, panes, registry
from sesh.places.host import tmux_server
from sesh.places.host.observe import hidden_server
from sesh.state import orphans, records
from sesh.state.judge import Seen
from sesh.system import git, processes, tmux
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Tmux, Trouble

# --- start -------------------------------------------------------------------------------------


def start(order: Order, config: Config) -> Seen:
    """Start a new session and see that it runs."""
    elsewhere = registry.requested(order.spec)
    if elsewhere is not None:
        return start_elsewhere.start(order, elsewhere, config)
    config = patient(config)
    records.prepare()
    machine = processes.here()
    run = processes.run_dir()
    socket = tmux_server.chosen_socket(config, run)
    tmux.check_socket(socket)
    server = tmux_server.server(socket, run, config)
    wrap = tmux_server.ready(server, _hidden_server)
    before = claim.free_name(order.name)
    release(before, config)
    record = claim.with_conversation(_new_record(order, machine, run, socket))
    try:
        environment.save(record.place.snapshot, order.environment)
        _stage(record, resuming=False)
        entry = claim.claim_name(record, claim.starting(record), before)
    except BaseException:
        forget_files(record)
        raise
    if before and before.session:
        bury(before.session.record, config, order.tell)
    return launch(entry, record, server, wrap, "started")


def _hidden_server(socket: str) -> Process | None:
    """The living server whose socket is gone, by a record or by the keepers in it."""
    sessions = [e.record for e in records.entries() if isinstance(e.record, Record)]
    known = hidden_server(socket, sessions)
    return known or orphans.hidden_server(socket, processes.run_dir())


def _stage(record: Record, *, resuming: bool) -> None:
    """The files of the launch, with what the agent needs, if it is one that sesh knows."""
    command = record.spec.command
    launch_files.make_transcript(record.id)
    if record.spec.kit:
        from sesh.agents import launch_kit

        base = launch_files.base(record)
        variables = environment.load(record.place.snapshot)
        launch_kit.stage(record, variables, base, resuming=resuming)
        command = launch_kit.command(record, base, launch_kit.own_hook(record), resuming=resuming)
    launch_files.stage(record, command, tmux_server.scope(record))


def _new_record(order: Order, machine: Machine, run: str, socket: str) -> Record:
    identity = claim.new_id(order.name)
    place = Host(
        generation=1,
        machine=machine,
        run=run,
        snapshot=environment.snapshot_path(identity, run),
        socket=socket,
        branch=git.branch(order.spec.cwd),
        since=processes.now(),
    )
    return claim.new_record(order, identity, place)


# --- restart -----------------------------------------------------------------------------------


def check(record: Record, *, fresh: bool) -> None:
    """Raise when it could not be launched again: before it is stopped for nothing."""
    records.check_room()
    worktrees.check(record)
    snapshot = record.place.snapshot
    if not os.path.exists(snapshot):
        claim.lacking(record)
    claim.resumed(record, record, environment.known(snapshot), fresh=fresh)


def restart(found: Seen, config: Config, attempt: int = 0, *, fresh: bool = False) -> Seen:
    """The next generation of an ended session: same name, same tmux session where it stands, same
    conversation unless a `fresh` one is wanted. `attempt` is the number of the retry, 0 when a
    person wants it."""
    assert found.session is not None
    worktrees.check(found.session.record)
    if not found.session.record.place.calls_back:
        return start_elsewhere.restart(found, config, attempt, fresh=fresh)
    config = patient(config)
    records.prepare()
    old = found.session.record
    machine = processes.here()
    run = processes.run_dir()
    same_boot = old.place.machine == machine
    socket = old.place.socket if same_boot else tmux_server.chosen_socket(config, run)
    tmux.check_socket(socket)
    server = tmux_server.server(socket, run, config)
    wrap = tmux_server.ready(server, _hidden_server)
    pane = old.place.pane if same_boot and _pane_stands(old, server) else None
    if pane:
        panes.save_screens([old], server)
    record = _next_generation(old, machine, run, socket, pane, attempt)
    variables = environment.load(record.place.snapshot)
    record, resuming = claim.resumed(record, old, variables, fresh=fresh)
    try:
        _stage(record, resuming=resuming)
        entry = claim.claim_generation(found, record)
    except BaseException:
        launch_files.discard(record)
        raise
    done = launch(entry, record, server, wrap, "restarted")
    launch_files.forget(record, below=record.place.generation)
    return done


def still_wanted(before: Seen, why: str) -> None:
    """A restart has stopped a session, or has begun to, and could not launch it again: the wish
    that it runs outlives that. Unless another sesh has done something with it meanwhile."""
    assert before.session is not None
    entry = records.entry(before.name)
    record = entry.record if entry else None
    if not entry or not isinstance(record, Record) or record.launch != before.session.record.launch:
        return
    status = record.status
    if status.desired is not Desired.STOPPED or status.stopper not in (None, processes.myself()):
        return
    wanted = replace(
        record,
        status=replace(
            status,
            desired=Desired.RUNNING,
            outcome=None,
            stop_asked=None,
            stop_grace=None,
            stopper=None,
            stop_tries=0,
            stop_reason=None,
            stop_cause=None,
            keep=False,
        ),
    )
    if status.outcome is not None:
        record_failure(entry, wanted, failed(f"not restarted: {why}"), "restarted")
        return
    sight = Observation(unknown("its restart has failed just now"))
    records.swap(entry, wanted, reconcile(wanted, sight, now()))


def _next_generation(
    old: Record, machine: Machine, run: str, socket: str, pane: str | None, attempt: int
) -> Record:
    place = Host(
        generation=old.place.generation + 1,
        machine=machine,
        run=run,
        snapshot=_snapshot_for_restart(old, run),
        socket=socket,
        branch=git.branch(old.spec.cwd),
        pane=pane,
        since=old.place.since if old.place.machine == machine else processes.now(),
    )
    return claim.next_generation(old, place, attempt)


def _pane_stands(record: Record, server: Tmux) -> bool:
    """Is its old pane still there? No answer is no reason to make a second session."""
    answer = server.panes()
    if isinstance(answer, Reply) and answer.trouble is not Trouble.NO_SERVER:
        raise CannotTellError(f"{record.name}: tmux: {answer.text}; not restarted")
    return panes.find(record, answer) is not None


def _snapshot_for_restart(record: Record, run: str) -> str:
    """The saved environment; if a reboot took it, the caller's, when it has every -e name."""
    if os.path.exists(record.place.snapshot):
        return record.place.snapshot
    claim.lacking(record)
    path = environment.snapshot_path(record.id, run)
    environment.save(path, environment.caller())
    return path
