"""The history: records that left the list, one file per session id."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence

from sesh.model.digest import Digest
from sesh.model.record import ID_PATTERN
from sesh.state import freshness, records
from sesh.state.records import Entry
from sesh.system import files, paths, quick_read

_AT_ONCE = 50  # records that are moved under one lock: for milliseconds
_SWEPT_AT_ONCE = 200  # each is only read and renamed


def entries(leaving_out: Collection[str] = ()) -> list[Entry]:
    """All records of the history, sorted by id."""
    return records.entries_in(paths.history_dir(), leaving_out)


def entry(session_id: str) -> Entry | None:
    """The record of one session id."""
    if not re.fullmatch(ID_PATTERN, session_id):
        return None
    records.check_owner(paths.state_dir())
    return records.read_file(f"{paths.history_dir()}/{session_id}.toml")


def archive(old: Sequence[Entry]) -> list[Entry]:
    """Move ended records to the history, except those that have changed since they were read.
    Returns those that were moved."""
    moved: list[Entry] = []
    for begin in range(0, len(old), _AT_ONCE):
        with records.lock():
            moved += [one for one in old[begin : begin + _AT_ONCE] if records.to_history(one)]
            files.sync_directory(paths.history_dir())
            files.sync_directory(paths.sessions_dir())
    return moved


def sweep(wanted: Callable[[Digest], bool]) -> list[Digest]:
    """Move ended records to the history by their digest lines alone, if `wanted` says so. Damaged
    records, and records that must be judged, stay. Returns those that were moved."""
    records.check_owner(paths.state_dir())
    moved: list[Digest] = []
    with files.writing(paths.sessions_dir()):
        here, there = (
            quick_read.directory(paths.sessions_dir()),
            quick_read.directory(paths.history_dir()),
        )
        try:
            names = freshness.names(paths.sessions_dir())
            for begin in range(0, len(names), _SWEPT_AT_ONCE):
                with records.lock():
                    some = names[begin : begin + _SWEPT_AT_ONCE]
                    moved += [one for name in some if (one := _sweep(name, wanted, here, there))]
            for directory in (there, here) if moved else ():
                files.sync_open_directory(directory)
        finally:
            os.close(here)
            os.close(there)
    return moved


def _sweep(name: str, wanted: Callable[[Digest], bool], here: int, there: int) -> Digest | None:
    """Under the lock."""
    try:
        found = freshness.digest_of(name, here)
    except OSError:
        return None
    if found is None or found.mode != "ended" or not wanted(found):
        return None
    if not re.fullmatch(ID_PATTERN, found.id):
        return None
    os.rename(f"{name}.toml", f"{found.id}.toml", src_dir_fd=here, dst_dir_fd=there)
    os.utime(f"{found.id}.toml", dir_fd=there)
    records.forget_names(found.id)
    return found
