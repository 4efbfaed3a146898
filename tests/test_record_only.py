"""Sessions without a process of ours: every command knows what they are."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sesh.terminal import fast_answers
from tests import pace
from tests.world import SESH, World, eventually


@pytest.fixture
def one(world: World) -> World:
    world.ok("start", "one", "--record-only", "-g", "shop", "--tag", "t", "--", "agent", "--fast")
    return world


def ended_before(world: World, name: str, hours: float) -> None:
    """As if it had ended so long ago."""
    path = world.record(name)
    then = (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
    path.write_text(re.sub(r"\bended = .*", f"ended = {then}", path.read_text()))


# --- start ---------------------------------------------------------------------------------------


def test_nothing_is_started(one: World) -> None:
    shown = one.session("one")
    assert (shown["state"], shown["place"], shown["phase"]) == ("running", "none", "initializing")
    assert (shown["command"], shown["group"], shown["tags"]) == (["agent", "--fast"], "shop", ["t"])
    assert (shown["pid"], shown["pane"], shown["socket"]) == (None, None, None)
    assert "no process" in shown["reason"]
    assert not list(one.state.glob("run/*/*"))
    assert not list(one.state.glob("transcripts/*"))
    assert one.record("one").stat().st_mode & 0o777 == 0o600


def test_the_directory_gives_the_name(world: World) -> None:
    assert world.ok("start", "--record-only").out == "work\n"
    assert world.ok("start", "--record-only").out == "work-2\n"


@pytest.mark.parametrize(("template", "needs"), [("claude", True), ("aider", False)])
def test_an_agent_that_has_conversations_needs_one(
    world: World, template: str, needs: bool
) -> None:
    shown = world.ok("start", "one", "--record-only", "-t", template, "--json").json
    assert (shown["agent"], shown["activity"]) == (template, None)
    assert world.session("one")["agent"] == template
    assert "does " not in world.ok("show", "one").out
    world.ok("update", "one", "--phase", "planning")
    done = world.sesh("resumable", "one")
    assert (done.code, "no conversation" in done.out) == ((1, True) if needs else (0, False))
    world.ok("update", "one", "--conversation", "c-1")
    world.ok("resumable", "one")


def test_tmux_is_not_needed(world: World) -> None:
    env = {**world.env, "PATH": "/nowhere"}
    shown = world.ok("start", "one", "--record-only", "--json", env=env).json
    assert (shown["state"], shown["command"]) == ("running", [])
    world.ok("update", "one", "--phase", "planning", env=env)
    world.ok("finish", "one", "completed", env=env)


@pytest.mark.parametrize(
    "options",
    [
        *(
            ("-e", "A=1"),
            ("--image", "x"),
            ("--container", "x"),
            ("--timeout", "1h"),
            ("--attach",),
        ),
        *(("--retries", "3"), ("--max-age", "1h"), ("--memory", "1g"), ("--scope",), ("--pull",)),
    ],
)
def test_options_about_a_process(world: World, options: tuple[str, ...]) -> None:
    done = world.sesh("start", "one", "--record-only", *options)
    assert (done.code, "cannot be combined with --record-only" in done.err) == (2, True)
    assert not world.record("one").exists()


def test_the_name_is_claimed(one: World) -> None:
    assert one.sesh("start", "one", "--record-only").code == 8
    assert one.sesh("start", "one", "--", "sleep", "9").code == 8
    first = one.session("one")["id"]
    one.ok("finish", "one", "failed")
    one.start("one")
    shown = one.session("one")
    assert (shown["place"], shown["phase"], shown["history"]) == ("host", None, [])
    assert (one.state / "history" / f"{first}.toml").exists()


def test_of_many_at_once_one_has_the_name(world: World) -> None:
    many = [world.popen("start", "one", "--record-only") for _ in range(8)]
    assert sorted(one.wait(pace.seconds(60)) for one in many) == [0, *[8] * 7]


# --- what needs a process ------------------------------------------------------------------------


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize(
    "command",
    ["attach one", "send one hello", "logs one", "restart one", "pause one", "adopt one"],
)
def test_it_is_said_what_it_is(one: World, command: str, finished: bool) -> None:
    if finished:
        one.ok("finish", "one", "failed")
    before = one.record("one").read_bytes()
    done = one.sesh(*command.split())
    assert (done.code, done.out) == (8, "")
    assert "one is a record only (no process)" in done.err
    assert len(done.err.splitlines()) == 1
    assert one.record("one").read_bytes() == before


def test_resume_and_detach(one: World) -> None:
    assert one.sesh("resume", "one").code == 8
    assert one.sesh("detach", "one").code == 8
    one.ok("detach")


def test_many_at_once_leave_it_alone(one: World) -> None:
    before = one.record("one").read_bytes()
    for command in ("stop --all -y", "stop --group shop -y", "stop --idle 0s -y", "stop --orphans"):
        one.ok(*command.split())
    for command in ("restart --all -y", "restart --group shop", "restart --failed"):
        one.ok(*command.split())
    for command in ("pause --group shop", "send --group shop hello"):
        one.ok(*command.split())
    assert one.record("one").read_bytes() == before
    assert one.sesh("attach").code == 2


def test_stop_by_name_abandons_it(one: World) -> None:
    done = one.ok("stop", "one")
    assert "marked as abandoned" in done.err
    shown = one.session("one")
    assert (shown["state"], shown["phase"], shown["desired"]) == ("stopped", "abandoned", "stopped")
    assert "had already ended" in one.ok("stop", "one").err


# --- what knows all sessions ---------------------------------------------------------------------


def test_the_fast_lanes_hold(one: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", one.env["XDG_STATE_HOME"])
    assert [json.loads(view)["state"] for view in fast_answers.unchanged() or ()] == ["running"]
    one.ok("update", "one", "--phase", "planning", "--meta", 'a:="\\"attention\\":1"')
    assert [json.loads(view)["phase"] for view in fast_answers.unchanged() or ()] == ["planning"]
    one.ok("finish", "one", "failed", "--summary", '"state":"running"')
    assert [json.loads(view)["state"] for view in fast_answers.unchanged() or ()] == ["failed"]


def _problems(world: World) -> set[str]:
    return {one["id"] for one in world.sesh("doctor", "--json").json if one["level"] != "ok"}


def test_ls_show_status_stats_doctor_and_the_prompt(one: World) -> None:
    assert one.ok("status", "one").out.startswith("one running (a record only")
    assert "agent --fast" in one.ok("ls").out
    assert [shown["name"] for shown in one.ls("--filter", "place=none")] == ["one"]
    assert "nowhere: another program runs it" in one.ok("show", "one").out
    assert one.ok("stats", "--json").json["alive"] == 1
    assert _problems(one) <= {"timer"}
    assert one.ok("doctor", "--prompt").out == ""
    one.ok("finish", "one", "failed")
    assert one.sesh("status", "one").code == 3
    assert one.ok("doctor", "--prompt").out == ""
    assert "sesh rm one" in one.ok("show", "one").out
    assert _problems(one) <= {"timer"}


def test_wait(one: World) -> None:
    waiting = one.popen("wait", "one", "--timeout", "60s")
    one.ok("finish", "one", "completed")
    assert waiting.wait(pace.seconds(60)) == 0


def test_a_pass_and_gc_leave_a_living_one_alone(one: World) -> None:
    one.configure('[gc]\nmax_age = "1ms"\nmax_idle = "1ms"\narchive_after = "1ms"\n')
    before = one.record("one").read_bytes()
    one.ok("pass")
    one.ok("gc")
    assert one.record("one").read_bytes() == before


@pytest.mark.parametrize("outcome", ["completed", "failed", "abandoned"])
def test_gc_archives_it_when_it_is_over(one: World, outcome: str) -> None:
    one.ok("finish", "one", outcome)
    one.ok("gc")
    assert one.record("one").exists()
    ended_before(one, "one", 2)
    one.ok("gc")
    assert not one.record("one").exists()
    assert len(list(one.state.glob("history/one-*.toml"))) == 1


def test_rm(one: World) -> None:
    done = one.sesh("rm", "one")
    assert (done.code, "sesh finish one" in done.err) == (8, True)
    one.ok("rm", "--force", "one")
    assert not one.record("one").exists()
    assert [event["kind"] for event in one.events()][-1] == "removed"
    one.ok("start", "one", "--record-only")
    one.ok("finish", "one", "completed")
    one.ok("rm", "one")


def test_another_machine_and_another_boot_are_no_matter(one: World) -> None:
    path = one.record("one")
    text = re.sub(r'(machine|boot) = ".*"', r'\1 = "elsewhere"', path.read_text())
    path.write_text(text)
    assert one.state_of("one") == "running"
    one.ok("update", "one", "--phase", "planning")
    one.ok("finish", "one", "completed")
    one.ok("rm", "one")


def test_edited_by_hand_it_is_read_again(one: World) -> None:
    path = one.record("one")
    path.write_text(path.read_text().replace('phase = "initializing"', 'phase = "planning"'))
    assert one.session("one")["phase"] == "planning"


@pytest.mark.parametrize(
    "edit",
    [
        ('kind = "none"', 'kind = "nowhere"'),
        ('kind = "none"', 'kind = "none"\npane = "%1"'),
        ('command = [\n    "agent",\n    "--fast",\n]', "command = 3"),
    ],
)
def test_damage_is_reported(one: World, edit: tuple[str, str]) -> None:
    path = one.record("one")
    assert edit[0] in path.read_text()
    path.write_text(path.read_text().replace(*edit))
    assert one.state_of("one") == "damaged"
    for words in (("finish", "one", "failed"), ("update", "one", "--error", "x")):
        assert one.sesh(*words).code == 6


def test_beside_sessions_that_run(one: World) -> None:
    one.start("two")
    one.start("three", "false")
    assert eventually(lambda: one.state_of("three") == "failed")
    states: dict[str, Any] = {shown["name"]: shown["state"] for shown in one.ls("--all")}
    assert states == {"one": "running", "two": "running", "three": "failed"}
    one.ok("stop", "--all", "-y")
    assert (one.state_of("one"), one.state_of("two")) == ("running", "stopped")


def test_a_full_disk_loses_nothing(one: World) -> None:
    before = one.record("one").read_bytes()
    script = f"ulimit -f 0; trap '' XFSZ; exec {SESH} update one --phase planning"
    assert subprocess.run(["sh", "-c", script], env=one.env, capture_output=True).returncode == 6
    assert one.record("one").read_bytes() == before
