"""Copies of conversations by the real Claude Code and Codex (`make test-agents`)."""

from __future__ import annotations

import json
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from tests.agents.home import codex_settings
from tests.agents.person import PATIENCE, Person
from tests.repository import with_repository
from tests.world import eventually

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600)]


def _transcript(person: Person, conversation: str) -> Path:
    home = person.world.root / "home"
    patterns = (
        f".claude/projects/*/{conversation}.jsonl",
        f".codex/sessions/*/*/*/rollout-*-{conversation}.jsonl",
    )
    return next(path for pattern in patterns for path in home.glob(pattern))


def _written(person: Person, conversation: str, text: str) -> None:
    def is_there() -> bool:
        try:
            return text in _transcript(person, conversation).read_text()
        except StopIteration:
            return False

    assert eventually(is_there, PATIENCE), person.screen()


def _conversation(person: Person) -> str:
    found = eventually(lambda: person.session()["conversation"], PATIENCE)
    assert found, person.session()
    return str(found)


def _remembers(person: Person) -> str:
    """Its conversation, after a first turn that is over: it writes no more of that by itself."""
    person.start()
    person.prompts("remember the apple")
    person.sees("you said: remember the apple")
    conversation = _conversation(person)
    last = {"claude": '"turn_duration"', "codex": '"task_complete"'}
    _written(person, conversation, last[person.agent])
    person.waits_for("idle")
    return conversation


def _mark(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _copy(person: Person, name: str, *options: str) -> Person:
    """Fork the session and wait until the copy shows what was said before."""
    person.world.ok("fork", person.name, name, *options)
    copy = Person(person.world, person.stub, person.agent, person.asks, name)
    copy.sees("you said: remember")
    return copy


def _lives_twice(person: Person) -> None:
    """Two living conversations of one, each with its own continuation; the original is untouched by
    the fork, byte for byte, and a restart of each resumes its own."""
    first = _remembers(person)
    before = _mark(_transcript(person, first))

    copy = _copy(person, "copy")
    copy.prompts("take the left way")
    copy.sees("you said: take the left way")
    second = _conversation(copy)
    assert second != first
    _written(copy, second, "you said: take the left way")
    assert _mark(_transcript(person, first)) == before
    used = copy.world.ok("show", "copy", "--json").json["usage"]
    assert used["tokens_out"] == copy.stub.used[-1].output  # only its own answer
    origin = copy.session()["forked_from"]
    assert (origin["name"], origin["conversation"]) == (person.name, first)

    person.prompts("take the right way")
    _written(person, first, "you said: take the right way")
    assert "left way" not in _transcript(person, first).read_text()
    assert "right way" not in _transcript(copy, second).read_text()

    for one, own, words in ((copy, second, "left"), (person, first, "right")):
        one.waits_for("idle")
        one.kills()
        one.world.ok("restart", one.name)
        one.sees(f"you said: take the {words} way")
        assert _conversation(one) == own


def test_two_conversations_of_claude(claude: Person) -> None:
    _lives_twice(claude)


def test_two_conversations_of_codex(codex: Person) -> None:
    _lives_twice(codex)


def _made_again(person: Person) -> None:
    """A copy that was killed before its first prompt still has what was said before."""
    first = _remembers(person)
    copy = _copy(person, "copy")
    copy.waits_for("idle")
    copy.kills()
    copy.world.ok("restart", "copy")
    copy.sees("you said: remember the apple")
    copy.prompts("go on")
    copy.sees("you said: go on")
    own = _conversation(copy)
    assert own != first
    _written(copy, own, "you said: go on")


def test_a_copy_of_claude_that_was_never_prompted(claude: Person) -> None:
    _made_again(claude)


def test_a_copy_of_codex_that_was_never_prompted(codex: Person) -> None:
    _made_again(codex)


def test_a_prompt_for_the_copy(claude: Person) -> None:
    _remembers(claude)
    claude.world.ok("fork", claude.name, "copy", "--prompt", "and then the pear")
    copy = Person(claude.world, claude.stub, claude.agent, claude.asks, "copy")
    copy.sees("you said: and then the pear")
    copy.waits_for("idle")


def _in_a_worktree(person: Person, trusted: Path) -> None:
    """The agent finds the conversation from another directory, and continues it there."""
    first = _remembers(person)
    before = _mark(_transcript(person, first))
    copy = _copy(person, "copy", "--worktree", "idea")
    assert copy.session()["cwd"] == str(trusted)
    copy.prompts("go on")
    copy.sees("you said: go on")
    second = _conversation(copy)
    _written(copy, second, "you said: go on")
    assert f'"cwd":"{trusted}"' in _transcript(copy, second).read_text()
    assert _mark(_transcript(person, first)) == before
    copy.waits_for("idle")
    copy.kills()
    copy.world.ok("restart", "copy")
    copy.sees("you said: go on")
    assert _conversation(copy) == second


def _worktree(person: Person) -> Path:
    with_repository(person.world)
    return person.world.cwd.with_name(f"{person.world.cwd.name}.worktrees") / "idea"


def test_claude_in_a_worktree(claude: Person) -> None:
    trusted = _worktree(claude)
    path = claude.world.root / "home" / ".claude.json"
    known = json.loads(path.read_text())
    known["projects"][str(trusted)] = {"hasTrustDialogAccepted": True}
    path.write_text(json.dumps(known))
    _in_a_worktree(claude, trusted)


def test_codex_in_a_worktree(codex: Person) -> None:
    trusted = _worktree(codex)
    settings = codex_settings(codex.world.root / "home")
    with settings.open("a") as file:
        file.write(f'\n[projects."{trusted}"]\ntrust_level = "trusted"\n')
    _in_a_worktree(codex, trusted)


# --- conversations that were begun without sesh --------------------------------------------------


def _by_hand(person: Person, *words: str) -> str:
    """The user's own agent, in a tmux that is none of ours; its conversation when it has ended."""
    other = str(person.world.root / "by-hand")
    run = ("tmux", "-f", "/dev/null", "-S", other)
    subprocess.run(
        [*run, "new-session", "-d", "-c", str(person.world.cwd), *words],
        env=person.world.env,
        check=True,
    )
    try:
        show = [*run, "capture-pane", "-p"]

        def shows(text: str) -> bool:
            return text in subprocess.run(show, capture_output=True, text=True).stdout

        assert eventually(lambda: shows("you said: remember the apple"), PATIENCE)
        found = eventually(lambda: person.world.ok("conversations", "--json").json, PATIENCE)[0]
        busy = person.world.sesh("start", "mine", "-t", person.agent, "--conversation", "last")
        assert busy.code == 8, busy
        assert f"uses conversation {found['id']}" in busy.err
        assert (found["in_use"], found["session"]) == (True, None)
    finally:
        subprocess.run([*run, "kill-server"], check=True)
    assert eventually(
        lambda: not person.world.ok("conversations", "--json").json[0]["in_use"], PATIENCE
    )
    return str(found["id"])


def _imported(person: Person, *words: str) -> None:
    """It is continued in a session, and like any other one from there on."""
    conversation = _by_hand(person, *words)
    [shown] = person.world.ok("conversations", "--json").json
    assert (shown["title"], shown["turns"]) == ("remember the apple", 1)
    done = person.world.ok("start", person.name, "-t", person.agent, "--conversation", "last")
    assert f"continues conversation {conversation}: remember the apple" in done.err
    person.sees("you said: remember the apple")
    person.waits_for("idle")
    person.prompts("go on")
    person.sees("you said: go on")
    _written(person, conversation, "you said: go on")
    assert _conversation(person) == conversation
    [shown] = person.world.ok("conversations", "--json").json
    assert (shown["session"], shown["in_use"], shown["turns"]) == (person.name, True, 2)
    person.waits_for("idle")
    person.kills()
    person.world.ok("restart", person.name)
    person.sees("you said: go on")
    assert _conversation(person) == conversation
    assert len(person.world.ok("conversations", "--all", "--json").json) == 1


def test_one_of_claude_is_continued(claude: Person) -> None:
    _imported(claude, "claude", "remember the apple")


def test_one_of_codex_is_continued(codex: Person) -> None:
    _imported(codex, "codex", "-c", "features.daemon_auto_start=false", "remember the apple")


def test_options_for_claude(claude: Person) -> None:
    claude.world.ok("start", claude.name, "-t", "claude", "--", "--model", "haiku")
    claude.waits_for("idle")
    claude.prompts("hello")
    _written(claude, _conversation(claude), "you said: hello")
    claude.world.ok("restart", "-y", claude.name)
    claude.sees("you said: hello")
    claude.prompts("and again")
    claude.sees("you said: and again")
    asked = [one for one in claude.stub.requests if one.get("tools")]
    assert {"haiku" in one["model"] for one in asked} == {True}


def test_options_for_codex(codex: Person) -> None:
    codex.world.ok("start", codex.name, "-t", "codex", "--", "--model", "another")
    codex.waits_for("idle")
    codex.prompts("hello")
    codex.sees("you said: hello")
    _written(codex, _conversation(codex), '"task_complete"')
    codex.world.ok("restart", "-y", codex.name)
    codex.sees("you said: hello")
    codex.prompts("and again")
    codex.sees("you said: and again")
    asked = [one for one in codex.stub.requests if one.get("tools")]
    assert {one["model"] for one in asked} == {"another"}
