"""sesh doctor: so far --prompt; tests/test_prompt.py has what its line says."""

from __future__ import annotations

import pytest

from sesh.errors import OK, PROBLEMS
from tests.surroundings import complains
from tests.world import World, eventually


def test_the_line_and_its_exit_code(world: World) -> None:
    world.start("one", "false")
    eventually(lambda: world.state_of("one") == "failed")
    assert world.ok("doctor", "--prompt").out == "1 failed\n"
    done = world.sesh("doctor", "--prompt", "--exit-code")
    assert (done.code, done.out, done.err) == (PROBLEMS, "1 failed\n", "")
    world.ok("stop", "one")
    done = world.sesh("doctor", "--prompt", "--exit-code")
    assert (done.code, done.out, done.err) == (OK, "", "")


@pytest.mark.parametrize("well", [True, False])
def test_the_full_path_says_the_same(world: World, well: bool) -> None:
    """Options in another order are for click."""
    world.start("one", "true" if well else "false")
    eventually(lambda: world.state_of("one") == ("completed" if well else "failed"))
    done = world.sesh("doctor", "--exit-code", "--prompt")
    fast = world.sesh("doctor", "--prompt", "--exit-code")
    assert done == fast


def test_without_prompt_there_is_nothing_yet(world: World) -> None:
    complains(world.sesh("doctor"), 2, "--prompt")
