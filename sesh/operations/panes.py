"""An ended session's pane: its last screen is kept, then it is closed, but only if it is dead."""

from __future__ import annotations

import time
from contextlib import suppress
from shlex import join

from sesh.model.errors import StateError
from sesh.model.record import Record, name_of
from sesh.system import files, paths, processes
from sesh.system.tmux import Pane, Reply, Tmux

PATIENCE = 1.0
_KEEPERS = ("/sesh/places/keeper.sh", "/sesh/keeper.sh")  # the latter: of sessions from 0.1.0


def find(record: Record, panes: list[Pane] | Reply) -> Pane | None:
    """The recorded pane, if it still stands and still belongs to this session: ids of panes are
    each server's own, and another server may have taken the socket."""
    if isinstance(panes, Reply):
        return None
    own = (pane for pane in panes if pane.id == record.place.pane and pane.sesh_id == record.id)
    server = record.place.server
    return next((pane for pane in own if server is None or pane.server == server.pid), None)


def save_screen(record: Record, server: Tmux) -> None:
    """Keep screen and scrollback: closing or respawning a pane loses what was on the screen."""
    if record.place.pane is None:
        return
    captured = server.capture(record.place.pane)
    if captured.ok:
        with suppress(StateError):  # a full disk: its transcript has it, too
            files.write_private(paths.screen(record.id), captured.out.encode(), durable=False)


def put_away(record: Record, server: Tmux) -> None:
    """Keep the last screen, then close its pane, and others of its name that a killed start or rm
    has left, if they are dead."""
    if record.place.machine != processes.here():
        return
    if find(record, server.panes()):
        save_screen(record, server)
    close_dead(record.name, server)


def leave(record: Record, server: Tmux) -> None:
    """The same, and take our marks off what stands on: it is nobody's again. (In a server of ours
    nothing is a person's, and marks find what is left.)"""
    put_away(record, server)
    if not server.own:
        server.release(record.name, record.id)


def of_name(name: str, server: Tmux) -> list[Pane]:
    """All panes of the tmux session of that name."""
    listed = server.panes()
    return [pane for pane in listed if pane.name == name] if isinstance(listed, list) else []


def close_dead(name: str, server: Tmux) -> None:
    """Close the dead panes of ended sessions of that name. tmux may be late to notice a death, and
    the keeper has a call to make before it ends: they get a moment."""
    deadline = time.monotonic() + PATIENCE
    while True:
        ours = [p for p in of_name(name, server) if name_of(p.sesh_id) == name]
        for pane in ours:
            if pane.dead:
                server.close_dead(pane.id)
            elif not server.prefix and _gone(pane.pid):
                server.close_of(pane.id, pane.pid)
        leaving = [p for p in ours if not p.dead and not server.prefix and is_keeper(p.pid)]
        if not leaving or time.monotonic() > deadline:
            return
        time.sleep(0.02)


def is_keeper(pid: int) -> bool:
    """Is it a keeper (of an agent that has ended), not a shell in a window that a person opened?"""
    return any(word.endswith(_KEEPERS) for word in processes.command(pid)[1:2])


def _gone(pid: int) -> bool:
    stat = processes.look(pid)
    return stat is None or not stat.alive


def tell_attached(record: Record, server: Tmux, watched: set[str]) -> None:
    """Whoever is attached to a session that has ended gets its menu, or a line, instead."""
    if record.name in watched:
        then = join([*paths.own_command(), "attach", "--ended", record.name])
        server.detach_all(record.name, then)


def keeper_gone(pane_id: str, server: Tmux) -> bool:
    """Is the process of a pane that tmux still calls active proven to be gone? (Pids of a container
    prove nothing here.)"""
    if server.prefix:
        return False
    panes = server.panes()
    found = [pane for pane in panes if pane.id == pane_id] if isinstance(panes, list) else []
    return bool(found) and _gone(found[0].pid)
