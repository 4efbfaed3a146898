"""sesh.api with agents that sesh runs: start, prompts, answers, usage. Also from threads."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from sesh import api
from tests.agents.usage.test_session import says
from tests.commands.test_ask import speaking
from tests.world import World


@pytest.fixture
def agent(here: World, monkeypatch: pytest.MonkeyPatch) -> World:
    speaking(here)
    monkeypatch.setenv("PATH", here.env["PATH"])
    return here


def test_the_life_of_an_agent(agent: World) -> None:
    started = api.start("one", template="claude", group="shop", tags=["a"])
    assert (started.state, started.group, started.tags) == ("running", "shop", ("a",))
    assert api.usage("one") == api.AgentUsage(
        reason="there is no transcript of its conversation yet"
    )
    assert api.transcript("one") == []
    answer = api.ask("one", "what is it", timeout=60)
    assert answer == "said: what is it\n\x1b[31m"
    used = api.usage("one")
    assert used is not None
    assert (used.tokens_in, used.tokens_out, used.turns) == (3, 2, 1)
    assert [turn.role for turn in api.transcript("one")] == ["user", "assistant"]
    assert api.question("one") is None
    with pytest.raises(api.TimedOutError):
        api.ask("one", "never", timeout=0.5)
    with pytest.raises(api.TimedOutError):
        api.wait("one", timeout=0.2)
    assert api.wait("one", "running") == "running"
    with pytest.raises(api.SeshError, match="rate limit"):
        api.ask("one", "fail now", timeout=60)
    assert api.stop("one").state == "stopped"
    assert api.wait("one") == "stopped"
    with pytest.raises(api.EndedError):
        api.ask("one", "hello")
    assert api.usage("one") is not None


def test_a_plain_command(here: World) -> None:
    api.start("plain", ["cat"])
    api.send("plain", "hello")
    assert api.usage("plain") is None
    assert api.activity("plain") is None
    assert api.question("plain") is None
    with pytest.raises(api.SeshError, match="only those of claude, codex and gemini"):
        api.transcript("plain")
    api.stop("plain", grace=0)


def test_from_threads(agent: World) -> None:
    names = [f"agent-{number}" for number in range(3)]
    for name in names:
        api.start(name, template="claude")
    found: dict[str, Any] = {}

    def talk(name: str) -> None:
        found[name] = (api.ask(name, f"hello {name}", timeout=120), api.usage(name))

    threads = [threading.Thread(target=talk, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in names:
        answer, used = found[name]
        assert answer.startswith(f"said: hello {name}\n")
        assert (used.tokens_in, used.turns) == (3, 1)


def test_one_session_from_many_threads(agent: World) -> None:
    conversation = api.start("one", template="claude").conversation
    path = Path(agent.env["HOME"]) / ".claude" / "projects" / "p" / f"{conversation}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    wrong: list[Any] = []

    def look() -> None:
        last = 0
        for _ in range(20):
            used = api.usage("one")
            now = (used and used.tokens_in) or 0
            if now < last:
                wrong.append((last, now))
            last = now

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(50):
        says(path, f"m{number}", given=1, written=1)
    for thread in threads:
        thread.join()
    used = api.usage("one")
    assert wrong == []
    assert used is not None
    assert used.tokens_in == 50


def test_wrong_calls(here: World) -> None:
    api.start("a", ["cat"])
    for wrong in ("", " ", 3, None):
        with pytest.raises(api.UsageError):
            api.ask("a", wrong)  # type: ignore[arg-type]
    with pytest.raises(api.UsageError):
        api.wait("a", "nonsense")
    with pytest.raises(api.UsageError):
        api.wait("a", timeout=-1)
    with pytest.raises(api.NoSessionError):
        api.usage("missing")
