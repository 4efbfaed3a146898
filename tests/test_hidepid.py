"""/proc mounted with hidepid, as hardened machines have it: an ordinary user sees no process of
others, or can't read it. What can't be read is unknown, and one's own are always there."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.surroundings import as_stranger, give_to_stranger, need_root, run
from tests.world import SESH, Done, World, eventually

HIDING = 'mount -t proc -o hidepid="$0" proc /proc && exec "$@"'
Sesh = Callable[..., Done]


def hiding(how: str, *argv: str) -> list[str]:
    return ["unshare", "-m", "sh", "-c", HIDING, how, *argv]


@pytest.fixture(params=["1", "2"])
def sesh(world: World, request: pytest.FixtureRequest) -> Sesh:
    need_root()
    if subprocess.run(hiding(request.param, "true"), capture_output=True).returncode:
        pytest.skip("may not mount here")
    world.root.chmod(0o755)
    give_to_stranger(world)
    return lambda *args: run(world, *hiding(request.param, *as_stranger(SESH, *args)))


def test_a_life(sesh: Sesh) -> None:
    """Start, look, restart, limits, stop, clean up."""
    commands = [
        ("start", "a", "--max-memory", "1g", "--", "sh", "-c", "sleep 1000 & sleep 1000"),
        ("pass",),
        ("show", "a"),
        ("restart", "a"),
        ("status", "a"),
        ("stop", "a"),
        ("gc",),
        ("doctor",),
        ("ls", "--all"),
        ("stats",),
        ("rm", "a"),
    ]
    for command in commands:
        done = sesh(*command)
        assert done.code == 0, (command, done)
        if command[0] == "status":
            assert done.out.startswith("a running")


def test_an_agent_that_became_another_user_is_not_taken_for_gone(sesh: Sesh, world: World) -> None:
    become_root = world.root / "setpriv"
    assert run(world, "cp", "/usr/bin/setpriv", str(become_root)).code == 0
    become_root.chmod(0o4755)
    script = f"exec {become_root} --reuid 0 --regid 0 --clear-groups sh -c 'echo $$ >a; exec cat'"
    sesh("start", "a", "--", "sh", "-c", script)
    assert eventually(lambda: (world.cwd / "a").exists() and (world.cwd / "a").read_text())
    agent = int((world.cwd / "a").read_text())
    try:
        assert sesh("status", "a").out.startswith("a unknown")
        assert sesh("stop", "a").code == 5
    finally:
        os.kill(agent, signal.SIGKILL)
