"""Asking the real Claude Code and Codex, and what that has used, against a stub of their APIs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.agents.person import PATIENCE, Person
from tests.emulator import reading
from tests.world import eventually

pytestmark = [pytest.mark.agents, pytest.mark.timeout(900)]


@pytest.fixture(params=["claude", "codex"])
def person(request: pytest.FixtureRequest) -> Person:
    found: Person = request.getfixturevalue(request.param)
    return found


def used(person: Person) -> dict[str, Any]:
    found: dict[str, Any] = person.world.ok("show", person.name, "--json").json["usage"]
    return found


def counted(person: Person) -> dict[str, int]:
    """By the stub's own count."""
    answers = person.stub.used
    written = sum(one.written for one in answers) if person.agent == "claude" else 0
    return {
        "tokens_in": sum(one.input for one in answers) + written,
        "tokens_out": sum(one.output for one in answers),
        "tokens_cached": sum(one.cached for one in answers),
    }


def is_counted(person: Person) -> bool:
    found = used(person)
    return {name: found[name] for name in counted(person)} == counted(person)


def test_twenty_questions_in_a_row_are_answered_and_counted(person: Person) -> None:
    person.start()
    for number in range(20):
        prompt = f"what is {number}"
        assert (
            person.world.ok("ask", person.name, prompt, timeout=120).out == f"you said: {prompt}\n"
        )
    assert eventually(lambda: is_counted(person), PATIENCE), (used(person), counted(person))
    found = used(person)
    assert (found["turns"], found["last_answer"]) == (20, "you said: what is 19")
    assert (found["current_tool"], found["trouble"]) == (None, None)
    last = person.stub.used[-1]
    written = last.written if person.agent == "claude" else 0
    assert found["context_used"] == last.input + last.cached + written + last.output
    said = person.world.ok("transcript", person.name, "--json").json
    texts = [one["text"] for one in said if one["role"] == "assistant"]
    assert texts == [f"you said: what is {number}" for number in range(20)]


def test_it_asks_back(person: Person) -> None:
    person.start()
    done = person.world.sesh("ask", person.name, "run touch x", timeout=120)
    assert done.code == 8
    assert "asks back" in done.err
    assert "touch x" in done.err
    tool = used(person)["current_tool"]
    assert tool == ("Bash" if person.agent == "claude" else "exec_command")
    done = person.world.sesh("ask", person.name, "and now", timeout=120)  # the dialog is open
    assert done.code == 8
    person.world.ok("answer", person.name, "yes")
    person.waits_for("idle")
    assert eventually(lambda: is_counted(person), PATIENCE), (used(person), counted(person))
    assert used(person)["current_tool"] is None
    assert person.world.ok("transcript", person.name, "--last").out == "ran it\n"
    assert person.world.ok("ask", person.name, "again", timeout=120).out == "you said: again\n"


def test_a_turn_that_fails(person: Person) -> None:
    person.start()
    person.world.ok("ask", person.name, "hello", timeout=120)
    done = person.world.sesh("ask", person.name, "fail 401", timeout=240)
    assert done.code == 1, done
    assert "its turn failed" in done.err
    assert used(person)["trouble"]
    assert is_counted(person)


def test_no_answer_in_time(person: Person) -> None:
    person.start()
    begun = time.monotonic()
    done = person.world.sesh("ask", person.name, "slowly now", "--timeout", "2s", timeout=120)
    assert done.code == 124, done
    assert time.monotonic() - begun > 2
    person.stub.go_on.set()
    person.waits_for("idle")
    assert person.world.ok("ask", person.name, "next", timeout=120).out == "you said: next\n"


def test_it_ends_before_it_has_answered(person: Person) -> None:
    person.start()
    with reading(person.world, "ask", person.name, "slowly now") as asking:
        assert eventually(lambda: "slowly now" in person.stub.prompts, PATIENCE)
        person.world.ok("stop", person.name, "--force")
        code, out, err = asking.rest()
    assert (code, out) == (3, b"")
    assert "ended before it answered" in err


def test_it_is_interrupted(person: Person) -> None:
    person.start()
    with reading(person.world, "ask", person.name, "slowly now") as asking:
        assert eventually(lambda: "slowly now" in person.stub.prompts, PATIENCE)
        person.waits_for("busy")
        person.presses("Escape")
        code, _, err = asking.rest()
    assert code == 1
    assert "its turn failed: interrupted" in err


def test_standard_input(person: Person) -> None:
    person.start()
    done = person.world.ok("ask", person.name, "-", stdin="one\ntwo\n", timeout=120)
    assert done.out == "you said: one\n"  # the stub answers the first line


def test_a_subagent_is_counted(claude: Person) -> None:
    claude.start()
    claude.world.ok("ask", claude.name, "delegate look around", timeout=120)
    assert eventually(lambda: is_counted(claude), PATIENCE), (used(claude), counted(claude))
    assert len(claude.stub.used) >= 3
    assert eventually(lambda: used(claude)["last_answer"] == "ran it", PATIENCE)


def test_a_cleared_conversation_and_a_restart_lose_no_token(claude: Person) -> None:
    claude.start()
    claude.world.ok("ask", claude.name, "hello", timeout=120)
    first = claude.session()["conversation"]
    claude.prompts("/clear")
    assert eventually(lambda: claude.session()["conversation"] != first, PATIENCE)
    claude.world.ok("ask", claude.name, "second", timeout=120)
    assert eventually(lambda: is_counted(claude), PATIENCE), (used(claude), counted(claude))
    claude.world.ok("stop", claude.name)
    assert eventually(lambda: is_counted(claude), PATIENCE)
    claude.world.ok("restart", claude.name)
    claude.waits_for("idle")
    claude.world.ok("ask", claude.name, "third", timeout=120)
    assert eventually(lambda: is_counted(claude), PATIENCE), (used(claude), counted(claude))
    claude.world.ok("stop", claude.name)
    claude.world.ok("restart", "--fresh", claude.name)
    claude.waits_for("idle")
    claude.world.ok("ask", claude.name, "fourth", timeout=120)
    assert eventually(lambda: is_counted(claude), PATIENCE), (used(claude), counted(claude))
