"""The truth about sessions in containers: what became of the agent, of its container, and of the
engine; and that nothing is lost while the engine can't be asked."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.containers.boxes import (
    becomes,
    id_of,
    inspect,
    lives,
    logged,
    run_box,
    start,
    start_also,
    told,
)
from tests.engine import Engine
from tests.surroundings import complains
from tests.world import World, eventually

OwnEngine = Callable[..., Engine]


# --- the agent ends ------------------------------------------------------------------------------


def test_an_agent_that_ends_well_leaves_a_stale_session(boxed: World, engine: Engine) -> None:
    start(boxed, "a", "sh", "-c", "echo bye; sleep 0.3")
    shown = becomes(boxed, "a", "stale")
    assert told(shown, "exit_code", "cause") == (0, "exit")
    assert shown["reason"] == "exit 0, its container still up"
    assert shown["attention"]
    assert engine.containers(all=False) == ["sesh-a"]


def test_an_agent_that_ends_before_start_has_looked(boxed: World) -> None:
    for name, command, state in (("a", "true", "stale"), ("b", "false", "failed")):
        assert start(boxed, name, command)["state"] == state


def test_an_agent_that_fails(boxed: World, engine: Engine) -> None:
    start(boxed, "a", "sh", "-c", "sleep 0.3; exit 3")
    shown = becomes(boxed, "a", "failed")
    assert told(shown, "exit_code", "signal", "cause", "reason") == (3, None, "exit", "exit 3")
    assert engine.containers(all=False) == ["sesh-a"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_that_is_killed(boxed: World, number: signal.Signals) -> None:
    os.kill(start(boxed, "a", "sleep", "1000")["pid"], number)
    shown = becomes(boxed, "a", "failed")
    assert told(shown, "signal", "cause", "reason") == (
        *(number, "signal", f"killed by {number.name}"),
    )


def test_a_command_that_is_not_in_the_image(boxed: World) -> None:
    done = boxed.sesh("start", "a", "--image", "sesh-test", "--network", "none", "--", "nosuch")
    complains(done, 1, "a could not be launched: command not found")
    assert told(boxed.session("a"), "state", "cause") == ("failed", "launch")


def test_an_agent_whose_terminal_is_closed_inside(boxed: World, engine: Engine) -> None:
    shown = start(boxed, "a")
    engine.docker("exec", "sesh-a", "tmux", "-S", shown["socket"], "kill-session", "-t", "=a")
    assert told(becomes(boxed, "a", "lost"), "cause") == ("terminal-gone",)


def test_an_agent_that_starves(boxed: World, engine: Engine) -> None:
    """The kernel kills one process of those in the container, and here the agent is the largest."""
    eat = "x=$(head -c 200000000 /dev/zero | tr '\\0' x)"
    start_also(boxed, "a", "--memory", "32m", command=("sh", "-c", f"sleep 0.3; {eat}"))
    shown = becomes(boxed, "a", "failed", "stale", "lost")
    assert told(shown, "state", "cause") == ("failed", "oom")
    assert "memory" in shown["reason"]
    assert engine.containers() == ["sesh-a"]


# --- its container is taken away -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        (("stop", "--time", "0"), ["sesh-a"]),
        (("kill",), ["sesh-a"]),
        (("rm", "--force"), []),
        (("restart", "--time", "0"), ["sesh-a"]),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_a_container_that_is_taken_away(
    boxed: World, engine: Engine, taken: tuple[str, ...], left: list[str]
) -> None:
    pid = start(boxed, "a", "sh", "-c", "echo was here; exec cat")["pid"]
    assert logged(boxed, "a", "was here")
    engine.docker(*taken, "sesh-a")
    assert not lives(pid)
    assert told(becomes(boxed, "a", "lost"), "cause", "exit_code") == ("container-gone", None)
    assert engine.containers() == left
    assert "was here" in boxed.ok("logs", "a").out
    complains(boxed.sesh("send", "a", "hello"), 3, "has ended")
    boxed.ok("restart", "a")
    assert told(boxed.session("a"), "state", "generation") == ("running", 2)
    boxed.ok("stop", "a")
    assert engine.containers() == []


def test_a_stale_one_whose_container_is_taken_away(boxed: World, engine: Engine) -> None:
    start(boxed, "a", "true")
    becomes(boxed, "a", "stale")
    engine.docker("rm", "--force", "sesh-a")
    assert told(becomes(boxed, "a", "completed"), "exit_code", "attention") == (0, None)


def test_a_stopped_session_stays_stopped_whatever_comes(boxed: World, engine: Engine) -> None:
    start(boxed, "a")
    boxed.ok("stop", "--keep", "a")
    engine.docker("rm", "--force", "sesh-a")
    assert boxed.state_of("a") == "stopped"


def test_another_container_of_the_same_name_is_not_ours(boxed: World, engine: Engine) -> None:
    start(boxed, "a")
    engine.docker("rm", "--force", "sesh-a")
    run_box(engine, "sesh-a")
    theirs = id_of(engine, "sesh-a")
    becomes(boxed, "a", "lost")
    boxed.sesh("stop", "a")
    complains(boxed.sesh("restart", "a"), 8, "sesh-a", "sesh did not make")
    assert told(boxed.session("a"), "state", "cause") == ("failed", "launch")
    boxed.ok("rm", "a")
    assert id_of(engine, "sesh-a") == theirs


# --- it is paused --------------------------------------------------------------------------------


def test_a_container_that_somebody_pauses(boxed: World, engine: Engine) -> None:
    pid = start(boxed, "a")["pid"]
    engine.docker("pause", "sesh-a")
    shown = boxed.session("a")
    assert told(shown, "state", "reason", "pid") == ("paused", "its container is paused", pid)
    assert "paused" in boxed.ok("ls").out
    complains(boxed.sesh("send", "a", "hello"), 8, "a is paused")
    engine.docker("unpause", "sesh-a")
    assert boxed.state_of("a") == "running"
    boxed.ok("send", "a", "hello")
    assert logged(boxed, "a", "hello")


def test_pause_holds_and_resume_lets_go(boxed: World, engine: Engine) -> None:
    start(boxed, "a")
    boxed.ok("pause", "a")
    assert told(boxed.session("a"), "state", "reason") == ("paused", "paused on request")
    assert inspect(engine, "sesh-a")["State"]["Status"] == "running"
    complains(boxed.sesh("send", "a", "hello"), 8, "a is paused")
    boxed.ok("resume", "a")
    assert boxed.state_of("a") == "running"


def test_a_frozen_session_is_a_paused_container(boxed: World, engine: Engine) -> None:
    start(boxed, "a")
    boxed.ok("pause", "--freeze", "a")
    assert boxed.state_of("a") == "paused"
    assert inspect(engine, "sesh-a")["State"]["Status"] == "paused"
    boxed.ok("resume", "a")
    assert boxed.state_of("a") == "running"
    assert inspect(engine, "sesh-a")["State"]["Status"] == "running"


def test_freezing_in_an_existing_container_stops_only_the_agent(
    boxed: World, engine: Engine
) -> None:
    run_box(engine, "theirs")
    pid = start(boxed, "a", options=("--container", "theirs"))["pid"]
    boxed.ok("pause", "--freeze", "a")
    assert boxed.state_of("a") == "paused"
    assert Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T"
    assert inspect(engine, "theirs")["State"]["Status"] == "running"
    boxed.ok("resume", "a")
    assert boxed.state_of("a") == "running"
    assert Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "S"


@pytest.mark.parametrize("by_whom", ["sesh", "docker"])
def test_what_is_frozen_can_be_stopped(boxed: World, engine: Engine, by_whom: str) -> None:
    start(boxed, "a")
    if by_whom == "sesh":
        boxed.ok("pause", "--freeze", "a")
    else:
        engine.docker("pause", "sesh-a")
    boxed.ok("stop", "a")
    assert boxed.state_of("a") == "stopped"
    assert engine.containers() == []


# --- the engine is in trouble --------------------------------------------------------------------


@pytest.fixture
def four(world: World, own_engine: OwnEngine) -> tuple[World, Engine]:
    """An engine of the test's own with a session in each of four states."""
    return world, _four(world, own_engine())


def _four(world: World, engine: Engine) -> Engine:
    world.env |= engine.env
    start(world, "lives", "sh", "-c", "echo hello; exec cat")
    start(world, "stale", "true")
    start(world, "failed", "false")
    start(world, "stopped")
    world.ok("stop", "stopped")
    assert states(world) == AS_STARTED
    return engine


AS_STARTED = {"lives": "running", "stale": "stale", "failed": "failed", "stopped": "stopped"}


def states(world: World) -> dict[str, str]:
    return {one["name"]: one["state"] for one in world.ls()}


def test_an_engine_that_hangs_changes_nothing(four: tuple[World, Engine]) -> None:
    """On this machine the kernel tells all that matters about living ones."""
    world, engine = four
    engine.freeze()
    assert states(world) == AS_STARTED
    for refused in (("stop", "lives"), ("stop", "stale"), ("restart", "failed")):
        done = world.sesh(*refused)
        assert done.code in (1, 5), done
        assert "no answer" in done.err or "not confirmed" in done.err
    complains(world.sesh("start", "new", "--image", "sesh-test"), 5, "no answer")
    assert states(world) == {**AS_STARTED, "lives": "stopping"}
    engine.thaw()
    assert set(engine.containers()) == {"sesh-lives", "sesh-stale", "sesh-failed"}
    world.ok("stop", "lives", "stale", "-y")
    assert states(world) == {**AS_STARTED, "lives": "stopped", "stale": "completed"}
    assert engine.containers() == ["sesh-failed"]


def test_what_has_gone_while_the_engine_hangs_is_unknown(four: tuple[World, Engine]) -> None:
    """Nobody said how the agent ended, and the container could tell: then nothing is known."""
    world, engine = four
    shown = world.session("lives")
    init = inspect(engine, "sesh-lives")["State"]["Pid"]
    engine.freeze()
    os.kill(init, signal.SIGKILL)
    assert eventually(lambda: not lives(shown["pid"]), 10)
    shown = world.session("lives")
    assert told(shown, "state", "last_known") == ("unknown", "running")
    assert "container engine" in shown["reason"]
    assert world.sesh("status", "lives").code == 5
    complains(world.sesh("restart", "lives"), 5, "lives")
    complains(world.sesh("attach", "lives"), 5, "lives")
    engine.thaw()
    assert told(becomes(world, "lives", "lost"), "cause") == ("container-gone",)
    assert "sesh-lives" in engine.containers()


def test_an_engine_that_is_killed_and_takes_all_along(four: tuple[World, Engine]) -> None:
    world, engine = four
    engine.kill()
    assert states(world) == AS_STARTED
    world.ok("show", "lives")
    world.ok("status", "lives")
    assert "hello" in world.ok("logs", "lives").out
    complains(world.sesh("start", "new", "--image", "sesh-test"), 5, "does not answer")
    engine.start()
    assert told(becomes(world, "lives", "lost"), "cause") == ("container-gone",)
    assert states(world) == {**AS_STARTED, "lives": "lost", "stale": "completed"}
    assert set(engine.containers()) == {"sesh-lives", "sesh-stale", "sesh-failed"}
    world.ok("restart", "lives")
    assert logged(world, "lives", "hello")
    assert states(world)["lives"] == "running"


def test_an_engine_that_is_killed_and_comes_back_with_its_containers(
    world: World, own_engine: OwnEngine
) -> None:
    engine = _four(world, own_engine(live_restore=True))
    pid = world.session("lives")["pid"]
    engine.kill()
    assert states(world) == AS_STARTED
    engine.start()
    assert states(world) == AS_STARTED
    assert world.session("lives")["pid"] == pid
    world.ok("send", "lives", "again")
    assert logged(world, "lives", "again")
    world.ok("stop", "lives", "stale", "failed", "-y")
    assert engine.containers() == []


def test_without_a_docker_command_what_lives_is_still_seen(boxed: World) -> None:
    start(boxed, "a", "sh", "-c", "echo hello; exec cat")
    assert logged(boxed, "a", "hello")
    boxed.configure('[docker]\ncommand = "nosuch-docker"\n')
    assert boxed.state_of("a") == "running"
    complains(boxed.sesh("start", "b", "--image", "sesh-test"), 5, "nosuch-docker", "not installed")
