"""Launch a session, or the next generation of one. What is true is decided elsewhere.

A launch is crash-safe in this order: files, claim (the record, `starting`), tmux, confirmation. A
sesh killed in between leaves a record that the next look understands from the launch's files.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from sesh import (
    environment,
    events,
    git,
    launchfiles,
    look,
    observe,
    paths,
    processes,
    store,
    tmux,
)
from sesh.config import Config
from sesh.errors import CannotTellError, ConflictError, SeshError, StateError
from sesh.lifecycle import panes
from sesh.lifecycle.forget import bury
from sesh.look import Seen
from sesh.model import (
    ALIVE,
    Cause,
    Desired,
    Machine,
    Observation,
    Place,
    Process,
    Record,
    Session,
    Spec,
    State,
    Status,
    Verdict,
    absent,
)
from sesh.reconcile import reconcile
from sesh.store import Entry
from sesh.tmux import Keeper, Launched, Reply, Tmux, Trouble
from sesh.values import Value, replace

SOCKET_PATIENCE = 1.0


class LaunchError(SeshError):
    """The agent could not be launched; its record says so."""


class Order(Value):
    """What a person asked `start` for."""

    name: str
    spec: Spec
    environment: environment.Environment


def now() -> datetime:
    return datetime.now(UTC)


# --- start -------------------------------------------------------------------------------------


def start(order: Order, config: Config) -> Seen:
    """Start a new session and see that it runs."""
    store.prepare()
    machine = processes.here()
    run = paths.run_dir(machine.id, machine.pidns)
    socket = _socket(config, run)
    tmux.check_socket(socket)
    server = observe.server(socket, run, config, tmux.find_binary())
    wrap = _ready(server)
    before = _free_name(order.name)
    record = _new_record(order, machine, run, socket)
    try:
        environment.save(record.place.snapshot, order.environment)
        launchfiles.stage(record)
        launchfiles.make_transcript(record.id)
        entry = store.claim(record, _starting(record), before.entry if before else None)
    except BaseException:
        _forget_files(record)
        raise
    if before and before.session:
        bury(before.session.record, server)
    return _launch(entry, record, server, wrap, "started")


def _socket(config: Config, run: str) -> str:
    if not config.tmux.socket:
        return f"{run}/tmux.sock"
    if config.tmux.socket == "default":
        base = os.environ.get("TMUX_TMPDIR") or "/tmp"
        return f"{base}/tmux-{os.getuid()}/default"
    return config.tmux.socket


def _new_record(order: Order, machine: Machine, run: str, socket: str) -> Record:
    stamp = now()
    session_id = f"{order.name}-{stamp:%Y%m%d-%H%M%S}-{os.urandom(4).hex()}"
    return Record(
        name=order.name,
        id=session_id,
        spec=replace(order.spec, created=stamp),
        place=Place(
            kind="host",
            generation=1,
            machine=machine,
            run=run,
            snapshot=environment.snapshot_path(session_id, run),
            socket=socket,
            branch=git.branch(order.spec.cwd),
        ),
        status=Status(desired=Desired.RUNNING, launched=stamp),
    )


def _starting(record: Record) -> Verdict:
    return reconcile(record, Observation(absent("not launched yet")), record.status.launched)


def _free_name(name: str) -> Seen | None:
    """The ended session whose name may be used again, or None; raises when it is not free."""
    entry = store.entry(name)
    if entry is None:
        return None
    found = look.judge([entry])[0]
    if found.damaged:
        raise StateError(
            f"{name}: its record is damaged ({found.damaged.reason}); see sesh show {name}"
        )
    state = found.state
    if state is State.UNKNOWN:
        raise CannotTellError(f"{name} exists and can't be asked: {_reason(found)}")
    if state is State.STALE:
        raise ConflictError(
            f"{name} is stale ({_reason(found)}); sesh restart {name} or sesh stop {name}"
        )
    if state is State.ORPHAN:
        raise ConflictError(f"{name} is an orphan ({_reason(found)}); sesh stop {name} ends it")
    if state in ALIVE:
        raise ConflictError(
            f"{name} is {state} already; sesh attach {name}, or choose another name"
        )
    return found


def _reason(found: Seen) -> str:
    return (found.session.verdict.reason if found.session else None) or found.state


def _forget_files(record: Record) -> None:
    with suppress(OSError):
        launchfiles.remove(record.place.run, record.id)
        environment.forget(record.place.snapshot)
        os.unlink(paths.transcript(record.id))


# --- the server --------------------------------------------------------------------------------


def _ready(server: Tmux) -> tuple[str, ...]:
    """Make sure that a launch will reach the one right server; returns how to start it if cold."""
    if os.path.exists(server.socket):
        return ()
    tmux.check_version(server.binary, server.timeout)
    records = [e.record for e in store.entries() if isinstance(e.record, Record)]
    hidden = observe.hidden_server(server.socket, records)
    if hidden is not None:
        restore_socket(server, hidden)
        return ()
    server.write_config()
    return tmux.scope_prefix() if server.own else ()


def restore_socket(server: Tmux, process: Process) -> None:
    """The socket was swept away under a living server: SIGUSR1 makes the server restore it."""
    import signal

    stat = processes.look(process.pid)
    if (
        stat is None
        or not stat.comm.startswith("tmux")
        or not processes.send(process, signal.SIGUSR1)
    ):
        raise CannotTellError(f"the tmux socket {server.socket} is gone and can't be restored")
    deadline = time.monotonic() + SOCKET_PATIENCE
    while time.monotonic() < deadline:
        if os.path.exists(server.socket) and server.answers():
            return
        time.sleep(0.02)
    raise CannotTellError(
        f"tmux server {process.pid} lives, but its socket {server.socket} is gone"
    )


# --- launch ------------------------------------------------------------------------------------


def _launch(entry: Entry, record: Record, server: Tmux, wrap: tuple[str, ...], event: str) -> Seen:
    """Run the claimed generation and record how that went."""
    launchfiles.commit(record)
    keeper = _keeper(record, server)
    reply = _into_tmux(record, server, keeper, wrap)
    if isinstance(reply, Reply):
        raise _launch_refused(entry, record, reply, event)
    return _confirm(entry, record, server, reply.pane, event)


def _keeper(record: Record, server: Tmux) -> Keeper:
    callback = launchfiles.write_callback(record.place.run, paths.own_command())
    stem = launchfiles.base(record)
    script = paths.package_file("keeper.sh")
    return Keeper(
        argv=("/bin/sh", script, stem, record.id, record.name, server.binary, callback),
        session_id=record.id,
        log=paths.transcript(record.id),
        callback=callback,
    )


def _into_tmux(
    record: Record, server: Tmux, keeper: Keeper, wrap: tuple[str, ...]
) -> Launched | Reply:
    if record.place.pane is not None:
        reply = _respawn(record, server, keeper)
        gone = (Trouble.NO_TARGET, Trouble.NO_SERVER, Trouble.EXITING)
        if isinstance(reply, Launched) or reply.trouble not in gone:
            return reply
        server.write_config()  # the pane, or the server with it, has gone just now: a new one
    reply = server.new_session(record.name, keeper, record.spec.cwd, _terminal_size(), wrap)
    if isinstance(reply, Reply) and reply.trouble is Trouble.DUPLICATE:
        return _beside(record, server, keeper) or reply
    again = isinstance(reply, Reply) and (
        reply.trouble is Trouble.EXITING or (wrap and reply.trouble is Trouble.OTHER)
    )
    if not again:
        return reply
    time.sleep(0.05)  # a server just exiting, or a systemd that does not answer: once more, plainly
    server.write_config()
    return server.new_session(record.name, keeper, record.spec.cwd, _terminal_size())


def _beside(record: Record, server: Tmux, keeper: Keeper) -> Launched | Reply | None:
    """A window of its own in the tmux session that stands because a person opened another one
    there; None when that session is not of a sesh session of this name."""
    listed = server.panes()
    ours = [p for p in listed if p.name == record.name] if isinstance(listed, list) else []
    if not ours or any(p.sesh_id.rsplit("-", 3)[0] != record.name for p in ours):
        return None
    return server.new_window(record.name, keeper)


def _respawn(record: Record, server: Tmux, keeper: Keeper) -> Launched | Reply:
    """The next generation in the old pane. tmux may be late to notice that the old keeper has
    ended: then it is told by force, for which the keeper must be proven gone."""
    assert record.place.pane is not None
    reply = server.respawn(record.place.pane, keeper, force=False)
    late = isinstance(reply, Reply) and reply.trouble is Trouble.ACTIVE
    if late and panes.keeper_gone(record.place.pane, server):
        return server.respawn(record.place.pane, keeper, force=True)
    return reply


def _terminal_size() -> tuple[int, int]:
    for fd in (0, 1, 2):
        with suppress(OSError):
            size = os.get_terminal_size(fd)
            if size.columns and size.lines:
                return (size.columns, size.lines)
    return tmux.DEFAULT_SIZE


def _launch_refused(entry: Entry, record: Record, reply: Reply, event: str) -> SeshError:
    """tmux did not launch it. A definite no becomes `failed`; no answer stays `starting`, and the
    next look finds out what came of it."""
    if reply.trouble is Trouble.DUPLICATE and record.place.generation == 1:
        store.remove(entry)
        _forget_files(record)
        return _foreign(record.name)
    if reply.trouble is Trouble.OTHER:
        return CannotTellError(
            f"{record.name}: tmux: {reply.text}; sesh show {record.name} looks again"
        )
    why = f"tmux: {reply.text}"
    _record_failure(entry, record, why, event)
    if reply.trouble is Trouble.DUPLICATE:
        return _foreign(record.name)
    return LaunchError(f"{record.name} could not be launched: {why}")


def _foreign(name: str) -> ConflictError:
    return ConflictError(f"a tmux session named {name} exists that sesh did not start")


def _record_failure(entry: Entry, record: Record, why: str, event: str) -> None:
    status = replace(
        record.status, outcome=State.FAILED, cause=Cause.LAUNCH, reason=why, ended=now()
    )
    failed = replace(record, status=status)
    verdict = reconcile(failed, Observation(absent("never launched")), now())
    store.swap(entry, failed, verdict)
    _note(event.removesuffix("ed") + "-failed", record, reason=why)


def _confirm(entry: Entry, record: Record, server: Tmux, pane: str, event: str) -> Seen:
    """Wait until the agent has said who it is and has become its command, or has ended."""
    deadline = record.status.launched + timedelta(seconds=record.spec.launch_timeout)
    script = launchfiles.base(record) + ".launch"
    pause = 0.001
    word = exit_word = None
    while now() < deadline:
        word = launchfiles.read_launch(record.place.run, record.id, record.place.generation)
        exit_word = launchfiles.read_exit(record.place.run, record.id, record.place.generation)
        if exit_word or (word and processes.became(word.agent.process.pid, script)):
            break
        time.sleep(pause)
        pause = min(pause * 1.2, 0.02)
    if word is None and exit_word is None:
        server.kill_pane(pane)
    return _judge_launch(entry, record, event)


def _judge_launch(entry: Entry, record: Record, event: str) -> Seen:
    """Write down what is known of the agent by now, and what happened."""
    moment = now()
    sight = observe.by_files(record)
    verdict = reconcile(record, sight, moment)
    learned = look.learn(record, sight, verdict, moment)
    written = store.swap(entry, learned, verdict)
    if verdict.cause is Cause.LAUNCH:
        _note(event.removesuffix("ed") + "-failed", record, reason=verdict.reason)
        raise LaunchError(f"{record.name} could not be launched: {verdict.reason}")
    _note(event, record, command=list(record.spec.command))
    if written is None:  # another sesh has looked in between, and has written down what it saw
        return look.one(record.name)
    if learned.status.outcome is not None:
        with suppress(OSError):
            look.note_end(learned)
    return Seen(written, Session(learned, sight, verdict))


def _note(kind: str, record: Record, **details: object) -> None:
    """An event that can't be written takes nothing from what has been done."""
    with suppress(OSError):
        events.append(kind, record, **details)


# --- restart -----------------------------------------------------------------------------------


def restart(found: Seen, config: Config) -> Seen:
    """The next generation of an ended session: same name, same tmux session where it stands."""
    store.prepare()
    assert found.session is not None
    old = found.session.record
    machine = processes.here()
    run = paths.run_dir(machine.id, machine.pidns)
    same_boot = old.place.machine == machine
    socket = old.place.socket if same_boot else _socket(config, run)
    tmux.check_socket(socket)
    server = observe.server(socket, run, config, tmux.find_binary())
    wrap = _ready(server)
    pane = old.place.pane if same_boot and _pane_stands(old, server) else None
    record = _next_generation(old, machine, run, socket, pane)
    if pane:
        panes.save_screen(old, server)
    try:
        launchfiles.stage(record)
        launchfiles.make_transcript(record.id)
        entry = _claim_generation(found, record)
    except BaseException:
        launchfiles.discard(record)
        raise
    done = _launch(entry, record, server, wrap, "restarted")
    launchfiles.remove(run, record.id, below=record.place.generation)
    return done


def _next_generation(
    old: Record, machine: Machine, run: str, socket: str, pane: str | None
) -> Record:
    place = Place(
        kind=old.place.kind,
        generation=old.place.generation + 1,
        machine=machine,
        run=run,
        snapshot=_snapshot_for_restart(old, run),
        socket=socket,
        branch=git.branch(old.spec.cwd),
        pane=pane,
    )
    status = Status(desired=Desired.RUNNING, launched=now(), retries_max=old.status.retries_max)
    return replace(old, place=place, status=status)


def _claim_generation(found: Seen, record: Record) -> Entry:
    """Write the next generation over the ended one, unless another sesh has done so."""
    seen: Seen | None = found
    for _ in range(5):
        entry = store.swap(seen.entry, record, _starting(record)) if seen else None
        if entry is not None:
            return entry
        seen = look.again(found)
        if seen is None:
            break
    raise ConflictError(f"{record.name} was changed by another sesh just now; try again")


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
    lacking = [name for name in record.spec.env if name not in os.environ]
    if lacking:
        raise SeshError(
            f"{record.name}: its saved environment is gone and {', '.join(lacking)} "
            f"(given with -e) is not set here; export it and restart again"
        )
    path = environment.snapshot_path(record.id, run)
    environment.save(path, environment.caller())
    return path
