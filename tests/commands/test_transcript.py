"""sesh transcript: what was said in the conversation of an agent."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.agent import begin, install, prompt
from tests.world import World

_DATA = Path(__file__).parents[1] / "data" / "transcripts"


@pytest.fixture
def agent(world: World) -> World:
    install(world)
    return world


def transcript(world: World, name: str = "one") -> Path:
    conversation = world.session(name)["conversation"]
    return Path(world.env["HOME"]) / ".claude" / "projects" / "p" / f"{conversation}.jsonl"


def recorded(world: World) -> Path:
    """A session whose agent has written what was recorded of a real one."""
    begin(world)
    path = transcript(world)
    shutil.copy(_DATA / "claude.jsonl", path)
    return path


def append(path: Path, *entries: dict[str, Any]) -> None:
    with path.open("a") as file:
        for entry in entries:
            file.write(json.dumps(entry, separators=(",", ":")) + "\n")


def test_for_people(agent: World) -> None:
    recorded(agent)
    out = agent.ok("transcript", "one", env=agent.env | {"TZ": "UTC"}).out
    assert out.startswith(
        "user  2026-11-19 03:45:22\n  hello there\n\n"
        "assistant  2026-11-19 03:45:22\n  you said: hello there\n\n"
        "user  2026-11-19 03:45:23\n  run touch x\n\n"
        "assistant  2026-11-19 03:45:23  Bash: touch x\n\n"
    )
    assert "Bash completed" not in out  # the result of a tool
    assert "assistant  2026-11-19 03:45:28  rate limit (429)\n  API Error:" in out


def test_the_last_answer(agent: World) -> None:
    recorded(agent)
    assert agent.ok("transcript", "one", "--last").out == "you said: third\n"
    assert agent.ok("transcript", "one", "--last", "--role", "user").out == "third\n"


def test_the_last_turns_and_roles(agent: World) -> None:
    recorded(agent)
    assert agent.ok("transcript", "one", "-n", "1").out.endswith("  you said: third\n\n")
    assert agent.ok("transcript", "one", "-n", "0").out == ""
    users = agent.ok("transcript", "one", "--role", "user", "--json").json
    assert [one["text"] for one in users][:2] == ["hello there", "run touch x"]
    (tool,) = agent.ok("transcript", "one", "--role", "tool", "-n", "1", "--json").json
    assert tool["role"] == "tool"


def test_json(agent: World) -> None:
    recorded(agent)
    done = agent.ok("transcript", "one", "--json")
    assert len(done.out.splitlines()) == len(done.json)
    assert done.json[3] == {
        "role": "assistant",
        "text": "",
        "tool": "Bash",
        "input": {"command": "touch x", "description": "touch x"},
        "at": "2026-11-19T03:45:23Z",
        "tokens": 5,
        "model": "claude-opus-5-5",
        "error": None,
    }


def test_after_the_end(agent: World) -> None:
    recorded(agent)
    agent.ok("stop", "one")
    assert agent.ok("transcript", "one", "--last").out == "you said: third\n"


def test_nothing_was_said_yet(agent: World) -> None:
    begin(agent)
    done = agent.ok("transcript", "one")
    assert (done.out, done.err) == ("", "sesh: one: nothing was said yet\n")
    assert agent.ok("transcript", "one", "--json").out == "[]\n"
    assert agent.ok("transcript", "one", "--last", "--json").json == []


@pytest.mark.parametrize("template", ["aider", "opencode"])
def test_an_agent_without_a_reader(agent: World, template: str) -> None:
    install(agent, template)
    agent.ok("start", "two", "-t", template)
    done = agent.sesh("transcript", "two")
    assert done.code == 1
    assert "only those of claude, codex and gemini" in done.err


def test_a_plain_command(world: World) -> None:
    world.start("plain")
    done = world.sesh("transcript", "plain")
    assert done.code == 1
    assert "only those of claude, codex and gemini" in done.err


def test_a_fifo_is_not_waited_for(agent: World) -> None:
    begin(agent)
    os.mkfifo(transcript(agent))
    done = agent.sesh("transcript", "one")
    assert done.code == 1
    assert "not a regular file" in done.err


def test_hostile_text_is_escaped(agent: World) -> None:
    begin(agent)
    prompt(agent)
    hostile = "\x1b]0;title\x07 \u202e \ud800 \x9b2J"
    call = {
        "type": "tool_use",
        "id": "t",
        "name": hostile,
        "input": {"command": hostile, "n": float("nan")},
    }
    content = [{"type": "text", "text": hostile}, call]
    message = {"id": "m", "model": hostile, "role": "assistant", "content": content}
    append(transcript(agent), {"type": "assistant", "message": message})
    out = agent.ok("transcript", "one").out
    assert "\\x1b]0;title\\x07" in out
    assert "\\u202e \\ud800 \\x9b2J" in out
    assert not {"\x1b", "\u202e", "\x9b"} & {*out}
    said = agent.ok("transcript", "one", "--json").json
    assert said[-1]["input"]["n"] is None


def test_wrong_calls(agent: World) -> None:
    begin(agent)
    assert agent.sesh("transcript", "one", "--last", "-n", "2").code == 2
    assert agent.sesh("transcript", "one", "--role", "nobody").code == 2
    assert agent.sesh("transcript", "missing").code == 4
