"""Starts that come to nothing half-way: nothing of them stays, and nothing else is lost."""

from __future__ import annotations

import random
import signal
import time

from tests.containers.boxes import IN_A_BOX, becomes, inside, processes_in, run_box, start, told
from tests.engine import BARE_IMAGE, Engine
from tests.surroundings import complains
from tests.world import World, count

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


def test_a_start_that_is_interrupted_anywhere_leaves_nothing(boxed: World, engine: Engine) -> None:
    for number in range(count(4, 40)):
        starting = boxed.popen("start", "a", *IN_A_BOX, "--", "cat")
        time.sleep(random.uniform(0.15, 1.2))
        starting.send_signal(signal.SIGINT)
        if starting.wait(60) == 0:  # it was faster
            boxed.ok("rm", "--force", "--grace", "0", "a")
        assert boxed.ls("--all") == [], number
        assert engine.containers() == [], number
        assert not list(boxed.state.glob("run/*/a-*")), number
