"""Commands for many sessions make a number of tmux calls that does not depend on how many."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.surroundings import fake_tmux
from tests.world import World, eventually

FEW, MANY = 5, 40
MOST_CALLS = 12


def started(world: World, count: int, *options: str) -> list[str]:
    names = [f"s{number}" for number in range(count)]
    world.start(names[0])  # alone: it starts the server
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: world.start(name, options=options), names[1:]))
    return names


def states(world: World) -> set[str]:
    return {one["state"] for one in world.ls()}


def calls_of(world: World, *argv: str) -> int:
    """How often a command calls tmux. A pass that runs at the same time is another process."""
    log = world.root / "calls"
    log.write_text("")
    program = f'echo $PPID >>{log}; exec {shutil.which("tmux")} "$@"'
    world.ok(*argv, env=fake_tmux(world, program))
    return max(Counter(log.read_text().split()).values(), default=0)


def test_stop(world: World) -> None:
    few = calls_for(world, FEW, "stop", "--all", "-y")
    many = calls_for(world, MANY, "stop", "--all", "-y")
    assert (few <= MOST_CALLS, many <= MOST_CALLS) == (True, True), (few, many)


def calls_for(world: World, count: int, *argv: str) -> int:
    names = started(world, count)
    calls = calls_of(world, *argv)
    assert states(world) == {"stopped"}
    screens = {path.name for path in world.state.glob("transcripts/*.screen")}
    assert len(screens) >= count
    world.ok("rm", *names)
    return calls


def test_rm(world: World) -> None:
    names = started(world, MANY)
    world.ok("stop", "--all", "-y")
    few = calls_of(world, "rm", *names[:FEW])
    many = calls_of(world, "rm", *names[FEW:])
    assert (few <= MOST_CALLS, many <= MOST_CALLS) == (True, True), (few, many)
    assert world.ls() == []


def test_rm_of_living_sessions(world: World) -> None:
    names = started(world, MANY)
    few = calls_of(world, "rm", "--force", *names[:FEW])
    many = calls_of(world, "rm", "--force", *names[FEW:])
    assert (few <= MOST_CALLS, many <= MOST_CALLS) == (True, True), (few, many)
    assert world.ls() == []


def test_pause_and_resume(world: World) -> None:
    names = started(world, MANY)
    for verb, state in (("pause", "paused"), ("resume", "running")):
        few = calls_of(world, verb, *names[:FEW])
        many = calls_of(world, verb, *names[FEW:])
        assert (few <= MOST_CALLS, many <= MOST_CALLS) == (True, True), (verb, few, many)
        assert states(world) == {state}


def generations(world: World) -> dict[str, tuple[str, int]]:
    return {one["name"]: (one["state"], one["generation"]) for one in world.ls()}


def kill_server(world: World) -> None:
    os.kill(world.server_pid(), signal.SIGKILL)
    assert eventually(lambda: states(world) == {"lost"})


def test_restart_of_living_sessions(world: World) -> None:
    names = started(world, MANY)
    agents = {one["name"]: (one["pane"], one["pid"]) for one in world.ls()}
    few = calls_of(world, "restart", "-y", *names[:FEW])
    many = calls_of(world, "restart", "-y", "--all")
    assert (few <= MOST_CALLS, many <= MOST_CALLS) == (True, True), (few, many)
    after = generations(world)
    assert {after[name] for name in names[:FEW]} == {("running", 3)}
    assert {after[name] for name in names[FEW:]} == {("running", 2)}
    for one in world.ls():
        pane, pid = agents[one["name"]]
        assert one["pane"] == pane
        assert one["pid"] != pid
    assert len({*world.state.glob("transcripts/*.screen")}) == MANY


def test_restart_after_the_server_was_killed(world: World) -> None:
    names = started(world, MANY)
    kill_server(world)
    few = calls_of(world, "restart", *names[:FEW])
    many = calls_of(world, "restart", "--lost")
    assert (few <= MOST_CALLS, many <= MOST_CALLS) == (True, True), (few, many)
    assert {*generations(world).values()} == {("running", 2)}
    kill_server(world)
    assert calls_of(world, "restart", "--lost") <= MOST_CALLS
    assert {*generations(world).values()} == {("running", 3)}
    piped = world.tmux("list-panes", "-a", "-F", "#{pane_pipe} #{@sesh_id}").splitlines()
    assert sorted(piped) == sorted(f"1 {one['id']}" for one in world.ls())


def test_a_session_that_cannot_be_launched_does_not_affect_the_others(world: World) -> None:
    gone = world.cwd / "gone"
    gone.mkdir()
    world.start("a")
    world.start("b", options=["-C", str(gone)])
    world.start("c")
    kill_server(world)
    gone.rmdir()
    done = world.sesh("restart", "--lost")
    assert (done.code, done.out) == (9, "a\nc\n")
    why = "its directory is gone or can't be entered"
    assert done.err == f"sesh: b could not be launched: {why}\n"
    assert generations(world) == {"a": ("running", 2), "b": ("failed", 2), "c": ("running", 2)}


def test_an_environment_that_cannot_be_read_does_not_affect_the_others(world: World) -> None:
    for name in ("a", "b", "c"):
        world.start(name)
    kill_server(world)
    (path,) = world.runtime.glob("**/b-*.env")
    path.unlink()
    path.mkdir()
    done = world.sesh("restart", "--lost")
    assert (done.code, done.out) == (9, "a\nc\n")
    assert done.err.startswith("sesh: b: its saved environment can't be read: ")
    assert generations(world) == {"a": ("running", 2), "b": ("lost", 1), "c": ("running", 2)}


def test_foreign_tmux_sessions_and_windows_do_not_affect_the_others(world: World) -> None:
    """The name of one session is taken by a tmux session that sesh did not start; in the session of
    another, only a window that a person opened is left."""
    for name in ("a", "b", "c", "d"):
        world.start(name)
    world.tmux("new-window", "-d", "-t", "=c:", "sleep", "1000")
    for name in ("a", "b", "d"):
        world.tmux("kill-session", "-t", f"={name}")
    world.tmux("kill-pane", "-t", world.session("c")["pane"])
    assert eventually(lambda: {*generations(world)} and not states(world) & {"running", "unknown"})
    world.tmux("new-session", "-d", "-s", "b", "sleep", "1000")
    done = world.sesh("restart", "a", "b", "c", "d")
    assert (done.code, done.out) == (9, "a\nc\nd\n")
    assert done.err == "sesh: a tmux session named b exists that sesh did not start\n"
    after = generations(world)
    assert {name: after[name][0] for name in after} == {
        **dict.fromkeys("acd", "running"),
        "b": "failed",
    }
    windows = world.tmux("list-panes", "-a", "-F", "#{session_name}").split()
    assert windows == ["a", "b", "c", "c", "d"]


def test_a_living_session_that_cannot_be_launched_again_is_still_wanted(world: World) -> None:
    """Its directory goes while it is stopped; the others are restarted."""
    gone = world.cwd / "gone"
    gone.mkdir()
    world.start("a")
    script = f"trap 'rmdir {gone}; exit' TERM; while :; do sleep 0.1; done"
    world.start("b", "sh", "-c", script, options=["-C", str(gone)])
    done = world.sesh("restart", "-y", "a", "b")
    assert (done.code, done.out) == (9, "a\n")
    after = world.session("b")
    assert (after["state"], after["cause"], after["generation"]) == ("failed", "launch", 2)
    assert generations(world)["a"] == ("running", 2)
