"""sesh detach: send everybody home."""

from __future__ import annotations

from tests.emulator import Terminal, attached
from tests.surroundings import complains
from tests.world import World


def test_sends_everybody_of_one_session_home(world: World) -> None:
    for name in ("a", "b"):
        world.start(name, "cat")
    ones, other = [Terminal(world), Terminal(world)], Terminal(world)
    for terminal in ones:
        terminal.type("sesh attach a")
    other.type("sesh attach b")
    assert attached(world, "a", 2)
    assert attached(world, "b")
    done = world.ok("detach", "a")
    assert (done.out, done.err) == ("", "")
    for terminal in ones:
        terminal.see("[detached (from session a)]")
        terminal.at_the_shell()
    assert attached(world, "b")
    assert world.state_of("a") == "running"


def test_without_a_name_everybody_goes(world: World) -> None:
    terminals = []
    for name in ("a", "b"):
        world.start(name, "cat")
        terminal = Terminal(world)
        terminal.type(f"sesh attach {name}")
        assert attached(world, name)
        terminals.append(terminal)
    world.ok("detach")
    for terminal in terminals:
        terminal.see("[detached")


def test_a_name_is_never_taken_for_a_longer_one(world: World) -> None:
    for name in ("a", "abc"):
        world.start(name, "cat")
    terminal = Terminal(world)
    terminal.type("sesh attach abc")
    assert attached(world, "abc")
    world.ok("detach", "a")
    assert attached(world, "abc")


def test_nobody_there_is_no_error(world: World) -> None:
    world.ok("detach")  # not even a session
    world.start("a", "cat")
    world.start("over", "true")
    for args in (["a"], ["over"], []):
        done = world.ok("detach", *args)
        assert (done.out, done.err) == ("", "")


def test_unknown_names(world: World) -> None:
    complains(world.sesh("detach", "nobody"), 4, "nobody")
