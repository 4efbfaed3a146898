"""The real Codex in a session, against a stub of its API (`make test-agents`)."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.agents.home import codex_settings, heard
from tests.agents.person import PATIENCE, Person
from tests.world import eventually

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600)]


def _home(person: Person) -> Path:
    return person.world.root / "home"


def _rollouts(person: Person) -> list[Path]:
    """The files in which Codex keeps conversations; none before the first prompt."""
    return list(_home(person).glob(".codex/sessions/*/*/*/rollout-*.jsonl"))


def _answered(person: Person, prompt: str) -> None:
    """Codex has written the answer into its only conversation."""
    answer = f"you said: {prompt}"
    assert eventually(
        lambda: any(answer in one.read_text() for one in _rollouts(person)), PATIENCE
    ), person.screen()
    assert len(_rollouts(person)) == 1


def _learned(person: Person) -> str:
    """The conversation, as soon as sesh knows it; it must be the one that Codex writes."""
    found = eventually(lambda: person.session()["conversation"], PATIENCE)
    assert found, person.session()
    assert [one.stem.endswith(found) for one in _rollouts(person)] == [True]
    return str(found)


def test_a_prompt_is_answered_and_its_conversation_learned(codex: Person) -> None:
    session = codex.start()
    assert session["template"] == "codex"
    codex.prompts("hello")
    _answered(codex, "hello")
    first = _learned(codex)
    codex.prompts("hello again")
    _answered(codex, "hello again")
    assert _learned(codex) == first
    assert {"hello", "hello again"} <= set(codex.stub.prompts)


def test_busy_while_it_answers_and_idle_after(codex: Person) -> None:
    codex.start()
    codex.prompts("slowly now")
    codex.waits_for("busy")
    codex.stub.go_on.set()
    codex.waits_for("idle")
    codex.sees("you said: slowly now")


def test_not_idle_before_it_has_taken_the_prompt_of_its_start(codex: Person) -> None:
    codex.is_idle_only_after("now")


def test_the_question_of_new_is_waited_for(codex: Person) -> None:
    """Codex calls itself idle meanwhile."""
    subprocess.run(["git", "init", "--quiet", codex.world.cwd], check=True)
    codex.start()
    codex.prompts("hello")
    codex.waits_for("idle")
    codex.prompts("/new")
    codex.sees("Where should the new conversation run?")
    codex.waits_for("waiting")
    assert codex.session()["waiting_for"] == "input"
    assert codex.world.sesh("wait", codex.name, "--for", "idle", "--timeout", "0").code == 124
    codex.presses("Escape")
    codex.waits_for("idle")


def test_a_permission_is_waited_for_within_a_second_by_the_tools_name(codex: Person) -> None:
    codex.start()
    codex.prompts("hello")
    codex.waits_for("idle")
    delays = []
    for attempt in range(3):  # a busy machine may be late once
        delays.append(codex.is_asked(f"touch made-{attempt}", "permission: exec_command"))
        assert codex.session()["activity"] == "waiting"
        codex.presses("Escape")
        codex.waits_for("idle")
    assert min(delays) < 1, delays


def test_a_tool_that_was_permitted_makes_it_busy_until_it_has_run(codex: Person) -> None:
    codex.start()
    go = codex.world.root / "go"
    codex.is_asked(f"until [ -e {go} ]; do sleep 0.1; done")
    codex.presses("y")
    codex.waits_for("busy")
    go.touch()
    codex.waits_for("idle")
    codex.sees("ran it")


def test_a_killed_agent_has_failed_and_its_restart_resumes(codex: Person) -> None:
    codex.start()
    codex.prompts("remember")
    _answered(codex, "remember")
    conversation = _learned(codex)
    codex.kills()

    codex.world.ok("restart", codex.name)
    codex.sees("you said: remember")  # it shows what was said before
    codex.prompts("what was it")
    _answered(codex, "what was it")
    assert _learned(codex) == conversation


def test_nothing_of_it_outlives_its_session(codex: Person) -> None:
    """By itself Codex starts a daemon for all its sessions, which would stay."""
    codex.start()
    codex.prompts("hello")
    _answered(codex, "hello")
    codex.world.ok("stop", codex.name)
    left = [_argv(pid) for pid in codex.world.processes()]
    assert not [argv for argv in left if b"codex" in argv]


def _argv(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_the_users_own_settings_stay_as_they_are_and_in_force(codex: Person) -> None:
    """Codex itself appends to its settings what it has shown to the user already."""
    settings = codex_settings(_home(codex))
    before = settings.read_bytes()
    codex.start()
    codex.prompts("hello")
    _answered(codex, "hello")
    assert eventually(heard(_home(codex)).exists, PATIENCE)
    _learned(codex)
    codex.kills()
    codex.world.ok("restart", codex.name)
    codex.sees("you said: hello")
    codex.world.ok("stop", codex.name)
    after = settings.read_bytes()
    assert after.startswith(before)
    assert tomllib.loads(os.fsdecode(after.removeprefix(before))).keys() <= {"tui"}
