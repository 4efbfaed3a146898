"""Directories that others may fill: measured and removed without recursion, without a path that
could grow too long, and without following a link. Nothing here takes longer than its bounds allow.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from sesh.model.value_object import Value

DEEPEST = 32  # levels that are measured
MOST = 10_000  # entries that are counted
_ROUNDS = 100_000  # of a removal: each takes away one level, or gives up
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Measure(Value):
    """How much is in a directory; not `whole`: at least that much."""

    size: int  # bytes on disk
    entries: int
    whole: bool


def measure(directory: str) -> Measure:
    """Up to MOST entries, DEEPEST levels down."""
    size = entries = 0
    whole = True
    open_: list[tuple[int, list[str]]] = []  # of each level: the directory, what is left of it
    try:
        _enter(open_, directory, None)
        while open_ and entries < MOST:
            fd, names = open_[-1]
            if not names:
                os.close(open_.pop()[0])
                continue
            name = names.pop()
            with suppress(OSError):  # gone, or not to be entered
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
    """Delete a directory and all that is in it; False when something in it could not be deleted."""
    return remove_in(None, directory)


def remove_in(parent: int | None, name: str) -> bool:
    """The same, below an open directory. What is in a subdirectory is moved up before that goes: so
    no name is ever more than two levels away, however deep somebody has made it."""
    try:
        top = os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError:  # no directory, or a closed one
        return _unlinked(name, parent)
    try:
        for _ in range(_ROUNDS):
            names = os.listdir(top)
            if not names or not _any_taken(top, names):
                break
    finally:
        os.close(top)
    with suppress(OSError):
        os.rmdir(name, dir_fd=parent)
        return True
    return False


def _unlinked(name: str, parent: int | None) -> bool:
    with suppress(OSError):
        os.unlink(name, dir_fd=parent)
        return True
    return False


def _any_taken(top: int, names: list[str]) -> bool:
    return sum(_taken(top, one) for one in names) > 0


def _taken(top: int, name: str) -> bool:
    """Take away one entry; of a directory that has others below it, one level. Was there any
    progress?"""
    if _unlinked(name, top):
        return True
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=top)
    except OSError:
        return False
    try:
        done = [_unlinked(one, fd) or _lifted(fd, one, top) for one in os.listdir(fd)]
    finally:
        os.close(fd)
    with suppress(OSError):
        os.rmdir(name, dir_fd=top)
        return True
    return any(done)


def _lifted(fd: int, name: str, top: int) -> bool:
    """Move a directory up, to a name that nobody can have taken."""
    with suppress(OSError):
        os.rename(name, f".{os.urandom(16).hex()}", src_dir_fd=fd, dst_dir_fd=top)
        return True
    return False
