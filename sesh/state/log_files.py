"""Transcripts as files: limited in size while they are written, with notes of their growth.

`cat` appends to a transcript all the time. To cut off its beginning would lose the output of that
moment and move every offset; so the old part is returned to the disk as a hole. Nothing is lost,
and the offsets of readers stay right. Readers begin after the hole.

`ID.times` has a line "SECONDS OFFSET" for each time at which a pass looked.
"""

from __future__ import annotations

import errno
import os
import time
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress

from sesh.model.errors import StateError
from sesh.model.text import parse
from sesh.system import files, paths

_BLOCK = 1 << 16  # holes are made of whole blocks of any file system
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # of fallocate(2)
_TIMES_LIMIT = 1 << 16
_FOLLOWED = 2.0  # seconds within which readers that follow a transcript have read new output
_EXACT = 60.0  # seconds between two looks, within which the time of output counts as known
_BURST = 8  # times the limit that a transcript may have while it grows fast


def begin(path: str) -> int:
    """The offset of the first byte that is kept."""
    fd = files.open_regular(path)
    try:
        return _begin(fd)
    finally:
        os.close(fd)


def _begin(fd: int) -> int:
    try:
        return os.lseek(fd, 0, os.SEEK_DATA)
    except OSError:
        return 0  # an empty file, or a file system without holes


def kept(path: str) -> int:
    """The number of bytes that are kept."""
    return os.stat(path).st_size - begin(path)


def size(session_id: str) -> int:
    """The number of bytes that a session has printed so far."""
    try:
        return os.stat(paths.transcript(session_id)).st_size
    except OSError:
        return 0


def last_output(session_id: str) -> float | None:
    """When a session printed something; None: never, or its transcript is gone. (In a container its
    time can be set to anything.)"""
    try:
        status = os.stat(paths.transcript(session_id))
    except OSError:
        return None
    return parse.moment(status.st_mtime, time.time()) if status.st_size else None


def tend(limit: int) -> None:
    """Note the size of each transcript, and trim those that are too large."""
    entries: dict[str, os.DirEntry[str]] = {}
    with suppress(FileNotFoundError), os.scandir(paths.transcripts_dir()) as found:
        entries = {entry.name: entry for entry in found}
    for name, entry in entries.items():
        if name.endswith(".log") and entry.is_file(follow_symlinks=False):
            with suppress(FileNotFoundError):
                _tend(entry, entries.get(name.removesuffix("log") + "times"), limit)


def _tend(log: os.DirEntry[str], times: os.DirEntry[str] | None, limit: int) -> None:
    status = log.stat(follow_symlinks=False)
    if times is None or times.stat(follow_symlinks=False).st_mtime < status.st_mtime:
        mark(log.name.removesuffix(".log"))
    if status.st_size > limit:
        old, _ = offset_at(log.name.removesuffix(".log"), time.time() - _FOLLOWED)
        trim(log.path, limit, max(old, status.st_size - _BURST * limit))


def trim(path: str, limit: int, before: int | None = None) -> None:
    """Keep the last three quarters of `limit`, once there is more than `limit`; and all bytes after
    `before`, which readers may not have read yet."""
    fd = files.open_regular(path, os.O_RDWR)
    try:
        was, start = os.fstat(fd), _begin(fd)
        end = was.st_size - limit * 3 // 4
        end = (end if before is None else min(end, before)) // _BLOCK * _BLOCK
        if was.st_size - start > limit and end > start:
            size = was.st_size
            if not _punch(fd, path, end):
                _cut(fd, end)
                size -= end
            _restore_time(fd, was, size)
    finally:
        os.close(fd)


def _restore_time(fd: int, was: os.stat_result, size: int) -> None:
    """Trimming is no output: the transcript is as old as before, unless something was appended."""
    if _still(fd, size):
        os.utime(fd, ns=(was.st_atime_ns, was.st_mtime_ns))
        if not _still(fd, size):
            os.utime(fd)


def _still(fd: int, size: int) -> bool:
    return os.fstat(fd).st_size == size


def _punch(fd: int, path: str, end: int) -> bool:
    """Give the bytes before `end` back to the disk; False where the file system can't."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "fallocate"):
        return False
    offset, length = ctypes.c_int64(0), ctypes.c_int64(end)
    if libc.fallocate(fd, _PUNCH_HOLE | _KEEP_SIZE, offset, length) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EOPNOTSUPP, errno.ENOSYS):
        return False
    raise OSError(number, os.strerror(number), path)


def _cut(fd: int, end: int) -> None:
    """Move the rest to the front. Output that is appended in this moment is lost."""
    target = 0
    while chunk := os.pread(fd, _BLOCK, end + target):
        os.pwrite(fd, chunk, target)
        target += len(chunk)
    os.ftruncate(fd, target)


# --- when ----------------------------------------------------------------------------------------


def mark(session_id: str) -> None:
    """Remember how far the transcript is now, if it has grown since the last time. A moment that
    can't be written down (a full disk) only makes `offset_at` less exact. The note of a transcript
    that was removed meanwhile is removed again: its files go in the order of `of_transcript`."""
    log, times = paths.transcript(session_id), paths.times(session_id)
    with suppress(OSError, StateError):
        status = os.stat(log)
        if (files.changed(times) or 0.0) < status.st_mtime:
            files.append_line(times, b"%d %d\n" % (time.time(), status.st_size))
            if os.stat(times).st_size > _TIMES_LIMIT:
                files.write_private(times, _newer_half(times), durable=False)
            if not os.path.exists(log):
                os.unlink(times)


def _newer_half(path: str) -> bytes:
    raw = files.read_regular(path, _TIMES_LIMIT * 2)
    return raw[raw.index(b"\n", len(raw) // 2) + 1 :]


def offset_at(session_id: str, moment: float) -> tuple[int, float]:
    """How far the transcript was at that moment or, as far as known, shortly before; and when that
    was (0: at its beginning)."""
    return [(0, 0.0), *(mark for mark in _marks(session_id) if mark[1] <= moment)][-1]


def time_of(session_id: str, created: float) -> Callable[[int], float | None]:
    """Tells when the byte before an offset of the transcript was printed, by the end of the time
    between two looks; None where more than a minute lies between them."""
    status = os.stat(paths.transcript(session_id))
    marks = [(offset, at) for offset, at in _marks(session_id) if offset < status.st_size]
    marks = [(0, created), *marks, (status.st_size, status.st_mtime)]
    offsets = [offset for offset, _ in marks]

    def printed(end: int) -> float | None:
        after = min(bisect_left(offsets, end), len(marks) - 1)
        before, at = marks[max(0, after - 1)][1], marks[after][1]
        exact = end == status.st_size or at - before <= _EXACT
        return at if exact else None

    return printed


def _marks(session_id: str) -> list[tuple[int, float]]:
    """How far the transcript was at which times, as it was noted."""
    found = []
    with suppress(OSError):
        for line in files.read_regular(paths.times(session_id), _TIMES_LIMIT * 2).splitlines():
            at, _, offset = line.partition(b" ")
            if at.isdigit() and offset.isdigit():
                found.append((int(offset), float(at)))
    return found
