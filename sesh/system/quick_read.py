"""Reads small files in the fewest calls, for the fast lanes and for /proc: no buffers, no checks.

Fast lanes import this module, so it imports only `posix`, which is part of the interpreter.
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_CHUNK = 1 << 12  # a large buffer costs more than the read itself
_LINE = 1 << 10  # longer than a line of /proc/PID/stat
_MOST = 1 << 20  # no record is larger: a larger file is cut here, so its checksum fails
_READING = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC


def directory(path: str) -> int:
    """Open a directory to read many of its files: its path is resolved once."""
    return posix.open(path, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)


def read(path: str, directory: int | None = None) -> bytes:
    """A whole file, up to the size limit of a record."""
    fd = posix.open(path, _READING, dir_fd=directory)
    try:
        data = posix.read(fd, _CHUNK)
        while len(data) % _CHUNK == 0 and len(data) <= _MOST and (more := posix.read(fd, _CHUNK)):
            data += more
        return data
    finally:
        posix.close(fd)


def first(path: str) -> bytes:
    """The beginning of a small file, in the fewest calls."""
    fd = posix.open(path, _READING)
    try:
        return posix.read(fd, _LINE)
    finally:
        posix.close(fd)


def of_processes(
    pids: Iterable[int],
    name: str,
    words: Collection[bytes] = (b"",),
    passing: type[OSError] | tuple[type[OSError], ...] = OSError,
) -> dict[int, bytes]:
    """A file that /proc has of each process, for all in one call. Only files that contain one of
    `words`. A process whose file cannot be read, for a reason in `passing`, is left out."""
    found = {}
    for pid in pids:
        try:
            data = read(f"/proc/{pid}/{name}")
        except passing:
            continue
        for word in words:
            if word in data:
                found[pid] = data
                break
    return found


def exists(path: str) -> bool:
    """Is there a file, or a symbolic link, also a broken one?"""
    try:
        posix.lstat(path)
    except OSError:
        return False
    return True


def frozen(path: str) -> bool:
    """Does this file of a control group say that the group is frozen?"""
    try:
        said = read(path)
    except OSError:
        return False
    return b"FROZEN" in said or b"frozen 1" in said


def machine_id() -> str:
    """Identifies this machine among others with the same home; the host name in a container without
    a machine id."""
    try:
        found = read("/etc/machine-id").split(b"\n", 1)[0].strip().decode("ascii", "replace")
    except OSError:
        found = ""
    return found or f"host-{posix.uname().nodename}"
