"""Forget a session: its record, transcript, snapshot and per-launch files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from sesh.model.configuration import Config
from sesh.model.errors import ConflictError, SeshError
from sesh.model.record import Record
from sesh.model.text import formatting
from sesh.operations import worktrees
from sesh.places import environment, launch_files, panes, registry
from sesh.state import events, lookup, records
from sesh.state.judge import Seen
from sesh.system import git, paths, processes

Note = Callable[[str], None]  # takes a remark for the user

_NAMED = 3  # deleted files whose names are shown


def forget(
    found: Seen, config: Config, note: Note, *, discard: bool = False, in_tmux: bool = True
) -> None:
    """Delete an ended session's record and all its files. Its worktree is removed if that loses
    nothing, or with `discard`; `note` gets a remark about a worktree that stays and about ignored
    files. `in_tmux` is False when `leave_tmux` was called."""
    record = found.record
    if record is None:
        records.remove(found.entry)
        return
    registry.of(record).release(record, config)
    if in_tmux:
        leave_tmux([record], config)
    _leave_worktree(record, note, discard=discard)
    for _ in range(5):
        if records.remove(found.entry):
            break
        found = lookup.again(found)
    else:
        raise ConflictError(f"{record.name} is being changed by other processes; try again")
    _forget_launches(record)
    for path in paths.of_transcript(record.id):
        with suppress(FileNotFoundError):
            os.unlink(path)
    events.append("removed", record)


def what_goes(record: Record, *, discard: bool = False) -> str:
    """What `forget` deletes, for the confirmation."""
    gone = ["its record", "its transcript"]
    made = registry.of(record).made(record)
    if made:
        gone.append(made)
    tree = worktrees.existing(record)
    stays = (worktrees.why_not_discarded if discard else worktrees.why_it_stays)(record)
    if tree and not stays:
        gone.append(f"worktree {formatting.escape(tree.path)}")
    text = f"{', '.join(gone[:-1])} and {gone[-1]}"
    return f"{text} (worktree {formatting.escape(_tree(record))} stays: {stays})" if stays else text


def leave_tmux(sessions: Iterable[Record], config: Config) -> None:
    """Close what ended sessions of this host left in tmux, if tmux answers."""
    for server, some in registry.by_server((r for r in sessions if r.place.calls_back), config):
        panes.leave(some, server)


def check_discard(found: Seen) -> None:
    """Raise when its worktree cannot be discarded, before the session is stopped in vain."""
    if found.record and (stays := worktrees.why_not_discarded(found.record)):
        raise _kept(found.record, stays)


def _kept(record: Record, stays: str) -> SeshError:
    return SeshError(f"{record.name}: its worktree {_tree(record)} stays: {stays}; not removed")


def _tree(record: Record) -> str:
    return record.spec.worktree.path if record.spec.worktree else ""


def _leave_worktree(record: Record, note: Note, *, discard: bool = False) -> None:
    tree = worktrees.existing(record)
    ignored = git.ignored(tree.path) if tree and not discard else []
    stays = worktrees.remove(record, discard=discard)
    if stays and discard:
        raise _kept(record, stays)
    if stays:
        note(f"{record.name}: its worktree stays at {_tree(record)}: {stays}")
    elif ignored:
        files = formatting.number(len(ignored), "file")
        names = ", ".join(ignored[:_NAMED]) + (" …" if len(ignored) > _NAMED else "")
        gone = f"{files} that git ignores were removed with its worktree {_tree(record)}"
        note(f"{record.name}: {gone}: {names}")


def release(found: Seen | None, config: Config) -> None:
    """Remove what was made for an ended session, before its name is used again; or raise."""
    if found:
        registry.of(found.intact.record).release(found.intact.record, config)
        if found.intact.record.spec.kit is not None:
            from sesh.agents.usage import session

            session.keep(found)


def bury(found: Seen | None, config: Config, note: Note) -> None:
    """Remove what an ended session left in tmux and in run/, because its name is used again."""
    if found is None:
        return
    record = found.intact.record
    leave_tmux([record], config)
    _leave_worktree(record, note)
    _forget_launches(record)
    events.append("archived", record)


def _forget_launches(record: Record) -> None:
    if not record.place.has_process:
        return
    if record.place.machine.id == processes.here().id:
        registry.of(record).remove_files(record)
        launch_files.remove(record.place.private_run, record.id)
    environment.forget(record.place.snapshot)
