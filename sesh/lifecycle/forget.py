"""Forget a session: its record, transcript, snapshot and per-launch files."""

from __future__ import annotations

import os
from contextlib import suppress

from sesh import environment, events, launchfiles, look, observe, paths, processes, store, tmux
from sesh.config import Config
from sesh.errors import CannotTellError, ConflictError
from sesh.lifecycle import panes
from sesh.look import Seen
from sesh.model import Damaged, Record
from sesh.tmux import Tmux


def forget(found: Seen, config: Config) -> None:
    """Delete an ended session's record and all its files."""
    record = found.entry.record
    if isinstance(record, Damaged):
        store.remove(found.entry)
        return
    with suppress(CannotTellError):  # without tmux there is no pane to put away
        server = observe.server_of(record, config, tmux.find_binary())
        panes.put_away(record, server)
        if not server.own:  # in a server of ours nothing is a person's, and marks find what is left
            server.release(record.name, record.id)
    for _ in range(5):
        if store.remove(found.entry):
            break
        found = look.again(found) or _taken(record)
    _forget_launches(record)
    for path in paths.of_transcript(record.id):
        with suppress(FileNotFoundError):
            os.unlink(path)
    with suppress(OSError):
        events.append("removed", record)


def _taken(record: Record) -> Seen:
    raise ConflictError(f"{record.name} was changed by another sesh just now; try again")


def bury(record: Record, server: Tmux) -> None:
    """Put away what an ended session left in tmux and in run/: its name is used again."""
    panes.put_away(record, server)
    _forget_launches(record)
    with suppress(OSError):
        events.append("archived", record)


def _forget_launches(record: Record) -> None:
    if record.place.machine.id == processes.here().id:
        launchfiles.remove(record.place.run, record.id)
    environment.forget(record.place.snapshot)
