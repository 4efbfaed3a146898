"""Measure and remove untrusted directories: without recursion, without long paths, without
following links, and within fixed limits.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
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
        return _done(os.unlink, name, dir_fd=parent)
    try:
        for _ in range(_ROUNDS):
            progress = [_remove_entry(top, entry) for entry in os.listdir(top)]
            if not any(progress):
                break
    finally:
        os.close(top)
    return _done(os.rmdir, name, dir_fd=parent)


def _remove_entry(top: int, name: str) -> bool:
    """Remove an entry or, of a deep directory, one level. Returns whether there was progress."""
    if _done(os.unlink, name, dir_fd=top):
        return True
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=top)
    except OSError:
        return False
    try:
        moved = [
            _done(os.unlink, entry, dir_fd=fd)
            or _done(os.rename, entry, f".{os.urandom(16).hex()}", src_dir_fd=fd, dst_dir_fd=top)
            for entry in os.listdir(fd)
        ]
    finally:
        os.close(fd)
    return _done(os.rmdir, name, dir_fd=top) or any(moved)


def _done(change: Callable[..., None], *names: str, **where: int | None) -> bool:
    """Could this be done?"""
    try:
        change(*names, **where)
    except OSError:
        return False
    return True
