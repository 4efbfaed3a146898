"""Sessions in containers that nobody watches. No timer of tmux's sees them: gc or watch does."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests import pace
from tests.engine import IMAGE, Engine
from tests.places.docker.boxes import becomes, inside, inspect, logged, run_box, start_also, told
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
        assert watch.wait(pace.seconds(30)) == 0
    shown = boxed.session("a")
    assert told(shown, "state", "cause", "reason") == (
        *("timeout", "timeout", "ran for its timeout (1s)"),
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


def test_a_timeout_counts_all_launches(boxed: World, engine: Engine) -> None:
    options = ("--timeout", "5s", "--retries", "9", "--retry-on", "always")
    start_also(boxed, "a", *options, "--retry-delay", "300ms")
    begin = time.monotonic()
    os.kill(boxed.session("a")["pid"], signal.SIGKILL)
    becomes(boxed, "a", "recovering")
    time.sleep(0.4)
    boxed.ok("pass")
    assert told(boxed.session("a"), "state", "generation") == ("running", 2)
    time.sleep(max(0.0, begin + 5 - time.monotonic()))
    boxed.ok("pass")
    shown = boxed.session("a")
    assert told(shown, "state", "generation") == ("timeout", 2)
    assert shown["reason"] == "ran for its timeout (5s), earlier launches included"
    assert engine.containers() == []


def test_a_limit_that_is_retried_keeps_its_container(boxed: World, engine: Engine) -> None:
    options = ("--idle-timeout", "2s", "--retries", "1", "--retry-on", "timeout")
    start_also(boxed, "a", *options, "--retry-delay", "300ms")
    container = inspect(engine, "sesh-a")["Id"]
    time.sleep(2.2)
    boxed.ok("pass")
    time.sleep(0.4)
    boxed.ok("pass")
    assert "recovering" in [event["kind"] for event in boxed.events()]
    assert told(boxed.session("a"), "state", "generation") == ("running", 2)
    assert inspect(engine, "sesh-a")["Id"] == container


def test_a_session_that_exits_125_leaves_no_container(boxed: World, engine: Engine) -> None:
    script = "trap 'exit 125' TERM; while :; do sleep 0.1; done"
    options = ("--idle-timeout", "2s", "--retries", "1", "--retry-on", "timeout")
    start_also(boxed, "a", *options, command=("sh", "-c", script))
    time.sleep(2.2)
    boxed.ok("pass")
    shown = boxed.session("a")
    assert told(shown, "state", "exit_code", "generation") == ("timeout", 125, 1)
    assert engine.containers() == []


def test_silence_and_a_heartbeat_from_inside(boxed: World, engine: Engine) -> None:
    """There is no sesh in there: a file that it touches says that it is at work."""
    busy = 'while :; do touch "$SESH_RUN/beat"; sleep 0.2; done'
    start_also(boxed, "busy", "--max-silence", "3s", command=("sh", "-c", busy))
    start_also(boxed, "silent", "--max-silence", "3s")
    time.sleep(3.5)
    boxed.ok("pass")
    assert [boxed.session(name)["health"] for name in ("busy", "silent")] == ["ok", "hung"]


def test_a_container_that_was_killed_comes_back(boxed: World, engine: Engine) -> None:
    options = ("--retries", "2", "--retry-delay", "300ms", "--retry-on", "failure,lost")
    start_also(boxed, "a", *options)
    engine.docker("kill", "--signal", "KILL", "sesh-a")
    becomes(boxed, "a", "recovering")
    time.sleep(0.4)
    boxed.ok("gc")
    assert told(boxed.session("a"), "state", "generation") == ("running", 2)


def test_a_stop_by_a_user_overrides_a_retry(boxed: World, engine: Engine) -> None:
    """Which is just making the new container."""
    options = ("--retries", "5", "--retry-delay", "300ms", "--retry-on", "always")
    start_also(boxed, "a", *options)
    engine.docker("rm", "--force", "sesh-a")
    becomes(boxed, "a", "recovering")
    time.sleep(0.5)
    again = boxed.popen("pass")
    assert eventually(lambda: boxed.state_of("a") == "starting", pause=0.005)
    boxed.sesh("stop", "a")
    again.wait(pace.seconds(60))
    boxed.ok("stop", "a")
    shown = boxed.session("a")
    assert told(shown, "state", "desired", "retry_at") == ("stopped", "stopped", None)
    assert engine.containers() == []


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


def test_an_engine_that_does_not_answer_makes_no_session_unhealthy(
    boxed: World, engine: Engine
) -> None:
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


QUICK = ("--health-interval", "200ms", "--health-retries", "1", "--health-timeout")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("sleep 98762", "took longer than 1s"),
        ("kill -9 $$", "exited 137"),
        ("echo 0 >&3; exit 7", "exited 7"),  # it can't answer in our place
    ],
    ids=["late", "killed", "forged"],
)
def test_the_output_of_a_health_command(
    boxed: World, engine: Engine, command: str, why: str
) -> None:
    start_also(boxed, "a", "--health-cmd", command, *QUICK, "1s")
    health_becomes(boxed, "failing")
    assert boxed.session("a")["attention"] == f"unhealthy: health check {why}"


def test_a_health_command_that_can_not_run_has_failed(boxed: World, engine: Engine) -> None:
    run_box(engine, "theirs")
    engine.docker("exec", "theirs", "mkdir", "/tmp/work")
    options = ("--container", "theirs", "-C", "/tmp/work", "--health-cmd", "true", *QUICK, "5s")
    boxed.start("a", "cat", options=options)
    health_becomes(boxed, "ok")
    engine.docker("exec", "theirs", "rmdir", "/tmp/work")
    health_becomes(boxed, "failing")
    why = "unhealthy: health check failed: it can't be run in the container (exit 12"
    assert boxed.session("a")["attention"].startswith(why)
    engine.docker("exec", "theirs", "mkdir", "/tmp/work")
    health_becomes(boxed, "ok")


# --- what runs in a container may write whatever it likes into its box ---------------------------


def test_a_container_can_not_make_us_write_elsewhere(boxed: World, engine: Engine) -> None:
    """By links, in the place of each file that only sesh has a use for."""
    victim = boxed.root / "home" / "victim"
    victim.write_text("precious\n")
    kinds = ("care", "check", "health", "claim", "beat", "kit", "said", "seen", "told")
    plant = f"for kind in {' '.join(kinds)}; do ln -sf {victim} /run/sesh/$0.$kind; done"
    shown = start_also(boxed, "a", "--health-cmd", "true", *QUICK, "5s")
    inside(engine, "a", plant.replace("$0", f"{shown['id']}.1"))
    health_becomes(boxed, "ok")
    boxed.ok("update", "a")
    time.sleep(0.3)
    boxed.ok("pass")
    assert victim.read_text() == "precious\n"


def test_a_container_can_not_have_us_end_others(boxed: World, engine: Engine) -> None:
    """Nor make a pass fail, by words that it forges."""
    with subprocess.Popen(["sleep", "999"], start_new_session=True) as victim:
        began = Path(f"/proc/{victim.pid}/stat").read_text().rpartition(") ")[2].split()[19]
        shown = start_also(boxed, "a", "--health-cmd", "true", *QUICK, "1s")
        boxed.start("two", "sleep", "99", options=("--timeout", "1s"))
        memory: dict[str, Any] = {
            "measured": None,
            "begun": 1.0,
            "process": [victim.pid, int(began)],
        }
        memory |= {"checks": 0, "failures": 0, "last_failure": "", "peak": 0}
        stem = f"/run/sesh/{shown['id']}.1"
        inside(engine, "a", f"echo '{json.dumps(memory)}' >{stem}.care; mkdir -p {stem}.health/x")
        inside(engine, "a", f"printf '{victim.pid} {began}\\n0 0 1\\n' >{stem}.check")
        time.sleep(1.2)
        boxed.ok("pass")
        over = eventually(lambda: boxed.state_of("two") == "timeout")
        alive = victim.poll() is None
        victim.kill()
    assert (over, alive) == (True, True)


def test_files_that_only_sesh_uses_are_not_in_the_mount(boxed: World, engine: Engine) -> None:
    shown = start_also(boxed, "a", "--health-cmd", "sleep 9", *QUICK, "9s")
    time.sleep(0.3)
    boxed.ok("pass")
    boxed.ok("update", "a")
    run = next(boxed.state.glob("run/*"))
    outside = {f"{shown['id']}.1.{kind}" for kind in ("check", "claim", "beat")}
    assert outside <= {path.name for path in run.iterdir()}
    assert set(inside(engine, "a", "ls /run/sesh").split()) == {
        *(f"{shown['id']}.1.pid", f"{shown['id']}.1.exit.tmp"),
        *("keeper.sh", "words.sh", "tmux.conf"),
    }
    boxed.ok("restart", "--force", "a")
    assert not list(run.glob("a-*.1.claim"))
    assert list(run.glob("a-*.2.claim"))
    boxed.ok("rm", "--force", "a")
    boxed.ok("pass")
    assert not list(run.glob("a-*"))


def test_no_server_of_ours_can_be_reached_from_a_container(boxed: World, engine: Engine) -> None:
    """Not even the one that plays a transcript: it would run anything."""
    start_also(boxed, "a", command=("sh", "-c", "echo hello; exec cat"))
    assert logged(boxed, "a", "hello")
    boxed.ok("stop", "--keep", "a")
    for screen in boxed.state.glob("transcripts/*.screen"):
        screen.unlink()
    where = set()
    playing = boxed.popen("logs", "a")
    while playing.poll() is None:
        where |= {path.parent.name for path in boxed.state.glob("run/**/replay-*.sock")}
    assert [directory for directory in where if directory.endswith(".box")] == []
    assert where


def test_memory_in_an_existing_container(boxed: World, engine: Engine) -> None:
    """Its engine has no limit for it: what is looked at counts."""
    run_box(engine, "mine")
    hog = "x=$(head -c 40000000 /dev/zero | tr '\\0' x); sleep 99; :"
    limit = ("--max-memory", "30M", "--check-interval", "500ms")
    boxed.start("a", "sh", "-c", hog, options=("--container", "mine", *limit))
    boxed.start("b", "sleep", "99", options=("--container", "mine", *limit))

    def is_ended() -> bool:
        boxed.ok("gc")
        return boxed.state_of("a") == "timeout"

    assert eventually(is_ended, 60, pause=0.5)
    shown = boxed.session("a")
    assert shown["cause"] == "limit"
    assert "max-memory" in shown["reason"]
    assert boxed.state_of("b") == "running"


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
