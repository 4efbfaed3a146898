"""What the agent of a session has used, as people and scripts see it: from its start to the
history."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from sesh.agents.usage import session
from sesh.state import records
from tests.agent import begin, install, prompt, tells
from tests.world import World, eventually

OPUS = "claude-opus-5-5"


@pytest.fixture
def agent(world: World) -> World:
    install(world)
    return world


def transcript(world: World, conversation: str) -> Path:
    return Path(world.env["HOME"]) / ".claude" / "projects" / "p" / f"{conversation}.jsonl"


def says(path: Path, key: str, text: str = "done", given: int = 1000, written: int = 500) -> None:
    used = {"input_tokens": given, "output_tokens": written, "cache_read_input_tokens": 10_000}
    part = {"type": "text", "text": text}
    message = {"id": key, "model": OPUS, "role": "assistant", "usage": used, "content": [part]}
    message["stop_reason"] = "end_turn"
    entry = {"isSidechain": False, "type": "assistant", "message": message}
    with path.open("a") as file:
        file.write(json.dumps(entry, separators=(",", ":")) + "\n")


def used(world: World, name: str = "one") -> Any:
    return world.ok("show", name, "--json").json["usage"]


def test_show_and_ls_wide(agent: World) -> None:
    conversation = begin(agent)["conversation"]
    assert used(agent)["reason"] == "there is no transcript of its conversation yet"
    prompt(agent)
    says(transcript(agent, conversation), "m1", "all \x1b[31mdone\nnow")
    found = used(agent)
    assert (found["tokens_in"], found["tokens_out"], found["tokens_cached"]) == (1000, 500, 10_000)
    assert (found["model"], found["turns"], found["reason"]) == (OPUS, 1, None)
    assert (found["context_used"], found["context_window"]) == (11_500, 1_000_000)
    assert (found["cost_usd"], found["cost_source"]) == (0.016, "prices")
    assert found["last_answer"] == "all \x1b[31mdone\nnow"
    shown = agent.ok("show", "one").out
    assert (
        "tokens     1.0k in, 500 out, 10k from the cache   cost $0.016 (by the price table)"
        in shown
    )
    assert f"model      {OPUS}, context 1% of 1.0M, 1 turn" in shown
    assert r"said       all \x1b[31mdone now" in shown
    assert "12k $0.016" in " ".join(agent.ok("ls", "--wide").out.split())
    assert agent.ls("--wide")[0]["usage"] == found
    assert agent.ls()[0]["usage"] is None  # that costs a look at its transcripts
    line = agent.ok("ls", "--format", "{name} {tokens_out} {cost_usd} {model}").out
    assert line == f"one 500 0.016 {OPUS}\n"
    assert agent.ls("--sort", "-cost_usd")[0]["usage"] == found


def test_a_session_without_a_known_agent_has_no_usage(agent: World) -> None:
    agent.start("plain")
    assert used(agent, "plain") is None
    assert "TOKENS" not in agent.ok("ls", "--wide").out


def test_a_cleared_conversation_keeps_its_tokens(agent: World) -> None:
    first = begin(agent)["conversation"]
    prompt(agent)
    says(transcript(agent, first), "m1")
    second = "11111111-2222-4333-8444-555555555555"
    says(transcript(agent, second), "m2", "other", 7, 3)
    event = {"hook_event_name": "SessionStart", "source": "clear", "session_id": second}
    tells(agent, event)
    assert eventually(lambda: agent.session("one")["conversation"] == second)
    found = used(agent)
    assert (found["tokens_in"], found["tokens_out"], found["turns"]) == (1007, 503, 2)
    assert (found["last_answer"], found["context_used"]) == ("other", 10_010)


def test_restart_fresh_keeps_its_tokens(agent: World) -> None:
    first = begin(agent)["conversation"]
    prompt(agent)
    says(transcript(agent, first), "m1")
    agent.ok("stop", "one")
    agent.ok("restart", "one", "--fresh")
    second = agent.session("one")["conversation"]
    assert second != first
    says(transcript(agent, second), "m2", given=1, written=1)
    found = used(agent)
    assert (found["tokens_in"], found["tokens_out"]) == (1001, 501)


def test_the_end_keeps_what_was_used(agent: World) -> None:
    conversation = begin(agent, "one", "--group", "shop")["conversation"]
    prompt(agent)
    path = transcript(agent, conversation)
    says(path, "m1")
    os.kill(agent.session("one")["pid"], signal.SIGKILL)
    assert eventually(lambda: agent.session("one")["usage"])
    path.unlink()
    found = agent.session("one")["usage"]
    assert (found["tokens_in"], found["tokens_out"], found["cost_usd"]) == (1000, 500, 0.016)
    assert used(agent) == found
    stats = agent.ok("stats", "--json").json
    assert (stats["tokens_in"], stats["cost_usd"], stats["cost_is_lower_bound"]) == (
        *(1000, 0.016),
        False,
    )
    agent.ok("start", "one", "-t", "claude", "--group", "web")  # it goes to the history
    says(transcript(agent, agent.session("one")["conversation"]), "m2", given=5)
    stats = agent.ok("stats", "--json").json
    assert stats["tokens_in"] == 1005
    groups = {one["name"]: one["tokens_in"] for one in stats["groups"]}
    assert groups == {"shop": 1000, "web": 5}
    assert stats["templates"][0]["tokens_out"] == 1000
    metrics = agent.ok("stats", "--prometheus").out
    assert 'sesh_group_tokens_in{group="shop"} 1000\n' in metrics
    assert "sesh_cost_usd 0.02" in metrics
    text = agent.ok("stats").out
    assert "tokens     1.0k in · 1.0k out · 20k from the cache · cost $0.028" in text
    assert "TOKENS" in text


def test_the_state_goes_with_the_session(agent: World) -> None:
    conversation = begin(agent)["conversation"]
    prompt(agent)
    says(transcript(agent, conversation), "m1")
    used(agent)
    assert len([*agent.state.glob("run/*/one-*.usage.*")]) == 1
    agent.ok("stop", "one")
    agent.ok("rm", "one")
    assert [*agent.state.glob("run/*/one-*")] == []


def test_a_price_table_with_an_error_shows_no_cost(agent: World) -> None:
    conversation = begin(agent)["conversation"]
    says(transcript(agent, conversation), "m1")
    path = agent.root / "config" / "sesh" / "prices.toml"
    path.parent.mkdir(parents=True)
    path.write_text('\n[[model]]\nname = "x"\n')
    assert (used(agent)["tokens_in"], used(agent)["cost_usd"]) == (1000, None)
    assert f"no cost: {path}:2: model 1: input is missing" in agent.ok("show", "one").out
    done = agent.ok("ls", "--wide")
    assert f"sesh: no cost is shown: {path}:2: model 1: input is missing" in done.err
    path.write_text(f'[[model]]\nname = "{OPUS}"\ninput = 1000\noutput = 0\ncache_read = 0\n')
    assert used(agent)["cost_usd"] == 1.0


def test_an_agent_without_a_reader(agent: World) -> None:
    install(agent, "aider")
    agent.ok("start", "two", "-t", "aider")
    assert used(agent, "two")["reason"].startswith("sesh cannot read the transcripts of aider")


def test_a_fifo_in_place_of_the_transcript(agent: World) -> None:
    conversation = begin(agent)["conversation"]
    os.mkfifo(transcript(agent, conversation))
    assert "not a regular file" in used(agent)["reason"]


def test_ls_wide_reads_only_what_was_appended(
    agent: World, here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", agent.env["HOME"])
    paths = []
    names = [f"agent-{number}" for number in range(6)]
    for name in names:
        paths.append(transcript(agent, begin(agent, name)["conversation"]))
        for number in range(200):
            says(paths[-1], f"m{number}")
    read: list[int] = []
    pread = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)

    def look() -> int:
        """One `ls --wide`; how many bytes of transcripts did it read?"""
        read.clear()
        found = [session.of_record(record) for name in names if (record := _record(name))]
        assert all(one and one.tokens_in for one in found)
        return sum(read)

    assert look() >= sum(path.stat().st_size for path in paths)
    assert look() == 0
    says(paths[3], "more")
    assert 0 < look() < 4 * 4096
    assert look() == 0


def _record(name: str) -> Any:
    entry = records.entry(name)
    return entry.readable if entry else None
