"""sesh status: one line, and the state as exit code."""

from __future__ import annotations

import re
import signal

import pytest

from sesh.model.states import State
from sesh.model.value_object import replace
from tests import pace
from tests.surroundings import complains, move, read_record, start_stubborn, write_record
from tests.world import World, eventually


def test_alive_is_0(world: World) -> None:
    world.start("a")
    done = world.sesh("status", "a")
    assert (done.code, done.out, done.err) == (0, "a running\n", "")


def test_a_shell_that_is_left_after_an_interrupt_was_not_killed(world: World) -> None:
    world.start("a", "sh")
    world.tmux("send-keys", "-t", "=a:", "echo up; sleep 99", "Enter")
    assert eventually(lambda: "\nup" in world.ok("logs", "a").out)
    world.tmux("send-keys", "-t", "=a:", "C-c")
    assert eventually(lambda: world.ok("logs", "a").out.rstrip().endswith(("$", "#")))
    world.tmux("send-keys", "-t", "=a:", "exit", "Enter")
    assert eventually(lambda: world.state_of("a") == "failed")
    assert world.sesh("status", "a").out == "a failed (exit 130)\n"


@pytest.mark.parametrize(
    ("command", "line"),
    [("exit 0", "a completed (exit 0)\n"), ("exit 3", "a failed (exit 3)\n")],
)
def test_ended_is_3(world: World, command: str, line: str) -> None:
    world.start("a", "sh", "-c", command)
    assert eventually(lambda: world.state_of("a") in ("completed", "failed"))
    done = world.sesh("status", "a")
    assert (done.code, done.out, done.err) == (3, line, "")


def test_what_recovers_says_when(world: World) -> None:
    world.start("a", "false", options=["--retries", "5", "--retry-delay", "50s"])
    assert eventually(lambda: world.state_of("a") == "recovering")
    done = world.sesh("status", "a")
    assert done.code == 0
    assert re.fullmatch(r"a recovering \(exit 1; retry 1 of 5 in \d\ds\)\n", done.out), done.out


def test_stopped_and_lost_are_3(world: World) -> None:
    world.start("a")
    world.start("b")
    world.ok("stop", "a")
    world.tmux("kill-session", "-t", "=b")
    assert eventually(lambda: world.state_of("b") == "lost")
    assert [world.sesh("status", name).code for name in ("a", "b")] == [3, 3]


def test_stale_is_3(world: World) -> None:
    """The agent ended well, but the user's second window is still up."""
    world.start("a", "sh", "-c", "until [ -e go ]; do sleep 0.05; done")
    world.tmux("new-window", "-d", "-t", "=a:", "sleep", "1000")
    (world.cwd / "go").touch()
    assert eventually(lambda: world.state_of("a") == "stale"), world.session("a")
    done = world.sesh("status", "a")
    assert done.code == 3
    assert done.out == "a stale (exit 0, 1 other pane of its tmux session still up)\n"


def test_stopping_counts_as_alive(world: World) -> None:
    start_stubborn(world, "a")
    stopping = world.popen("stop", "--grace", "60", "a")
    assert eventually(lambda: world.state_of("a") == "stopping")
    done = world.sesh("status", "a")
    assert done.code == 0
    assert done.out.startswith("a stopping (")
    stopping.send_signal(signal.SIGINT)
    assert stopping.wait(pace.seconds(10)) == 130


def test_no_such_session_is_4(world: World) -> None:
    complains(world.sesh("status", "a"), 4, "no session named a")


def test_another_machines_is_5(world: World) -> None:
    world.start("a")
    move(world, "a", id="0" * 32)
    done = world.sesh("status", "a")
    assert done.code == 5
    assert done.out == "a unknown (it runs on another machine)\n"


def test_damaged_is_6(world: World) -> None:
    world.start("a")
    world.record("a").write_text("x")
    done = world.sesh("status", "a")
    assert done.code == 6
    assert done.out.startswith("a damaged (")


def test_an_orphan_is_1(world: World) -> None:
    """Alive although its record says that it ended."""

    world.start("a")
    record = read_record(world, "a")
    ended = replace(record, status=replace(record.status, outcome=State.FAILED))
    write_record(world, ended, State.ORPHAN)
    done = world.sesh("status", "a")
    assert (done.code, done.out) == (1, "a orphan (alive, but its record says failed)\n")


def test_json(world: World) -> None:
    world.start("a")
    done = world.sesh("status", "--json", "a")
    assert (done.code, done.json["state"]) == (0, "running")


# --- several -----------------------------------------------------------------------------------


def test_without_a_name_it_is_all_sessions(world: World) -> None:
    done = world.sesh("status")
    assert (done.code, done.out, done.err) == (0, "", "sesh: no sessions\n")
    world.start("b")
    world.start("a")
    done = world.sesh("status")
    assert (done.code, done.out, done.err) == (0, "a running\nb running\n", "")
    assert [one["name"] for one in world.ok("status", "--json").json] == ["a", "b"]


def test_of_several_the_code_is_9_if_some_are_alive_else_that_of_the_first(world: World) -> None:
    world.start("a")
    world.start("b")
    world.ok("stop", "b")
    done = world.sesh("status")
    assert (done.code, done.out) == (9, "a running\nb stopped (stopped on request)\n")
    done = world.sesh("status", "b", "a")
    assert (done.code, done.out) == (9, "b stopped (stopped on request)\na running\n")
    world.ok("stop", "a")
    assert world.sesh("status", "a", "b").code == 3
    assert world.sesh("status").code == 3


def test_an_unknown_one_of_several(world: World) -> None:
    world.start("a")
    done = world.sesh("status", "a", "none")
    assert (done.code, done.out) == (9, "a running\n")
    assert "no session named none" in done.err
    assert len(world.sesh("status", "a", "none", "--json").json) == 1
    assert world.sesh("status", "none", "nothing").code == 4
