"""Codex's transcripts, `sessions/**/rollout-*.jsonl`: their turns, and their sums. PURE.

`token_count` has the total of the whole conversation: the highest one counts.
"""

from __future__ import annotations

from sesh.model.agents.codex import arguments
from sesh.model.agents.hook_event import message_text
from sesh.model.agents.turns import (
    ASSISTANT,
    TOOL,
    USER,
    Calls,
    Tokens,
    Turn,
    Usage,
    added,
    count,
    moment,
    name,
    parse,
    table,
    tokens_of,
)
from sesh.model.value_object import Any, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_UNKNOWN = "unknown"  # before the first turn_context
_LONGEST_ANSWER = 1 << 14
_TOTAL = 10**12  # tokens of a conversation: more is not believed
_UNKNOWN_BEFORE = (_TOTAL,) * 6
_MATTERS = (
    *(b'"token_count"', b'"task_', b'"turn_', b"_call", b'"role":"assistant"', b'"error"'),
    b'"forked_from_id"',
    b'": "',  # another program has written it
)
_ABORTED = b'"turn_aborted"'
_OURS = ("<environment_context>", "<user_instructions>", "<permissions", "<turn_aborted>")


class Sums:
    """What the lines of a transcript sum up to. `add` never raises."""

    kind = "codex"

    def __init__(self) -> None:
        self._calls = Calls()
        self._known = Usage()
        self._total = 0  # the highest one
        self._best = (0, 0, 0, 0, 0)  # its counts
        self._forked = False
        # A fork continues the totals of its origin: their size and counts before its first answer.
        self._before: tuple[int, ...] = _UNKNOWN_BEFORE

    def add(self, line: bytes) -> None:
        if not any(mark in line for mark in _MATTERS):
            return
        entry = parse(line, whole=False)
        if entry is None:
            return
        payload, at = table(entry.get("payload")), moment(entry.get("timestamp"))
        kind, what = entry.get("type"), payload.get("type")
        if kind == "session_meta":
            self._forked = self._forked or isinstance(payload.get("forked_from_id"), str)
        elif kind == "turn_context":
            self._known = replace(
                self._known, model=name(payload.get("model")) or self._known.model
            )
        elif kind == "response_item":
            self._item(payload, what, at)
        elif kind == "event_msg":
            self._event(payload, what, at)

    def _item(self, payload: Mapping[str, Any], what: object, at: float | None) -> None:
        if what in _CALLS:
            key = payload.get("call_id") or payload.get("id")
            self._calls.begin(key, payload.get("name") or "shell", at)
        elif isinstance(what, str) and what.endswith("_output"):
            self._calls.end(payload.get("call_id"))
        elif what == "message" and payload.get("role") == "assistant":
            self._answered(message_text(payload.get("content")), at)

    def _event(self, payload: Mapping[str, Any], what: object, at: float | None) -> None:
        if what == "token_count":
            self._count(table(payload.get("info")))
        elif what == "task_started":
            self._calls.clear()
            window = count(payload.get("model_context_window"))
            self._known = replace(self._known, window=window or self._known.window)
        elif what in ("task_complete", "turn_aborted"):
            self._over(payload, what, at)
        elif what == "error":
            self._known = replace(self._known, trouble=_message(payload))

    def _count(self, info: Mapping[str, Any]) -> None:
        total = table(info.get("total_token_usage"))
        counts, size = _counts(total), _size(total)
        if size > self._total:
            more = [max(0, new - old) for new, old in zip(counts, self._best, strict=True)]
            model = self._known.model or _UNKNOWN
            tokens = added(self._known.tokens, [tokens_of(model, more)])
            self._total, self._best = size, counts
            self._known = replace(self._known, tokens=tokens)
        last = table(info.get("last_token_usage"))
        if size and last:
            before = (max(0, size - _size(last)), *_less(counts, _counts(last)))
            self._before = min(self._before, before)
        used, window = count(last.get("total_tokens")), count(info.get("model_context_window"))
        prompt = count(last.get("input_tokens"))
        longest = Tokens(self._known.model or _UNKNOWN, longest=prompt)
        self._known = replace(
            self._known,
            tokens=added(self._known.tokens, [longest] if prompt else []),
            context=used or self._known.context,
            window=window or self._known.window,
        )

    def _over(self, payload: Mapping[str, Any], what: object, at: float | None) -> None:
        self._calls.clear()
        if what != "task_complete":
            return
        error = payload.get("error")
        trouble = _message(table(error)) if error else None
        self._known = replace(self._known, turns=self._known.turns + 1, trouble=trouble)
        self._answered(payload.get("last_agent_message"), at)

    def _answered(self, text: object, at: float | None) -> None:
        if isinstance(text, str) and text.strip():
            self._known = replace(self._known, answer=text[:_LONGEST_ANSWER], answered=at)

    @property
    def usage(self) -> Usage:
        """By model, the sums follow from the differences between totals; with one model they are
        the highest total itself."""
        tool, since = self._calls.last
        tokens, best = self._known.tokens, [*self._best]
        if self._forked and self._before < _UNKNOWN_BEFORE:
            best = _less(best, self._before[1:])
            tokens = _without(tokens, self._before[1:])
        tokens = tuple(one for one in tokens if any(one.counts))
        if len(tokens) == 1:
            tokens = (tokens_of(tokens[0].model, best, tokens[0].longest),)
        return replace(self._known, tokens=tokens, tool=tool, tool_since=since)

    def dump(self) -> dict[str, Any]:
        tokens = [[getattr(one, field) for field in one.fields] for one in self._known.tokens]
        best, calls = [*self._best], self._calls.dump()
        fork = [self._forked, *self._before]
        return {"total": self._total, "best": best, "calls": calls, "tokens": tokens, "fork": fork}

    @classmethod
    def load(cls, plain: Mapping[str, Any], usage: Usage) -> Sums:
        """The inverse of `dump` and `usage`. Raises ValueError, TypeError or KeyError."""
        self = cls()
        self._total, self._calls = int(plain["total"]), Calls.load(plain["calls"])
        first, second, third, fourth, fifth = map(int, plain["best"])
        self._best = (first, second, third, fourth, fifth)
        forked, *before = plain["fork"]
        self._forked, self._before = bool(forked), tuple(map(int, before))
        if len(self._before) != len(_UNKNOWN_BEFORE):
            raise ValueError("not the counts of a fork")
        self._known = replace(usage, tokens=tuple(Tokens(*one) for one in plain["tokens"]))
        return self


def _less(counts: Sequence[int], other: Sequence[int]) -> list[int]:
    return [max(0, one - less) for one, less in zip(counts, other, strict=True)]


def _without(tokens: tuple[Tokens, ...], before: Sequence[int]) -> tuple[Tokens, ...]:
    """Without what a fork's origin had used, which was added to the model of the first answer."""
    if not tokens:
        return ()
    first, *others = tokens
    return (tokens_of(first.model, _less(first.counts, before), first.longest), *others)


def _counts(used: Mapping[str, Any]) -> tuple[int, int, int, int, int]:
    """As in `Tokens.counts`. Codex counts what comes from the cache, or goes there, as input."""
    given = _number(used.get("input_tokens"))
    cached = min(given, _number(used.get("cached_input_tokens")))
    written = min(given - cached, _number(used.get("cache_write_input_tokens")))
    return given - cached - written, _number(used.get("output_tokens")), cached, written, 0


def _number(value: object) -> int:
    return value if type(value) is int and 0 <= value <= _TOTAL else 0


def _size(used: Mapping[str, Any]) -> int:
    return _number(used.get("total_tokens")) or (
        _number(used.get("input_tokens")) + _number(used.get("output_tokens"))
    )


def _message(payload: Mapping[str, Any]) -> str:
    text = payload.get("message")
    return text[:200] if isinstance(text, str) and text else "an error of the API"


# --- turns ---------------------------------------------------------------------------------------


def over(line: bytes) -> bool:
    """Does a line end a turn?"""
    entry = parse(line, whole=False) if b'"task_complete"' in line or _ABORTED in line else None
    if entry is None or entry.get("type") != "event_msg":
        return False
    return table(entry.get("payload")).get("type") in ("task_complete", "turn_aborted")


def turns(line: bytes) -> list[Turn]:
    """What was said in a line."""
    if not any(mark in line for mark in (b'"response_item"', b'"task_complete"', _ABORTED)):
        return []
    entry = parse(line)
    if entry is None:
        return []
    payload, at = table(entry.get("payload")), moment(entry.get("timestamp"))
    what = payload.get("type")
    if entry.get("type") == "event_msg" and what == "turn_aborted":
        return [Turn(ASSISTANT, error="interrupted", at=at)]
    if entry.get("type") == "event_msg" and what == "task_complete" and payload.get("error"):
        return [Turn(ASSISTANT, error=_message(table(payload.get("error"))), at=at)]
    if entry.get("type") != "response_item":
        return []
    if what in _CALLS:
        tool = name(payload.get("name")) or "shell"
        return [Turn(ASSISTANT, tool=tool, input=arguments(payload), at=at)]
    if isinstance(what, str) and what.endswith("_call_output"):
        output = payload.get("output")
        text = message_text(output.get("content") if isinstance(output, dict) else output)
        return [Turn(TOOL, text, at=at)]
    if what == "message" and payload.get("role") in (USER, ASSISTANT):
        text = message_text(payload.get("content"))
        if text.strip() and not text.lstrip().startswith(_OURS):
            return [Turn(payload["role"], text, at=at)]
    return []
