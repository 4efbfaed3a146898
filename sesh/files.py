"""Files of ours, written and read so that nothing is lost, left open to others, or hangs.

Knows nothing of what is in them. Private under any umask; regular files only; a replaced file is
either the old or the new one, whatever happens.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sesh.errors import ConflictError, StateError

LOCK_TIMEOUT = 10.0


@contextmanager
def writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else path
        raise StateError(f"cannot write {where}: {error.strerror}") from None


# --- directories ---------------------------------------------------------------------------------


def make_private(directory: str) -> None:
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return
    os.chmod(directory, 0o700)


def make_parents(directory: str) -> None:
    """Like makedirs, but usable under any umask."""
    if not os.path.isdir(directory):
        make_parents(os.path.dirname(directory))
        make_private(directory)


# --- reading -------------------------------------------------------------------------------------


def read_regular(path: str, limit: int) -> bytes:
    """The bytes of a regular file: a FIFO can't hang us, a link or a huge file can't fool us."""
    if not stat.S_ISREG(os.lstat(path).st_mode):  # merely to open a device may do something
        raise OSError(errno.EINVAL, "not a regular file")
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if status.st_size > limit:
            raise OSError(errno.EFBIG, f"larger than {limit >> 10} KiB")
        return os.read(fd, status.st_size + 1)
    finally:
        os.close(fd)


# --- locks ---------------------------------------------------------------------------------------


@contextmanager
def locked(path: str, patience: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold a lock, waiting for it if need be. Never run a program or sleep inside."""
    fd = _open_lock(path)
    try:
        _acquire(fd, patience)
        yield
    finally:
        os.close(fd)


@contextmanager
def only_one(path: str) -> Iterator[bool]:
    """True while no other process is inside the same block; False at once otherwise."""
    fd = _open_lock(path)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def _open_lock(path: str) -> int:
    with writing(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.fchmod(fd, 0o600)
    return fd


def _acquire(fd: int, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ConflictError(
                    f"the records are locked by another sesh for over {patience:g} s"
                ) from None
            time.sleep(0.002)


# --- writing -------------------------------------------------------------------------------------


def append_line(path: str, line: bytes) -> None:
    """Append one whole line. The file itself is locked, not for the write (one write is atomic) but
    for the look at its end: in the middle of another's write that would see half a line."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(fd, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        if _moved(path, fd):
            return append_line(path, line)
        end = os.fstat(fd).st_size
        if end > 0 and os.pread(fd, 1, end - 1) != b"\n":  # a full disk cut the last one short
            line = b"\n" + line
        if os.write(fd, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    finally:
        os.close(fd)


def _moved(path: str, fd: int) -> bool:
    """Was it moved away while we waited for its lock?"""
    try:
        now = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return not os.path.samestat(now, os.fstat(fd))


def move_away(path: str, to: str) -> None:
    """Move a file that lines are appended to, not in the middle of a line."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if not _moved(path, fd):
            os.replace(path, to)
    finally:
        os.close(fd)


def write_private(path: str, data: bytes, *, durable: bool = True) -> None:
    """Write a file of ours atomically, 0600 under any umask."""
    with temp_file(path, data, durable=durable) as temp:
        os.replace(temp, path)


def jot(path: str, data: bytes) -> None:
    """Write a small file over itself, by one write: a tenth of what a new one costs. Only for what
    may be lost: on a full disk half of it may be there."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(fd, 0o600)
        if os.write(fd, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


@contextmanager
def temp_file(path: str, data: bytes, *, durable: bool = True) -> Iterator[str]:
    """A finished, durable temp file beside `path`, to be moved over it inside the block."""
    directory, name = os.path.split(path)
    temp = f"{directory}/.{name}.{os.getpid()}.tmp"
    with writing(path):
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(temp, flags, 0o600)
            try:
                os.fchmod(fd, 0o600)
                write_all(fd, data)
                if durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
            yield temp
        except BaseException:
            with suppress(OSError):
                os.unlink(temp)
            raise


def write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_directory(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
