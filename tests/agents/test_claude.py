"""The real Claude Code in a session, against a stub of its API (`make test-agents`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents.home import MODE_ASKED, claude_settings, heard
from tests.agents.person import PATIENCE, Person
from tests.world import eventually

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600)]


def _home(person: Person) -> Path:
    return person.world.root / "home"


def _transcript(person: Person, conversation: str) -> str:
    """What Claude has written of a conversation; nothing before the first prompt."""
    found = list(_home(person).glob(f".claude/projects/*/{conversation}.jsonl"))
    return found[0].read_text() if found else ""


def _answered(person: Person, conversation: str, prompt: str) -> None:
    answer = f"you said: {prompt}"
    assert eventually(lambda: answer in _transcript(person, conversation), PATIENCE), (
        person.screen()
    )


def _running_conversation(person: Person) -> str:
    """The one that Claude itself says it is in, in its registry."""
    pid = person.session()["pid"]
    path = _home(person) / ".claude" / "sessions" / f"{pid}.json"
    assert eventually(path.exists, PATIENCE)  # a moment after its first screen
    return str(json.loads(path.read_text())["sessionId"])


def test_a_prompt_is_answered_in_the_given_conversation(claude: Person) -> None:
    session = claude.start()
    assert session["template"] == "claude"
    assert session["conversation"] == _running_conversation(claude)
    claude.prompts("hello")
    _answered(claude, session["conversation"], "hello")
    assert "hello" in claude.stub.prompts


def test_busy_while_it_answers_and_idle_before_and_after(claude: Person) -> None:
    claude.start()
    claude.waits_for("idle")
    claude.prompts("slowly now")
    claude.waits_for("busy")
    claude.stub.go_on.set()
    claude.waits_for("idle")
    claude.sees("you said: slowly now")


def test_not_idle_before_it_has_taken_the_prompt_of_its_start(claude: Person) -> None:
    claude.is_idle_only_after("now")


def test_a_shell_in_the_background_leaves_it_idle(claude: Person) -> None:
    claude.start()
    claude.prompts("leave sleep 1000")  # which needs no permission
    claude.sees("ran it")
    claude.waits_for("idle")
    assert eventually(lambda: claude.session()["background"], PATIENCE), claude.session()
    assert claude.session()["activity"] == "idle"


def test_the_question_for_its_default_mode_is_waited_for(claude: Person) -> None:
    known = _home(claude) / ".claude.json"
    asked = json.loads(known.read_text())
    del asked[MODE_ASKED]
    known.write_text(json.dumps(asked))
    claude.world.ok("start", claude.name, "-t", "claude")
    claude.sees("Make auto mode your default")
    claude.waits_for("waiting")
    assert claude.session()["waiting_for"] == "input"
    claude.presses("Escape")
    claude.waits_for("idle")


def test_a_permission_is_waited_for_within_a_second_by_the_tools_name(claude: Person) -> None:
    claude.start()
    delays = []
    for attempt in range(3):  # a busy machine may be late once
        delays.append(claude.is_asked(f"touch made-{attempt}", "permission: Bash"))
        assert claude.session()["activity"] == "waiting"
        assert [one["name"] for one in claude.world.ls("--filter", "activity=waiting")] == ["mine"]
        claude.presses("Escape")
        claude.waits_for("idle")  # no hook says so
    assert min(delays) < 1, delays


def test_a_tool_that_was_permitted_makes_it_busy_until_it_has_run(claude: Person) -> None:
    claude.start()
    go = claude.world.root / "go"
    claude.is_asked(f"touch begun; until [ -e {go} ]; do sleep 0.1; done")
    claude.presses("Enter")
    claude.waits_for("busy")  # no hook says so
    go.touch()
    claude.waits_for("idle")
    claude.sees("ran it")


def test_a_killed_agent_has_failed_and_its_restart_resumes(claude: Person) -> None:
    conversation = claude.start()["conversation"]
    claude.prompts("remember")
    _answered(claude, conversation, "remember")
    claude.kills()

    claude.world.ok("restart", claude.name)
    claude.waits_for("idle")
    assert claude.session()["conversation"] == conversation == _running_conversation(claude)
    claude.sees("you said: remember")  # it shows what was said before
    claude.prompts("what was it")
    _answered(claude, conversation, "what was it")
    assert len(list(_home(claude).glob(".claude/projects/*/*.jsonl"))) == 1


def test_killed_while_it_waits_for_a_permission(claude: Person) -> None:
    """Its registry still says that it waits: nobody believes the dead."""
    conversation = claude.start()["conversation"]
    claude.is_asked("touch made")
    # Killed before it has written down its first prompt, Claude itself finds nothing to resume.
    written = lambda: "touch made" in _transcript(claude, conversation)  # noqa: E731
    assert eventually(written, PATIENCE)
    claude.kills()
    assert claude.session()["activity"] is None

    claude.world.ok("restart", claude.name)
    claude.waits_for("idle")
    assert _running_conversation(claude) == conversation


def test_killed_before_its_first_prompt_it_begins_the_same_conversation(claude: Person) -> None:
    """There is nothing to resume yet, and Claude would refuse to."""
    conversation = claude.start()["conversation"]
    claude.kills()
    claude.world.ok("restart", claude.name)
    claude.waits_for("idle")
    claude.prompts("hello")
    _answered(claude, conversation, "hello")


def test_a_cleared_conversation_is_followed_to_the_new_one(claude: Person) -> None:
    first = claude.start()["conversation"]
    claude.prompts("hello")
    _answered(claude, first, "hello")
    claude.prompts("/clear")
    assert eventually(lambda: claude.session()["conversation"] != first, PATIENCE)
    second = claude.session()["conversation"]
    assert second == _running_conversation(claude)
    claude.kills()
    claude.world.ok("restart", claude.name)
    claude.waits_for("idle")
    assert _running_conversation(claude) == second


def test_an_expired_login_is_a_wait(claude: Person) -> None:
    claude.start()
    claude.prompts("fail 401")
    claude.waits_for("waiting")
    assert claude.session()["waiting_for"] == "login"
    claude.prompts("hello")
    claude.waits_for("idle")


def test_the_users_own_settings_stay_as_they_are_and_in_force(claude: Person) -> None:
    settings = claude_settings(_home(claude))
    before = settings.read_bytes()
    conversation = claude.start()["conversation"]
    claude.prompts("hello")
    _answered(claude, conversation, "hello")
    assert eventually(heard(_home(claude)).exists, PATIENCE)
    claude.kills()
    claude.world.ok("restart", claude.name)
    claude.waits_for("idle")
    claude.world.ok("stop", claude.name)
    assert settings.read_bytes() == before
