"""The keeper, in every shell it may meet: each way to die is written down."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from sesh.model.observation import ExitReport
from sesh.places import launch_files
from sesh.system import paths
from tests.conftest import need
from tests.world import World, count, eventually

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}


class Kept:
    """A keeper in a bare tmux pane, without sesh, under one shell."""

    def __init__(self, world: World, shell: str, agent: str) -> None:
        need(SHELLS[shell][0])
        self.world = world
        self.run = world.root / "k"
        self.run.mkdir(exist_ok=True)
        self.socket = str(self.run / "sock")
        for kind in launch_files.KINDS:
            (self.run / f"x.1{kind}").unlink(missing_ok=True)
        (self.run / "x.1.exit.tmp").write_bytes(b" " * 127 + b"\n")
        (self.run / "x.1.launch").write_text(f"echo $$ >{self.run}/agent\nexec {agent}\n")
        (self.run / "callback").write_text(f"echo called >>{self.run}/called\n")
        (self.run / "agent").unlink(missing_ok=True)
        keeper = paths.package_file("places/keeper.sh")
        command = [*SHELLS[shell], keeper, f"{self.run}/x.1", "x", "x", shutil.which("tmux") or ""]
        command.append(f"{self.run}/callback")
        self.tmux("-f", os.devnull, "new-session", "-d", "-s", "x", *command,
                  ";", "set-option", "-p", "-t", "=x:", "remain-on-exit", "on",
                  ";", "set-option", "-s", "exit-empty", "off",
                  ";", "set-option", "-s", "@sesh_callback", f"sh {self.run}/callback")  # fmt: skip
        assert eventually(lambda: self.pid() and self.became(agent)), "the agent did not start"

    def tmux(self, *args: str) -> str:
        argv = ["tmux", "-S", self.socket, *args]
        env = self.world.env
        return subprocess.run(argv, env=env, capture_output=True, text=True).stdout.strip()

    def pid(self) -> int:
        try:
            return int((self.run / "agent").read_text() or 0)
        except FileNotFoundError:
            return 0

    def became(self, agent: str) -> bool:
        try:
            told = Path(f"/proc/{self.pid()}/cmdline").read_bytes().split(b"\0")[0]
        except FileNotFoundError:
            return True  # it has ended already
        return Path(os.fsdecode(told)).name == agent.split()[0]

    def leader(self) -> int:
        return int(self.tmux("display-message", "-p", "-t", "=x:", "#{pane_pid}"))

    def word(self) -> ExitReport | None:
        found: ExitReport | None = eventually(
            lambda: launch_files.read_exit(str(self.run), "x", 1), within=3
        )
        return found


def _kill(number: int) -> object:
    return lambda kept: os.kill(kept.pid(), number)


DEEDS = {
    "exit 0": ("sleep 0.3", lambda kept: None, (0, True)),
    "TERM": ("sleep 99", _kill(signal.SIGTERM), (143, True)),
    "KILL": ("sleep 99", _kill(signal.SIGKILL), (137, True)),
    "TERM to the group": (
        "sleep 99",
        lambda kept: os.killpg(kept.leader(), signal.SIGTERM),
        (143, True),
    ),
    "Ctrl-C": ("sleep 99", lambda kept: kept.tmux("send-keys", "-t", "=x:", "C-c"), (130, True)),
    "kill-pane": ("sleep 99", lambda kept: kept.tmux("kill-pane", "-t", "=x:"), (129, False)),
    "kill-session": ("sleep 99", lambda kept: kept.tmux("kill-session", "-t", "=x"), (129, False)),
    "server KILL": (
        "sleep 99",
        lambda kept: os.kill(int(kept.tmux("display-message", "-p", "#{pid}")), signal.SIGKILL),
        (129, False),
    ),
    "outer shell KILL": (
        "sleep 99",
        lambda kept: os.kill(kept.leader(), signal.SIGKILL),
        (129, False),
    ),
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("deed", DEEDS)
def test_every_end_is_written_down(world: World, shell: str, deed: str) -> None:
    agent, act, expected = DEEDS[deed]
    for _ in range(count(2, 10)):
        kept = Kept(world, shell, agent)
        assert callable(act)
        act(kept)
        word = kept.word()
        assert word is not None
        assert (word.code, word.terminal) == expected
        kept.tmux("kill-session", "-t", "=x")


@pytest.mark.parametrize("shell", SHELLS)
def test_it_makes_sesh_look(world: World, shell: str) -> None:
    """Through the server while there is one, by itself when there is none."""
    kept = Kept(world, shell, "sleep 99")
    os.kill(kept.pid(), signal.SIGTERM)
    assert eventually(lambda: (kept.run / "called").exists())
    (kept.run / "called").unlink()
    kept.tmux("kill-session", "-t", "=x")
    kept = Kept(world, shell, "sleep 99")
    os.kill(int(kept.tmux("display-message", "-p", "#{pid}")), signal.SIGKILL)
    assert eventually(lambda: (kept.run / "called").exists())
