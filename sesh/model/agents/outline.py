"""A conversation at a glance, from the beginning and the end of its transcript: where it was begun,
its title, how many turns it has. PURE.

Anybody may have written a transcript: what is in it is data, may be cut anywhere, and is escaped
before it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sesh.model.agents.hook_event import conversation_id, entries, message_text
from sesh.model.text import quick_json
from sesh.model.value_object import Any, Value

FORMATS = ("claude", "codex")  # the kinds of agents whose transcripts are understood
_LONGEST = 200  # characters of a title
_MOST_IGNORED = 1 << 20  # bytes of a line that is too long to be a title or a prompt
_CWD, _SIDECHAIN = b'"cwd":"', b'"isSidechain":'
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}


class Outline(Value):
    """What the parts of a transcript show; None: nothing."""

    title: str | None = None
    turns: int | None = None  # None: parts of it were not looked at
    forked_from: str | None = None
    own: bool = True  # not that of a subagent


def directory(head: bytes) -> str | None:
    """The directory that a conversation was begun in: the first one in its transcript. (In a text,
    quotes have a backslash.)"""
    at = head.find(_CWD)
    end = head.find(b'"', at + len(_CWD))
    if at < 0 or end < 0:
        return None
    while head[at:end].endswith(b"\\"):
        end = head.find(b'"', end + 1)
        if end < 0:
            return None
    try:
        found = quick_json.loads(head[at + len(_CWD) - 1 : end + 1])
    except ValueError:
        return None
    return found if isinstance(found, str) and found.startswith("/") else None


def outline(kind: str, head: bytes, tail: bytes, *, whole: bool) -> Outline:
    """The outline of a transcript; `whole`: there is nothing between its two parts."""
    if kind == "claude":
        return _claude(head, tail, whole=whole)
    return _codex(head, tail, whole=whole) if kind == "codex" else Outline()


def _lines(part: bytes, *marks: bytes) -> Iterator[dict[str, Any]]:
    """The objects in lines that contain one of these marks: the others are not parsed."""
    wanted = (
        line
        for line in part.splitlines()
        if len(line) < _MOST_IGNORED and any(mark in line for mark in marks)
    )
    return entries(wanted)


# --- Claude Code ---------------------------------------------------------------------------------


def _claude(head: bytes, tail: bytes, *, whole: bool) -> Outline:
    titles: dict[str, str] = {}
    turns, first, last = 0, None, None
    marks = (b'"type":"user"', b'-title"', b'"type":"summary"', b'"last-prompt"')
    for entry in _lines(head + b"\n" + tail, *marks):
        kind = str(entry.get("type"))
        if kind in _TITLES:
            titles[kind] = _line(entry.get(_TITLES[kind])) or ""
        elif kind == "last-prompt":
            last = _line(entry.get("lastPrompt"))
        elif kind == "user" and (prompt := _claude_prompt(entry)):
            turns, first = turns + 1, first or prompt
    named = (titles[name] for name in _TITLES if titles.get(name))
    return Outline(
        title=next(named, None) or first or last,
        turns=turns if whole else None,
        own=not head.startswith(_SIDECHAIN + b"true", max(0, head.find(_SIDECHAIN))),
    )


def _claude_prompt(entry: Mapping[str, Any]) -> str | None:
    """What a person has typed; None: a result of a tool, a command, or a note of the agent."""
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if entry.get("isMeta") or entry.get("isSidechain") or entry.get("toolUseResult"):
        return None
    return _typed(message_text(content), "<", "[Request interrupted")


# --- Codex ---------------------------------------------------------------------------------------


def _codex(head: bytes, tail: bytes, *, whole: bool) -> Outline:
    first = second = origin = None
    own = True
    marks = (b'"session_meta"', b'"user_message"', b'"UserMessage"', b'"role":"user"')
    turns = (head + tail).count(b'"type":"task_started"')
    for entry in _lines(head, *marks):
        payload = entry.get("payload")
        if not isinstance(payload, dict):
            continue
        if entry.get("type") == "session_meta":
            origin = origin or conversation_id(payload.get("forked_from_id"))
            own = own and not _is_subagent(payload)
        first = first or _codex_prompt(payload)
        if payload.get("role") == "user":  # also what Codex itself adds to it
            second = second or _typed(message_text(payload.get("content")), "<", "# AGENTS.md")
    title = first or second or (f"copy of {origin}" if origin else None)
    return Outline(title, turns if whole else None, origin, own)


def _codex_prompt(payload: Mapping[str, Any]) -> str | None:
    if payload.get("type") == "user_message":
        return _typed(message_text(payload.get("message")))
    item = payload.get("item")
    if isinstance(item, dict) and item.get("type") == "UserMessage":
        return _typed(message_text(item.get("content")))
    return None


def _is_subagent(payload: Mapping[str, Any]) -> bool:
    return isinstance(payload.get("source"), dict) or payload.get("thread_source") == "subagent"


# --- texts ---------------------------------------------------------------------------------------


def _typed(text: str, *others: str) -> str | None:
    """A prompt in one line; None for texts that begin like those of the agent itself."""
    line = _line(text)
    return None if line is None or line.startswith(others) else line


def _line(text: object) -> str | None:
    """The beginning of a text in one line; None when it is empty or no text."""
    if not isinstance(text, str):
        return None
    found = " ".join(text[: _LONGEST * 4].split())[:_LONGEST]
    return found.encode("utf-8", "replace").decode() or None
