"""sesh resume where there is little to do; tests/commands/test_pause.py has the rest."""

from __future__ import annotations

from tests.surroundings import complains
from tests.world import World


def test_what_runs_is_left_as_it_is(world: World) -> None:
    before = world.start("a")
    assert world.ok("resume", "a").err == "sesh: a is not paused\n"
    assert world.session("a")["pid"] == before["pid"]
    assert world.session("a")["resumed"] is None


def test_of_several_those_that_are_not_paused_are_named(world: World) -> None:
    for name in ("a", "b", "c"):
        world.start(name)
    world.ok("pause", "b")
    assert world.ok("resume", "a", "b", "c").err == "sesh: a and c are not paused\n"
    assert world.state_of("b") == "running"


def test_nothing_to_resume_is_fine_and_a_name_is_needed(world: World) -> None:
    world.start("a", options=("--group", "g"))
    assert "nothing to resume" in world.ok("resume", "--group", "g").err
    complains(world.sesh("resume"), 2, "give names, or --group")
