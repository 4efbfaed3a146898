"""Conversations at a glance: whatever is in a transcript, wherever it was cut."""

from __future__ import annotations

import json
import random

import pytest

from sesh.model.agents.outline import Outline, directory, outline


def lines(*entries: object) -> bytes:
    return b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in entries)


def typed(text: str, **more: object) -> dict[str, object]:
    message = {"role": "user", "content": text}
    return {"isSidechain": False, "type": "user", "message": message, "cwd": "/src/a b", **more}


def event(kind: str, **more: object) -> dict[str, object]:
    return {"type": "event_msg", "payload": {"type": kind, **more}}


CLAUDE = lines(
    {"type": "mode", "mode": "normal", "sessionId": "x"},
    typed("<command-name>/clear</command-name>"),
    typed("a caveat", isMeta=True),
    typed("fix the\n\n  login"),
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "I will"}]}},
    typed("", message={"content": [{"type": "tool_result", "content": "done"}]}),
    typed("[Request interrupted by user]"),
    typed("", message={"content": [{"type": "text", "text": "and the tests"}]}),
    {"type": "last-prompt", "lastPrompt": "and the tests"},
)
META = {
    "type": "session_meta",
    "payload": {
        "id": "11111111-aaaa",
        "forked_from_id": "22222222-bbbb",
        "cwd": "/src/shop",
        "source": "cli",
        "base_instructions": {"text": 'say "cwd":"/never"'},
    },
}
CODEX = lines(
    META,
    event("task_started"),
    {"type": "response_item", "payload": {"role": "user", "content": [{"text": "<context>"}]}},
    {"type": "response_item", "payload": {"role": "user", "content": [{"text": "search it"}]}},
    event("item_completed", item={"type": "UserMessage", "content": [{"text": "search it"}]}),
    event("task_started"),
)


def test_claude() -> None:
    assert outline("claude", CLAUDE, b"", whole=True) == Outline("fix the login", 2)
    assert directory(CLAUDE) == "/src/a b"


def test_its_own_title_counts_more_than_a_prompt_and_the_users_most() -> None:
    titles = [{"type": "ai-title", "aiTitle": "Old"}, {"type": "ai-title", "aiTitle": "New"}]
    titled = CLAUDE + lines(*titles)
    assert outline("claude", titled, b"", whole=True).title == "New"
    named = lines({"type": "custom-title", "customTitle": "Mine"}) + titled
    assert outline("claude", named, b"", whole=True).title == "Mine"
    older = lines({"type": "summary", "summary": "Of an old version"}) + CLAUDE
    assert outline("claude", older, b"", whole=True).title == "Of an old version"


def test_parts_of_a_large_one() -> None:
    """Turns are not guessed; where the first prompt does not fit, the last one is the title."""
    tail = lines({"type": "last-prompt", "lastPrompt": "go on"})
    assert outline("claude", CLAUDE, tail, whole=False) == Outline("fix the login", None)
    assert outline("claude", CLAUDE[:200], tail, whole=False) == Outline("go on", None)


def test_codex() -> None:
    assert outline("codex", CODEX, b"", whole=True) == Outline("search it", 2, "22222222-bbbb")
    assert directory(CODEX) == "/src/shop"


def test_a_copy_without_a_prompt_of_its_own() -> None:
    shown = outline("codex", lines(META), b"", whole=True)
    assert shown == Outline("copy of 22222222-bbbb", 0, "22222222-bbbb")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("claude", lines(typed("hello", isSidechain=True))),
        ("codex", lines({"type": "session_meta", "payload": {"source": {"subagent": "x"}}})),
        ("codex", lines({"type": "session_meta", "payload": {"thread_source": "subagent"}})),
    ],
)
def test_subagents(kind: str, text: bytes) -> None:
    assert outline(kind, text.replace(b'"isSidechain":false,', b""), b"", whole=True).own is False


def test_an_agent_that_is_not_known() -> None:
    assert outline("gemini", CLAUDE, b"", whole=True) == Outline()


@pytest.mark.parametrize("text", [CLAUDE, CODEX])
@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_cut_anywhere(kind: str, text: bytes) -> None:
    most = outline(kind, text, b"", whole=True).turns or 0
    for at in range(len(text) + 1):
        assert (outline(kind, text[:at], b"", whole=True).turns or 0) <= most
        assert outline(kind, text[:at], text[at:], whole=False).turns is None
        assert directory(text[:at]) in (None, directory(text))


def test_shuffled_and_hostile() -> None:
    chance = random.Random(1)
    strange = [
        b"\xff\xfe\x00",
        b'"type":"user"',
        b'{"type":"user","message":7}',
        b'{"type":"user","message":{"content":[[],{"text":3},null]}}',
        b'{"type":"ai-title","aiTitle":{"x":1}}',
        b'{"type":"custom-title","customTitle":"\x1b]0;evil\x07"}',
        b'{"type":["user"],"message":{}} "type":"user"',
        b'{"type":["ai-title"],"aiTitle":"x"}',
        b'{"type":{"x":"-title"},"aiTitle":"x"}',
        b'{"type":"session_meta","payload":[]}',
        b'{"type":"session_meta","payload":{"forked_from_id":"--help","source":[]}}',
        b'{"type":"user","message":{"content":"\\ud800"}}',
        b"[" * 100_000 + b'"type":"user"',
        b'"cwd":"not a path"',
        b'"cwd":"\\',
    ]
    pool = [*CLAUDE.splitlines(), *CODEX.splitlines(), *strange]
    for _ in range(300):
        text = b"\n".join(chance.sample(pool, chance.randint(1, len(pool))))
        for kind in ("claude", "codex"):
            shown = outline(kind, text, text[-50:], whole=False)
            assert shown.title is None or (shown.title.encode() and "\n" not in shown.title)
        found = directory(text)
        assert found is None or found.startswith("/")


def test_a_title_is_short() -> None:
    text = lines(typed("x" * 100_000))
    assert len(outline("claude", text, b"", whole=True).title or "") == 200
