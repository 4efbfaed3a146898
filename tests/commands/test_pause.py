"""sesh pause and sesh resume on this machine."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from sesh.commands import pause
from sesh.model.errors import SeshError
from sesh.system import processes
from tests.surroundings import complains
from tests.world import World, eventually


def told(shown: dict[str, Any]) -> tuple[str, str]:
    return shown["state"], shown["reason"]


def state_of_process(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_a_held_session_runs_but_takes_no_input(world: World) -> None:
    pid = world.start("a", "cat")["pid"]
    world.ok("pause", "--hold", "a")
    shown = world.session("a")
    assert (shown["state"], shown["reason"], shown["pid"]) == ("paused", "held", pid)
    assert world.ok("show", "a").out.startswith("a  paused    held\n")
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
    done = world.ok("pause", "a")
    assert (done.out, done.err) == ("", "")
    assert eventually(lambda: state_of_process(pid) == "T")
    assert told(world.session("a")) == ("paused", "frozen")
    assert world.ok("ls").out.rstrip().endswith("   frozen")
    complains(world.sesh("send", "a", "hello"), 8, "a is paused")
    os.kill(pid, signal.SIGCONT)  # by hand: it runs again, and is still paused
    assert eventually(lambda: told(world.session("a")) == ("paused", "held"))
    world.ok("pause", "a")
    assert eventually(lambda: told(world.session("a")) == ("paused", "frozen"))
    before = len(world.ok("logs", "--raw", "a").out)
    time.sleep(0.3)
    assert len(world.ok("logs", "--raw", "a").out) == before
    world.ok("resume", "a")
    assert world.session("a")["state"] == "running"
    assert eventually(lambda: len(world.ok("logs", "--raw", "a").out) > before)


@pytest.mark.parametrize("options", [(), ("--hold",)], ids=["frozen", "held"])
def test_paused_time_counts_for_no_limit(world: World, options: tuple[str, ...]) -> None:
    world.start("a", options=("--max-age", "4s"))
    world.ok("pause", *options, "a")
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
    world.ok("pause", "a")
    world.ok("stop", "a")
    assert world.session("a")["state"] == "stopped"


def test_pausing_twice_and_freezing_what_is_held(world: World) -> None:
    pid = world.start("a")["pid"]
    world.ok("pause", "--hold", "a")
    since = world.session("a")["paused"]
    world.ok("pause", "--freeze", "a")
    assert eventually(lambda: state_of_process(pid) == "T")
    assert world.session("a")["paused"] == since
    happened = [json.loads(line)["kind"] for line in world.ok("events", "--json").out.splitlines()]
    assert happened == ["started", "paused"]
    world.ok("resume", "a")
    world.ok("resume", "a")


def test_what_cannot_be_frozen_is_held(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The processes are another user's, or the container engine does not answer."""
    pid = world.start("a", "cat")["pid"]
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(processes, "send", lambda *_: False)
    assert _pause(freeze=False) == 0
    why = "its processes could not be stopped"
    assert capfd.readouterr().err == f"sesh: a is held, not frozen: {why}\n"
    assert told(world.session("a")) == ("paused", "held")
    with pytest.raises(SeshError, match=f"a: {why}"):
        _pause(freeze=True)
    assert state_of_process(pid) == "S"


def _pause(*, freeze: bool) -> int:
    chosen = {"names": ("a",), "group": None, "tags": (), "conditions": ()}
    code: int = pause.command.function(**chosen, hold=False, freeze=freeze)
    return code


def test_hold_and_freeze_exclude_each_other(world: World) -> None:
    complains(world.sesh("pause", "--hold", "--freeze", "a"), 2, "--hold and --freeze")


@pytest.mark.parametrize("command", ["pause", "resume", "send", "update"])
def test_what_waits_for_its_retry_is_a_conflict(world: World, command: str) -> None:
    world.start("a", "false", options=["--retries", "1", "--retry-delay", "1h"])
    assert eventually(lambda: world.state_of("a") == "recovering")
    text = ("text",) if command == "send" else ()
    complains(world.sesh(command, "a", *text), 8, "recovering")
