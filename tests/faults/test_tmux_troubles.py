"""tmux missing, hung, wedged, lying, or another one in its place: every state is right or unknown,
nothing is deleted, nothing is ended, and nobody waits long for the answer."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests import pace
from tests.faults.brooms import END_ORPHANS, GENTLE, KILLING_GC, MENDING, PROBLEMS
from tests.faults.living import Known, dead, kill, look, until
from tests.faults.table import Campaign
from tests.surroundings import fake_tmux, files
from tests.world import FULL, World, count, eventually

pytestmark = pytest.mark.timeout(count(600, 3600))

IN_TIME = 3.0  # seconds, beside what a list takes when all is well, tenfold: a busy machine
DETACHED = "setsid sleep 7777 & echo $! >orphan; exec sleep 1000"


@dataclass
class Scene:
    """One session of each sort, and who must live."""

    world: World
    env: dict[str, str]
    living: dict[str, Known]
    orphan: Known
    usual: float  # seconds that a list takes


RIGHT = {
    "lives": {"running"},
    "gone": {"lost", "unknown"},  # only tmux could tell
    "ended": {"completed"},
    "left": {"failed"},
    "unclaimed": {"orphan", "running"},  # its record was deleted, then perhaps mended
}


def set_up(world: World) -> Scene:
    living = {}
    for name in ("lives", "unclaimed"):
        found = look(world.start(name)["pid"])
        assert found is not None
        living[name] = found
    world.record("unclaimed").unlink()
    world.start("ended", "true")
    abandon(world, "gone")
    orphan = leave_behind(world, "left")
    assert eventually(lambda: world.state_of("ended") == "completed")
    begin = time.monotonic()
    world.ok("ls", "--all")
    return Scene(world, world.env, living, orphan, time.monotonic() - begin)


def abandon(world: World, name: str) -> None:
    """Agent and keeper die unseen, and nobody has looked yet."""
    agent = look(world.start(name)["pid"])
    assert agent is not None
    inner = look(agent.parent)
    assert inner is not None
    kill(inner.pid, agent.pid)
    assert until(lambda: dead(agent)), "the agent did not end"


def detached(pid: int) -> Known | None:
    """The orphan, once the death of its session's terminal is none of its business."""
    found = look(pid)
    return found if found and found.name == "sleep" else None


def leave_behind(world: World, name: str) -> Known:
    session = world.start(name, "sh", "-c", DETACHED)
    file = world.cwd / "orphan"
    assert eventually(lambda: file.exists() and file.read_text())
    found = eventually(partial(detached, int(file.read_text())))
    assert isinstance(found, Known)
    os.kill(session["pid"], signal.SIGKILL)
    assert eventually(lambda: world.state_of(name) == "failed")
    return found


# --- troubles ------------------------------------------------------------------------------------

# What goes wrong, for as long as it lasts; the environment that a sesh has meanwhile.
Trouble = Callable[[Scene], AbstractContextManager[dict[str, str]]]


@contextmanager
def missing(scene: Scene) -> Iterator[dict[str, str]]:
    empty = scene.world.root / "empty"
    empty.mkdir()
    yield {**scene.env, "PATH": str(empty)}


@contextmanager
def hung(scene: Scene) -> Iterator[dict[str, str]]:
    server = scene.world.server_pid()
    os.kill(server, signal.SIGSTOP)
    try:
        yield scene.env
    finally:
        os.kill(server, signal.SIGCONT)


@contextmanager
def swept(scene: Scene) -> Iterator[dict[str, str]]:
    """Its socket is deleted; the server lives."""
    server = scene.world.server_pid()
    socket = Path(scene.world.socket)
    socket.unlink()
    yield scene.env
    if not socket.exists():
        os.kill(server, signal.SIGUSR1)
        assert eventually(socket.exists)


@contextmanager
def replaced(scene: Scene) -> Iterator[dict[str, str]]:
    """Another server has taken its socket, and has panes of the same ids."""
    server = scene.world.server_pid()
    socket = Path(scene.world.socket)
    socket.unlink()
    other = ("tmux", "-f", "/dev/null", "-S", str(socket))
    for _ in range(4):
        subprocess.run([*other, "new-session", "-d", "sleep 7777"], env=scene.env, check=True)
    panes = [*other, "list-panes", "-a", "-F", "#{pane_id} #{pane_dead} #{pane_pipe} #{pid}"]
    before = subprocess.check_output(panes, text=True)
    yield scene.env
    assert subprocess.check_output(panes, text=True) == before, "a stranger's panes were touched"
    os.kill(int(before.split()[-1]), signal.SIGKILL)
    socket.unlink()
    os.kill(server, signal.SIGUSR1)
    assert eventually(socket.exists)


def lying(script: str) -> Trouble:
    @contextmanager
    def trouble(scene: Scene) -> Iterator[dict[str, str]]:
        yield fake_tmux(scene.world, script)

    return trouble


TROUBLES: dict[str, Trouble] = {
    "missing": missing,
    "hung": hung,
    "socket deleted": swept,
    "second server": replaced,
    "wedged": lying("echo 'server exited unexpectedly' >&2; exit 1"),
    "client hangs": lying("exec sleep 1000"),
    "empty": lying("exit 0"),
    "silent failure": lying("exit 1"),
    "nonsense": lying("printf '\\033[31m%%0 junk\\n%%1\\n'"),
    "noise": lying("head -c 100000 /dev/urandom"),
    "another language": lying("echo 'kein Server läuft auf /tmp/x' >&2; exit 1"),
    "killed": lying("kill -9 $$"),
}


# --- what must be true ---------------------------------------------------------------------------


def check_states(scene: Scene, env: dict[str, str], *options: str) -> float:
    """Every state is right, or unknown where nobody could tell. Returns how long it took."""
    begin = time.monotonic()
    done = scene.world.ok("ls", "--json", *options, env=env)
    took = time.monotonic() - begin
    for one in done.json:
        if one["generation"] is None:
            assert one["pid"] == scene.orphan.pid, f"a wrong orphan: {one}"
        else:
            assert one["state"] in RIGHT[one["name"]], f"{one['name']} is {one['state']}"
    assert {one["name"] for one in done.json} == RIGHT.keys(), "some are not listed"
    assert took < pace.seconds(IN_TIME) + 10 * scene.usual, (
        f"ls {' '.join(options)} took {took:.1f} s"
    )
    return took


def check_nothing_ended(scene: Scene) -> None:
    for name, agent in scene.living.items():
        assert not dead(agent), f"{name} was ended"
    assert not dead(scene.orphan), "the orphan was ended"


def check_nothing_deleted(scene: Scene, before: dict[str, bytes]) -> None:
    lacking = before.keys() - files(scene.world.state).keys()
    records = {path for path in lacking if path.endswith((".toml", ".log", ".pid", ".claim"))}
    assert not records, f"deleted: {sorted(records)}"


@pytest.mark.parametrize("name", TROUBLES)
def test_tmux_troubles(world: World, campaign: Campaign, name: str) -> None:
    scene = set_up(world)
    if not FULL:
        world.configure("[tmux]\ntimeout = 0.15\n")
    slowest = 0.0
    before = files(world.state)
    with TROUBLES[name](scene) as env:
        for options in ((), ("--all",)):
            with campaign.round(f"ls {' '.join(options)}"):
                slowest = max(slowest, check_states(scene, env, *options))
        for session in ("lives", "gone", "ended", "left"):
            with campaign.round(f"show {session}"):
                world.ok("show", session, env=env)
        for broom in (*GENTLE, KILLING_GC, *MENDING):
            with campaign.round(" ".join(broom)):
                done = world.sesh(*broom, env=env)
                assert "Traceback" not in done.err, done
                assert done.code in (0, 1, 5, 9, PROBLEMS), done
                check_nothing_ended(scene)
                check_nothing_deleted(scene, before)
                check_states(scene, env)
        with campaign.round("stop --orphans"):
            done = world.sesh(*END_ORPHANS, env=env)
            assert (dead(scene.orphan), dead(scene.living["lives"])) == (True, False), done
    world.configure("")
    with campaign.round("afterwards"):
        assert world.state_of("lives") == "running"
        assert world.state_of("gone") == "lost"
        world.ok("send", "lives", "hello")
        world.ok("stop", "lives")
    campaign.remark(f"ls took {slowest:.1f} s at most")
    campaign.conclude()
