"""sesh update: a word of the agent itself."""

from __future__ import annotations

import os

from tests.world import SESH, World, eventually


def beat(world: World) -> float:
    found = list(world.state.glob("run/*/one-*.beat"))
    return os.stat(found[0]).st_mtime if found else 0.0


def test_by_name(world: World) -> None:
    world.start("one")
    assert world.ok("update", "one").out == ""
    first = beat(world)
    assert first
    (file,) = world.state.glob("run/*/one-*.beat")
    assert file.stat().st_mode & 0o777 == 0o600
    os.utime(file, (1.0, 1.0))
    world.ok("update", "one")
    assert beat(world) >= first


def test_inside_a_session_the_name_is_known(world: World) -> None:
    world.start("one", "sh", "-c", f"{SESH} update; sleep 99")
    assert eventually(lambda: beat(world), within=10)


def test_outside_and_without_a_name(world: World) -> None:
    done = world.sesh("update")
    assert (done.code, "which session?" in done.err) == (2, True)


def test_one_that_has_ended_or_does_not_exist(world: World) -> None:
    world.start("one", "true")
    assert eventually(lambda: world.state_of("one") == "completed")
    assert world.sesh("update", "one").code == 3
    assert world.sesh("update", "none").code == 4


def test_a_disk_that_takes_nothing_is_told(world: World) -> None:
    world.start("one")
    (file,) = world.state.glob("run/*/one-*.pid")
    file.with_suffix(".beat").mkdir()
    done = world.sesh("update", "one")
    assert done.code == 6
    assert len(done.err.splitlines()) == 1
