"""Starts that come to nothing half-way: nothing of them stays, and nothing else is lost."""

from __future__ import annotations

import random
import shutil
import signal
import time

from tests import pace
from tests.engine import BARE_IMAGE, Engine
from tests.places.docker.boxes import (
    IN_A_BOX,
    PATIENCE,
    becomes,
    inside,
    processes_in,
    run_box,
    start,
    told,
)
from tests.places.docker.test_gc import a_minute_later
from tests.surroundings import complains
from tests.world import World, count, eventually

# Says that it has started a session, and has not.
LIAR = r"""#!/bin/sh
[ "$1" = -V ] && exec echo tmux 3.3a
echo %0 1 1
"""
# Starts it, and answers in a form that nobody knows.
MUMBLER = r"""#!/bin/sh
/usr/bin/tmux.real "$@"
case "$*" in *new-session*) echo what ;; esac
"""


def put_tmux(engine: Engine, script: str) -> None:
    """Replace the tmux of the container `mine`."""
    put = "[ ! -e /usr/bin/tmux ] || mv /usr/bin/tmux /usr/bin/tmux.real; mkdir -p /usr/bin"
    write = 'printf %s "$1" >/usr/bin/tmux; chmod +x /usr/bin/tmux'
    engine.docker("exec", "mine", "sh", "-c", f"{put}; {write}", "sh", script)


def test_an_agent_of_which_there_is_no_sign(boxed: World, engine: Engine) -> None:
    run_box(engine, "mine", image=BARE_IMAGE)
    put_tmux(engine, LIAR)
    boxed.configure("[docker]\ntimeout = 20\n[start]\nlaunch_timeout = 0.5\n")
    done = boxed.sesh("start", "a", "--container", "mine", "--", "cat")
    complains(done, 1, "a could not be launched: no sign of the agent within 0.5 s")
    assert told(boxed.session("a"), "state", "cause") == ("timeout", "launch")
    done = boxed.sesh("start", "b", "--launch-timeout", "1s", "--container", "mine", "--", "cat")
    complains(done, 1, "b could not be launched: no sign of the agent within 1 s")


def test_a_start_that_is_not_understood_leaves_no_agent_in_a_container_that_stays(
    boxed: World, engine: Engine
) -> None:
    run_box(engine, "mine")
    before = processes_in(engine, "mine")
    put_tmux(engine, MUMBLER)
    complains(boxed.sesh("start", "a", "--container", "mine", "--", "cat"), 5, "unknown form")
    assert boxed.ls("--all") == []
    assert processes_in(engine, "mine") == before
    assert "sesh" not in engine.docker("exec", "mine", "ls", "-a", "/tmp")


def test_a_name_is_not_taken_from_a_session_whose_container_can_not_be_removed(
    boxed: World, engine: Engine
) -> None:
    start(boxed, "a", "sh", "-c", "exit 3")
    becomes(boxed, "a", "failed")
    boxed.configure("[docker]\ntimeout = 0.5\n")
    engine.freeze()
    complains(boxed.sesh("start", "a", "--", "sleep", "1000"), 5, "a", "its container")
    engine.thaw()
    boxed.configure("")
    (listed,) = boxed.ls("--all")
    assert (listed["state"], listed["exit_code"], listed["place"]) == ("failed", 3, "docker")
    assert inside(engine, "a", "echo there") == "there"


def test_an_engine_that_dies_during_many_starts(boxed: World, engine: Engine) -> None:
    """Whether a container was made, nobody can tell: the record stays until somebody can."""
    names = [f"s{number}" for number in range(count(6, 20))]
    starting = [boxed.popen("start", name, *IN_A_BOX, "--", "cat") for name in names]
    assert eventually(lambda: len(engine.containers()) > 1, PATIENCE, pause=0.01)
    engine.kill()
    codes = {name: one.wait(PATIENCE * 4) for name, one in zip(names, starting, strict=True)}
    listed = {one["name"]: one for one in boxed.ls()}
    assert {one["state"] for one in listed.values()} <= {"unknown", "running"}
    assert all(listed[name]["state"] == "running" for name, code in codes.items() if code == 0)
    assert set(codes.values()) <= {0, 5}
    engine.start()
    made = {name.removeprefix("sesh-") for name in engine.containers()}
    assert made <= listed.keys()
    over = {"failed", "lost"}
    assert eventually(lambda: {one["state"] for one in boxed.ls()} <= over, PATIENCE), boxed.ls()
    assert listed.keys() == {one["name"] for one in boxed.ls()}
    first, *others = sorted(listed)
    boxed.ok("restart", first)
    assert boxed.state_of(first) == "running"
    boxed.ok("rm", "--force", "--grace", "0", first, *others)
    assert engine.containers() == []


def test_a_start_that_is_killed_leaves_nothing_that_nobody_claims(
    boxed: World, engine: Engine
) -> None:
    """Its container is there, its record does not know of it: a look finds out, gc removes it."""
    fake_docker(boxed, 'case "$*" in *" run "*) docker "$@"; kill -9 $PPID; esac; exec docker "$@"')
    boxed.popen("start", "a", *IN_A_BOX, "--", "cat").wait(PATIENCE * 2)
    assert engine.containers(all=False) == ["sesh-a"]
    shown = boxed.session("a")
    assert told(shown, "state", "cause") == ("failed", "launch")
    assert "interrupted" in shown["reason"]
    for _ in range(2):
        boxed.ok("gc")
        a_minute_later(boxed)
    assert engine.containers() == []


def test_a_session_stays_wanted_if_the_engine_dies_during_a_restart(
    boxed: World, engine: Engine
) -> None:
    fake_docker(boxed, 'exec docker "$@"')
    for name in ("a", "b"):
        start(boxed, name)
    # It dies when the agent is asked to end, or when all is down and the next launch begins.
    fake_docker(boxed, f'case "$*" in *" reap "*) kill -9 {engine.pid}; esac; exec docker "$@"')
    complains(boxed.sesh("restart", "a"), 1, "a could not be stopped")
    engine.kill()
    assert boxed.session("a")["desired"] == "running"
    assert boxed.state_of("a") == "running"
    engine.start()
    assert told(becomes(boxed, "a", "lost"), "cause") == ("container-gone",)
    boxed.ok("restart", "a", "b")
    fake_docker(boxed, f'case "$*" in *" tmux -V "*) kill -9 {engine.pid}; esac; exec docker "$@"')
    assert boxed.sesh("restart", "b").code == 5
    engine.kill()
    assert boxed.session("b")["desired"] == "running"
    engine.start()
    assert becomes(boxed, "b", "failed", "lost")["desired"] == "running"
    boxed.ok("restart", "b")
    assert boxed.state_of("b") == "running"


def fake_docker(world: World, script: str) -> None:
    """A command that does something else at times; of sessions that are made from now on it is the
    docker command. `docker` in it is the real one."""
    real = shutil.which("docker")
    fake = world.root / "bin" / "docker"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text(f"#!/bin/sh\n{script}\n".replace('docker "', f'{real} "'))
    fake.chmod(0o755)
    if str(fake.parent) not in world.env["PATH"]:
        world.env["PATH"] = f"{fake.parent}:{world.env['PATH']}"


def test_a_start_that_is_interrupted_anywhere_leaves_nothing(boxed: World, engine: Engine) -> None:
    for number in range(count(4, 40)):
        starting = boxed.popen("start", "a", *IN_A_BOX, "--", "cat")
        time.sleep(random.uniform(0.15, 1.2))
        starting.send_signal(signal.SIGINT)
        if starting.wait(pace.seconds(60)) == 0:  # it was faster
            boxed.ok("rm", "--force", "--grace", "0", "a")
        assert boxed.ls("--all") == [], number
        assert engine.containers() == [], number
        assert not list(boxed.state.glob("run/*/a-*")), number
