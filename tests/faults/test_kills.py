"""`sesh` killed by -9 at any moment of start, stop, restart, rename, rm: nothing is torn or lost,
no lock stays, and the next command brings about what was wanted."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests import pace
from tests.faults.living import command_line, marked, servers, until
from tests.faults.table import Campaign
from tests.world import World, count

pytestmark = pytest.mark.timeout(count(600, 3600))

LAUNCH_TIMEOUT = 2.0  # how long a claim whose sesh was killed stays `starting`
RECOVERY = LAUNCH_TIMEOUT + 6
QUICK = ("sleep", "1000")
# Takes its time to end, so that some kills hit a stop that waits.
SLOW = ("sh", "-c", 'trap "sleep 0.1; exit 0" TERM; while :; do sleep 0.02; done')
NAME = "victim"
OTHER = "victim-renamed"
GROUP = "faults"  # proves that a record is whole: it must survive everything


@pytest.fixture
def kill_world(world: World) -> World:
    world.configure(f"[start]\nlaunch_timeout = {LAUNCH_TIMEOUT}\n[stop]\ngrace = 2\n")
    return world


def begin(world: World, command: tuple[str, ...]) -> None:
    world.start(NAME, *command, options=("--group", GROUP))


# --- killing -----------------------------------------------------------------------------------


def typical(world: World, prepare: Callable[[], None], argv: tuple[str, ...]) -> float:
    """How long the command takes when nobody kills it."""
    took = []
    for _ in range(count(1, 3)):
        prepare()
        before = time.monotonic()
        assert world.exec(*argv).code == 0
        took.append(time.monotonic() - before)
    return median(took)


def kill_at(world: World, argv: tuple[str, ...], delay: float) -> bool:
    """Run sesh and kill it after `delay` seconds; was it still at work?"""
    process = world.popen(*argv)
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        process.kill()
    return process.wait() == -signal.SIGKILL


# --- what must be true afterwards --------------------------------------------------------------


def check_aftermath(world: World, names: tuple[str, ...] = (NAME,)) -> list[dict[str, Any]]:
    """Right after the kill: every record whole, every living agent known, the lock free."""
    alive = marked(world)
    listed = world.ls()
    for one in listed:
        assert one["state"] != "damaged", f"torn record: {one}"
        assert one["state"] != "orphan", f"lost session: {one}"
        assert one["name"] in names, f"an unknown session: {one}"
        assert one["group"] == GROUP, f"the record has lost its group: {one}"
    known = {one["id"] for one in listed}
    for pid, session_id in alive.items():
        # What was alive before the look and is gone now was about to end.
        if session_id not in known and pid in marked(world):
            raise AssertionError(f"agent {pid} of {session_id} is not listed: {listed}")
    assert until(lambda: lock_is_free(world), within=2), "the lock is stuck"
    return listed


def lock_is_free(world: World) -> bool:
    path = world.state / "sessions" / ".lock"
    if not path.exists():
        return True
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def check_one_agent(world: World, name: str = NAME) -> None:
    """Exactly one agent is alive, and the record means it."""
    session = world.session(name)
    roots = [pid for pid in marked(world) if is_agent(pid)]
    assert roots == [session["pid"]], f"agents {roots}, the record says {session['pid']}"


def is_agent(pid: int) -> bool:
    return command_line(pid).startswith(("sleep 1000", "sh -c trap"))


def check_nothing_left(world: World) -> None:
    """No process of the world is left but its one tmux server."""

    def left() -> list[int]:
        own = servers(world)
        return [pid for pid in world.processes() if pid not in own]

    assert until(lambda: not left(), within=10), [command_line(pid) for pid in left()]
    assert len(servers(world)) <= 1, "more than one tmux server"


def strays(world: World) -> list[Path]:
    """Files that belong to no session any more, or to a write that was killed."""
    places = (world.state / "run", world.state / "sessions", world.state / "transcripts")
    found = [path for place in (*places, world.root / "run") for path in place.rglob("*")]
    kept = tuple(path.stem for path in (world.state / "history").glob("*.toml"))
    return [
        path
        for path in found
        if path.name.startswith((NAME + "-", "." + NAME)) and not path.name.startswith(kept)
    ]


def kind(path: Path) -> str:
    """What sort of file a stray is: the end of its name, without ids and pids."""
    return re.sub(r"\.\d+(?=\.|$)", "", path.name).partition(".")[2] or path.name


# --- the next command --------------------------------------------------------------------------


def again(world: World, argv: tuple[str, ...], wanted: Callable[[], bool]) -> str:
    """Give the same command again, as a person would, until it did what was wanted."""
    deadline = time.monotonic() + pace.seconds(RECOVERY)
    said = "never tried"
    while time.monotonic() < deadline:
        done = world.sesh(*argv)
        said = f"exit {done.code}: {done.err.strip()}"
        assert done.code in (0, 8), f"the next {argv[0]}: {said}"
        if wanted():
            return said
        time.sleep(0.1)
    raise AssertionError(f"{argv[0]} does not recover: {world.ls()}; last: {said}")


def rounds(world: World, campaign: Campaign, length: float, full: int = 500) -> Iterator[float]:
    """The moments at which to kill, over the whole length of the command."""
    campaign.remark(f"kills within {length * 1000:.0f} ms")
    for _ in range(count(3, full)):
        before = len(campaign.wrong)
        yield campaign.random.uniform(0.05, 1.1) * length
        if len(campaign.wrong) > before:  # a wrong round must not make the next one wrong
            world.sesh("rm", "-f", NAME)


def sweep_up(world: World, campaign: Campaign) -> None:
    """After the last round."""
    with campaign.round("at the end"):
        world.ok("rm", "-f", NAME)
        check_nothing_left(world)
        assert world.ls() == []
        kinds = Counter(kind(path) for path in strays(world))
        if kinds:
            campaign.remark("left over: " + ", ".join(f"{n} {one}" for one, n in kinds.items()))


# --- the campaigns -----------------------------------------------------------------------------

START = ("start", NAME, "--group", GROUP, "--", *QUICK)


@pytest.mark.parametrize("name_used", [False, True], ids=["new name", "over an ended one"])
def test_kill_start(kill_world: World, campaign: Campaign, name_used: bool) -> None:
    """Wanted: it runs. An ended session of that name is kept, here or in the history."""
    world = kill_world
    hit = 0
    ended: set[str] = set()

    def prepare() -> None:
        world.ok("rm", "-f", NAME)
        ended.clear()
        if name_used:
            begin(world, ("true",))
            ended.add(world.session(NAME)["id"])

    for delay in rounds(world, campaign, typical(world, prepare, START), full=250):
        with campaign.round(f"killed after {delay:.3f} s"):
            prepare()
            hit += kill_at(world, START, delay)
            check_aftermath(world)
            assert ended <= {one["id"] for one in world.ls("--all")}, "the kill lost the ended one"
            again(world, START, lambda: world.state_of(NAME) == "running")
            assert ended <= {one["id"] for one in world.ls("--all")}, "the ended one is lost"
            check_one_agent(world)
    campaign.remark(f"{hit} hit")
    sweep_up(world, campaign)
    campaign.conclude()


def test_kill_stop(kill_world: World, campaign: Campaign) -> None:
    """Wanted: it is stopped, with nothing left of it."""
    world = kill_world
    hit = 0
    stop = ("stop", NAME)
    for number, delay in enumerate(
        rounds(world, campaign, typical(world, lambda: begin(world, SLOW), stop))
    ):
        with campaign.round(f"killed after {delay:.3f} s"):
            begin(world, SLOW if number % 2 else QUICK)
            hit += kill_at(world, stop, delay)
            check_aftermath(world)
            world.ok(*stop)
            assert world.state_of(NAME) == "stopped", world.session(NAME)
            assert not marked(world), "processes are left of what is stopped"
    campaign.remark(f"{hit} hit")
    sweep_up(world, campaign)
    campaign.conclude()


def test_kill_restart(kill_world: World, campaign: Campaign) -> None:
    """Wanted: it runs, once, in a later generation."""
    world = kill_world
    hit = 0
    restart = ("restart", NAME)
    begin(world, QUICK)
    for delay in rounds(world, campaign, typical(world, lambda: None, restart)):
        with campaign.round(f"killed after {delay:.3f} s"):
            if not world.record(NAME).exists():
                begin(world, QUICK)
            before = world.session(NAME)["generation"]
            hit += kill_at(world, restart, delay)
            listed = check_aftermath(world)
            assert len(listed) == 1, f"the session is lost: {listed}"
            again(world, restart, lambda: world.state_of(NAME) == "running")
            check_one_agent(world)
            assert world.session(NAME)["generation"] > before, "not restarted"
    campaign.remark(f"{hit} hit")
    sweep_up(world, campaign)
    campaign.conclude()


@pytest.mark.parametrize("living", [True, False], ids=["living", "ended"])
def test_kill_rename(kill_world: World, campaign: Campaign, living: bool) -> None:
    """Wanted: one record, with its id and either name; then all that is of it has the new name."""
    world = kill_world
    hit = 0
    names = [NAME, OTHER]
    begin(world, QUICK)
    if not living:
        world.ok("stop", NAME)
    session_id = world.session(NAME)["id"]

    def back() -> None:
        if not world.record(NAME).exists():
            world.ok("rename", OTHER, NAME)

    length = typical(world, back, ("rename", *names))
    names.reverse()
    for delay in rounds(world, campaign, length, full=250):
        with campaign.round(f"killed after {delay:.3f} s"):
            hit += kill_at(world, ("rename", *names), delay)
            [one] = check_aftermath(world, (NAME, OTHER))
            assert one["id"] == session_id
            if one["name"] == names[0]:
                world.ok("rename", *names)
            assert [(one["name"], one["id"]) for one in world.ls()] == [(names[1], session_id)]
            if living:
                check_one_agent(world, names[1])
                assert world.tmux("list-sessions", "-F", "#{session_name}") == names[1]
            names.reverse()
    campaign.remark(f"{hit} hit")
    if names[0] != NAME:
        world.ok("rename", *names)
    sweep_up(world, campaign)
    campaign.conclude()


@pytest.mark.parametrize("living", [True, False], ids=["living", "ended"])
def test_kill_rm(kill_world: World, campaign: Campaign, living: bool) -> None:
    """Wanted: it is forgotten, and nothing of it is left."""
    world = kill_world
    hit = 0
    remove = ("rm", "-f", NAME)

    def prepare() -> None:
        begin(world, QUICK)
        if not living:
            world.ok("stop", NAME)

    for delay in rounds(world, campaign, typical(world, prepare, remove), full=250):
        with campaign.round(f"killed after {delay:.3f} s"):
            prepare()
            hit += kill_at(world, remove, delay)
            check_aftermath(world)
            world.ok(*remove)
            assert world.ls() == [], "not removed"
            assert not world.record(NAME).exists()
            assert not marked(world), "processes are left of what is forgotten"
    campaign.remark(f"{hit} hit")
    sweep_up(world, campaign)
    campaign.conclude()
