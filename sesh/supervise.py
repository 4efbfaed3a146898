"""The pass: look at everything, write down what was learned, do what is due.

Level-triggered: the keeper's call back, the wake-up timer and cron only make it run sooner. Two at
once are harmless; a second one leaves word and goes.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress

from sesh import files, look, observe, paths, processes, store, tmux
from sesh.config import Config
from sesh.errors import CannotTellError
from sesh.lifecycle.stop import stop
from sesh.look import Seen
from sesh.model import ALIVE, NAME_PATTERN, Record, Session, State

_NAMED = re.compile(NAME_PATTERN + r"-\d{8}-\d{6}-[0-9a-f]{8}\.")
LEFTOVER_GRACE = 60.0  # seconds before a launch's files without a record count as left over


def run_pass(config: Config) -> list[Seen]:
    """One pass, unless another is at work: then that one runs once more."""
    if not store.exists():
        return []
    machine = processes.here()
    run = paths.run_dir(machine.id, machine.pidns)
    files.make_private(run)
    again = f"{run}/pass.again"
    files.write_private(again, b"", durable=False)
    found: list[Seen] = []
    while os.path.exists(again):
        with files.only_one(f"{run}/pass.lock") as mine:
            if not mine:
                return []
            with suppress(FileNotFoundError):
                os.unlink(again)
            found = _work(config, run)
    return found


def _work(config: Config, run: str) -> list[Seen]:
    found = look.everything()
    stopping = [one for one in found if one.state is State.STOPPING]
    if stopping:
        stop(stopping, config, config.stop.grace)
        found = look.everything()
    _sweep(found, run)
    with suppress(CannotTellError):
        _tend_servers([one.session for one in found if one.session], config)
    return found


def _sweep(found: Sequence[Seen], run: str) -> None:
    """Remove what a killed start or rm has left: launch files and saved environments of ids that no
    record names, whose agent is gone, and that are old."""
    kept = {one.entry.record.id for one in found if isinstance(one.entry.record, Record)}
    kept |= {orphan.id for orphan in look.orphans(found)}
    damaged = {one.name for one in found if one.damaged}
    for path in _launch_leavings(run):
        session_id = os.path.basename(path).partition(".")[0]
        if session_id in kept or session_id.rsplit("-", 3)[0] in damaged:
            continue
        with suppress(FileNotFoundError):
            if time.time() - os.stat(path).st_mtime > LEFTOVER_GRACE:
                os.unlink(path)


def _launch_leavings(run: str) -> list[str]:
    """The files that are named after a session, here and where environments are saved."""
    found = []
    for directory in {run, paths.runtime_dir() or run}:
        with suppress(FileNotFoundError):
            found += [f"{directory}/{name}" for name in os.listdir(directory) if _NAMED.match(name)]
    return found


def _tend_servers(sessions: Sequence[Session], config: Config) -> None:
    """Set the next wake-up; let a server go that has nothing left to do."""
    here = [s for s in sessions if s.record.place.machine == processes.here()]
    by_socket = {s.record.place.socket: s.record for s in here}
    for socket, record in by_socket.items():
        server = observe.server_of(record, config, tmux.find_binary())
        mine = [s.verdict for s in here if s.record.place.socket == socket]
        times = [v.valid_until.timestamp() for v in mine if v.valid_until]
        times += [time.time() + 30 for v in mine if v.state is State.STOPPING]
        if times:
            server.wake_at(min(times))
        busy = ALIVE | {State.ORPHAN, State.UNKNOWN}
        if server.own and not any(v.state in busy for v in mine):
            server.may_exit()
