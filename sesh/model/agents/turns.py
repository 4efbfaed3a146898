"""What all transcripts of agents have in common: turns, tokens, and how a line is read. PURE.

A transcript is written by another program and may hold anything: a line that is not understood is
left out, and a count that is not sensible counts as 0. Sums never depend on how often a message is
repeated, or in which order.
"""

from __future__ import annotations

from array import array
from binascii import a2b_base64, b2a_base64

from sesh.model.text import quick_json
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Any, Value, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

USER, ASSISTANT, TOOL = "user", "assistant", "tool"
ROLES = (USER, ASSISTANT, TOOL)
MOST = 10**9  # tokens of one message: more is not believed
LONG = 1 << 16  # bytes: longer lines are shortened before they are parsed for their figures
_LATEST = float(1 << 33)  # in the year 2242
_KEPT = 1 << 12  # bytes that are kept of a longer text then
_LONG_TEXT = lazy(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', 16)  # re.DOTALL
_LONGEST_NAME = 100
_MOST_MODELS = 100
_MOST_CALLS = 64


class Turn(Value):
    """One thing that was said or done: a prompt, an answer, a call of a tool, or its result."""

    role: str  # USER, ASSISTANT, or TOOL for a result
    text: str = ""
    tool: str | None = None  # a call of this tool, or its result
    input: dict[str, Any] | None = None  # of a call
    at: float | None = None
    tokens: int | None = None  # that the model wrote
    model: str | None = None
    error: str | None = None


class Tokens(Value):
    """Tokens of one model."""

    model: str
    input: int = 0  # not cached, without what was written to the cache
    output: int = 0
    cached: int = 0  # read from the cache
    written: int = 0  # to the cache, for minutes
    written_long: int = 0  # to the cache, for an hour
    longest: int = 0  # the longest prompt: for some models it has another price

    @property
    def counts(self) -> tuple[int, ...]:
        return (self.input, self.output, self.cached, self.written, self.written_long)


class Usage(Value):
    """What a conversation has used so far, and what its agent does."""

    tokens: tuple[Tokens, ...] = ()
    turns: int = 0
    model: str | None = None
    context: int | None = None  # tokens in it
    window: int | None = None  # the most tokens, if the agent writes that
    tool: str | None = None  # that runs now
    tool_since: float | None = None
    answer: str | None = None  # the last one
    answered: float | None = None  # when
    trouble: str | None = None  # the error that ended the last turn
    cost: float | None = None  # USD, by the agent itself: a lower bound

    @property
    def empty(self) -> bool:
        return not any(any(one.counts) for one in self.tokens)


def tokens_of(model: str, counts: Iterable[int], longest: int = 0) -> Tokens:
    """The inverse of `counts`."""
    given, written, cached, to_cache, to_cache_long = counts
    return Tokens(model, given, written, cached, to_cache, to_cache_long, longest)


def added(one: Iterable[Tokens], other: Iterable[Tokens]) -> tuple[Tokens, ...]:
    """The tokens of both, by model."""
    found: dict[str, Tokens] = {}
    for part in (*one, *other):
        old = found.get(part.model)
        if old is None:
            found[part.model] = part
        else:
            counts = [a + b for a, b in zip(old.counts, part.counts, strict=True)]
            longest = max(old.longest, part.longest)
            found[part.model] = tokens_of(part.model, counts, longest)
    return tuple(found.values())


# --- reading lines -------------------------------------------------------------------------------


def parse(line: bytes, *, whole: bool = True) -> dict[str, Any] | None:
    """The JSON object of a line, or None. Without `whole`, long texts in a long line are cut."""
    if not whole and len(line) > LONG:
        line = shortened(line)
    try:
        found = quick_json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def shortened(line: bytes) -> bytes:
    """The same JSON with its long texts cut: what matters beside them costs little then."""
    return _LONG_TEXT.sub(_cut, line)


def _cut(found: Any) -> bytes:
    begin, end = found.span()
    text = bytes(found.string[begin : min(end, begin + _KEPT)])  # not all of it: that is a copy
    if end - begin <= _KEPT:
        return text
    text = text.decode("utf-8", "ignore").encode()
    if b"\\" in text[-6:]:  # it may be within an escape
        text = text[: text.rfind(b"\\")]
    if (len(text) - len(text.rstrip(b"\\"))) % 2:
        text = text[:-1]
    return text + b'"'


def count(value: object) -> int:
    """A number of tokens; 0 for what cannot be one."""
    return value if type(value) is int and 0 <= value <= MOST else 0


def table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def name(value: object) -> str | None:
    """A short name (of a tool, of a model); None when it is not text."""
    return value[:_LONGEST_NAME] if isinstance(value, str) and value else None


def moment(value: object) -> float | None:
    """A time as in transcripts: RFC 3339."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    from datetime import datetime

    try:
        found = datetime.fromisoformat(value)
        seconds = found.timestamp() if found.tzinfo else -1.0
        return seconds if 0 <= seconds < _LATEST else None
    except (ValueError, OverflowError):
        return None


def money(value: object) -> float | None:
    """An amount of USD; None for what cannot be one."""
    known = type(value) in (int, float) and 0 <= value < 1e9  # type: ignore[operator]
    return float(value) if known else None  # type: ignore[arg-type]


# --- messages, each counted once -----------------------------------------------------------------


class Messages:
    """The counts of each message by its id, the highest of each count. The same message may come
    again at any time, so all are remembered: 29 bytes for each, found by a hash of its id."""

    def __init__(self) -> None:
        self._hashes = array("Q")
        self._counts = array("I")  # five for each: see `Tokens.counts`
        self._models = array("B")
        self._over = bytearray()  # did the message end a turn?
        self._slots = array("I", bytes(4 * 64))  # hash table: the number of a message, from 1
        self._names: list[str] = []
        self._sums: list[list[int]] = []
        self._longest: list[int] = []
        self.turns = 0

    def add(self, key: str, model: str, counts: tuple[int, ...], *, over: bool = False) -> None:
        """Count a message, or what is new of it."""
        at = self._find(_hash(key), model)
        sums, first = self._sums[self._models[at]], 5 * at
        for field, number in enumerate(counts):
            more = number - self._counts[first + field]
            if more > 0:
                self._counts[first + field] = number
                sums[field] += more
        prompt = counts[0] + sum(counts[2:])
        self._longest[self._models[at]] = max(self._longest[self._models[at]], prompt)
        if over and not self._over[at]:
            self._over[at] = 1
            self.turns += 1

    def tokens(self) -> tuple[Tokens, ...]:
        found = zip(self._names, self._sums, self._longest, strict=True)
        return tuple(tokens_of(model, sums, most) for model, sums, most in found)

    def _find(self, hashed: int, model: str) -> int:
        slots, mask = self._slots, len(self._slots) - 1
        slot = hashed & mask
        while number := slots[slot]:
            if self._hashes[number - 1] == hashed:
                return number - 1
            slot = (slot + 1) & mask
        self._append(hashed, self._model(model))
        slots[slot] = len(self._hashes)
        if 3 * len(self._hashes) > 2 * len(slots):
            self._grow()
        return len(self._hashes) - 1

    def _append(self, hashed: int, model: int) -> None:
        self._hashes.append(hashed)
        self._counts.extend((0, 0, 0, 0, 0))
        self._models.append(model)
        self._over.append(0)

    def _model(self, model: str) -> int:
        if model not in self._names:
            if len(self._names) >= _MOST_MODELS:
                return len(self._names) - 1
            self._names.append(model)
            self._sums.append([0, 0, 0, 0, 0])
            self._longest.append(0)
        return self._names.index(model)

    def _grow(self) -> None:
        size = 2 * len(self._slots)
        while 3 * len(self._hashes) > 2 * size:
            size *= 2
        self._slots = slots = array("I", bytes(4)) * size
        for number, hashed in enumerate(self._hashes, 1):
            slot = hashed & (size - 1)
            while slots[slot]:
                slot = (slot + 1) & (size - 1)
            slots[slot] = number

    def dump(self) -> dict[str, Any]:
        parts = (self._hashes, self._counts, self._models, self._over)
        packed = [b2a_base64(part, newline=False).decode() for part in parts]
        return {"models": self._names, "longest": self._longest, "packed": packed}

    @classmethod
    def load(cls, plain: Mapping[str, Any]) -> Messages:
        """The inverse of `dump`. Raises ValueError, TypeError or KeyError."""
        self = cls()
        hashes, counts, models, over = [a2b_base64(part) for part in plain["packed"]]
        self._hashes.frombytes(hashes)
        self._counts.frombytes(counts)
        self._models.frombytes(models)
        self._over.extend(over)
        for model in plain["models"]:
            self._model(model)
        self._longest = [count(one) for one in plain["longest"]]
        size = len(self._hashes)
        fits = len(self._models) == len(self._over) == size and len(self._counts) == 5 * size
        if not fits or len(self._longest) != len(self._names):
            raise ValueError("lengths differ")
        if size and max(self._models) >= len(self._names):
            raise ValueError("a message without a model")
        for field in range(5):
            for at, number in enumerate(self._counts[field::5]):
                self._sums[self._models[at]][field] += number
        self.turns = sum(self._over)
        self._grow()
        return self


def _hash(key: str) -> int:
    """64 bits of an id."""
    try:
        from _blake2 import blake2b  # importing hashlib takes four megabytes
    except ImportError:
        from hashlib import blake2b

    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest())


# --- tools that run ------------------------------------------------------------------------------


class Calls:
    """Calls of tools that have no result yet."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, float | None]] = {}

    def begin(self, key: object, tool: object, at: float | None) -> None:
        if isinstance(key, str) and len(key) <= 200:
            self._open[key] = (name(tool) or "a tool", at)
            while len(self._open) > _MOST_CALLS:
                del self._open[next(iter(self._open))]

    def end(self, key: object) -> None:
        if isinstance(key, str):
            self._open.pop(key, None)

    def clear(self) -> None:
        self._open.clear()

    @property
    def last(self) -> tuple[str | None, float | None]:
        return next(reversed(self._open.values())) if self._open else (None, None)

    def dump(self) -> list[Any]:
        return [[key, *call] for key, call in self._open.items()]

    @classmethod
    def load(cls, plain: Iterable[Any]) -> Calls:
        self = cls()
        for key, tool, at in plain:
            self.begin(key, tool, money(at))
        return self


# --- the sums of a transcript, as JSON -----------------------------------------------------------


def plain(turn: Turn) -> dict[str, Any]:
    """A turn as in JSON."""
    from sesh.model.text.formatting import stamp

    found = {field: getattr(turn, field) for field in turn.fields}
    at = None if turn.at is None else stamp(turn.at)
    return {**found, "at": at, "input": _finite(turn.input)}


def _finite(value: Any) -> Any:
    """The same without numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not -1e308 < value < 1e308 else value


def usage_plain(usage: Usage) -> dict[str, Any]:
    plain = {field: getattr(usage, field) for field in usage.fields}
    tokens = [[getattr(one, field) for field in one.fields] for one in usage.tokens]
    return {**plain, "tokens": tokens}


def usage_of_plain(plain: Mapping[str, Any]) -> Usage:
    """The inverse. Raises ValueError, TypeError or KeyError."""
    found = Usage(**plain)
    return replace(found, tokens=tuple(Tokens(*one) for one in plain["tokens"]))
