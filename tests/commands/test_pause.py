"""sesh pause and sesh resume on this machine."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.surroundings import complains
from tests.world import World, eventually


def state_of_process(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_a_paused_session_is_held_and_goes_on(world: World) -> None:
    pid = world.start("a", "cat")["pid"]
    world.ok("pause", "a")
    shown = world.session("a")
    assert (shown["state"], shown["reason"], shown["pid"]) == ("paused", "paused on request", pid)
    assert shown["paused"]
    assert state_of_process(pid) == "S"
    complains(world.sesh("send", "a", "hello"), 8, "a is paused")
    world.ok("status", "a")
    world.ok("resume", "a")
    assert world.session("a")["state"] == "running"
    world.ok("send", "a", "hello")
    assert eventually(lambda: "hello" in world.ok("logs", "a").out)


def test_a_frozen_session_does_not_run_and_its_keeper_does(world: World) -> None:
    pid = world.start("a", "sh", "-c", "while :; do echo tick; sleep 0.05; done")["pid"]
    world.ok("pause", "--freeze", "a")
    assert world.session("a")["state"] == "paused"
    assert eventually(lambda: state_of_process(pid) == "T")
    before = len(world.ok("logs", "--raw", "a").out)
    time.sleep(0.3)
    assert len(world.ok("logs", "--raw", "a").out) == before
    world.ok("resume", "a")
    assert world.session("a")["state"] == "running"
    assert eventually(lambda: len(world.ok("logs", "--raw", "a").out) > before)


def test_paused_time_counts_for_no_limit(world: World) -> None:
    world.start("a", options=("--max-age", "4s"))
    world.ok("pause", "a")
    time.sleep(4.5)
    world.ok("gc")
    assert world.session("a")["state"] == "paused"
    world.ok("resume", "a")
    world.ok("gc")
    shown = world.session("a")
    assert shown["state"] == "running"
    assert shown["held"] >= 4
    time.sleep(4.5)
    world.ok("gc")
    assert world.session("a")["state"] == "timeout"


def test_what_can_not_be_paused_is_named(world: World) -> None:
    world.start("a", "true")
    complains(world.sesh("pause", "a"), 3, "a has ended")
    complains(world.sesh("resume", "a"), 3, "a has ended")
    complains(world.sesh("pause", "nobody"), 4, "no session named nobody")
    complains(world.sesh("pause"), 2, "give names, or --group")


def test_a_group_is_paused_and_resumed_together(world: World) -> None:
    for name in ("a", "b"):
        world.start(name, options=("--group", "g"))
    world.start("c")
    world.ok("pause", "--group", "g")
    assert [one["state"] for one in world.ls()] == ["paused", "paused", "running"]
    assert "nothing to pause" in world.ok("pause", "--group", "g").err
    world.ok("resume", "--group", "g")
    assert [one["state"] for one in world.ls()] == ["running"] * 3


def test_a_paused_session_can_be_stopped(world: World) -> None:
    world.start("a")
    world.ok("pause", "--freeze", "a")
    world.ok("stop", "a")
    assert world.session("a")["state"] == "stopped"


def test_pausing_twice_and_freezing_what_is_held(world: World) -> None:
    pid = world.start("a")["pid"]
    world.ok("pause", "a")
    since = world.session("a")["paused"]
    world.ok("pause", "--freeze", "a")
    assert eventually(lambda: state_of_process(pid) == "T")
    assert world.session("a")["paused"] == since
    happened = [json.loads(line)["kind"] for line in world.ok("events", "--json").out.splitlines()]
    assert happened == ["started", "paused"]
    world.ok("resume", "a")
    world.ok("resume", "a")


@pytest.mark.parametrize("command", ["pause", "resume", "send", "update"])
def test_what_waits_for_its_retry_is_a_conflict(world: World, command: str) -> None:
    world.start("a", "false", options=["--retries", "1", "--retry-delay", "1h"])
    assert eventually(lambda: world.state_of("a") == "recovering")
    text = ("text",) if command == "send" else ()
    complains(world.sesh(command, "a", *text), 8, "recovering")
