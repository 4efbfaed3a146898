"""Gemini CLI's transcripts, `tmp/*/chats/session-*.jsonl`: their turns, and their sums. PURE.

The format is that of its chat recording service (0.6x): the first line describes the conversation;
then each line is a message, which comes again under its id when it has changed (its tokens and tool
calls are added later), or `{"$set": …}`, or `{"$rewindTo": ID}`. What was rewound was used all the
same, so its tokens count.
"""

from __future__ import annotations

from sesh.model.agents.hook_event import message_text
from sesh.model.agents.turns import (
    ASSISTANT,
    TOOL,
    USER,
    Messages,
    Turn,
    Usage,
    count,
    moment,
    name,
    parse,
    table,
)
from sesh.model.value_object import Any, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_UNKNOWN = "unknown"
_LONGEST_ANSWER = 1 << 14
_RUNS = ("validating", "scheduled", "executing", "awaiting_approval")


class Sums:
    """What the lines of a transcript sum up to. `add` never raises."""

    kind = "gemini"

    def __init__(self) -> None:
        self._messages = Messages()
        self._known = Usage()

    def add(self, line: bytes) -> None:
        if b'"gemini"' not in line and b'"error"' not in line and b'"user"' not in line:
            return
        entry = parse(line, whole=False)
        key = entry.get("id") if entry else None
        if entry is None or not isinstance(key, str) or not key:
            return
        at = moment(entry.get("timestamp"))
        if entry.get("type") == "gemini":
            self._said(entry, key, at)
        elif entry.get("type") == "user":
            self._known = replace(self._known, trouble=None, tool=None, tool_since=None)
        elif entry.get("type") == "error":
            text = message_text(entry.get("content")).strip()
            self._known = replace(self._known, trouble=text[:200] or "an error")

    def _said(self, entry: Mapping[str, Any], key: str, at: float | None) -> None:
        used, model = table(entry.get("tokens")), name(entry.get("model"))
        counts, text = _counts(used), message_text(entry.get("content"))
        calls = entry.get("toolCalls")
        calls = [table(one) for one in calls] if isinstance(calls, list) else []
        over = bool(text.strip()) and not calls and bool(used)
        if any(counts) or over:
            self._messages.add(key, model or self._known.model or _UNKNOWN, counts, over=over)
        changes: dict[str, Any] = {"trouble": None, "model": model or self._known.model}
        if any(counts):
            changes["context"] = sum(counts)
        if text.strip():
            changes |= {"answer": text[:_LONGEST_ANSWER], "answered": at}
        running = [one for one in calls if one.get("status") in _RUNS]
        last = running[-1] if running else {}
        changes["tool"] = name(last.get("name"))
        changes["tool_since"] = moment(last.get("timestamp"))
        self._known = replace(self._known, **changes)

    @property
    def usage(self) -> Usage:
        tokens, turns = self._messages.tokens(), self._messages.turns
        return replace(self._known, tokens=tokens, turns=turns)

    def dump(self) -> dict[str, Any]:
        return {"messages": self._messages.dump()}

    @classmethod
    def load(cls, plain: Mapping[str, Any], usage: Usage) -> Sums:
        """The inverse of `dump` and `usage`. Raises ValueError, TypeError or KeyError."""
        self = cls()
        self._messages, self._known = Messages.load(plain["messages"]), usage
        return self


def _counts(used: Mapping[str, Any]) -> tuple[int, ...]:
    """As in `Tokens.counts`. `input` includes what comes from the cache; thoughts are output."""
    given, cached = count(used.get("input")), count(used.get("cached"))
    cached = min(given, cached)
    written = count(used.get("output")) + count(used.get("thoughts"))
    return given - cached + count(used.get("tool")), written, cached, 0, 0


# --- turns ---------------------------------------------------------------------------------------


def turns(line: bytes) -> list[Turn]:
    """What was said in a line. A message may come again: see `Turns` in agents/transcripts."""
    entry = parse(line)
    if entry is None or not isinstance(entry.get("id"), str):
        return []
    at, text = moment(entry.get("timestamp")), message_text(entry.get("content"))
    if entry.get("type") == "user":
        return [Turn(USER, text, at=at)] if text.strip() else []
    if entry.get("type") == "error":
        return [Turn(ASSISTANT, error=text[:200] or "an error", at=at)]
    if entry.get("type") != "gemini":
        return []
    model = name(entry.get("model"))
    written = count(table(entry.get("tokens")).get("output")) or None
    found = []
    if text.strip():
        found.append(Turn(ASSISTANT, text, at=at, model=model, tokens=written))
    calls = entry.get("toolCalls")
    for call in map(table, calls if isinstance(calls, list) else []):
        given = call.get("args")
        tool, begun = name(call.get("name")) or "a tool", moment(call.get("timestamp")) or at
        given = given if isinstance(given, dict) else None
        found.append(Turn(ASSISTANT, tool=tool, input=given, at=begun, model=model))
        shown = call.get("resultDisplay")
        if isinstance(shown, str) and shown:
            error = "failed" if call.get("status") == "error" else None
            found.append(Turn(TOOL, shown, tool=tool, at=begun, error=error))
    return found


def over(line: bytes) -> bool:
    """Does a line end a turn? An answer without calls, once its tokens are known; or an error."""
    entry = parse(line, whole=False)
    if entry is None or not isinstance(entry.get("id"), str):
        return False
    said = entry.get("type") == "gemini" and bool(message_text(entry.get("content")).strip())
    answered = said and not entry.get("toolCalls") and bool(table(entry.get("tokens")))
    return answered or entry.get("type") == "error"


def message_id(line: bytes) -> str | None:
    """The id of a message, by which a later line replaces it."""
    entry = parse(line, whole=False)
    key = entry.get("id") if entry else None
    return key if isinstance(key, str) else None


def rewound_to(line: bytes) -> str | None:
    """The message that the conversation went back to: it and all later ones are gone."""
    if b"$rewindTo" not in line:
        return None
    entry = parse(line)
    key = entry.get("$rewindTo") if entry else None
    return key if isinstance(key, str) else None
