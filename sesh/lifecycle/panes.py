"""An ended session's pane: its last screen is kept, then it is closed, but only if it is dead."""

from __future__ import annotations

from shlex import join

from sesh import files, paths, processes
from sesh.model import Record
from sesh.tmux import Pane, Reply, Tmux


def find(record: Record, panes: list[Pane] | Reply) -> Pane | None:
    """The recorded pane, if it still stands and still belongs to this session."""
    if isinstance(panes, Reply):
        return None
    own = (pane for pane in panes if pane.id == record.place.pane and pane.sesh_id == record.id)
    return next(own, None)


def save_screen(record: Record, server: Tmux) -> None:
    """Keep screen and scrollback: closing or respawning a pane loses what was on the screen."""
    if record.place.pane is None:
        return
    captured = server.capture(record.place.pane)
    if captured.ok:
        files.write_private(paths.screen(record.id), captured.out.encode(), durable=False)


def put_away(record: Record, server: Tmux) -> None:
    """Keep the last screen, then close the pane if it is dead."""
    if record.place.pane is None or record.place.machine != processes.here():
        return
    if find(record, server.panes()):
        save_screen(record, server)
        server.close_dead(record.place.pane)


def tell_attached(record: Record, server: Tmux, watched: set[str]) -> None:
    """Whoever is attached to a session that has ended gets its menu, or a line, instead."""
    if record.name in watched:
        then = join([*paths.own_command(), "attach", "--ended", record.name])
        server.detach_all(record.name, then)


def keeper_gone(pane_id: str, server: Tmux) -> bool:
    """Is the process of a pane that tmux still calls active proven to be gone?"""
    panes = server.panes()
    found = [pane for pane in panes if pane.id == pane_id] if isinstance(panes, list) else []
    if not found:
        return False
    stat = processes.look(found[0].pid)
    return stat is None or not stat.alive
