"""Schedulers for tests: a real cron with a spool of its own. A real systemd: tests/systemd."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import TOOLS
from tests.conftest import need
from tests.surroundings import run
from tests.world import SESH, World, eventually

_SPOOL = "/var/spool/cron/crontabs"
_NONE = "no crontab for"
_LOCK = f"{tempfile.gettempdir()}/sesh-tests-crontab-{os.getuid()}.lock"
_INSTALL = """
import sys
from sesh.supervision.timer import schedules, timers
sys.argv[0], scheduler, *command = sys.argv[1:]
timers.install(60, schedules.Scheduler(scheduler), timers.job(command))
"""


def put_first(world: World, name: str, script: str) -> None:
    """Make this shell script the first program of its name in the world's PATH."""
    directory = world.root / "bin"
    if not directory.exists():
        directory.mkdir()
        world.env["PATH"] = f"{directory}:{world.env['PATH']}"
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


def install(world: World, scheduler: str, command: Sequence[str]) -> None:
    """What `sesh timer install` does, every minute and with another command than gc."""
    done = run(world, sys.executable, "-P", "-c", _INSTALL, SESH, scheduler, *command)
    assert (done.code, done.err) == (0, "")


# --- cron --------------------------------------------------------------------------------------


class Cron:
    """The real crontab(1), which in this world has a spool of its own."""

    def __init__(self, world: World, program: str) -> None:
        self._world = world
        self._program = program

    def list(self) -> bytes:
        """The crontab; none is empty."""
        done = subprocess.run([self._program, "-l"], env=self._world.env, capture_output=True)
        assert done.returncode == 0 or b"no crontab for" in done.stderr, done
        return done.stdout

    def set(self, crontab: bytes) -> None:
        argv = [self._program, "-"]
        subprocess.run(argv, env=self._world.env, input=crontab, check=True, timeout=100)

    def remove(self) -> None:
        subprocess.run([self._program, "-r"], env=self._world.env, capture_output=True, timeout=100)

    @property
    def exists(self) -> bool:
        """Is there a crontab at all, and be it an empty one?"""
        return run(self._world, self._program, "-l").code == 0


@pytest.fixture
def cron(world: World) -> Iterator[Cron]:
    """In a mount namespace of its own where that is allowed. Elsewhere the user's own crontab, one
    test at a time, and only if there is none: nothing of a person's can be lost."""
    if not (TOOLS / "cron").exists():
        need("crontab")
    if _private(world):
        yield Cron(world, str(world.root / "bin" / "crontab"))
        return
    need("crontab")
    real = Cron(world, "crontab")
    with open(_LOCK, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if real.exists:
            pytest.skip("there is a crontab, and this machine allows no private one")
        try:
            yield real
        finally:
            real.remove()


def _private(world: World) -> bool:
    """Give the world a crontab(1) with a spool of its own; False where that is not allowed."""
    (world.root / "spool").mkdir(mode=0o700)
    program = shutil.which("crontab", path=f"{world.env['PATH']}:{TOOLS}/cron/usr/bin")
    inner = f'{_mount_spool(world)} && exec {program} "$@"'
    script = f"exec unshare {_namespace()} sh -c '{inner}' sh \"$@\""
    done = run(world, "sh", "-c", script, "sh", "-l")
    if _NONE not in done.err:
        return False
    put_first(world, "crontab", script)
    return True


def _mount_spool(world: World) -> str:
    """Where Debian's cron looks, though its package may not be installed."""
    mounts = f"mount -t tmpfs none /var/spool && mkdir -p {_SPOOL}"
    return f"{mounts} && mount --bind {world.root}/spool {_SPOOL}"


def _namespace() -> str:
    return "-m" if os.getuid() == 0 else "-rm"


@contextmanager
def daemon(world: World) -> Iterator[None]:
    """The real cron(8), which sees the world's spool and nothing else that it could run."""
    path = f"{world.env['PATH']}:/usr/sbin:/sbin:{TOOLS}/cron/usr/sbin"
    program = shutil.which("cron", path=path)
    if program is None or os.getuid() != 0 or not (world.root / "bin" / "crontab").exists():
        pytest.skip("needs Debian's cron, root, and a mount namespace")
    (world.root / "nothing").mkdir()
    script = f"""
        {_mount_spool(world)} &&
        {{ [ ! -e /etc/cron.d ] || mount --bind {world.root}/nothing /etc/cron.d; }} &&
        {{ [ ! -e /etc/crontab ] || mount --bind /dev/null /etc/crontab; }} &&
        mount -t tmpfs none /run && exec {program} -f"""
    with subprocess.Popen(["unshare", "-m", "sh", "-c", script], env=world.env) as process:
        try:
            assert eventually(lambda: _comm(process.pid) == "cron", 10), process.poll()
            yield
        finally:
            process.kill()


def _comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


# --- systemd -----------------------------------------------------------------------------------


def no_manager(world: World, script: str = "echo 'Failed to connect to bus' >&2; exit 1") -> None:
    """A machine whose systemd does not answer, or not as it should."""
    put_first(world, "systemctl", script)
