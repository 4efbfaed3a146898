"""The other tools, each with sessions of its own beside ours: 10 or 100 times a `sleep`.

Each lives in the private directories of one world, whose end also ends what they leave behind.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.bench.install import Tools
from tests.bench.timing import Case, always
from tests.world import World, eventually

SLEEP = shutil.which("sleep") or "/bin/sleep"
COMMAND_TIMEOUT = 300
DOCKER_TIMEOUT = 15
PULL_TIMEOUT = 120


class PeerError(Exception):
    """Why a peer does not do what it should."""


class Peers:
    """Those that are installed, in one world."""

    def __init__(self, world: World, tools: Tools, rounds: int) -> None:
        self.world = world
        self.tools = tools
        self.rounds = rounds
        self.count = 0
        self.plain = str(world.root / "plain.sock")  # a tmux server without sesh
        self.tmux = shutil.which("tmux") or "tmux"
        self.workspaces = world.root / "tmuxp"
        self.workspaces.mkdir()
        world.env |= {
            "PM2_HOME": str(world.root / "pm2"),
            "TMUXP_CONFIGDIR": str(self.workspaces),
        }

    def has(self, name: str) -> bool:
        return name in self.tools.peers

    # --- as many sessions as ours ---

    def grow(self, count: int) -> None:
        """Give each of them `count` sessions; one that does not manage that is left out."""
        for number in range(self.count, count):
            self._tmux("new-session", "-d", "-s", f"s{number}", SLEEP, "100000")
            self._workspace(f"s{number}")
        for name, fill in (("supervisorctl", self._supervise), ("pm2", self._pm2_start)):
            if self.has(name):
                try:
                    fill(count)
                except PeerError as error:
                    del self.tools.peers[name]
                    self.tools.missing[name] = str(error)
        self.count = count

    def _workspace(self, name: str) -> Path:
        path = self.workspaces / f"{name}.yaml"
        path.write_text(
            f"session_name: {name}\nwindows:\n"
            f"- window_name: main\n  window_shell: {SLEEP} 100000\n  panes: [null]\n"
        )
        return path

    def _supervise(self, count: int) -> None:
        root = self.world.root
        config = root / "supervisord.conf"
        config.write_text(
            f"[unix_http_server]\nfile={root}/sv.sock\n"
            f"[supervisord]\npidfile={root}/sv.pid\nlogfile={root}/sv.log\n"
            "[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory = "
            "supervisor.rpcinterface:make_main_rpcinterface\n"
            f"[supervisorctl]\nserverurl=unix://{root}/sv.sock\n"
            f"[program:s]\ncommand={SLEEP} 100000\nnumprocs={count}\n"
            "process_name=s%(process_num)d\nstartsecs=0\nstdout_logfile=NONE\nstderr_logfile=NONE\n"
        )
        if (root / "sv.sock").exists():
            self._run(*self._supervisorctl("update"))
        else:
            self._run(self.tools.peers["supervisord"], "-c", str(config))
        status = self._supervisorctl("status")
        if not eventually(lambda: self._listed(status, "RUNNING", count), 60):
            raise PeerError(f"supervisord did not start {count} programs")

    def _supervisorctl(self, *words: str) -> tuple[str, ...]:
        config = str(self.world.root / "supervisord.conf")
        return (self.tools.peers["supervisorctl"], "-c", config, *words)

    def _pm2_start(self, count: int) -> None:
        apps = self.world.root / "apps.json"
        listed = ", ".join(
            f'{{"name": "s{number}", "script": "{SLEEP}", "args": "100000", "interpreter": "none"}}'
            for number in range(self.count, count)
        )
        apps.write_text(f'{{"apps": [{listed}]}}')
        self._run(self._pm2, "start", str(apps))
        if not self._listed((self._pm2, "ls"), "online", count):
            raise PeerError(f"pm2 did not start {count} processes")

    @property
    def _pm2(self) -> str:
        return self.tools.peers["pm2"]

    def _listed(self, command: Sequence[str], word: str, count: int) -> bool:
        done = subprocess.run(command, env=self.world.env, capture_output=True, text=True)
        return done.stdout.count(word) == count

    # --- what is measured ---

    def list_cases(self) -> list[Case]:
        cases = []
        if self.has("supervisorctl"):
            command = always(*self._supervisorctl("status"))
            cases.append(Case("supervisorctl status", command, self.rounds))
        if self.has("tmuxp"):
            cases.append(Case("tmuxp ls", always(self.tools.peers["tmuxp"], "ls"), self.rounds))
        if self.has("pm2"):
            cases.append(Case("pm2 ls", always(self._pm2, "ls"), self.rounds))
        return cases

    def start_cases(self) -> list[Case]:
        cases = [
            Case(
                "tmux new-session",
                lambda n: (
                    *(self.tmux, "-S", self.plain, "new-session", "-d"),
                    *("-s", f"new{n}", SLEEP, "100000"),
                ),
                3 * self.rounds,
                lambda n: self._tmux("kill-session", "-t", f"=new{n}"),
            )
        ]
        if self.has("tmuxp"):
            cases.append(
                Case(
                    "tmuxp load -d",
                    lambda n: (
                        *(self.tools.peers["tmuxp"], "load", "-d", "-S", self.plain),
                        str(self._workspace(f"load{n}")),
                    ),
                    self.rounds,
                    self._unload,
                )
            )
        if self.has("pm2"):
            cases.append(
                Case(
                    "pm2 start",
                    lambda n: (
                        *(self._pm2, "start", SLEEP, "--interpreter", "none"),
                        *("--name", f"new{n}", "--", "100000"),
                    ),
                    self.rounds,
                    lambda n: self._run(self._pm2, "delete", f"new{n}"),
                )
            )
        return cases

    def _unload(self, number: int) -> None:
        self._tmux("kill-session", "-t", f"=load{number}")
        (self.workspaces / f"load{number}.yaml").unlink()

    # --- ending ---

    def end(self) -> None:
        """Let each end by its own command."""
        if self.has("pm2"):
            self._run(self._pm2, "kill")
        if self.has("supervisorctl"):
            self._run(*self._supervisorctl("shutdown"))
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> None:
        self._run(self.tmux, "-f", "/dev/null", "-S", self.plain, *words)

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command,
            env=self.world.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_TIMEOUT,
        )
        if done.returncode != 0:
            raise PeerError(f"{' '.join(command)[:200]}: {done.stdout[-500:].strip()}")


# --- docker ---------------------------------------------------------------------------------------


def docker_image() -> tuple[str | None, str]:
    """An image that `docker run` can start a `sleep` from; else None, and why."""
    docker = shutil.which("docker")
    if docker is None:
        return None, "docker is not installed"
    try:
        if _docker(docker, DOCKER_TIMEOUT, "version") is None:
            return None, "no docker engine answers"
        for image in ("busybox", "alpine", "debian"):
            if _docker(docker, DOCKER_TIMEOUT, "image", "inspect", image) is not None:
                return image, ""
        if _docker(docker, PULL_TIMEOUT, "pull", "--quiet", "busybox") is not None:
            return "busybox", ""
    except subprocess.TimeoutExpired:
        return None, "the docker engine does not answer in time"
    return None, "no image, and busybox can't be pulled"


def docker_case(image: str, mark: str, rounds: int) -> Case:
    """`docker run -d`; the containers' names carry `mark`, and each is removed at once."""
    docker = shutil.which("docker") or "docker"
    return Case(
        "docker run -d",
        lambda n: (docker, "run", "-d", "--name", f"{mark}-{n}", image, "sleep", "100000"),
        rounds,
        lambda n: _remove(docker, f"{mark}-{n}"),
    )


def _remove(docker: str, name: str) -> None:
    _docker(docker, DOCKER_TIMEOUT, "rm", "-f", name)


def _docker(docker: str, timeout: float, *words: str) -> str | None:
    done = subprocess.run([docker, *words], capture_output=True, text=True, timeout=timeout)
    return done.stdout if done.returncode == 0 else None
