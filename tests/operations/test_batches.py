"""What is done with many sessions costs a number of tmux calls that does not depend on how many."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

from tests.surroundings import fake_tmux
from tests.world import World

FEW, MANY = 5, 40
MOST_CALLS = 12


def started(world: World, count: int, *options: str) -> list[str]:
    names = [f"s{number}" for number in range(count)]
    world.start(names[0])  # alone: it starts the server
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: world.start(name, options=options), names[1:]))
    return names


def states(world: World) -> set[str]:
    return {one["state"] for one in world.ls()}


def calls_of(world: World, *argv: str) -> int:
    """How often a command calls tmux."""
    log = world.root / "calls"
    log.write_text("")
    program = f'echo x >>{log}; exec {shutil.which("tmux")} "$@"'
    world.ok(*argv, env=fake_tmux(world, program))
    return len(log.read_text().splitlines())


def test_stop(world: World) -> None:
    few = calls_for(world, FEW, "stop", "--all", "-y")
    many = calls_for(world, MANY, "stop", "--all", "-y")
    assert (few <= MOST_CALLS, many <= MOST_CALLS) == (True, True), (few, many)


def calls_for(world: World, count: int, *argv: str) -> int:
    names = started(world, count)
    calls = calls_of(world, *argv)
    assert states(world) == {"stopped"}
    screens = {path.name for path in world.state.glob("transcripts/*.screen")}
    assert len(screens) >= count
    world.ok("rm", *names)
    return calls


def test_rm(world: World) -> None:
    names = started(world, MANY)
    world.ok("stop", "--all", "-y")
    few = calls_of(world, "rm", *names[:FEW])
    many = calls_of(world, "rm", *names[FEW:])
    assert (few <= MOST_CALLS, many <= MOST_CALLS) == (True, True), (few, many)
    assert world.ls() == []


def test_rm_of_living_sessions(world: World) -> None:
    names = started(world, MANY)
    few = calls_of(world, "rm", "--force", *names[:FEW])
    many = calls_of(world, "rm", "--force", *names[FEW:])
    assert (few <= MOST_CALLS, many <= MOST_CALLS) == (True, True), (few, many)
    assert world.ls() == []


def test_pause_and_resume(world: World) -> None:
    names = started(world, MANY)
    for verb, state in (("pause", "paused"), ("resume", "running")):
        few = calls_of(world, verb, *names[:FEW])
        many = calls_of(world, verb, *names[FEW:])
        assert (few <= MOST_CALLS, many <= MOST_CALLS) == (True, True), (verb, few, many)
        assert states(world) == {state}
