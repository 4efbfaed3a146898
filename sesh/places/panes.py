"""An ended session's pane: its last screen is kept, then it is closed, but only if it is dead."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from sesh.model.errors import StateError
from sesh.model.record import Record, name_of
from sesh.model.text.shell_words import join
from sesh.system import files, paths, processes
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Pane, Tmux

PATIENCE = 1.0
CALL_PATIENCE = 5.0  # seconds; without a server, the call is a whole pass
_KEEPERS = ("/sesh/places/keeper.sh", "/sesh/keeper.sh")  # the latter: of sessions from 0.1.0


def find(record: Record, panes: list[Pane] | Reply) -> Pane | None:
    """The recorded pane, if it still exists and belongs to this session: each server has its own
    pane ids, and another server may have taken the socket."""
    if isinstance(panes, Reply):
        return None
    own = (pane for pane in panes if pane.id == record.place.pane and pane.sesh_id == record.id)
    server = record.place.server
    return next((pane for pane in own if server is None or pane.server == server.pid), None)


def save_screens(sessions: Iterable[Record], server: Tmux) -> None:
    """Save screen and scrollback: closing or respawning a pane loses what was on the screen."""
    ids = {record.place.pane: record.id for record in sessions if record.place.pane}
    for pane, text in server.capture_all([*ids]).items():
        with suppress(StateError):  # a full disk: its transcript has it, too
            files.write_private(paths.screen(ids[pane]), text.encode(), durable=False)


def put_away(sessions: Iterable[Record], server: Tmux) -> None:
    """Save the last screens of sessions of one server, then close their panes, and others of their
    names that a killed start or rm has left, if they are dead."""
    here = [record for record in sessions if record.place.machine == processes.here()]
    if not here:
        return
    listed = server.panes()
    save_screens([record for record in here if find(record, listed)], server)
    close_dead({record.name: record.id for record in here}, server)


def leave(sessions: Collection[Record], server: Tmux) -> None:
    """The same, and remove our marks from what still exists there. (Not in a server of ours, where
    nothing belongs to a person, and marks find what is left.)"""
    put_away(sessions, server)
    if not server.own:
        server.release({record.name: record.id for record in sessions})


def by_name(names: Collection[str], server: Tmux) -> dict[str, list[Pane]]:
    """All panes of the tmux sessions of these names."""
    every = server.known_panes()
    return {name: [pane for pane in every if pane.name == name] for name in names}


def close_dead(ids: Mapping[str, str], server: Tmux) -> None:
    """Close the dead panes of ended sessions with these names, of these ids or others that began
    under the name. tmux may notice a death late, and a
    keeper makes a call before it ends: they get a moment."""
    deadline = time.monotonic() + PATIENCE
    while True:
        named = [pane for pane in server.known_panes() if pane.name in ids]
        ours = [pane for pane in named if is_of(pane, pane.name, ids[pane.name])]
        living = [] if server.prefix else [p for p in ours if not p.dead]
        ended = [(p.id, p.pid) for p in living if gone(p.pid)]
        server.close_all([p.id for p in ours if p.dead], ended)
        leaving = [p.pid for p in living if is_keeper(p.pid)]
        await_gone(leaving, deadline - time.monotonic())
        if not leaving or time.monotonic() > deadline:
            return


def is_of(pane: Pane, name: str, session_id: str) -> bool:
    """Is it of this session, or of an earlier one that began under the name?"""
    return pane.sesh_id == session_id or name_of(pane.sesh_id) == name


def is_keeper(pid: int) -> bool:
    """Is it a keeper (of an agent that has ended), not a shell in a window that a person opened?"""
    return any(word.endswith(_KEEPERS) for word in processes.command(pid)[1:2])


def gone(pid: int) -> bool:
    stat = processes.look(pid)
    return stat is None or not stat.alive


def tell_attached(names: Iterable[str], server: Tmux, watched: set[str]) -> None:
    """Clients that are attached to an ended session get its menu, or a line, instead."""
    own = [*paths.own_command(), "attach", "--ended"]
    then = {name: join([*own, name]) for name in names if name in watched}
    if then:
        server.detach_each(then)


def keepers_gone(ids: Collection[str], server: Tmux) -> set[str]:
    """Those of the panes that tmux still calls active whose process is proven to be gone. A keeper
    makes a call before it ends: it gets a moment. (Pids of a container prove nothing here.)"""
    found = [p for p in ([] if server.prefix else server.known_panes()) if p.id in ids]
    await_gone([pane.pid for pane in found if is_keeper(pane.pid)], CALL_PATIENCE)
    return {pane.id for pane in found if gone(pane.pid)}


def await_gone(pids: Sequence[int], patience: float) -> None:
    """Wait until processes are gone, but no longer than `patience` seconds."""
    deadline = time.monotonic() + patience
    while any(not gone(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
