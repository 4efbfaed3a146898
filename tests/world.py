"""A world of its own for each test: directories, a tmux server, and a way to run sesh in it.

Real tmux, real processes. Nothing here can reach the home of whoever runs the tests.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from binascii import crc32
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import pace, prepared

SESH = prepared.SESH
FULL = os.environ.get("SESH_TEST_FULL") == "1"


def count(few: int, full: int) -> int:
    """How often a campaign repeats: `full` under `make faults`."""
    return full if FULL else few


def eventually(check: Callable[[], Any], within: float = 20.0, pause: float = 0.04) -> Any:
    """Wait until `check` gives something true; the last answer otherwise. `within` is for an idle
    machine. Checks become rarer: most run a program, and other tests run beside this one."""
    begin = time.monotonic()
    while not (answer := check()) and time.monotonic() - begin < pace.seconds(within):
        time.sleep(pause)
        pause = min(pause * 1.4, 0.3)
    return answer


@dataclass
class Done:
    """How a sesh ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class World:
    """Private directories (short: a socket's path may have 107 bytes) and the environment."""

    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="sesh-", dir="/tmp")))

    def __post_init__(self) -> None:
        for name in ("home", "run", "work"):
            (self.root / name).mkdir(mode=0o700)
        self.env = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "SHELL": "/bin/sh",
            "USER": getpass.getuser(),
            "LOGNAME": getpass.getuser(),
            "HOME": str(self.root / "home"),
            "XDG_STATE_HOME": str(self.root / "state"),
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "XDG_RUNTIME_DIR": str(self.root / "run"),
            "TERM": "xterm-256color",
        }
        self.cwd = self.root / "work"
        self.caller = SESH  # the command by which what `start` leaves behind calls sesh
        self._born = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) - 1
        self._last_pid, self._forks = _last_pid(), _forks()

    @property
    def program(self) -> tuple[str, ...]:
        """The command that is `sesh` in this world."""
        return (SESH,)

    @property
    def _start_program(self) -> tuple[str, ...]:
        """The same under the name of `caller`."""
        code = f"import sys; sys.argv[0] = {self.caller!r}; from sesh.__main__ import script"
        return (sys.executable, "-c", f"{code}; script()")

    @property
    def state(self) -> Path:
        return self.root / "state" / "sesh"

    @property
    def key(self) -> str:
        """What tells this state directory from others of the same user."""
        state = f"{self.env['XDG_STATE_HOME']}/sesh"
        return f"{crc32(os.fsencode(state)):08x}"

    @property
    def runtime(self) -> Path:
        """Where environments and the prompt's line are kept."""
        return self.root / "run" / "sesh" / self.key

    def record(self, name: str) -> Path:
        return self.state / "sessions" / f"{name}.toml"

    @property
    def _config(self) -> Path:
        return self.root / "config" / "sesh" / "config.toml"

    def configured(self) -> str:
        return self._config.read_text()

    def configure(self, text: str) -> None:
        """Replace the settings at once: a pass may read them at any time."""
        self._config.parent.mkdir(parents=True, exist_ok=True)
        written = self._config.with_name("config.toml.new")
        written.write_text(text)
        written.replace(self._config)

    def sesh(
        self,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 60,
        stdin: str | None = None,
    ) -> Done:
        """Run sesh as a user would, to its end, without a terminal."""
        used = self.env if env is None else env
        timeout = pace.seconds(timeout)
        if FULL or self.program != (SESH,) or not prepared.suits(args, used, stdin):
            return self._run(*args, env=env, cwd=cwd, timeout=timeout, stdin=stdin)
        words = [self.caller if args[:1] == ("start",) else SESH, *args]
        code, out, err = prepared.run(words, used, cwd or self.cwd, stdin, timeout)
        return Done(code, out, err)

    def exec(
        self,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 60,
        stdin: str | None = None,
    ) -> Done:
        """The same, for sure by a new Python of its own: see `prepared`."""
        return self._run(*args, env=env, cwd=cwd, timeout=pace.seconds(timeout), stdin=stdin)

    def _run(
        self,
        *args: str,
        env: Mapping[str, str] | None,
        cwd: Path | None,
        timeout: float,
        stdin: str | None,
    ) -> Done:
        starts = self.caller != SESH and args[:1] == ("start",)
        done = subprocess.run(
            [*(self._start_program if starts else self.program), *args],
            env=self.env if env is None else dict(env),
            cwd=cwd or self.cwd,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def ok(self, *args: str, **options: Any) -> Done:
        """Run sesh; it must succeed."""
        done = self.sesh(*args, **options)
        assert done.code == 0, (
            f"sesh {' '.join(args)[:200]}: exit {done.code}\n{done.out}{done.err}"
        )
        return done

    def popen(self, *args: str) -> subprocess.Popen[bytes]:
        """Start sesh and do not wait."""
        return subprocess.Popen(
            [*self.program, *args],
            env=self.env,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def start(self, name: str, *command: str, options: Sequence[str] = ()) -> dict[str, Any]:
        """Start a session and return its JSON object."""
        argv = command or ("sleep", "1000")
        shown: dict[str, Any] = self.ok("start", name, *options, "--json", "--", *argv).json
        return shown

    def ls(self, *options: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ok("ls", "--json", *options).json
        return found

    def session(self, name: str) -> dict[str, Any]:
        """The session as `ls --json` shows it."""
        found = [one for one in self.ls() if one["name"] == name]
        assert len(found) == 1, found
        return found[0]

    def state_of(self, name: str) -> str:
        return str(self.session(name)["state"])

    @property
    def socket(self) -> str:
        found = list(self.state.glob("run/*/tmux.sock"))
        assert len(found) == 1, found
        return str(found[0])

    def tmux(self, *args: str) -> str:
        """Speak to the world's tmux server directly."""
        done = subprocess.run(
            ["tmux", "-S", self.socket, *args], capture_output=True, text=True, timeout=100
        )
        return done.stdout.strip()

    def server_pid(self) -> int:
        return int(self.tmux("display-message", "-p", "#{pid}"))

    def events(self) -> list[dict[str, Any]]:
        path = self.state / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def processes(self) -> list[int]:
        """Every process that this world started, by its directory in environment or command."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        young = self._young_pids()
        return [p for p in pids if p in young and p != os.getpid() and self._has_started(p)]

    def _young_pids(self) -> range:
        """The pids that processes younger than this world can have: the kernel counts up, and
        begins again at the highest pid."""
        highest = int(_look("/proc/sys/kernel/pid_max"))
        first, last = self._last_pid, _last_pid()
        counted_up = first <= last and _forks() - self._forks < highest // 2
        return range(first, last + 1) if counted_up else range(1, highest)

    def _has_started(self, pid: int) -> bool:
        """Does it live, is it younger than this world, and does it know of it? Asked of the whole
        machine at the end of each test, so with as few and as cheap looks as will do."""
        mark = bytes(self.root)
        try:
            state, *fields = _look(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
            if state in b"ZX" or int(fields[18]) < self._born:
                return False
            return mark in _look(f"/proc/{pid}/environ") or mark in _look(f"/proc/{pid}/cmdline")
        except OSError:
            return False

    def end(self) -> None:
        """Kill all that is left of this world and remove its files."""
        for _ in range(50):
            left = self.processes()
            if not left:
                break
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.02)
        shutil.rmtree(self.root, ignore_errors=True)


def _last_pid() -> int:
    return int(_look("/proc/loadavg").split()[-1])


def _forks() -> int:
    """How many processes and threads this machine has started since it booted."""
    return int(_look("/proc/stat").partition(b"\nprocesses ")[2].split(None, 1)[0])


def _look(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
