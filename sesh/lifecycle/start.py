"""Start a session, or the next generation of one. What is true is decided elsewhere.

Crash-safe in this order: files, claim (the record, `starting`), tmux, confirmation. A sesh killed
in between leaves a record that the next look understands from the launch's files.
"""

from __future__ import annotations

import os

from sesh import (
    environment,
    git,
    launchfiles,
    look,
    observe,
    processes,
    store,
    tmux,
)
from sesh.config import Config
from sesh.errors import CannotTellError, ConflictError, SeshError, StateError
from sesh.lifecycle import panes, servers
from sesh.lifecycle.forget import bury
from sesh.lifecycle.launch import forget_files, launch, now
from sesh.look import Seen
from sesh.model import (
    ALIVE,
    Desired,
    Machine,
    Observation,
    Place,
    Record,
    Spec,
    State,
    Status,
    Verdict,
    absent,
    session_id,
)
from sesh.reconcile import reconcile
from sesh.store import Entry
from sesh.tmux import Reply, Tmux, Trouble
from sesh.values import Value, replace


class Order(Value):
    """What a person asked `start` for."""

    name: str
    spec: Spec
    environment: environment.Environment


# --- start -------------------------------------------------------------------------------------


def start(order: Order, config: Config) -> Seen:
    """Start a new session and see that it runs."""
    store.prepare()
    machine = processes.here()
    run = processes.run_dir()
    socket = servers.socket(config, run)
    tmux.check_socket(socket)
    server = observe.server(socket, run, config, tmux.find_binary())
    wrap = servers.ready(server)
    before = _free_name(order.name)
    record = _new_record(order, machine, run, socket)
    try:
        environment.save(record.place.snapshot, order.environment)
        launchfiles.stage(record)
        launchfiles.make_transcript(record.id)
        entry = store.claim(record, _starting(record), before.entry if before else None)
    except BaseException:
        forget_files(record)
        raise
    if before and before.session:
        bury(before.session.record, server)
    return launch(entry, record, server, wrap, "started")


def _new_record(order: Order, machine: Machine, run: str, socket: str) -> Record:
    stamp = now()
    identity = session_id(order.name, stamp, os.urandom(4).hex())
    return Record(
        name=order.name,
        id=identity,
        spec=replace(order.spec, created=stamp),
        place=Place(
            kind="host",
            generation=1,
            machine=machine,
            run=run,
            snapshot=environment.snapshot_path(identity, run),
            socket=socket,
            branch=git.branch(order.spec.cwd),
        ),
        status=Status(desired=Desired.RUNNING, launched=stamp),
    )


def _free_name(name: str) -> Seen | None:
    """The ended session whose name may be used again, or None; raises when it is not free."""
    entry = store.entry(name)
    if entry is None:
        if look.orphans_named(name):
            raise ConflictError(f"{name} lives, but {look.LOST.format(name)}")
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


def _starting(record: Record) -> Verdict:
    return reconcile(record, Observation(absent("not launched yet")), record.status.launched)


# --- restart -----------------------------------------------------------------------------------


def restart(found: Seen, config: Config) -> Seen:
    """The next generation of an ended session: same name, same tmux session where it stands."""
    store.prepare()
    assert found.session is not None
    old = found.session.record
    machine = processes.here()
    run = processes.run_dir()
    same_boot = old.place.machine == machine
    socket = old.place.socket if same_boot else servers.socket(config, run)
    tmux.check_socket(socket)
    server = observe.server(socket, run, config, tmux.find_binary())
    wrap = servers.ready(server)
    pane = old.place.pane if same_boot and _pane_stands(old, server) else None
    if pane:
        panes.save_screen(old, server)
    record = _next_generation(old, machine, run, socket, pane)
    try:
        launchfiles.stage(record)
        launchfiles.make_transcript(record.id)
        entry = _claim_generation(found, record)
    except BaseException:
        launchfiles.discard(record)
        raise
    done = launch(entry, record, server, wrap, "restarted")
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
