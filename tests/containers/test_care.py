"""Sessions in containers that nobody watches. No timer of tmux's sees them: gc or watch does."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.containers.boxes import becomes, inside, inspect, run_box, start_also, told
from tests.engine import IMAGE, Engine
from tests.schedulers import put_first
from tests.world import World, eventually


@pytest.mark.parametrize("how", ["gc", "watch"])
def test_a_deadline(boxed: World, engine: Engine, how: str) -> None:
    start_also(boxed, "a", "--timeout", "1s")
    time.sleep(1.2)
    assert boxed.state_of("a") == "running"
    if how == "gc":
        boxed.ok("gc", "--auto")
    else:
        watch = boxed.popen("watch", "--interval", "500ms")
        becomes(boxed, "a", "timeout")
        watch.terminate()
        assert watch.wait(30) == 0
    shown = boxed.session("a")
    assert told(shown, "state", "cause", "reason") == (
        *("timeout", "timeout", "ran for its timeout (1 second)"),
    )
    assert engine.containers() == []
    assert [e["kind"] for e in boxed.events()].count("ended") == 1


def test_a_failure_is_retried_in_the_same_container(boxed: World, engine: Engine) -> None:
    script = "echo x >>/tmp/tries; [ $(wc -l </tmp/tries) -gt 1 ] && exec cat; exit 3"
    options = ("--retries", "3", "--retry-delay", "500ms")
    start_also(boxed, "a", *options, command=("sh", "-c", script))
    first = becomes(boxed, "a", "recovering")
    assert (first["reason"], first["retries_max"]) == ("exit 3; retry 1 of 3", 3)
    container = inspect(engine, "sesh-a")["Id"]
    time.sleep(0.6)
    boxed.ok("gc")
    assert told(becomes(boxed, "a", "running"), "generation", "retries") == (2, 1)
    assert inspect(engine, "sesh-a")["Id"] == container
    assert inside(engine, "a", "wc -l </tmp/tries").strip() == "2"


def test_a_timeout_that_is_retried_keeps_its_container(boxed: World, engine: Engine) -> None:
    options = ("--timeout", "1s", "--retries", "1", "--retry-on", "timeout")
    start_also(boxed, "a", *options, "--retry-delay", "300ms")
    container = inspect(engine, "sesh-a")["Id"]
    time.sleep(1.2)
    boxed.ok("pass")
    becomes(boxed, "a", "recovering")
    time.sleep(0.4)
    boxed.ok("pass")
    assert told(boxed.session("a"), "state", "generation") == ("running", 2)
    assert inspect(engine, "sesh-a")["Id"] == container


def test_a_container_that_was_killed_comes_back(boxed: World, engine: Engine) -> None:
    options = ("--retries", "2", "--retry-delay", "300ms", "--retry-on", "failure,lost")
    start_also(boxed, "a", *options)
    engine.docker("kill", "--signal", "KILL", "sesh-a")
    becomes(boxed, "a", "recovering")
    time.sleep(0.4)
    boxed.ok("gc")
    assert told(boxed.session("a"), "state", "generation") == ("running", 2)


def health_is(world: World, word: str) -> bool:
    """After another pass."""
    world.ok("pass")
    return bool(world.session("a")["health"] == word)


def health_becomes(world: World, word: str) -> None:
    assert eventually(lambda: health_is(world, word), 60, pause=0.15), world.session("a")


@pytest.mark.parametrize("place", ["made", "existing"])
def test_a_health_command_runs_inside(boxed: World, engine: Engine, place: str) -> None:
    """One that fails, and one that hangs."""
    limits = ("--health-interval", "200ms", "--health-retries", "1", "--health-timeout", "2s")
    if place == "made":
        container = "sesh-a"
        start_also(boxed, "a", "--health-cmd", "test -e /tmp/well || sleep 98765", *limits)
    else:
        container = "theirs"
        run_box(engine, container)
        options = ("--container", container, "--health-cmd", "test -e /tmp/well", *limits)
        boxed.start("a", "cat", options=options)
    health_becomes(boxed, "failing")
    engine.docker("exec", container, "touch", "/tmp/well")
    health_becomes(boxed, "ok")


def test_an_engine_that_does_not_answer_makes_nobody_unwell(boxed: World, engine: Engine) -> None:
    """Its command is there and says nothing of the health command: it fails, or it hangs."""
    silent, asked = boxed.root / "silent", boxed.root / "asked"
    real = shutil.which("docker")
    say_nothing = f"echo >>{asked}; read how <{silent}; [ $how = down ] && exit 1; exec sleep 99"
    wrapper = f'case "$*" in *"test -e /well"*) if [ -e {silent} ]; then {say_nothing}; fi ;; esac'
    put_first(boxed, "docker", f'{wrapper}\nexec {real} "$@"')
    health = ("--health-cmd", "test -e /well", "--health-interval", "200ms")
    start_also(boxed, "a", *health, "--health-retries", "1", "--health-timeout", "500ms")
    engine.docker("exec", "sesh-a", "touch", "/well")
    health_becomes(boxed, "ok")

    def asked_in_vain(times: int) -> bool:
        assert not health_is(boxed, "failing")
        return asked.exists() and len(asked.read_text().splitlines()) >= times

    silent.write_text("down\n")
    engine.docker("exec", "sesh-a", "rm", "/well")
    assert eventually(lambda: asked_in_vain(2), 60, pause=0.15)
    silent.write_text("hangs\n")
    assert eventually(lambda: asked_in_vain(4), 60, pause=0.15)
    silent.unlink()
    health_becomes(boxed, "failing")


def test_processor_time_and_memory(boxed: World, engine: Engine) -> None:
    limit = ("--max-cpu-time", "1s", "--max-memory", "64M", "--check-interval", "500ms")
    start_also(boxed, "a", *limit, command=("sh", "-c", "while :; do :; done"))
    assert inspect(engine, "sesh-a")["HostConfig"]["Memory"] == 64 << 20  # the engine's limit too

    def is_ended() -> bool:
        boxed.ok("gc")
        return boxed.state_of("a") == "timeout"

    assert eventually(is_ended, 60, pause=0.25)
    shown = boxed.session("a")
    assert told(shown, "state", "cause") == ("timeout", "limit")
    assert "max-cpu-time" in shown["reason"]
    assert engine.containers() == []


def test_a_place_from_a_template(boxed: World, engine: Engine) -> None:
    directory = Path(boxed.env["XDG_CONFIG_HOME"]) / "sesh" / "templates"
    directory.mkdir(parents=True)
    text = f'command = ["cat"]\nimage = "{IMAGE}"\nnetwork = "none"\nmemory = "64m"\n'
    (directory / "box.toml").write_text(text)
    shown = boxed.ok("start", "a", "-t", "box", "--json").json
    assert told(shown, "place", "image", "template") == ("docker", IMAGE, "box")
    assert inspect(engine, "sesh-a")["HostConfig"]["Memory"] == 64 << 20
