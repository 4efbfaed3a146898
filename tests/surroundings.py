"""Surroundings for a sesh that are not the usual ones: a terminal, another user, a small disk,
another tmux, another machine."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.machinery import PathFinder
from itertools import count
from pathlib import Path

import pytest

from sesh.model import codec
from sesh.model.observation import Verdict
from sesh.model.place import Machine
from sesh.model.record import Record
from sesh.model.states import State
from sesh.model.value_object import replace
from sesh.state import records
from sesh.system import processes
from tests import pace
from tests.world import SESH, Done, World, eventually

STRANGER = 54321  # a uid that no password database knows
_NUMBERS = count()  # a server just exiting would take a new terminal along
_EXIT = re.compile(r"\[exit (\d+)\]")


def run(
    world: World,
    *argv: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    timeout: float = 60,
) -> Done:
    """Run any program in the world, as `world.sesh` does."""
    done = subprocess.run(
        argv,
        env=world.env if env is None else dict(env),
        cwd=cwd or world.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=pace.seconds(timeout),
    )
    return Done(done.returncode, done.stdout, done.stderr)


def shell(world: World, script: str, *args: str, env: Mapping[str, str] | None = None) -> Done:
    """Run a shell script; $SESH is the command."""
    used = world.env if env is None else env
    return run(world, "sh", "-c", script, "sh", *args, env={**used, "SESH": SESH})


def complains(done: Done, code: int, *words: str) -> None:
    """One clear line on stderr, nothing on stdout, this exit code."""
    assert done.code == code, done
    assert done.out == "", done
    assert one_line(done.err), done
    for word in words:
        assert word in done.err, (word, done)


def one_line(err: str) -> bool:
    return err.startswith("sesh: ") and err.count("\n") == 1 and err.endswith("\n")


# --- a terminal --------------------------------------------------------------------------------


class Terminal:
    """A real terminal with one command in it: a pane of a tmux server of the test's own."""

    def __init__(
        self,
        world: World,
        *argv: str,
        columns: int = 100,
        rows: int = 40,
        env: Mapping[str, str] | None = None,
    ) -> None:
        socket = world.root / f"terminal-{next(_NUMBERS)}"
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        self._call(
            *("new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(world.cwd)),
            *("sh", "-c", 'trap : INT; "$@"; echo "[exit $?]"; exec sleep 1000', "sh", *argv),
            env=world.env if env is None else env,
        )

    def _call(self, *command: str, env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            [*self._tmux, *command],
            env=env,
            check=True,
            capture_output=True,
            text=True,
            timeout=100,
        )
        return done.stdout

    def screen(self, *options: str) -> str:
        return self._call("capture-pane", "-p", *options)

    def type(self, *keys: str) -> None:
        self._call("send-keys", *keys)

    def shows(self, text: str, within: float = 60) -> bool:
        return bool(eventually(lambda: text in self.screen(), within))

    def finish(self, *options: str) -> tuple[int, str]:
        """Wait for the command's end: its exit code and the screen without our own line."""
        assert eventually(lambda: _EXIT.search(self.screen()), 60), self.screen()
        text = self.screen(*options)
        found = _EXIT.search(text)
        assert found is not None
        code = int(found[1])
        pids = [int(pid) for pid in self._call("display", "-p", "#{pid} #{pane_pid}").split()]
        self._call("kill-session")
        assert eventually(lambda: not any(map(_lives, pids))), pids
        return code, text[: found.start()]


def _lives(pid: int) -> bool:
    stat = processes.look(pid)
    return stat is not None and stat.alive


def start_stubborn(world: World, name: str) -> int:
    """A session whose agent ignores TERM and HUP, and does so already; its pid."""
    up = world.cwd / f"{name}-is-up"
    script = f"trap '' TERM HUP; touch {up}; while :; do sleep 0.1; done"
    pid = world.start(name, "sh", "-c", script)["pid"]
    assert eventually(up.exists, 10)
    return int(pid)


# --- other users, disks, tmuxes ----------------------------------------------------------------


def need_root() -> None:
    if os.getuid() != 0:
        pytest.skip("needs root: another user, or a mount")


def as_stranger(*argv: str) -> list[str]:
    """The command line that runs `argv` as an ordinary user whom nobody knows."""
    who = str(STRANGER)
    program, *rest = argv
    program = strangers_sesh() if program == SESH else program
    return ["setpriv", "--reuid", who, "--regid", who, "--clear-groups", "--", program, *rest]


def copy_packages(directory: Path) -> None:
    """Copy sesh and what it imports, as they are installed here."""
    for name in ("sesh", "click", "psutil", "sh", "tomli_w"):
        found = PathFinder.find_spec(name)  # importlib.util has none of an `sh` that was imported
        assert found is not None
        assert found.origin is not None
        origin = Path(found.origin)
        if origin.name == "__init__.py":
            shutil.copytree(origin.parent, directory / name)
        else:
            shutil.copy2(origin, directory)


@cache
def strangers_sesh() -> str:
    """sesh where another user can reach it: our own or, if this checkout or its Python lies in a
    closed home, a copy for the system's Python."""
    if _reaches(SESH):
        return SESH
    directory = Path(tempfile.mkdtemp(prefix="sesh-copy-", dir="/tmp"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    copy_packages(directory)
    (directory / "bin").mkdir()
    script = directory / "bin" / "sesh"
    begin = f"import sys; sys.path.insert(0, {str(directory)!r})"
    script.write_text(f"#!/usr/bin/python3\n{begin}\nfrom sesh.__main__ import script\nscript()\n")
    subprocess.run(["chmod", "-R", "a+rX", directory], check=True)
    script.chmod(0o755)
    return str(script) if _reaches(str(script)) else SESH


def _reaches(program: str) -> bool:
    """Can the stranger run it?"""
    who = str(STRANGER)
    argv = ["setpriv", "--reuid", who, "--regid", who, "--clear-groups", "--", program, "--version"]
    return subprocess.run(argv, capture_output=True, cwd="/").returncode == 0


def give_to_stranger(world: World) -> None:
    """Make the world the stranger's own."""
    need_root()
    if run(world, *as_stranger(SESH, "--version"), cwd="/").code != 0:
        pytest.skip("another user can't reach this checkout")
    for path in (world.root, *world.root.rglob("*")):
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)


@contextmanager
def mounted(directory: Path, options: str) -> Iterator[None]:
    """A tmpfs of its own at `directory`."""
    need_root()
    directory.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(directory)], capture_output=True
    )
    if done.returncode:
        pytest.skip("may not mount here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """The directory as it is, for every new process a read-only file system."""
    need_root()
    path = str(directory)
    if subprocess.run(["mount", "--bind", path, path], capture_output=True).returncode:
        pytest.skip("may not mount here")
    try:
        remount = ["mount", "-o", "remount,bind,ro", path]
        # While another process writes there, for example a pass, the mount is busy.
        assert eventually(lambda: subprocess.run(remount, capture_output=True).returncode == 0)
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def fake_tmux(world: World, script: str) -> dict[str, str]:
    """An environment whose first tmux is this shell script."""
    directory = world.root / "fake"
    directory.mkdir(exist_ok=True)
    path = directory / "tmux"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {**world.env, "PATH": f"{directory}:{world.env['PATH']}"}


# --- records of elsewhere ----------------------------------------------------------------------


def read_record(world: World, name: str) -> Record:
    return codec.decode(world.record(name).read_bytes())


def write_record(world: World, record: Record, state: State = State.RUNNING) -> bytes:
    """Write a record just as sesh itself would, digest line and all."""
    raw = records.render(record, Verdict(state))
    world.record(record.name).write_bytes(raw)
    return raw


def move(world: World, name: str, **changes: str) -> bytes:
    """Make a record one of another machine (`id`), boot (`boot`) or pid namespace (`pidns`)."""
    record = read_record(world, name)
    there: Machine = replace(record.place.machine, **changes)
    if "boot" in changes:
        record = before_this_boot(record)
    return write_record(world, replace(record, place=replace(record.place, machine=there)))


def before_this_boot(record: Record) -> Record:
    """Launched when this machine was not up yet."""
    then = datetime.fromtimestamp(processes.booted_at() - 60, UTC)
    return replace(record, status=replace(record.status, launched=then, started=then))


def files(root: Path, *, without: Sequence[str] = ()) -> dict[str, bytes]:
    """Every regular file below `root` with its bytes: to see that nothing has changed."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.name not in without
    }


def empty_server(world: World) -> int:
    """A tmux server without any session at our socket; its pid."""
    world.start("short")
    socket = world.socket
    _silence_running(world)  # a pass that comes late would let the new server go
    world.ok("rm", "--force", "short")
    server = ("tmux", "-S", socket)
    run(world, *server, "kill-server")
    assert eventually(lambda: not world.processes())  # nor one that still calls back
    Path(socket).unlink(missing_ok=True)
    keep = ("start-server", ";", "set-option", "-s", "exit-empty", "off")
    run(world, *server, "-f", os.devnull, *keep)
    return world.server_pid()


def settle_fish(world: World) -> None:
    """In a new home, fish reads the manual pages of all commands for completions, for a while."""
    (world.root / "home/.local/share/fish/generated_completions").mkdir(parents=True, exist_ok=True)


def silence_timers(world: World) -> None:
    """No pass runs by itself from now on: what tmux and keepers call does nothing, for sessions
    that run and for those that are started later. (A pass that launches one again ends this.)"""
    caller = world.root / "silent" / "sesh"
    caller.parent.mkdir(exist_ok=True)
    caller.write_text(f'#!/bin/sh\n[ "$*" = pass ] || exec {SESH} "$@"\n')
    caller.chmod(0o755)
    world.caller = str(caller)
    _silence_running(world)


def _silence_running(world: World) -> None:
    for callback in world.state.glob("run/*/callback"):
        callback.write_text(":\n")
