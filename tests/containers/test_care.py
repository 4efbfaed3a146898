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
    start_also(boxed, "a", "--timeout", "2s")
    time.sleep(2.5)
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
        *("timeout", "timeout", "ran for its timeout (2 seconds)"),
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


@pytest.mark.parametrize("place", ["made", "existing"])
def test_a_health_command_runs_inside(boxed: World, engine: Engine, place: str) -> None:
    health = ("--health-cmd", "test -e /tmp/well", "--health-interval", "200ms")
    options = (*health, "--health-retries", "1")
    if place == "made":
        start_also(boxed, "a", *options)
        container = "sesh-a"
    else:
        container = "theirs"
        run_box(engine, container)
        boxed.start("a", "cat", options=("--container", container, *options))
    time.sleep(0.3)

    def health_is(word: str) -> bool:
        boxed.ok("pass")
        return bool(boxed.session("a")["health"] == word)

    assert eventually(lambda: health_is("failing"), 30), boxed.session("a")
    engine.docker("exec", container, "touch", "/tmp/well")
    assert eventually(lambda: health_is("ok"), 30), boxed.session("a")


@pytest.mark.parametrize("failing", ["exit 1", "exec sleep 99"], ids=["down", "hangs"])
def test_an_engine_that_does_not_answer_makes_nobody_unwell(
    boxed: World, engine: Engine, failing: str
) -> None:
    """Its command is there and says nothing of the health command."""
    silent = boxed.root / "silent"
    real = shutil.which("docker")
    wrapper = f'case "$*" in *"test -e /well"*) [ ! -e {silent} ] || {failing} ;; esac'
    put_first(boxed, "docker", f'{wrapper}\nexec {real} "$@"')
    health = ("--health-cmd", "test -e /well", "--health-interval", "200ms")
    start_also(boxed, "a", *health, "--health-retries", "1", "--health-timeout", "500ms")
    engine.docker("exec", "sesh-a", "touch", "/well")

    def health_is(word: str) -> bool:
        boxed.ok("pass")
        return bool(boxed.session("a")["health"] == word)

    assert eventually(lambda: health_is("ok"), 30), boxed.session("a")
    silent.touch()
    engine.docker("exec", "sesh-a", "rm", "/well")
    assert not eventually(lambda: health_is("failing"), 8)
    silent.unlink()
    assert eventually(lambda: health_is("failing"), 30), boxed.session("a")


def test_a_health_command_that_hangs_inside(boxed: World, engine: Engine) -> None:
    health = ("--health-cmd", "sleep 98765", "--health-interval", "200ms", "--health-retries", "1")
    start_also(boxed, "a", *health, "--health-timeout", "1s")

    def failing() -> bool:
        boxed.ok("pass")
        return bool(boxed.session("a")["health"] == "failing")

    assert eventually(failing, 30), boxed.session("a")


def test_the_memory_limit_is_the_engines_too(boxed: World, engine: Engine) -> None:
    start_also(boxed, "a", "--max-memory", "64M")
    assert inspect(engine, "sesh-a")["HostConfig"]["Memory"] == 64 << 20


def test_processor_time(boxed: World, engine: Engine) -> None:
    limit = ("--max-cpu-time", "1s", "--check-interval", "500ms")
    start_also(boxed, "a", *limit, command=("sh", "-c", "while :; do :; done"))
    time.sleep(2.5)
    boxed.ok("gc")
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
