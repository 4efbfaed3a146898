"""Measure and remove untrusted directories: without recursion, without long paths, without
following links, and within fixed limits.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from sesh.model.value_object import Value

DEEPEST = 32  # levels to measure
MOST = 10_000  # entries to count
_ROUNDS = 100_000  # of a removal: each removes one level, or gives up
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Measure(Value):
    """The size of a directory; at least this much if not `whole`."""

    size: int  # bytes on disk
    entries: int
    whole: bool


def measure(directory: str) -> Measure:
    """Measure up to MOST entries, DEEPEST levels deep."""
    size = entries = 0
    whole = True
    open_: list[tuple[int, list[str]]] = []  # per level: the directory, and the names left in it
    try:
        _enter(open_, directory, None)
        while open_ and entries < MOST:
            fd, names = open_[-1]
            if not names:
                os.close(open_.pop()[0])
                continue
            name = names.pop()
            with suppress(OSError):  # gone, or not readable
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                entries += 1
                size += status.st_blocks * 512
                if stat.S_ISDIR(status.st_mode):
                    whole = whole and len(open_) < DEEPEST
                    if len(open_) < DEEPEST:
                        _enter(open_, name, fd)
        return Measure(size, entries, whole and not open_)
    finally:
        for fd, _ in open_:
            os.close(fd)


def _enter(open_: list[tuple[int, list[str]]], name: str, parent: int | None) -> None:
    with suppress(OSError):
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
        open_.append((fd, os.listdir(fd)))


def remove(directory: str) -> bool:
    """Delete a directory with its content; False when something could not be deleted."""
    return remove_in(None, directory)


def remove_in(parent: int | None, name: str) -> bool:
    """The same, below an open directory. The content of a subdirectory is moved up before it is
    removed, so that no name is ever more than two levels away, however deep the tree is."""
    try:
        top = os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError:  # not a directory, or not readable
        return _unlink(name, parent)
    try:
        for _ in range(_ROUNDS):
            names = os.listdir(top)
            if not names or not _remove_some(top, names):
                break
    finally:
        os.close(top)
    with suppress(OSError):
        os.rmdir(name, dir_fd=parent)
        return True
    return False


def _unlink(name: str, parent: int | None) -> bool:
    with suppress(OSError):
        os.unlink(name, dir_fd=parent)
        return True
    return False


def _remove_some(top: int, names: list[str]) -> bool:
    return sum(_remove_entry(top, entry) for entry in names) > 0


def _remove_entry(top: int, name: str) -> bool:
    """Remove an entry or, of a deep directory, one level. Returns whether there was progress."""
    if _unlink(name, top):
        return True
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=top)
    except OSError:
        return False
    try:
        done = [_unlink(entry, fd) or _move_up(fd, entry, top) for entry in os.listdir(fd)]
    finally:
        os.close(fd)
    with suppress(OSError):
        os.rmdir(name, dir_fd=top)
        return True
    return any(done)


def _move_up(fd: int, name: str, top: int) -> bool:
    """Move a directory up, to a random name."""
    with suppress(OSError):
        os.rename(name, f".{os.urandom(16).hex()}", src_dir_fd=fd, dst_dir_fd=top)
        return True
    return False
