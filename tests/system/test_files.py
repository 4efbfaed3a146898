"""Files: neither what is put in their place nor a lock that a stranger holds hangs sesh."""

from __future__ import annotations

import ast
import errno
import fcntl
import os
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sesh.model.errors import LockedError, StateError
from sesh.system import files
from tests import pace
from tests.surroundings import complains, mounted
from tests.world import FULL, World, eventually

OPENINGS = (os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
SOURCES = Path(files.__file__).parents[1]
# Where a file is opened without `files`: of /proc, of the package itself, directories, new files
# only (O_EXCL), /dev/null, what `files` has opened, and what a user names on the command line.
OPENED_ELSEWHERE = {
    *("__main__", "agents/activity", "places/docker/session_files", "places/host/tmux_server"),
    "commands/template",  # of the package, as in places/remote
    *(
        "places/environment",
        "places/remote",
        "supervision/run_pass",
        "system/bug_log",
        "system/directory_tree",
    ),
    *("system/git", "system/processes", "system/quick_read", "system/subprocesses"),
    *("terminal/completion", "terminal/exit_codes", "terminal/output", "terminal/prompt"),
}


@contextmanager
def held(path: Path) -> Iterator[int]:
    """A stranger holds the lock of this file: its pid."""
    argv = ["flock", "-x", "-o", str(path), "sh", "-c", "echo held; exec sleep 1000"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == b"held\n"
        try:
            yield stranger.pid
        finally:
            for pid in (*_children(stranger.pid), stranger.pid):
                os.kill(pid, 9)


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# --- opening -----------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", OPENINGS)
def test_only_a_regular_file_is_opened(tmp_path: Path, flags: int) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    (tmp_path / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
    for name in ("fifo", "directory", "null", "socket"):
        with pytest.raises(OSError, match=name) as caught:
            files.open_regular(str(tmp_path / name), flags)
        assert caught.value.filename == str(tmp_path / name)
    with pytest.raises(OSError, match="not a regular file"):
        files.open_regular("/dev/null", flags, follow=True)
    (tmp_path / "file").touch()
    os.close(files.open_regular(str(tmp_path / "file"), flags))


def test_a_link_is_followed_only_where_that_was_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    with files.open_binary(str(tmp_path / "link"), follow=True) as file:
        assert file.read() == b"text"
    with pytest.raises(OSError, match="link"):
        files.open_binary(str(tmp_path / "link"))


def test_only_listed_modules_open_files() -> None:
    found = {
        str(path.relative_to(SOURCES).with_suffix(""))
        for path in SOURCES.rglob("*.py")
        if any(_opens(node) for node in ast.walk(ast.parse(path.read_bytes())))
    }
    assert found == OPENED_ELSEWHERE | {"system/files"}


def _opens(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    return name in ("open", "os.open", "posix.open") or name.endswith(
        (".read_bytes", ".read_text", ".flock")
    )


# --- locks -------------------------------------------------------------------------------------


def test_a_lock_of_another_program_is_reported_with_file_and_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with held(path) as stranger:
        begin = time.monotonic()
        with (
            pytest.raises(LockedError, match=rf"{path} is locked by process {stranger};"),
            files.locked(str(path), patience=0.3),
        ):
            pass
        with files.only_one(str(path)) as mine:
            assert not mine
        for _ in range(20):  # it is not waited for each time
            with pytest.raises(LockedError), files.locked(str(path), patience=60):
                pass
        assert time.monotonic() - begin < pace.seconds(30)
    with files.locked(str(path)), files.only_one(str(path)) as mine:
        assert not mine


def test_a_line_is_appended_although_another_program_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"cut sh")
    with held(path):
        for line in (b"one\n", b"two\n"):
            files.append_line(str(path), line)
        with pytest.raises(LockedError):
            files.move_away(str(path), str(tmp_path / "older"))
    assert path.read_bytes() == b"cut sh\none\ntwo\n"


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(fd: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    why = r"lock can't be locked: .*; keep the state directory on .*: set XDG_STATE_HOME"
    with pytest.raises(StateError, match=why), files.locked(str(tmp_path / "lock")):
        pass
    with pytest.raises(StateError, match=why), files.only_one(str(tmp_path / "lock")):
        pass
    files.append_line(str(tmp_path / "lines"), b"one\n")
    assert (tmp_path / "lines").read_bytes() == b"one\n"


# --- all of it ---------------------------------------------------------------------------------


@pytest.mark.long
def test_a_fifo_in_the_place_of_any_file_hangs_no_command(world: World) -> None:
    """Whatever a command makes of it, it ends."""
    world.configure('[notify]\ncommand = "cat >/dev/null"\n')
    world.start("ended", "sh", "-c", "echo words; exit 3")
    world.start("a", "sh", "-c", "echo words; exec cat", options=("--health-cmd", "true"))
    world.ok("wait", "ended")
    world.ok("gc")
    world.ok("pass")
    (world.state / "bugs.log").touch()
    (world.state / "breakers").touch()
    (world.state / "trusted.jsonl").touch()
    for path in sorted(world.state.rglob("*"), key=str):
        if path.is_file() and path.name != "callback":
            put_fifo(world, path)
    assert world.state_of("a") == "running"


COMMANDS = (
    ("ls",),
    ("show", "a"),
    ("logs", "a"),
    ("events",),
    ("pass",),
    ("gc",),
    ("doctor",),
    ("restart", "ended"),
)
# They use the files of all sessions, and none of `a` and `ended`.
OF_ANOTHER = (
    ("start", "new", "--", "sleep", "1000"),
    ("stop", "new"),
    ("rm", "--force", "new"),
)


def put_fifo(world: World, path: Path) -> None:
    kept, fifo = path.read_bytes(), world.root / "fifo"
    of_a_session = path.name.startswith(("a-", "ended-"))
    for command in COMMANDS if of_a_session and not FULL else (*COMMANDS, *OF_ANOTHER):
        os.mkfifo(fifo, 0o600)
        fifo.replace(path)  # at once: a pass in the background may make it, too
        done = world.sesh(*command, timeout=pace.seconds(30))
        assert done.code != 70, (path, command, done)
    path.unlink(missing_ok=True)
    path.write_bytes(kept)
    path.chmod(0o600)


def test_an_event_log_locked_by_another_program_stops_nothing(world: World) -> None:
    world.start("a")
    with held(world.state / "events.jsonl"):
        for command in (("start", "b", "--", "sleep", "1000"), ("stop", "a"), ("gc",), ("pass",)):
            world.ok(*command)
    # The pass that the agent's end has called may have seen it first, and still wait for the lock.
    wanted = {("b", "started"), ("a", "stopped")}
    assert eventually(lambda: wanted <= {(one["name"], one["kind"]) for one in world.events()})


@pytest.mark.long
def test_records_locked_by_another_program(world: World) -> None:
    world.start("a")
    world.start("c")
    path = world.state / "sessions" / ".lock"
    with held(path) as stranger:
        why = f"{path} is locked by process {stranger}"
        complains(world.sesh("stop", "a", "c", "-y"), 8, why)
        complains(world.sesh("start", "b", "--", "sleep", "9"), 8, why)
        complains(world.sesh("stop", "a"), 8, why)
        world.ok("ls")
        world.ok("pass")
        assert world.sesh("gc").code in (0, 8)
    world.ok("stop", "a")


# --- disks -------------------------------------------------------------------------------------


def failing(monkeypatch: pytest.MonkeyPatch, number: int, kind: Callable[[int], bool]) -> None:
    """fsync fails for open files of this kind."""

    def fsync(fd: int) -> None:
        if kind(os.fstat(fd).st_mode):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_directory_that_can_not_be_synced_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    failing(monkeypatch, number, stat.S_ISDIR)
    files.sync_directory(str(tmp_path))


def test_the_unknown_result_of_an_io_error_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record"
    path.write_bytes(b"old")
    failing(monkeypatch, errno.EIO, stat.S_ISDIR)

    def replace() -> None:
        with files.temp_file(str(path), b"new") as temp:
            os.replace(temp, path)
            files.sync_directory(str(tmp_path))

    with pytest.raises(StateError, match=r"Input/output error; whether the change .* is unknown"):
        replace()
    assert path.read_bytes() == b"new"
    failing(monkeypatch, errno.EIO, stat.S_ISREG)
    with pytest.raises(StateError, match=r"cannot write .*record: Input/output error$"):
        files.write_private(str(path), b"newer")
    assert [path.read_bytes(), os.listdir(tmp_path)] == [b"new", ["record"]]


def test_a_reserve_is_used_on_a_full_disk_only(tmp_path: Path) -> None:
    directory = tmp_path / "small"
    with mounted(directory, "size=64k,nr_inodes=8"):
        path, reserve = directory / "record", directory / "reserve"
        path.write_bytes(b"old")
        files.keep_reserve(str(reserve))
        inode = reserve.stat().st_ino
        with files.temp_file(str(path), b"new", reserve=str(reserve)) as temp:
            os.replace(temp, path)
        assert reserve.stat().st_ino == inode
        with suppress(OSError):
            for number in range(8):
                (directory / str(number)).write_bytes(b"x" * 65536)
        with pytest.raises(StateError, match="No space left"), files.temp_file(str(path), b"newer"):
            pass
        with files.temp_file(str(path), b"newest", reserve=str(reserve)) as temp:
            os.replace(temp, path)
        assert (path.read_bytes(), path.stat().st_ino) == (b"newest", inode)
        files.keep_reserve(str(reserve))
        assert reserve.exists()
