"""What the real agents ask: shown, answered by sesh answer, and never by what sesh send types."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.agents.home import MODE_ASKED
from tests.agents.person import PATIENCE, Person
from tests.world import Done, eventually

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600)]
TEXTS = ("no", "4", "yes", "please also fix the docs", "1")
TOOLS = {"claude": ("Bash", "command"), "codex": ("exec_command", "cmd")}


@pytest.fixture(params=["claude", "codex"])
def person(request: pytest.FixtureRequest) -> Person:
    found: Person = request.getfixturevalue(request.param)
    return found


def sends(person: Person, text: str) -> Done:
    return person.world.sesh("send", person.name, text)


def answers(person: Person, *words: str) -> str:
    return person.world.ok("answer", person.name, *words).out


def question(person: Person) -> dict[str, Any]:
    found = person.session()["question"]
    assert found is not None
    return dict(found)


def test_no_text_decides_what_is_asked(person: Person) -> None:
    person.start()
    tool, key = TOOLS[person.agent]
    made = person.world.cwd / "made"
    person.is_asked("touch made")
    for text in TEXTS:
        done = sends(person, text)
        assert done.code == 8, done
        assert f"nothing was sent: {tool} wants to run: touch made" in done.err
        assert f"answer it: sesh answer {person.name} yes|no" in done.err
    assert person.asks in person.screen()
    assert (question(person)["tool"], question(person)["input"][key]) == (tool, "touch made")
    assert "touch made" in person.world.ok("show", person.name).out

    assert answers(person, "no") == f"{person.name}: denied {tool} (touch made)\n"
    assert not made.exists()
    assert eventually(lambda: person.session()["activity"] == "idle", PATIENCE)
    assert person.session()["question"] is None
    assert person.world.sesh("answer", person.name, "no").code == 8
    assert [text for text in person.stub.prompts if text in TEXTS] == []


def test_a_yes_and_an_always(person: Person) -> None:
    person.start()
    tool, _ = TOOLS[person.agent]
    for word, verb in (("yes", "allowed"), ("always", "always allowed")):
        made = person.world.cwd / word
        person.is_asked(f"touch {word}")
        assert answers(person, word) == f"{person.name}: {verb} {tool} (touch {word})\n"
        assert eventually(made.exists, PATIENCE)
        person.waits_for("idle")


def test_a_prompt_is_proven_also_while_it_works(person: Person) -> None:
    person.start()
    person.world.ok("send", person.name, "slowly now")
    person.waits_for("busy")
    person.world.ok("send", person.name, "and then this")
    person.stub.go_on.set()
    assert eventually(lambda: "and then this" in person.stub.prompts, PATIENCE)


def test_claude_asks_for_a_choice_or_a_text(claude: Person) -> None:
    claude.start()
    for word, said in (("2", "Blue"), ("a light green", "a light green")):
        claude.prompts("ask Which color?")
        claude.sees("Type something")
        assert sends(claude, "no").code == 8
        assert claude.world.sesh("answer", claude.name, "yes").code == 8
        assert answers(claude, word).startswith(f"{claude.name}: answered {word}")
        claude.sees(f"Which color? → {said}")


def test_claude_asks_for_its_mode(claude: Person) -> None:
    """Its options have no numbers."""
    settings = claude.world.root / "home" / ".claude.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), MODE_ASKED: False}))
    claude.world.ok("start", claude.name, "-t", "claude")
    claude.sees("Make auto mode your default")
    assert sends(claude, "hello").code == 8
    assert "denied Make auto mode" in answers(claude, "no")
    claude.waits_for("idle")
    claude.world.ok("send", claude.name, "hello")
    assert "auto mode on" not in claude.screen()


def test_codex_asks_where_to_continue(codex: Person) -> None:
    person = ("-c", "user.name=ada", "-c", "user.email=ada@localhost")
    for words in (("init", "-q"), (*person, "commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", "-C", codex.world.cwd, *words], check=True)
    codex.start()
    codex.prompts("hello")
    codex.waits_for("idle")
    codex.world.ok("send", codex.name, "/new")
    codex.sees("Where should the new conversation run?")
    assert sends(codex, "1").code == 8
    assert codex.world.sesh("answer", codex.name, "yes").code == 8
    assert "answered 1 (Use current Git worktree)" in answers(codex, "1")
