"""What version 0.1.0 wrote and started goes on working: see old_state.py."""

from __future__ import annotations

import os
import signal

import pytest

from sesh.system import processes
from tests import agent
from tests.schedulers import Cron, cron, no_manager
from tests.state.old_state import OldState
from tests.world import World, eventually

__all__ = ["cron"]  # a fixture

ENDED = ("breaks0", "breaks1", "ends", "noted", "stops")


@pytest.fixture
def old(here: World) -> OldState:
    made = OldState(here)
    made.put(living=True)
    return made


def named(world: World) -> dict[str, dict[str, object]]:
    return {one["id"]: one for one in world.ls("--all")}


def lives(pid: int) -> bool:
    stat = processes.look(pid)
    return stat is not None and stat.alive


def test_all_are_listed_and_shown_as_before(here: World, old: OldState) -> None:
    now = named(here)
    before = {one["id"]: one for one in old.listed()}
    del before[old.ids["unknown"].removesuffix(".1")]["started"]  # the time of a file
    before[old.ids["pauses"].removesuffix(".1")]["reason"] = "frozen"  # 0.1.0: paused on request
    orphan = before[old.ids["unknown"].removesuffix(".1")]
    orphan |= dict.fromkeys(("reason", "attention"), "alive, but without a record")
    assert {key: {name: now[key][name] for name in said} for key, said in before.items()} == before
    for name in ("runs", "agent", "pauses", "fails", "notes", *ENDED):
        assert name in here.ok("show", name).out
    assert "old output" in here.ok("logs", "runs").out
    assert "broken" in here.ok("logs", "fails").out
    assert "done" in here.ok("logs", "ends").out
    started = [line for line in here.ok("events", "--json").out.splitlines() if "started" in line]
    assert len(started) == 14
    assert here.ok("stats", "--json").json
    assert "retries of group broken are paused" in here.sesh("doctor").out


def test_running_sessions_stop(here: World, old: OldState) -> None:
    names = ["runs", "pauses", "checked", "agent"]
    here.ok("stop", "-y", *names)
    assert {here.state_of(name) for name in names} == {"stopped"}
    assert not any(lives(old.pid(name)) for name in names)
    here.ok("stop", "--orphans", "-y")
    assert not lives(old.pid("unknown"))
    assert lives(old.pid("restarts"))


def test_old_sessions_restart(here: World, old: OldState) -> None:
    pane = here.session("restarts")["pane"]
    for name in ("restarts", "ends", "stops", "fails", "breaks1"):
        here.ok("restart", name)
        assert here.session(name)["generation"] == 2
    assert here.session("restarts")["pane"] == pane
    assert not lives(old.pid("restarts"))


def test_an_old_keeper_still_records_the_end(here: World, old: OldState) -> None:
    os.kill(old.pid("runs"), signal.SIGKILL)
    assert eventually(lambda: here.state_of("runs") == "failed")
    assert here.session("runs")["signal"] == signal.SIGKILL


def test_an_agent_resumes_its_conversation(here: World, old: OldState) -> None:
    conversation = here.session("agent")["conversation"]
    agent.tells(here, {"hook_event_name": "Stop", "session_id": conversation}, "agent")
    assert here.session("agent")["activity"] == "idle"
    here.ok("restart", "agent")
    assert eventually(lambda: f"--resume {conversation}" in agent.launches(here)[-1])
    assert not lives(old.pid("agent"))


def test_a_paused_one_resumes(here: World, old: OldState) -> None:
    assert here.state_of("pauses") == "paused"
    here.ok("resume", "pauses")
    assert eventually(lambda: here.state_of("pauses") == "running")
    assert here.session("pauses")["pid"] == old.pid("pauses")


def test_an_agent_without_its_record_is_adopted(here: World, old: OldState) -> None:
    here.ok("adopt", "unknown")
    found = here.session("unknown")
    assert (found["state"], found["pid"], found["group"]) == ("running", old.pid("unknown"), "web")
    here.ok("restart", "unknown")
    assert here.session("unknown")["generation"] == 2


def test_an_agent_without_files_is_found_by_its_keeper(here: World, old: OldState) -> None:
    for path in old.run.glob("unknown-*"):
        path.unlink()
    here.ok("adopt", "unknown")
    assert here.session("unknown")["pid"] == old.pid("unknown")


def test_unattended_work_continues(here: World, old: OldState) -> None:
    here.ok("pass")
    here.ok("gc", "--auto")
    here.ok("gc")
    assert here.state_of("checked") == "running"
    assert here.session("checked")["health"] in (None, "ok")
    assert here.state_of("runs") == "running"
    assert here.state_of("fails") == "recovering"


def test_after_a_reboot_they_are_lost_and_come_back(here: World) -> None:
    OldState(here, boot="another-boot", now=processes.booted_at() - 60).put(living=False)
    lost = {"runs", "restarts", "pauses", "checked", "agent"}
    assert {one["name"] for one in here.ls() if one["state"] == "lost"} == lost
    here.ok("restart", "--lost")
    assert {here.state_of(name) for name in lost} == {"running"}


def test_its_timer_is_known_and_removed(here: World, cron: Cron) -> None:
    no_manager(here)
    cron.set(OldState(here).crontab)
    assert here.ok("timer", "status").out.startswith("gc runs every 5m, by cron\n")
    here.ok("timer", "install")
    assert here.ok("timer", "status").out.startswith("gc runs every 5m, by cron\n")
    here.ok("timer", "remove")
    assert not cron.exists
