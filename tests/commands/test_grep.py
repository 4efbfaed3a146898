"""sesh grep: in conversations and in what was printed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.agent import begin, install
from tests.world import World, eventually

_DATA = Path(__file__).parents[1] / "data" / "transcripts"


@pytest.fixture
def agent(world: World) -> World:
    install(world)
    conversation = begin(world)["conversation"]
    path = Path(world.env["HOME"]) / ".claude" / "projects" / "p" / f"{conversation}.jsonl"
    shutil.copy(_DATA / "claude.jsonl", path)
    world.env["TZ"] = "UTC"
    return world


def printed(world: World, name: str, text: str) -> None:
    world.start(name, "sh", "-c", f"printf '{text}'; sleep 1000")
    assert eventually(lambda: world.ok("logs", name).out)


def test_in_conversations(agent: World) -> None:
    done = agent.ok("grep", "hello there")
    assert done.out == (
        "one  2026-11-19 03:45:22  user  hello there\n"
        "one  2026-11-19 03:45:22  assistant  you said: hello there\n"
    )
    assert (
        agent.ok("grep", "^Bash: touch").out
        == "one  2026-11-19 03:45:23  assistant  Bash: touch x\n"
    )
    assert "tool  (Bash completed" in agent.ok("grep", "Bash completed", "one").out


def test_in_what_was_printed(world: World) -> None:
    printed(world, "a", r"\033[31mneedle\033[0m here\nneedle here\nand needle there")
    (first, second) = world.ok("grep", "needle").out.splitlines()
    assert first.startswith("a  20")
    assert first.endswith("  output  needle here")  # once
    assert second.endswith("  output  and needle there")
    assert len(world.ok("grep", "-i", "NEEDLE", "a").out.splitlines()) == 2


def test_nothing_matches(agent: World) -> None:
    done = agent.sesh("grep", "nowhere to be found")
    assert (done.code, done.out, done.err) == (1, "", "")


@pytest.mark.parametrize("regex", ["(", "[a", "*"])
def test_a_bad_pattern(world: World, regex: str) -> None:
    done = world.sesh("grep", regex)
    assert done.code == 2
    assert "invalid regular expression" in done.err


def test_a_pattern_that_takes_for_ever(world: World) -> None:
    printed(world, "a", "a" * 60)
    done = world.exec("grep", "(a+)+$(?<=b)")
    assert done.code == 2, done
    assert "takes more than 5s for a line" in done.err


def test_the_history(agent: World) -> None:
    agent.ok("stop", "one")
    agent.ok("start", "one", "-t", "claude")  # the old one goes to the history
    assert agent.sesh("grep", "you said: third").code == 1
    assert "you said: third" in agent.ok("grep", "--all", "you said: third").out
    assert "you said: third" in agent.ok("grep", "--all", "you said: third", "one").out


def test_hostile_content_is_escaped(world: World) -> None:
    printed(world, "a", r"needle \302\233\033]0;x\007 \342\200\256 end")
    out = world.ok("grep", "needle").out
    assert "end" in out
    assert not {"\x1b", "\x9b", "\u202e", "\x07"} & {*out}


def test_an_unknown_name(world: World) -> None:
    world.start("a")
    assert world.sesh("grep", "x", "missing").code == 4
