"""Progress reports of an agent (phases, errors, metadata), and whether its work can be resumed.
PURE: no I/O, no clock, no environment.

Nothing can follow a final phase. Metadata is stored as TOML and shown as JSON: texts, numbers,
true, false, lists and tables. Values that look like secrets are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from math import isfinite

from sesh.model.configuration import Resume
from sesh.model.errors import ConflictError, UsageError
from sesh.model.record import AgentReport, Record, Step
from sesh.model.states import Cause, Desired, State
from sesh.model.text import quick_json
from sesh.model.text.secrets import secret, shown
from sesh.model.text.units import span
from sesh.model.value_object import Any, Value, replace

WORKING = ("initializing", "investigating", "planning", "approval", "executing", "validating")
FINAL = ("completed", "failed", "abandoned")
PHASES = WORKING + FINAL
MOST_STEPS = 200  # in the history: the first and the newest steps
MOST_KEYS = 64
LONGEST_KEY = 64
LARGEST = 32 << 10  # bytes of all metadata as JSON
DEEPEST = 8  # tables and lists inside of each other
LONGEST_TEXT = 2000  # characters of a summary or an error

_KEY = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_OUTCOMES = {"completed": State.COMPLETED, "failed": State.FAILED, "abandoned": State.STOPPED}


class Report(Value):
    """A report. None: no change."""

    phase: str | None = None
    metadata: Mapping[str, Any] | None = None  # null removes a key
    error: str | None = None
    summary: str | None = None
    resume_ready: bool | None = None
    conversation: str | None = None
    force: bool = False  # also keep values that look like secrets


# --- reports -------------------------------------------------------------------------------------


def apply(record: Record, report: Report, now: datetime) -> Record:
    """The record with a report; raises when the report is not valid."""
    word = record.agent
    if word.finished is not None or word.phase in FINAL:
        raise ConflictError(finished_message(record))
    if report.phase is not None:
        word = _entered(word, report.phase, now)
    if report.metadata is not None:
        word = replace(word, metadata=merge(word.metadata, report.metadata, force=report.force))
    if report.error is not None:
        word = replace(word, errors=word.errors + 1, last_error=_text(report.error))
    if report.summary is not None:
        word = replace(word, summary=_text(report.summary) or None)
    if report.resume_ready is not None:
        word = replace(word, resume_ready=report.resume_ready)
    if report.conversation is not None:
        conversation = _conversation(report.conversation)
        word = word.talking(conversation, prompted=word.prompted)
    record = replace(record, agent=replace(word, updated=now))
    return _ended(record, now) if word.finished and not record.place.has_process else record


def finished_message(record: Record) -> str:
    """Why no report is accepted any more."""
    word = record.agent
    when = f" at {word.finished:%Y-%m-%d %H:%M:%S} UTC" if word.finished else ""
    return (
        f"{record.name} has already finished ({word.phase}{when}); no further reports are accepted"
    )


def _entered(word: AgentReport, phase: str, now: datetime) -> AgentReport:
    if phase not in PHASES:
        raise UsageError(f"unknown phase {phase!a}; use one of {', '.join(PHASES)}")
    if phase == word.phase:
        return word
    steps = (*word.history, Step(phase, now))
    if len(steps) > MOST_STEPS:
        steps = (steps[0], *steps[1 - MOST_STEPS :])
    over = now if phase in FINAL else None
    return replace(word, phase=phase, history=steps, finished=over)


def _ended(record: Record, now: datetime) -> Record:
    """End a record without a process: only its own report can end it."""
    word = record.agent
    outcome = _OUTCOMES[word.phase or ""]
    why = f": {word.last_error}" if outcome is State.FAILED and word.last_error else ""
    stopped = outcome is State.STOPPED
    status = replace(
        record.status,
        desired=Desired.STOPPED if stopped else record.status.desired,
        outcome=outcome,
        cause=Cause.STOPPED if stopped else None,
        reason=f"finished as {word.phase}{why}",
        ended=now,
    )
    return replace(record, status=status)


def restarted(word: AgentReport, now: datetime) -> AgentReport:
    """The reports at a new launch: finished work starts over, with its history."""
    if word.finished is None:
        return word
    fresh = replace(word, phase=None, finished=None, errors=0, last_error=None, summary=None)
    return replace(_entered(fresh, WORKING[0], now), updated=now)


def _text(text: str) -> str:
    """Text for people, cut if it is too long."""
    text = text.strip().encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def _conversation(text: str) -> str:
    if not text or len(text) > 200 or not text.isprintable() or not _encodable(text):
        raise UsageError("a conversation's id should be 1 to 200 printable characters")
    return text


def duration(record: Record) -> float:
    """Seconds from the creation of the record to its final report."""
    end = record.agent.finished or record.spec.created
    return max(0.0, (end - record.spec.created).total_seconds())


# --- metadata ------------------------------------------------------------------------------------


def parse(options: tuple[str, ...]) -> dict[str, Any]:
    """Parse `key=text` and `key:=json` of a command line; the last value of a key counts."""
    found: dict[str, Any] = {}
    for option in options:
        key, equals, text = option.partition("=")
        if not equals:
            raise UsageError(f"--meta {shown(option)}: should be KEY=TEXT or KEY:=JSON")
        try:
            value = quick_json.loads(text) if key.endswith(":") else text
        except (ValueError, RecursionError):
            raise UsageError(f"--meta {shown(key)}=…: what follows is not valid JSON") from None
        found[key.removesuffix(":")] = value
    return found


def merge(old: Mapping[str, Any], new: Mapping[str, Any], *, force: bool) -> dict[str, Any]:
    """Merge metadata, after checking the new keys; null removes a key."""
    for key, value in new.items():
        _check_key(key)
        if value is not None:
            _check_value(key, value)
            if not force and (why := secret(key, value)):
                raise UsageError(f"metadata {key}: {why}; use --force to store it anyway")
    both = {**old, **new}
    left = {key: _copied(value) for key, value in both.items() if value is not None}
    if len(left) > MOST_KEYS:
        raise UsageError(f"metadata has {len(left)} keys, at most {MOST_KEYS} are allowed")
    size = len(quick_json.dumps(left).encode())
    if size > LARGEST:
        raise UsageError(f"metadata has {size} bytes, at most {LARGEST} are allowed; use a file")
    return left


def _check_key(key: object) -> None:
    if not isinstance(key, str) or not re.fullmatch(_KEY, key) or len(key) > LONGEST_KEY:
        raise UsageError(
            f"invalid key {shown(str(key))} for metadata: use letters, digits, _ . and -, "
            f"at most {LONGEST_KEY}"
        )


def _check_value(key: str, value: object, depth: int = 1) -> None:
    """Raise when TOML and JSON cannot represent a value."""
    if depth > DEEPEST:
        raise UsageError(f"metadata {key}: nested deeper than {DEEPEST}")
    if isinstance(value, Mapping):
        for inner, one in value.items():
            if not isinstance(inner, str) or not 0 < len(inner) <= LONGEST_KEY:
                raise UsageError(
                    f"metadata {key}: a key inside is not a text of 1 to {LONGEST_KEY}"
                )
            _check_value(key, inner, depth)
            _check_value(key, one, depth + 1)
    elif isinstance(value, list | tuple):
        for one in value:
            _check_value(key, one, depth + 1)
    elif value is None:
        raise UsageError(f"metadata {key}: a null inside cannot be kept; leave it out")
    elif isinstance(value, str):
        if not _encodable(value):
            raise UsageError(f"metadata {key}: not valid Unicode")
    elif isinstance(value, float):
        if not isfinite(value):
            raise UsageError(f"metadata {key}: a number that is not finite cannot be kept")
    elif not isinstance(value, int):
        raise UsageError(f"metadata {key}: a {type(value).__name__} cannot be kept")
    elif value.bit_length() > 64:
        raise UsageError(f"metadata {key}: a number of more than 64 bits cannot be kept")


def _copied(value: object) -> object:
    """A deep copy."""
    if isinstance(value, Mapping):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(one) for one in value]
    return value


def _encodable(text: str) -> bool:
    """Without surrogates, which UTF-8 cannot encode."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


# --- resuming ------------------------------------------------------------------------------------


class Answer(Value):
    """Can the work be resumed?"""

    resume: bool
    reason: str
    idle: float | None = None  # seconds since the last sign of life
    phase: str | None = None


def resumable(
    record: Record,
    now: datetime,
    thresholds: Resume,
    has_conversation: bool | None,
    last_seen: datetime | None = None,
) -> Answer:
    """Can its work be resumed? `has_conversation` is None when none is needed; `last_seen` is the
    last sign of life beside its reports."""
    word = record.agent
    last = max(filter(None, (word.updated, last_seen, record.spec.created)))
    idle = max(0.0, (now - last).total_seconds())
    why = _why_not(word, idle, thresholds, has_conversation)
    reason = why or f"in phase {word.phase}, last sign of life {round(idle)} s ago"
    return Answer(why is None, reason, idle, word.phase)


def _why_not(
    word: AgentReport, idle: float, thresholds: Resume, has_conversation: bool | None
) -> str | None:
    if word.finished is not None or word.phase in FINAL:
        return f"it has finished: {word.phase}"
    if not word.resume_ready:
        return "it reports that it is not ready to be resumed"
    if word.phase is None:
        return "it has not reported a phase"
    if word.phase not in thresholds.phases:
        return f"in phase {word.phase}, not in {', '.join(thresholds.phases) or 'any'}"
    if thresholds.max_errors and word.errors >= thresholds.max_errors:
        last = f"; the last: {word.last_error}" if word.last_error else ""
        return f"{word.errors} errors, of at most {thresholds.max_errors - 1}{last}"
    if idle >= thresholds.max_idle:
        whole = round(idle) // 60 * 60 or round(idle)
        return f"idle for {span(whole)}, of at most {span(thresholds.max_idle)}"
    if has_conversation is False:
        return "it has no conversation to resume"
    return None
