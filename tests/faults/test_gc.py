"""`sesh gc` killed at any moment, and gc against start: no living session loses its record, none is
signalled, and the next gc brings about what was wanted."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.faults.living import dead, look, marked, until
from tests.faults.table import Campaign
from tests.faults.test_kills import kill_at, lock_is_free, typical
from tests.world import World, count

pytestmark = pytest.mark.timeout(count(600, 3600))

# So eager that every round has something to do for every rule.
EAGER = """
[gc]
archive_after = 0.01
close_after = 0.01
max_history = 2
[stop]
grace = 2
"""
GC = ("gc", "--auto")
DONE = ("done-1", "done-2", "done-3")


@pytest.fixture
def eager(world: World) -> World:
    world.configure(EAGER)
    return world


def ids(world: World) -> set[str]:
    return {one["id"] for one in world.ls("--all")}


def planned(world: World) -> list[dict[str, Any]]:
    """What a gc would do; not what it would keep."""
    steps = world.ok("gc", "--dry-run", "--json").json
    return [one for one in steps if one["verb"] != "keep"]


def test_kill_gc(eager: World, campaign: Campaign) -> None:
    """Wanted: what ended is archived, what is over its limit has ended, what runs runs."""
    world = eager
    kept = look(world.start("kept")["pid"])
    assert kept is not None
    hit = 0

    def prepare() -> None:
        world.ok("rm", "-f", "limited")
        world.start("limited", options=("--max-age", "0.01s"))
        for name in DONE:
            world.start(name, "true")
        assert until(lambda: all(world.state_of(name) == "completed" for name in DONE))

    length = typical(world, prepare, GC)
    campaign.remark(f"kills within {length * 1000:.0f} ms")
    for _ in range(count(3, 100)):
        delay = campaign.random.uniform(0.05, 1.1) * length
        with campaign.round(f"killed after {delay:.3f} s"):
            prepare()
            before = {world.session(name)["id"] for name in ("kept", "limited")}
            hit += kill_at(world, GC, delay)
            check_nothing_lost(world, before)
            assert not dead(kept), "the running session was ended"
            converge(world)
            assert {one["name"]: one["state"] for one in world.ls()} == {
                "kept": "running",
                "limited": "timeout",
            }
            assert not dead(kept), "the running session was ended"
            assert set(marked(world)) == {kept.pid}, "something is left of what has ended"
    campaign.remark(f"{hit} hit")
    campaign.conclude()


def check_nothing_lost(world: World, wanted: set[str]) -> None:
    listed = world.ls("--all")
    assert not [one for one in listed if one["state"] in ("damaged", "orphan")], listed
    assert wanted <= {one["id"] for one in listed}, "a session is lost"
    assert until(lambda: lock_is_free(world), within=2), "the lock is stuck"


def converge(world: World) -> None:
    """The next gc, or the one after it, leaves nothing to do."""
    for _ in range(4):
        world.ok("gc", "--auto")
        if not planned(world):
            return
    raise AssertionError(f"gc does not come to an end: {planned(world)}")


def test_gc_against_start(eager: World, campaign: Campaign) -> None:
    """Sessions are started, some of them again and again, while four gc never stop."""
    world = eager
    over = threading.Event()
    complaints: list[str] = []

    def clean() -> None:
        while not over.is_set():
            done = world.sesh("gc", "--auto", "--older-than", "0", "--kill-orphans")
            if done.code != 0:
                complaints.append(f"gc: exit {done.code}: {done.err}")

    def start(number: int) -> dict[str, Any]:
        """A session that stays; and one that ends at once, whose name is used again."""
        world.sesh("start", f"quick-{number % 5}", "--", "true")
        return world.start(f"stays-{number}")

    cleaners = [threading.Thread(target=clean) for _ in range(4)]
    for cleaner in cleaners:
        cleaner.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            started = list(pool.map(start, range(count(10, 1000))))
    finally:
        over.set()
        for cleaner in cleaners:
            cleaner.join()
    listed = {one["name"]: one for one in world.ls()}
    living = marked(world)
    for one in started:
        with campaign.round(one["name"]):
            now = listed.get(one["name"])
            assert now is not None, "its record is gone"
            assert (now["state"], now["id"], now["pid"]) == ("running", one["id"], one["pid"])
            assert living.get(one["pid"]) == one["id"], "its agent is gone"
            assert (world.state / f"transcripts/{one['id']}.log").exists()
    with campaign.round("gc"):
        assert not complaints, complaints[:3]
    campaign.conclude()
