"""Adopt an agent whose record is lost, a session that runs although its record has an end, or a
tmux session that the user started by hand."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, NoSessionError, SeshError, UsageError
from sesh.model.observation import LaunchReport, Observation, seen
from sesh.model.place import Agent, Host, Process
from sesh.model.reconcile import reconcile
from sesh.model.record import Record, Spec, Status, session_id, valid_name
from sesh.model.states import Desired
from sesh.model.text.shell_words import quote
from sesh.model.value_object import replace
from sesh.places import claims, environment, keepers, launch_files, registry
from sesh.places.host import tmux_server
from sesh.places.unclaimed import Orphan
from sesh.state import events, lookup, orphans, records
from sesh.state.judge import Seen
from sesh.state.records import Entry
from sesh.system import git, paths, processes, tmux
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Keeper, Pane, Tmux


def _now() -> datetime:
    return datetime.now(UTC)


# --- an agent whose record is lost ---------------------------------------------------------------


def rebuild(orphan: Orphan, config: Config) -> Seen:
    """Rebuild the record of a living agent that no record claims, and whatever was lost with it:
    the files of its launch, the socket of its server, its log pipe."""
    records.prepare()
    run = processes.run_dir()
    word = orphans.launch_report(orphan, run)
    if word is None:
        raise SeshError(f"{orphan.name}: its agent is gone, or cannot be identified")
    _restore_files(orphan, word, run)
    record = _by_claim(orphan, word, run) or _by_processes(orphan, word, run)
    server = registry.of(record).tmux(record, config)
    if not os.path.exists(server.socket):
        tmux_server.restore_socket(server, word.server)
    if server.server_pid() != word.server.pid:
        raise CannotTellError(
            f"{record.name} runs in tmux server {word.server.pid}, which does not answer at "
            f"{server.socket}: another server may have taken its socket"
        )
    _restore_pipe(record, server)
    launch_files.keep_claim(record, _claim(record).raw)
    return lookup.one(record.name)


def _restore_files(orphan: Orphan, word: LaunchReport, run: str) -> None:
    """Restore what the keeper and other commands look for in `run`."""
    launch_files.write_callback(run, paths.own_command())
    if launch_files.read_launch(run, orphan.id, orphan.generation) is None:
        launch_files.write_word(run, orphan.id, word)
    launch_files.reserve_exit(run, orphan.id, orphan.generation)


def _by_claim(orphan: Orphan, word: LaunchReport, run: str) -> Record | None:
    """The record from the copy that its launch kept."""
    record = claims.read(run, orphan.id, orphan.generation)
    if record is None or record.place.machine != processes.here():
        return None
    place = replace(record.place, agent=word.agent, pane=word.pane, server=word.server)
    return replace(record, place=place, status=_continued(record.status, word.at))


def _by_processes(orphan: Orphan, word: LaunchReport, run: str) -> Record:
    """A record from what its processes show: their command line and directory now."""
    pid = word.agent.process.pid
    cwd = processes.directory(pid) or "/"
    return Record(
        name=orphan.name,
        id=orphan.id,
        spec=Spec(command=_command(pid), cwd=cwd, created=word.at),
        place=Host(
            generation=word.generation,
            machine=processes.here(),
            run=run,
            snapshot=environment.snapshot_path(orphan.id, run),
            socket=_socket_of(word),
            branch=git.branch(cwd),
            pane=word.pane,
            server=word.server,
            agent=word.agent,
        ),
        status=_status(word.at, word.at),
    )


def _command(pid: int) -> tuple[str, ...]:
    """The command line of a process, as it can be run again: a login shell's name starts with a
    dash. Not by psutil, which splits a program's name at spaces."""
    argv = processes.command(pid)
    if not argv or not argv[0]:
        raise SeshError(f"process {pid}: its command line cannot be read")
    return (argv[0].removeprefix("-"), *argv[1:])


def _socket_of(word: LaunchReport) -> str:
    """The socket of its server, from the environment that tmux gave the keeper."""
    socket = keepers.socket_of(word)
    if not os.path.isabs(socket):
        raise CannotTellError(f"process {word.agent.process.pid}: which tmux it runs in is unknown")
    return socket


def _status(launched: datetime, started: datetime) -> Status:
    return Status(desired=Desired.RUNNING, launched=launched, started=started)


def _continued(status: Status, started: datetime) -> Status:
    """The status of the same launch, which continues."""
    return replace(
        _status(status.launched, started),
        lived=status.lived,
        held=status.held,
        retries=status.retries,
        retries_max=status.retries_max,
    )


def _claim(record: Record) -> Entry:
    sight = Observation(seen("adopted"), seen("adopted"))
    try:
        entry = records.claim(record, reconcile(record, sight, _now()), None)
    except ConflictError:
        raise ConflictError(
            f"a record named {record.name} exists; next: sesh show {record.name}"
        ) from None
    events.append("adopted", record, command=list(record.spec.command))
    return entry


def _restore_pipe(record: Record, server: Tmux) -> None:
    """Write its output to its transcript again."""
    if not os.path.exists(paths.transcript(record.id)):
        launch_files.make_transcript(record.id)
        assert record.place.pane is not None
        reply = server.pipe(record.place.pane)
        if not reply.ok:
            raise CannotTellError(f"{record.name}: its output is not logged: tmux: {reply.text}")


# --- a session that runs although its record has an end ------------------------------------------


def accept(found: Seen) -> Seen:
    """Record that an orphan is running: its end is recorded, or its terminal is gone for good."""
    lookup.update(found, _accepted, "adopted")
    return lookup.one(found.name)


def _accepted(found: Seen) -> Record:
    record = found.intact.record
    agent = record.place.agent
    stat = processes.look(agent.process.pid) if agent else None
    if agent is None or stat is None or stat.process != agent.process:
        raise SeshError(f"{found.name}: its agent is gone")
    place = record.place
    if stat.tty != agent.tty:
        place = replace(place, agent=replace(agent, tty=stat.tty), pane=None)
    started = record.status.started or record.status.launched
    accepted = replace(record, place=place, status=_continued(record.status, started))
    launch_files.forget_exit(accepted)
    return accepted


# --- a tmux session that the user started --------------------------------------------------------


def take_over(name: str, config: Config) -> Seen:
    """Claim a session of the user's own tmux server. It has no keeper and no marker until its first
    restart, so how it ends will be unknown."""
    if not valid_name(name):
        raise UsageError(
            f"invalid session name {name!a}; next: tmux rename-session -t {quote(name)} NEW"
        )
    records.prepare()
    machine = processes.here()
    run = processes.run_dir()
    server = tmux_server.server(_users_socket(config, run), run, config)
    made = _hand_made(name, server)
    stamp = _now()
    stat = processes.look(made.pid)
    server_stat = processes.look(made.server)
    if stat is None or server_stat is None:
        raise SeshError(f"{name}: its process is gone")
    identity = session_id(name, stamp, os.urandom(4).hex())
    cwd = processes.directory(made.pid) or "/"
    record = Record(
        name=name,
        id=identity,
        spec=Spec(command=_command(made.pid), cwd=cwd, created=stamp),
        place=Host(
            generation=1,
            machine=machine,
            run=run,
            snapshot=environment.snapshot_path(identity, run),
            socket=server.socket,
            branch=git.branch(cwd),
            pane=made.id,
            server=Process(made.server, server_stat.start),
            agent=Agent(stat.process, keeper=0, leader=0, tty=stat.tty),
        ),
        status=_status(stamp, datetime.fromtimestamp(processes.started_at(stat), UTC)),
    )
    _take(record, server, made)
    return lookup.one(name)


def _take(record: Record, server: Tmux, made: Pane) -> None:
    """Write the record, then mark the tmux session. A failure leaves neither."""
    variables = processes.environment(made.pid)
    values = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
    environment.save(record.place.snapshot, environment.clean(values))
    log = launch_files.make_transcript(record.id)
    try:
        callback = launch_files.write_callback(record.place.run, paths.own_command())
        _claim(record)
    except SeshError:
        _forget(record)
        raise
    reply = server.adopt(record.name, made, Keeper((), record.id, log, callback))
    if not reply.ok:
        entry = records.entry(record.name)
        if entry is not None:
            records.remove(entry)
        _forget(record)
        raise CannotTellError(f"{record.name}: tmux: {reply.text}")


def _forget(record: Record) -> None:
    environment.forget(record.place.snapshot)
    with suppress(FileNotFoundError):
        os.unlink(paths.transcript(record.id))


def _users_socket(config: Config, run: str) -> str:
    """The tmux server that we run in, unless it is sesh's own; else the one that the settings name,
    or the user's default server."""
    around = os.environ.get("TMUX", "").split(",")[0]
    if os.path.isabs(around) and around != f"{run}/tmux.sock":
        return around
    if config.tmux.socket:
        return tmux_server.chosen_socket(config, run)
    base = os.environ.get("TMUX_TMPDIR") or "/tmp"
    return f"{base}/tmux-{os.getuid()}/default"


def _hand_made(name: str, server: Tmux) -> Pane:
    """The session's pane, if it exists and no session of sesh has it."""
    made = server.active_pane(name)
    if isinstance(made, Reply):
        if made.trouble in (tmux.Trouble.NO_TARGET, tmux.Trouble.NO_SERVER):
            raise NoSessionError(f"no tmux session named {name} in {server.socket}; next: tmux ls")
        raise CannotTellError(f"{name}: tmux: {made.text}")
    if made.sesh_id and records.entry(name) is not None:
        raise ConflictError(f"{name} is already a session of sesh; next: sesh ls --all")
    return made
