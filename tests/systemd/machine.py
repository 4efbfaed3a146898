"""A machine of the tests' own: a real systemd with logind and user managers in namespaces, over a
Debian root that `tests/setup.sh` has made. It boots in a second, can be killed and booted again as
another boot, and leaves nothing behind. It needs root, and shares nothing with the
systemd that may run here.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from shlex import join
from typing import Any

from tests.surroundings import copy_packages
from tests.world import Done, eventually

CHECKOUT = Path(__file__).parents[2]
ROOT = CHECKOUT / ".roots" / "systemd"
UNITS = ".config/systemd/user"
_BOOT = Path(__file__).with_name("boot.sh")
_NAMESPACES = ("--mount", "--pid", "--uts", "--ipc", "--net", "--propagation", "private")
# What a logout kills by default differs from system to system; here it kills all it can.
_LOGIND = "[Login]\nKillUserProcesses=yes\nUserStopDelaySec=1\n"
_PATIENCE = 60.0  # seconds


class MachineError(Exception):
    """It did not boot, or can't be had here."""


def lacking() -> str:
    """Why no machine can be had here; empty when nothing is missing."""
    if os.getuid() != 0:
        return "only root can boot a machine in namespaces"
    if not ROOT.is_dir():
        return "no root to boot from: SESH_TEST_REQUIRE=systemd tests/setup.sh test makes one"
    return "" if _cgroups() else "no cgroup2 is mounted"


def _cgroups() -> Path | None:
    """Where the cgroups of version 2 are, on machines that have both as well."""
    found = re.search(r"^\S+ (\S+) cgroup2 ", Path("/proc/self/mounts").read_text(), re.M)
    return Path(found[1]) if found else None


def install(root: Path, changes: Path) -> None:
    """sesh and what it imports, as `pip install` would put them into the virtual environment of a
    root: what is to be laid over it."""
    (target,) = (root / "opt" / "sesh" / "lib").glob("python3*/site-packages")
    packages = changes / target.relative_to(root)
    packages.mkdir(parents=True)
    copy_packages(packages)
    lines = (CHECKOUT / "sesh" / "bin" / "sesh").read_text().partition("\n")[2]
    script = changes / "opt" / "sesh" / "bin" / "sesh"
    script.parent.mkdir()
    script.write_text(f"#!/opt/sesh/bin/python3\n{lines}")
    script.chmod(0o755)
    link = changes / "usr" / "local" / "bin" / "sesh"
    link.parent.mkdir(parents=True)
    link.symlink_to("/opt/sesh/bin/sesh")


class Machine:
    """One machine, from its first boot until `end` has removed every trace of it."""

    def __init__(self) -> None:
        cgroups = _cgroups()
        assert cgroups is not None
        self._directory = Path(tempfile.mkdtemp(prefix="sesh-machine-", dir="/tmp"))
        self._cgroup = cgroups / self._directory.name
        self._booted: subprocess.Popen[bytes] | None = None
        self._init = 0  # its PID 1, as this machine numbers it
        self._users = count(2000)
        for name in ("changes", "work", "root"):
            (self._directory / name).mkdir()
        atexit.register(self.end)
        install(ROOT, self._directory / "changes")
        self.write("/etc/systemd/logind.conf.d/tests.conf", _LOGIND)

    # --- its life ---

    def boot(self) -> None:
        """Boot it, as another boot than the last one, and wait until it runs."""
        self._cgroup.mkdir(exist_ok=True)
        with (self._directory / "console").open("ab") as console:
            self._booted = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL"),  # not even a killed test run leaves it
                    *("unshare", *_NAMESPACES, "--fork", "--kill-child"),
                    *(str(_BOOT), str(self._directory), str(ROOT), str(self._cgroup)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )
        if not eventually(self._is_up, _PATIENCE):
            said = (self._directory / "console").read_text(errors="replace")[-2000:]
            raise MachineError(f"it does not boot: {said}")

    def _is_up(self) -> bool:
        assert self._booted is not None
        if self._booted.poll() is not None:
            said = (self._directory / "console").read_text(errors="replace")[-2000:]
            raise MachineError(f"its boot failed: {said}")
        children = Path(f"/proc/{self._booted.pid}/task/{self._booted.pid}/children").read_text()
        self._init = int(children.split()[0]) if children else 0
        # It is booted when PID 1 is systemd and says so; degraded machines run, too.
        return bool(self._init) and self.run("systemctl", "is-system-running").out in (
            "running\n",
            "degraded\n",
        )

    def crash(self) -> None:
        """Cut its power: PID 1 is killed, and all its processes and /run go with it."""
        if self._booted is None:
            return
        self._booted.kill()  # unshare takes PID 1 along
        self._booted.wait()
        self._booted = None
        assert eventually(self._remove_cgroups, _PATIENCE), f"{self._cgroup} has processes"

    def _remove_cgroups(self) -> bool:
        """True when all are gone, which none is while a process is in it."""
        for directory, _, _ in os.walk(self._cgroup, topdown=False):
            try:
                os.rmdir(directory)
            except OSError:
                return False
        return True

    def end(self) -> None:
        atexit.unregister(self.end)
        self.crash()
        shutil.rmtree(self._directory)

    # --- in it ---

    def _path(self, path: str) -> Path:
        """Where a file of it is kept while it is not booted."""
        return Path(f"{self._directory}/changes{path}")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file before the boot."""
        file = self._path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def command(self, *argv: str) -> list[str]:
        """What runs a command in it, as root and in no login."""
        # Its own cgroups are the only ones that its systemd may move a process out of.
        enter = 'echo $$ >"$0"; exec "$@"'
        leaf = f"{self._cgroup}/init.scope/cgroup.procs"
        env = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "TERM=xterm")
        return ["sh", "-c", enter, leaf, "nsenter", "-t", str(self._init), "-a", *env, *argv]

    def run(self, *argv: str, stdin: str = "") -> Done:
        done = subprocess.run(
            self.command(*argv), input=stdin, capture_output=True, text=True, timeout=_PATIENCE
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def ok(self, *argv: str, stdin: str = "") -> str:
        done = self.run(*argv, stdin=stdin)
        assert done.code == 0, (argv, done)
        return done.out

    def boot_id(self) -> str:
        return self.ok("cat", "/proc/sys/kernel/random/boot_id").strip()

    @contextmanager
    def sparing(self) -> Iterator[None]:
        """With a logind that kills nothing at a logout, which is Debian's default."""
        file = "/run/systemd/logind.conf.d/z.conf"
        self.ok("install", "-D", "/dev/stdin", file, stdin="[Login]\nKillUserProcesses=no\n")
        self.ok("systemctl", "restart", "systemd-logind")
        try:
            yield
        finally:
            self.run("rm", file)
            self.run("systemctl", "restart", "systemd-logind")

    def user(self, *, linger: bool = True) -> User:
        """An account of its own for a test."""
        uid = next(self._users)
        name = f"u{uid}"
        self.ok("useradd", "--create-home", "--uid", str(uid), "--shell", "/bin/sh", name)
        user = User(self, name, uid)
        if linger:
            user.linger()
        return user


class User:
    """A user of a machine. Every command is a login of its own, which ends with it."""

    def __init__(self, machine: Machine, name: str, uid: int) -> None:
        self.machine = machine
        self.name = name
        self.uid = uid
        self.home = f"/home/{name}"

    def linger(self, enabled: bool = True) -> None:
        """Have the user manager live without a login."""
        verb = "enable-linger" if enabled else "disable-linger"
        self.machine.ok("loginctl", verb, self.name)
        if enabled:
            assert eventually(self.has_manager, _PATIENCE)

    def has_manager(self) -> bool:
        unit = f"user@{self.uid}.service"
        return self.machine.run("systemctl", "is-active", unit).out == "active\n"

    def _login(self, script: str) -> list[str]:
        return self.machine.command("runuser", "--login", self.name, "--command", script)

    def run(self, *argv: str, stdin: str = "") -> Done:
        """Log in, run a command, log out; returns when the machine has seen the logout."""
        others = self.sessions()
        done = subprocess.run(
            self._login(join(argv)), input=stdin, capture_output=True, text=True, timeout=_PATIENCE
        )
        assert eventually(lambda: self.sessions() == others, _PATIENCE), self.sessions()
        return Done(done.returncode, done.stdout, done.stderr)

    def ok(self, *argv: str, stdin: str = "") -> Done:
        done = self.run(*argv, stdin=stdin)
        assert done.code == 0, f"{join(argv)[:200]}: exit {done.code}\n{done.out}{done.err}"
        return done

    def sesh(self, *args: str) -> Done:
        return self.run("sesh", *args)

    def sessions(self) -> list[str]:
        """Its logins, without those that are over and have left processes."""
        return [one for one, state in self._sessions().items() if state != "closing"]

    def left(self) -> list[str]:
        """The others."""
        return [one for one, state in self._sessions().items() if state == "closing"]

    def _sessions(self) -> dict[str, str]:
        listed = self.machine.ok("loginctl", "list-sessions", "--no-legend").splitlines()
        found = [line.split()[0] for line in listed if self.name in line.split()]
        show = ("loginctl", "show-session", "--property=State", "--value")
        return {one: self.machine.run(*show, one).out.strip() for one in found}

    @contextmanager
    def logged_in(self) -> Iterator[None]:
        """A login that lasts while other commands run."""
        argv = self._login("exec cat")
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as login:
            try:
                assert eventually(self.sessions, _PATIENCE)
                yield
            finally:
                login.send_signal(signal.SIGKILL)

    # --- its files ---

    def _without_login(self, *argv: str, stdin: str = "") -> Done:
        return self.machine.run(
            *("runuser", "--user", self.name, "--", "env", f"--chdir={self.home}", *argv),
            stdin=stdin,
        )

    def read(self, path: str) -> str:
        """A file in its home; nothing when there is none."""
        return self._without_login("cat", path).out

    def write(self, path: str, text: str, mode: str = "644") -> None:
        script = 'mkdir -p "${1%/*}" && cat >"$1" && chmod "$2" "$1"'
        done = self._without_login("sh", "-c", script, "sh", path, mode, stdin=text)
        assert done.code == 0, done

    def files(self, directory: str) -> list[str]:
        """All that is in a directory of its home, and below."""
        found = self._without_login("find", directory, "-not", "-type", "d", "-printf", "%P\n")
        return sorted(found.out.splitlines())

    def exists(self, path: str) -> bool:
        return self._without_login("ls", "-d", path).code == 0

    # --- what it runs ---

    def systemctl(self, *words: str) -> str:
        return self.ok("systemctl", "--user", *words).out

    def timers(self) -> list[dict[str, Any]]:
        """As systemd lists them."""
        found: list[dict[str, Any]] = json.loads(
            self.systemctl("list-timers", "--all", "--output=json", "sesh-*")
        )
        return found

    def often(self) -> None:
        """Have the installed timer elapse at once, and every few seconds."""
        (timer,) = self.timers()
        lines = "[Timer]\nOnActiveSec=0\nOnUnitActiveSec=3\nAccuracySec=1ms\n"
        self.write(f"{UNITS}/{timer['unit']}.d/often.conf", lines)
        self.systemctl("daemon-reload")
        self.systemctl("restart", timer["unit"])

    def ls(self) -> dict[str, dict[str, Any]]:
        """Sessions by their names."""
        return {one["name"]: one for one in self.ok("sesh", "ls", "--json").json}

    def cgroup(self, pid: int) -> str:
        """The innermost unit that a process is in, and the slice that this is in."""
        text = self.machine.ok("cat", f"/proc/{pid}/cgroup")
        return text.strip().splitlines()[-1].partition("::")[2]

    def remove(self) -> None:
        """End all that it runs, and delete it."""
        self.machine.run("loginctl", "disable-linger", self.name)
        self.machine.run("loginctl", "terminate-user", self.name)
        self.machine.run("systemctl", "stop", f"user@{self.uid}.service")
        self.machine.run("pkill", "-KILL", "-u", self.name)
        self.machine.run("userdel", "--remove", "--force", self.name)
