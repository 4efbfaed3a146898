"""All that is basic, by an ordinary user who may speak to the engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine import Engine
from tests.places.docker.boxes import IN_A_BOX, becomes, logged, owner, start, start_also, told
from tests.surroundings import STRANGER, as_stranger, give_to_stranger, run
from tests.world import SESH, Done, World


class UsersWorld(World):
    """A world in which an ordinary user runs sesh."""

    def sesh(self, *args: str, **_: Any) -> Done:
        return run(self, *as_stranger(SESH, *args))


@pytest.fixture
def users(engine: Engine) -> Iterator[World]:
    """The user's own world, with a group that may speak to the engine."""
    world = UsersWorld()
    world.env |= engine.env
    world.configure("[docker]\ntimeout = 20\n")
    socket = engine.host.removeprefix("unix://")
    group = os.stat(socket).st_gid
    os.chown(socket, -1, STRANGER)
    try:
        give_to_stranger(world)
        yield world
    finally:
        os.chown(socket, -1, group)
        engine.clear()
        world.end()


def owners(directory: Path) -> set[int]:
    return {owner(path) for path in (directory, *directory.rglob("*"))}


def test_a_session_from_its_start_to_its_end(users: World, engine: Engine) -> None:
    """Its agent is root inside, and ends in order."""
    trap = "trap 'echo bye >note; exit 5' TERM"
    script = f"{trap}; echo ready; read word; echo got $word; while :; do sleep 0.1; done"
    shown = start(users, "a", "sh", "-c", script)
    assert told(shown, "state", "place") == ("running", "docker")
    assert logged(users, "a", "ready")
    users.ok("send", "a", "hello")
    assert logged(users, "a", "got hello")
    assert users.state_of("a") == "running"
    assert owners(users.state) == {STRANGER}
    users.ok("stop", "--keep", "a")
    assert told(users.session("a"), "state", "exit_code") == ("stopped", 5)
    assert (users.cwd / "note").read_text() == "bye\n"
    assert engine.containers(all=False) == ["sesh-a"]
    users.ok("rm", "a")
    assert engine.containers() == []
    assert not [path for path in users.root.rglob("*") if shown["id"] in path.name]


def test_the_ends_of_agents_that_are_root_inside(users: World, engine: Engine) -> None:
    start(users, "a", "sh", "-c", "id -u; sleep 0.3; exit 3")
    assert told(becomes(users, "a", "failed"), "exit_code", "cause") == (3, "exit")
    assert logged(users, "a", "0\n")
    start(users, "b", "sh", "-c", "sleep 0.3")
    becomes(users, "b", "stale")
    start(users, "c")
    engine.docker("pause", "sesh-c")
    assert users.state_of("c") == "paused"
    engine.docker("unpause", "sesh-c")
    engine.docker("kill", "sesh-c")
    assert told(becomes(users, "c", "lost"), "cause") == ("container-gone",)
    assert owners(users.state) == {STRANGER}
    users.ok("restart", "a", "b", "c", "-y")
    assert {one["generation"] for one in users.ls()} == {2}


def test_an_agent_with_the_users_own_number(users: World, engine: Engine) -> None:
    """What it writes into the user's directory is the user's."""
    who = ("--user", f"{STRANGER}:{STRANGER}")
    start_also(users, "a", *who, command=("sh", "-c", "id -u; touch made; exec cat"))
    assert logged(users, "a", str(STRANGER))
    assert owner(users.cwd / "made") == STRANGER
    users.ok("send", "a", "hello")
    assert logged(users, "a", "hello")
    users.ok("stop", "a")
    assert users.state_of("a") == "stopped"
    assert engine.containers() == []


def test_root_and_the_user_do_not_see_each_others(users: World, boxed: World) -> None:
    start(users, "a")
    assert boxed.ls() == []
    done = boxed.sesh("start", "a", *IN_A_BOX, "--", "cat")
    assert done.code == 8
    assert users.state_of("a") == "running"
