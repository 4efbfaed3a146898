"""The truth about sessions in containers: what became of the agent, of its container, and of the
engine; and that nothing is lost while the engine can't be asked."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine import Engine
from tests.places.docker.boxes import (
    PATIENCE,
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
from tests.surroundings import complains
from tests.world import World, eventually

OwnEngine = Callable[..., Engine]


# --- the agent ends ------------------------------------------------------------------------------


# Ends with the status that is written to a file beside it.
OBEYS = ("sh", "-c", "while ! read status <word; do sleep 0.05; done 2>/dev/null; exit $status")


def test_how_an_agent_ends(boxed: World, engine: Engine) -> None:
    word = boxed.cwd / "word"

    def leave(status: int) -> None:
        (boxed.cwd / "new").write_text(f"{status}\n")
        (boxed.cwd / "new").rename(word)

    def again() -> int:
        word.unlink(missing_ok=True)
        boxed.ok("restart", "a")
        return int(boxed.session("a")["pid"])

    pid = start(boxed, "a", *OBEYS)["pid"]
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.kill(pid, number)
        shown = becomes(boxed, "a", "failed")
        assert told(shown, "signal", "cause", "reason") == (
            *(number, "signal", f"killed by {number.name}"),
        )
        pid = again()
    leave(3)
    shown = becomes(boxed, "a", "failed")
    assert told(shown, "exit_code", "signal", "cause", "reason") == (3, None, "exit", "exit 3")
    again()
    socket = boxed.session("a")["socket"]
    engine.docker("exec", "sesh-a", "tmux", "-S", socket, "kill-session", "-t", "=a")
    assert told(becomes(boxed, "a", "lost"), "cause") == ("terminal-gone",)
    again()
    leave(0)
    shown = becomes(boxed, "a", "stale")
    assert told(shown, "exit_code", "cause") == (0, "exit")
    assert shown["reason"] == "exit 0, its container still up"
    assert shown["attention"]
    assert engine.containers(all=False) == ["sesh-a"]
    engine.docker("rm", "--force", "sesh-a")
    assert told(becomes(boxed, "a", "completed"), "exit_code", "attention") == (0, None)


def test_a_command_that_is_not_in_the_image(boxed: World) -> None:
    done = boxed.sesh("start", "a", "--image", "sesh-test", "--network", "none", "--", "nosuch")
    complains(done, 1, "a could not be launched: command not found")
    assert told(boxed.session("a"), "state", "cause") == ("failed", "launch")


def test_an_agent_that_ends_at_once(boxed: World) -> None:
    """Nobody has seen its process, but it said that it began, and its keeper how it ended."""
    start_also(boxed, "a", command=("sh", "-c", "exit 3"))
    shown = becomes(boxed, "a", "failed")
    assert shown["exit_code"] == 3
    assert shown["started"] is not None
    text = boxed.ok("show", "a").out
    assert "life       started" in text
    assert "not started yet" not in text


@pytest.mark.parametrize(
    ("options", "words"), [((), ""), (("--launch-timeout", "20s"), "launch timeout 20s")]
)
def test_the_launch_timeout_that_was_asked_for_is_shown(
    boxed: World, options: tuple[str, ...], words: str
) -> None:
    """What its engine gets on top, nobody has asked for."""
    start_also(boxed, "a", *options)
    text = boxed.ok("show", "a").out
    assert words in text
    assert ("launch timeout" in text) == bool(words)
    assert "130s" not in text


EATS = ("sh", "-c", "sleep 0.3; x=$(head -c 200000000 /dev/zero | tr '\\0' x)")


def test_an_agent_without_memory(boxed: World, engine: Engine) -> None:
    """The kernel kills one process of those in the container, and here the agent is the largest."""
    start_also(boxed, "a", "--docker-opt=--memory=32m", "--max-memory", "1G", command=EATS)
    shown = becomes(boxed, "a", "failed", "stale", "lost")
    assert told(shown, "state", "cause") == ("failed", "oom")
    assert "memory" in shown["reason"]
    assert engine.containers() == ["sesh-a"]


def test_an_agent_over_its_max_memory(boxed: World, engine: Engine) -> None:
    """The engine has that limit from us: it is as if we had seen it in time."""
    start_also(boxed, "a", "--max-memory", "32M", command=EATS)
    shown = becomes(boxed, "a", "failed", "stale", "lost", "timeout")
    assert told(shown, "state", "cause") == ("timeout", "limit")
    assert shown["reason"] == "killed at max-memory (32M)"
    assert engine.containers() == ["sesh-a"]


# --- its container is taken away -----------------------------------------------------------------


TAKEN = {
    "stopped": ("stop", "--time", "0"),
    "killed": ("kill",),
    "removed": ("rm", "--force"),
    "restarted": ("restart", "--time", "0"),
}


def test_a_container_that_is_removed(boxed: World, engine: Engine) -> None:
    for name, taken in TAKEN.items():
        pid = start(boxed, name, "sh", "-c", "echo was here; exec cat")["pid"]
        assert logged(boxed, name, "was here")
        engine.docker(*taken, f"sesh-{name}")
        assert not lives(pid), name
        shown = becomes(boxed, name, "lost")
        assert told(shown, "cause", "exit_code") == ("container-gone", None), name
        assert "was here" in boxed.ok("logs", name).out
        complains(boxed.sesh("send", name, "hello"), 3, "has ended")
    left = {f"sesh-{name}" for name in TAKEN}
    assert set(engine.containers()) == left - {"sesh-removed"}
    boxed.ok("restart", *TAKEN, "-y")
    again = {told(one, "state", "generation") for one in boxed.ls()}
    assert again == {("running", 2)}
    boxed.ok("stop", "--keep", "stopped")
    engine.docker("rm", "--force", "sesh-stopped")
    assert boxed.state_of("stopped") == "stopped"  # whatever comes
    boxed.ok("stop", *TAKEN, "-y")
    assert engine.containers() == []


def test_another_container_of_the_same_name_is_not_ours(boxed: World, engine: Engine) -> None:
    start(boxed, "a")
    engine.docker("rm", "--force", "sesh-a")
    run_box(engine, "sesh-a")
    theirs = id_of(engine, "sesh-a")
    becomes(boxed, "a", "lost")
    boxed.sesh("stop", "a")
    complains(boxed.sesh("restart", "a"), 8, "sesh-a", "sesh did not create")
    assert told(boxed.session("a"), "state", "cause") == ("failed", "launch")
    boxed.ok("rm", "a")
    assert id_of(engine, "sesh-a") == theirs


# --- it is paused --------------------------------------------------------------------------------


def test_pause_and_resume_by_sesh_or_by_the_engine(boxed: World, engine: Engine) -> None:
    pid = start(boxed, "a")["pid"]
    engine.docker("pause", "sesh-a")
    shown = boxed.session("a")
    assert told(shown, "state", "reason", "pid") == (
        *("paused", "frozen: its container is paused"),
        pid,
    )
    assert "paused" in boxed.ok("ls").out
    complains(boxed.sesh("send", "a", "hello"), 8, "a is paused")
    engine.docker("unpause", "sesh-a")
    assert boxed.state_of("a") == "running"
    boxed.ok("pause", "--hold", "a")
    assert told(boxed.session("a"), "state", "reason") == ("paused", "held")
    assert inspect(engine, "sesh-a")["State"]["Status"] == "running"
    complains(boxed.sesh("send", "a", "hello"), 8, "a is paused")
    boxed.ok("resume", "a")
    assert boxed.state_of("a") == "running"
    boxed.ok("pause", "a")
    assert told(boxed.session("a"), "state", "reason") == ("paused", "frozen")
    assert inspect(engine, "sesh-a")["State"]["Status"] == "paused"
    boxed.ok("resume", "a")
    assert boxed.state_of("a") == "running"
    assert inspect(engine, "sesh-a")["State"]["Status"] == "running"
    boxed.ok("send", "a", "hello")
    assert logged(boxed, "a", "hello")


def test_a_frozen_container_can_be_stopped(boxed: World, engine: Engine) -> None:
    for name in ("sesh", "docker"):
        start(boxed, name)
    boxed.ok("pause", "--freeze", "sesh")
    engine.docker("pause", "sesh-docker")
    for name in ("sesh", "docker"):
        boxed.ok("stop", name)
        assert boxed.state_of(name) == "stopped"
    assert engine.containers() == []


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


# --- the engine is in trouble --------------------------------------------------------------------


AS_STARTED = {"lives": "running", "stale": "stale", "failed": "failed"}
IMPATIENT = "[docker]\ntimeout = 0.5\n"


def start_three(world: World) -> None:
    """A session in each of three states; two have ended before start has looked."""
    start(world, "lives", "sh", "-c", "echo hello; exec cat")
    assert start(world, "stale", "true")["state"] == "stale"
    assert start(world, "failed", "false")["state"] == "failed"
    assert states(world) == AS_STARTED


def states(world: World) -> dict[str, str]:
    return {one["name"]: one["state"] for one in world.ls()}


def test_an_engine_that_hangs_changes_nothing(boxed: World, engine: Engine) -> None:
    """On this machine the kernel tells all that matters about living ones."""
    start_three(boxed)
    start(boxed, "stopped")
    boxed.ok("stop", "stopped")
    started = {**AS_STARTED, "stopped": "stopped"}
    patient = boxed.configured()
    boxed.configure(IMPATIENT)
    engine.freeze()
    assert states(boxed) == started
    for refused in (("stop", "lives"), ("stop", "stale"), ("restart", "failed")):
        done = boxed.sesh(*refused)
        assert done.code in (1, 5), done
        assert "no answer" in done.err or "not confirmed" in done.err
    complains(boxed.sesh("start", "new", "--image", "sesh-test"), 5, "no answer")
    assert states(boxed) == {**started, "lives": "stopping"}
    engine.thaw()
    boxed.configure(patient)
    assert set(engine.containers()) == {"sesh-lives", "sesh-stale", "sesh-failed"}
    boxed.ok("stop", "lives", "stale", "-y")
    assert states(boxed) == {**started, "lives": "stopped", "stale": "completed"}
    assert engine.containers() == ["sesh-failed"]


def test_a_container_removed_while_the_engine_hangs_is_unknown(
    boxed: World, engine: Engine
) -> None:
    """Nobody said how the agent ended, and the container could tell: then nothing is known."""
    pid = start(boxed, "lives")["pid"]
    init = inspect(engine, "sesh-lives")["State"]["Pid"]
    patient = boxed.configured()
    boxed.configure(IMPATIENT)
    engine.freeze()
    os.kill(init, signal.SIGKILL)
    assert eventually(lambda: not lives(pid), PATIENCE)
    shown = boxed.session("lives")
    assert told(shown, "state", "last_known") == ("unknown", "running")
    assert "container engine" in shown["reason"]
    assert boxed.sesh("status", "lives").code == 5
    complains(boxed.sesh("restart", "lives"), 5, "lives")
    complains(boxed.sesh("attach", "lives"), 5, "lives")
    engine.thaw()
    boxed.configure(patient)
    assert told(becomes(boxed, "lives", "lost"), "cause") == ("container-gone",)
    assert "sesh-lives" in engine.containers()


def test_an_engine_that_is_killed_with_its_containers(boxed: World, engine: Engine) -> None:
    start_three(boxed)
    engine.kill()
    assert states(boxed) == AS_STARTED
    boxed.ok("show", "lives")
    boxed.ok("status", "lives")
    assert "hello" in boxed.ok("logs", "lives").out
    complains(boxed.sesh("start", "new", "--image", "sesh-test"), 5, "does not answer")
    engine.start()
    assert told(becomes(boxed, "lives", "lost"), "cause") == ("container-gone",)
    assert states(boxed) == {**AS_STARTED, "lives": "lost", "stale": "completed"}
    assert set(engine.containers()) == {"sesh-lives", "sesh-stale", "sesh-failed"}
    boxed.ok("restart", "lives")
    assert logged(boxed, "lives", "hello")
    assert states(boxed)["lives"] == "running"


def test_an_engine_that_is_killed_and_comes_back_with_its_containers(
    world: World, own_engine: OwnEngine
) -> None:
    engine = own_engine(live_restore=True)
    world.env |= engine.env
    start_three(world)
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


def test_without_a_docker_command_living_agents_are_still_seen(boxed: World) -> None:
    start(boxed, "a", "sh", "-c", "echo hello; exec cat")
    assert logged(boxed, "a", "hello")
    boxed.configure('[docker]\ncommand = "nosuch-docker"\n')
    assert boxed.state_of("a") == "running"
    complains(boxed.sesh("start", "b", "--image", "sesh-test"), 5, "nosuch-docker", "not installed")
