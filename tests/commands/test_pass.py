"""sesh pass: what call backs and timers run. Ends are recorded without anybody looking."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests import pace
from tests.surroundings import read_record, start_stubborn
from tests.world import World, eventually


def ends(world: World) -> list[tuple[str, object]]:
    return [(e["name"], e.get("exit_code")) for e in world.events() if e["kind"] == "ended"]


def test_the_keepers_call_back_records_the_end_by_itself(world: World) -> None:
    world.start("a", "sh", "-c", "sleep 0.3; exit 3")
    assert eventually(lambda: ends(world) == [("a", 3)])
    status = read_record(world, "a").status
    assert (status.outcome, status.exit_code) == ("failed", 3)


def test_the_call_back_comes_without_a_tmux_server_too(world: World) -> None:
    """The server dies; the keeper, which saw the hangup, makes the call itself."""
    world.start("a")
    os.kill(world.server_pid(), signal.SIGKILL)
    assert eventually(lambda: [e["state"] for e in world.events() if e["kind"] == "ended"])
    assert read_record(world, "a").status.outcome == "lost"


def test_a_pass_records_an_end_that_nobody_called_about(world: World) -> None:
    shown = world.start("a", "sh", "-c", "sleep 0.5; exit 3")
    (callback,) = world.state.glob("run/*/callback")
    callback.write_text("exit 0\n")  # the call back is lost
    assert eventually(lambda: list(world.state.glob(f"run/*/{shown['id']}.1.exit")))
    time.sleep(0.3)
    assert ends(world) == []
    done = world.ok("pass")
    assert (done.out, done.err) == ("", "")
    assert ends(world) == [("a", 3)]
    world.ok("pass")
    assert ends(world) == [("a", 3)]


def test_an_interrupted_stop_is_finished(world: World) -> None:
    pid = start_stubborn(world, "a")
    stop = world.popen("stop", "--grace", "1", "a")
    assert eventually(lambda: read_record(world, "a").status.desired == "stopped")
    stop.kill()
    stop.wait()
    assert world.state_of("a") == "stopping"
    world.ok("pass")
    assert world.state_of("a") == "stopped"
    assert not Path(f"/proc/{pid}").exists()
    assert [e["kind"] for e in world.events()].count("stopped") == 1


def test_a_stop_that_was_finished_by_the_agent_is_confirmed(world: World) -> None:
    """The stopper was killed, the agent then went by itself: the call back finishes it."""
    clean = "touch asked; sleep 1; exit 7"
    script = f"trap '{clean}' TERM; touch up; while :; do sleep 0.1; done"
    world.start("a", "sh", "-c", script)
    assert eventually((world.cwd / "up").exists, 10)
    stop = world.popen("stop", "--grace", "30", "a")
    assert eventually((world.cwd / "asked").exists, 10)
    stop.kill()
    stop.wait()
    assert eventually(lambda: read_record(world, "a").status.outcome == "stopped", 10)
    assert read_record(world, "a").status.exit_code == 7


def test_nothing_to_do(world: World) -> None:
    world.ok("pass")
    assert not world.state.exists()
    world.start("a")
    before = world.record("a").read_bytes()
    world.ok("pass")
    assert world.record("a").read_bytes() == before


def test_two_at_once_are_harmless(world: World) -> None:
    for name in "abc":
        world.start(name, "sh", "-c", "sleep 0.4; exit 3")
    running = [world.popen("pass") for _ in range(6)]
    assert [one.wait(pace.seconds(20)) for one in running] == [0] * 6
    assert eventually(lambda: len(ends(world)) == 3)
    time.sleep(0.3)
    assert sorted(ends(world)) == [("a", 3), ("b", 3), ("c", 3)]


def test_an_own_server_goes_when_nothing_is_left(world: World) -> None:
    world.start("a")
    server = world.server_pid()
    world.ok("stop", "a")
    world.ok("pass")
    assert eventually(lambda: not Path(f"/proc/{server}").exists())


def test_a_failed_sessions_screen_stays_to_be_looked_at(world: World) -> None:
    world.start("a", "sh", "-c", "echo my last words; exit 3")
    assert eventually(lambda: world.state_of("a") == "failed")
    world.ok("pass")
    assert "my last words" in world.tmux("capture-pane", "-p", "-S", "-", "-t", "=a:")
