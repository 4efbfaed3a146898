"""Claude Code's transcripts, `projects/*/ID.jsonl`: their turns, and their sums. PURE.

A message of the model is written as one line for each of its parts; all have its id and its usage,
and later lines may have higher figures. Lines of subagents have `isSidechain`: their tokens count,
but they are neither in the context nor an answer.
"""

from __future__ import annotations

from sesh.model.agents.hook_event import message_text
from sesh.model.agents.turns import (
    ASSISTANT,
    LONG,
    TOOL,
    USER,
    Calls,
    Messages,
    Turn,
    Usage,
    count,
    moment,
    money,
    name,
    parse,
    table,
)
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Any, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SYNTHETIC = "<synthetic>"  # the model of messages that Claude Code has made itself
_LONGEST_ANSWER = 1 << 14
_MATTERS = (
    *(b'"type":"assistant"', b'"type":"user"', b'"type":"system"', b'"type":"cost-state"'),
    b'"type": "',  # another program has written it
)
_RESULT_ID = lazy(rb'"tool_use_id":\s?"([^"\\]{1,200})"')
_STOPS = ("end_turn", "stop_sequence", "max_tokens", "refusal")  # reasons that end a turn
_INTERRUPTED = "[Request interrupted by user"
_ENDS = (b'"stop_reason"', b'"isApiErrorMessage"', _INTERRUPTED.encode())
_OURS = ("<command-name>", "<local-command", "<task-notification>", "Caveat: ")


def _is_copied(entry: Mapping[str, Any]) -> bool:
    """Is it a line that a fork has taken over from another conversation, which has paid for it?"""
    origin, own = entry.get("session_id"), entry.get("sessionId")
    return isinstance(origin, str) and isinstance(own, str) and origin != own


class Sums:
    """What the lines of a transcript sum up to. `add` never raises."""

    kind = "claude"

    def __init__(self) -> None:
        self._messages, self._calls = Messages(), Calls()
        self._known = Usage()
        self._turns = 0
        self._answer_id = ""  # the message of the last answer, which may have several texts
        self._compacted = False

    def add(self, line: bytes) -> None:
        if not any(mark in line for mark in _MATTERS):
            return
        if len(line) > LONG and b'"type":"user"' in line and b'"type":"assistant"' not in line:
            for found in _RESULT_ID.findall(line):  # a large result: nothing else matters of it
                self._calls.end(found.decode("utf-8", "replace"))
            return
        entry = parse(line, whole=False)
        if entry is None:
            return
        kind, main = entry.get("type"), entry.get("isSidechain") is not True
        if kind == "assistant":
            self._said(entry, table(entry.get("message")), main=main)
        elif kind == "user" and main:
            self._heard(entry, table(entry.get("message")).get("content"))
        elif kind == "system" and main:
            self._system(entry)
        elif kind == "cost-state":
            self._known = replace(self._known, cost=_cost(entry) or self._known.cost)

    def _said(self, entry: Mapping[str, Any], message: Mapping[str, Any], *, main: bool) -> None:
        if entry.get("isApiErrorMessage") is True:
            if main:
                self._known = replace(self._known, trouble=_trouble(entry))
                self._calls.clear()
            return
        model = name(message.get("model"))
        if model == _SYNTHETIC:
            return
        used = table(message.get("usage"))
        counts = _counts(used)
        over = main and message.get("stop_reason") in _STOPS
        key = message.get("id")
        if not isinstance(key, str):
            key = entry.get("uuid")
        if isinstance(key, str) and key and model and not _is_copied(entry):
            self._messages.add(key, model, counts, over=over)
        if main:
            self._in_main(entry, message, model, counts, over=over)

    def _in_main(
        self,
        entry: Mapping[str, Any],
        message: Mapping[str, Any],
        model: str | None,
        counts: tuple[int, ...],
        *,
        over: bool,
    ) -> None:
        at = moment(entry.get("timestamp"))
        changes: dict[str, Any] = {"trouble": None, "model": model or self._known.model}
        if sum(counts):
            changes["context"] = sum(counts)
        parts = message.get("content")
        for part in parts if isinstance(parts, list) else [parts]:
            if isinstance(part, str):
                part = {"type": "text", "text": part}
            part = table(part)
            if part.get("type") == "tool_use":
                self._calls.begin(part.get("id"), part.get("name"), at)
            text = part.get("text")
            if part.get("type") == "text" and isinstance(text, str) and text.strip():
                same = self._answer_id and self._answer_id == message.get("id")
                whole = f"{self._known.answer}\n{text}" if same else text
                changes["answer"] = whole[:_LONGEST_ANSWER]
                changes["answered"] = at
                self._answer_id = str(message.get("id") or "")
        if over:
            self._calls.clear()
        self._known = replace(self._known, **changes)

    def _heard(self, entry: Mapping[str, Any], content: object) -> None:
        """A prompt, or results of tools."""
        parts = content if isinstance(content, list) else []
        results = [part for part in map(table, parts) if part.get("type") == "tool_result"]
        for part in results:
            self._calls.end(part.get("tool_use_id"))
        if not results and not entry.get("isMeta"):  # a prompt, or an interruption
            self._calls.clear()

    def _system(self, entry: Mapping[str, Any]) -> None:
        kind = entry.get("subtype")
        if kind == "turn_duration":
            self._turns += 1
        elif kind == "compact_boundary":
            left = count(table(entry.get("compactMetadata")).get("postTokens"))
            self._known = replace(self._known, context=left or None)

    @property
    def usage(self) -> Usage:
        tool, since = self._calls.last
        turns = max(self._turns, self._messages.turns)
        tokens = self._messages.tokens()
        return replace(self._known, tokens=tokens, turns=turns, tool=tool, tool_since=since)

    def dump(self) -> dict[str, Any]:
        return {
            "messages": self._messages.dump(),
            "calls": self._calls.dump(),
            "turns": self._turns,
            "answer_id": self._answer_id,
        }

    @classmethod
    def load(cls, plain: Mapping[str, Any], usage: Usage) -> Sums:
        """The inverse of `dump` and `usage`. Raises ValueError, TypeError or KeyError."""
        self = cls()
        self._messages = Messages.load(plain["messages"])
        self._calls = Calls.load(plain["calls"])
        self._turns, self._answer_id = count(plain["turns"]), str(plain["answer_id"])
        self._known = usage
        return self


def _counts(used: Mapping[str, Any]) -> tuple[int, ...]:
    """As in `Tokens.counts`."""
    written = count(used.get("cache_creation_input_tokens"))
    kept = count(table(used.get("cache_creation")).get("ephemeral_1h_input_tokens"))
    long = min(written, kept)
    return (
        count(used.get("input_tokens")),
        count(used.get("output_tokens")),
        count(used.get("cache_read_input_tokens")),
        written - long,
        long,
    )


def _cost(entry: Mapping[str, Any]) -> float | None:
    """The newest figure of Claude Code itself; it is in the entry or in its state."""
    for where in (entry, table(entry.get("costState")), table(entry.get("state"))):
        found = money(where.get("totalCostUSD"))
        if found is not None:
            return found
    return None


def _trouble(entry: Mapping[str, Any]) -> str:
    kind, status = entry.get("error"), entry.get("apiErrorStatus")
    what = kind.replace("_", " ")[:100] if isinstance(kind, str) and kind else "an error of the API"
    return f"{what} ({status})" if type(status) is int and 0 < status < 1000 else what


# --- turns ---------------------------------------------------------------------------------------


def turns(line: bytes) -> list[Turn]:
    """What was said in a line of the main conversation."""
    if not any(mark in line for mark in _MATTERS):
        return []
    entry = parse(line)
    if entry is None or entry.get("isSidechain") is True:
        return []
    message, at = table(entry.get("message")), moment(entry.get("timestamp"))
    if entry.get("type") == "user" and not entry.get("isMeta"):
        return _of_user(message.get("content"), at)
    if entry.get("type") == "assistant":
        return _of_assistant(entry, message, at)
    return []


def over(line: bytes) -> bool:
    """Does a line end a turn of the main conversation?"""
    entry = parse(line, whole=False) if any(mark in line for mark in _ENDS) else None
    if entry is None or entry.get("isSidechain") is True:
        return False
    message = table(entry.get("message"))
    if entry.get("type") == "user":
        return _INTERRUPTED in message_text(message.get("content"))
    answered = entry.get("type") == "assistant" and message.get("stop_reason") in _STOPS
    return answered or entry.get("isApiErrorMessage") is True


def _of_user(content: object, at: float | None) -> list[Turn]:
    parts = content if isinstance(content, list) else [content]
    found = []
    texts = []
    for part in parts:
        if isinstance(part, dict) and part.get("type") == "tool_result":
            text = message_text(part.get("content"))
            error = "failed" if part.get("is_error") is True else None
            found.append(Turn(TOOL, text, at=at, error=error))
        else:
            texts.append(message_text(part))
    text = "\n".join(filter(None, texts))
    if text.startswith(_INTERRUPTED):
        found.append(Turn(ASSISTANT, at=at, error="interrupted"))
    elif text and not text.startswith(_OURS):
        found.append(Turn(USER, text, at=at))
    return found


def _of_assistant(
    entry: Mapping[str, Any], message: Mapping[str, Any], at: float | None
) -> list[Turn]:
    model = name(message.get("model"))
    written = count(table(message.get("usage")).get("output_tokens")) or None
    error = _trouble(entry) if entry.get("isApiErrorMessage") is True else None
    known: dict[str, Any] = {"at": at, "tokens": written, "error": error}
    known["model"] = None if model == _SYNTHETIC else model
    parts = message.get("content")
    found = []
    for part in parts if isinstance(parts, list) else [parts]:
        if isinstance(part, str):
            part = {"type": "text", "text": part}
        part = table(part)
        text, given = part.get("text"), part.get("input")
        if part.get("type") == "tool_use":
            tool = name(part.get("name")) or "a tool"
            given = given if isinstance(given, dict) else None
            found.append(Turn(ASSISTANT, tool=tool, input=given, **known))
        elif part.get("type") == "text" and isinstance(text, str) and text.strip():
            found.append(Turn(ASSISTANT, text, **known))
    return found or ([Turn(ASSISTANT, **known)] if error else [])
