"""Files of ours, written and read so that nothing is lost, left open to others, or hangs.

Knows nothing of what is in them. Private under any umask; a replaced file is either the old or the
new one, whatever happens. Every file is opened by `open_regular`, and every lock has a time limit:
neither a FIFO in the place of a file nor another user's lock may block a command.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sesh.model.errors import SCARCE, ConflictError, LockedError, ScarceError, StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

LOCK_TIMEOUT = 10.0
_LINE_TIMEOUT = 1.0  # for the lock of one line: it is held for microseconds
_AGAIN = 0.1  # seconds for a lock that could not be had before
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of a file system without flock
_NO_SYNC = (errno.EINVAL, errno.EOPNOTSUPP)  # of one that can't sync a directory
_FULL = (errno.ENOSPC, errno.EDQUOT)
_RESERVE = 16 << 10  # bytes, more than most records have
_stuck: set[str] = set()  # locks that could not be had in time


@contextmanager
def writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else path
        if error.errno == errno.EIO:
            raise StateError(
                f"{where}: {error.strerror}; whether the change is on disk is unknown: check the "
                "disk, then look with: sesh ls"
            ) from None
        kind = ScarceError if error.errno in SCARCE else StateError
        raise kind(f"cannot write {where}: {error.strerror}") from None


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


# --- opening and reading -------------------------------------------------------------------------


def open_regular(path: str, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Open a regular file, at once. `follow`: a link to one is as good."""
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        fd = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a FIFO that nobody reads from, or a socket
            raise _irregular(path) from None
        raise
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise _irregular(path)


def _irregular(path: str) -> OSError:
    return OSError(errno.EINVAL, "not a regular file", path)


def open_binary(path: str, *, follow: bool = False) -> BinaryIO:
    """The same, to read from."""
    return open(open_regular(path, follow=follow), "rb")


def changed(path: str) -> float | None:
    """When a file was last written to; None when it is gone or cannot be looked at."""
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return None


@contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    """`open_regular` for a block."""
    fd = open_regular(path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def unnamed(data: bytes) -> Iterator[int]:
    """A file in memory that holds these bytes, for a program to read: none on disk, and none on a
    command line."""
    fd = os.memfd_create("sesh", os.MFD_CLOEXEC)
    try:
        write_all(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def read_regular(path: str, limit: int) -> bytes:
    """The bytes of a regular file: a FIFO can't hang us, a link or a huge file can't fool us."""
    if not stat.S_ISREG(os.lstat(path).st_mode):  # merely to open a device may do something
        raise _irregular(path)
    with opened(path, os.O_RDONLY) as fd:
        size = os.fstat(fd).st_size
        if size > limit:
            raise OSError(errno.EFBIG, f"larger than {limit >> 10} KiB")
        return os.read(fd, size + 1)


# --- locks ---------------------------------------------------------------------------------------


@contextmanager
def locked(path: str, patience: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold a lock, waiting for it if need be. Never run a program or sleep inside."""
    fd = _open_lock(path, os.path.dirname(path))
    try:
        _acquire(fd, path, patience)
        yield
    finally:
        os.close(fd)


@contextmanager
def only_one(path: str, on_full_disk: str | None = None) -> Iterator[bool]:
    """True while no other process is inside the same block; False at once otherwise. A lock file
    that a full disk has no room for is replaced by the directory `on_full_disk` (its own)."""
    fd = _open_lock(path, on_full_disk or os.path.dirname(path))
    try:
        yield _try_lock(fd, path)
    finally:
        os.close(fd)


def _open_lock(path: str, on_full_disk: str) -> int:
    with writing(path):
        try:
            fd = open_regular(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            return os.open(on_full_disk, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fchmod(fd, 0o600)
    return fd


def _acquire(fd: int, path: str, patience: float) -> None:
    if not _lock_within(fd, path, patience):
        raise LockedError(f"{path} is locked by {_holder(fd)}; end it, or try again later")


def _lock_within(fd: int, path: str, patience: float) -> bool:
    """Wait for a lock. One that could not be had before is not waited for at length again: a
    command that needs it for each of many sessions would never end."""
    deadline = time.monotonic() + (min(patience, _AGAIN) if path in _stuck else patience)
    while not _try_lock(fd, path):
        if time.monotonic() > deadline:
            _stuck.add(path)
            return False
        time.sleep(0.002)
    _stuck.discard(path)
    return True


def _try_lock(fd: int, path: str) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        where = "keep the state directory on a file system with locks (flock): set XDG_STATE_HOME"
        advice = f"; {where}" if error.errno in _NO_LOCKS else ""
        raise StateError(f"{path} can't be locked: {error.strerror}{advice}") from None
    return True


def _holder(fd: int) -> str:
    """Who holds the lock of an open file, as far as the kernel shows it."""
    status = os.fstat(fd)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    with suppress(OSError), open("/proc/locks", encoding="ascii", errors="replace") as table:
        for line in table:
            words = line.split()
            if words[1:2] == ["FLOCK"] and words[5:6] == [f"{device}:{status.st_ino}"]:
                return f"process {words[4]}"
    return "another process"


# --- writing -------------------------------------------------------------------------------------


def append_line(path: str, line: bytes, unless: Callable[[], bool] | None = None) -> bool:
    """Append one whole line. The file itself is locked, not for the write (one write is atomic) but
    for the look at its end: in the middle of another's write that would see half a line. While a
    stranger holds that lock, the line is written without it: an empty line more does no harm.
    False: `unless`, asked under the lock, has said that it is not wanted."""
    with opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as fd:
        os.fchmod(fd, 0o600)
        with suppress(StateError):  # no locks here
            _lock_within(fd, path, _LINE_TIMEOUT)
        if _moved(path, fd):
            return append_line(path, line, unless)
        if unless is not None and unless():
            return False
        end = os.fstat(fd).st_size
        if end > 0 and os.pread(fd, 1, end - 1) != b"\n":  # a full disk cut the last one short
            line = b"\n" + line
        _write_at_once(fd, line, path)
        return True


def _write_at_once(fd: int, data: bytes, path: str) -> None:
    if os.write(fd, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def _moved(path: str, fd: int) -> bool:
    """Was it moved away while we waited for its lock?"""
    try:
        now = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return not os.path.samestat(now, os.fstat(fd))


def move_away(path: str, to: str) -> None:
    """Move a file that lines are appended to, not in the middle of a line."""
    with opened(path, os.O_RDWR) as fd:
        _acquire(fd, path, _LINE_TIMEOUT)
        if not _moved(path, fd):
            os.replace(path, to)


def write_private(path: str, data: bytes, *, durable: bool = True) -> None:
    """Write a file of ours atomically, 0600 under any umask."""
    with temp_file(path, data, durable=durable) as temp:
        os.replace(temp, path)


def create(path: str, data: bytes) -> None:
    """Write a new file of the user atomically, with its directories. Never overwrites a file."""
    directory = os.path.dirname(path)
    with writing(path):
        make_parents(directory)
        with temp_file(path, data) as temp:
            try:
                os.link(temp, path)
            except FileExistsError:
                raise ConflictError(f"{path} exists; edit or remove it") from None
            os.unlink(temp)
            sync_directory(directory)


def jot(path: str, data: bytes) -> None:
    """Write a small file over itself, by one write: a tenth of what a new one costs. Only for what
    may be lost: on a full disk half of it may be there."""
    with opened(path, os.O_WRONLY | os.O_CREAT) as fd:
        os.fchmod(fd, 0o600)
        _write_at_once(fd, data, path)
        os.ftruncate(fd, len(data))


@contextmanager
def temp_file(
    path: str, data: bytes, *, durable: bool = True, reserve: str | None = None
) -> Iterator[str]:
    """A finished, durable temp file beside `path`, to be moved over it inside the block. On a full
    disk the `reserve` becomes the temp file: that needs no new file, and no room."""
    directory, name = os.path.split(path)
    temp = f"{directory}/.{name}.{os.getpid()}.tmp"
    try:
        try:
            _fill(temp, data, durable=durable)
        except OSError as error:
            if error.errno not in _FULL or reserve is None or not os.path.lexists(reserve):
                raise StateError(f"cannot write {path}: {error.strerror}") from None
            with writing(path):
                os.replace(reserve, temp)
                _fill(temp, data, durable=durable)
        with writing(path):
            yield temp
    except BaseException:
        with suppress(OSError):
            os.unlink(temp)
        raise


def _fill(path: str, data: bytes, *, durable: bool) -> None:
    """Write over what is there, and cut the rest off: what a reserve has is used, not given back
    first."""
    with opened(path, os.O_WRONLY | os.O_CREAT) as fd:
        os.fchmod(fd, 0o600)
        write_all(fd, data)
        os.ftruncate(fd, len(data))
        if durable:
            os.fsync(fd)


def keep_reserve(path: str) -> None:
    """Create the reserve, with room in it, while the disk has some."""
    with suppress(OSError), opened(path, os.O_WRONLY | os.O_CREAT) as fd:
        if os.fstat(fd).st_size < _RESERVE:
            os.fchmod(fd, 0o600)  # whatever the umask
            os.posix_fallocate(fd, 0, _RESERVE)


def write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_directory(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_open_directory(fd)
    finally:
        os.close(fd)


def sync_open_directory(fd: int) -> None:
    """Some file systems cannot sync a directory: that is no error."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
