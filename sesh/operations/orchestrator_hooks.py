"""Hooks of orchestrators: before they give work to an agent, and after an agent has stopped.

The answer is always valid: for invalid input it is no, with the reason. An error here must not
break the caller.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sesh.agents import resumable
from sesh.model.errors import SeshError
from sesh.model.progress import Answer, Report
from sesh.model.record import Record, Spec
from sesh.model.session_json import timestamp
from sesh.model.text import secrets
from sesh.operations import report_progress
from sesh.operations.launch import record_only
from sesh.state import settings
from sesh.state.records import Entry
from sesh.system import bug_log, stdin

_CONTEXT = ("agent_name", "task_id", "task_description", "metadata")
_EXITS = ("exit_code", "exitCode", "exit_status", "exitStatus")
_SAMPLE = "sample"


class _Unusable(Exception):
    """Why an input is not usable."""


def _parse(data: bytes) -> dict[str, Any]:
    if len(data) > stdin.LIMIT:
        raise _Unusable(f"the input is larger than {stdin.LIMIT >> 10} KiB")
    if not data.strip():
        raise _Unusable("there is no input")
    try:
        found = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise _Unusable("the input is not valid JSON") from None
    if not isinstance(found, dict):
        raise _Unusable("the input is not a JSON object")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _id(given: Mapping[str, Any]) -> str | None:
    """The id of the agent; raises when it is not text."""
    found = given.get("agent_id")
    if found is None or found == "":
        return None
    if not isinstance(found, str):
        raise _Unusable("agent_id is not text")
    return found


# --- before an orchestrator gives work to an agent -----------------------------------------------


def pre_delegate(data: bytes) -> str:
    """Should a session be resumed? Always returns JSON."""
    given: dict[str, Any] = {}
    try:
        given = _parse(data)
        answer, entry = _check(_id(given))
    except _Unusable as error:
        answer, entry = Answer(False, str(error)), None
    except (SeshError, OSError) as error:
        answer, entry = Answer(False, f"cannot tell: {error}"), None
    except Exception as error:  # a bug of sesh must not break the caller
        bug_log.write(error)
        answer, entry = Answer(False, f"cannot tell: {type(error).__name__}"), None
    return _as_json(_answer(given, answer, entry))


def _check(key: str | None) -> tuple[Answer, Entry | None]:
    if key is None:
        return Answer(False, "no agent_id was given: nothing to resume"), None
    entry = resumable.find(key)
    if entry is None:
        return Answer(False, "no session of that agent_id is known"), None
    return resumable.check(entry, entry.record.name, settings.load()), entry


def _answer(given: Mapping[str, Any], answer: Answer, entry: Entry | None) -> dict[str, Any]:
    record = entry.readable if entry else None
    key = given.get("agent_id")
    return {
        "should_resume": answer.resume,
        "reason": answer.reason,
        "agent_id": key if isinstance(key, str) and key else None,
        "resume_metadata": _past(record) if record else None,
        "original_context": {name: given.get(name) for name in _CONTEXT},
    }


def _past(record: Record) -> dict[str, Any]:
    reported = record.agent
    return {
        "previous_phase": reported.phase,
        "created_at": timestamp(record.spec.created),
        "history": [{"phase": step.phase, "at": timestamp(step.at)} for step in reported.history],
        "session_metadata": dict(reported.metadata),
    }


def _as_json(answer: dict[str, Any]) -> str:
    """One line of valid JSON. (`inf` and `nan` are not valid JSON.)"""
    try:
        return json.dumps(answer, allow_nan=False) + "\n"
    except (ValueError, RecursionError):
        context = dict.fromkeys(_CONTEXT)
        return json.dumps({**answer, "original_context": context}) + "\n"


# --- when an agent has stopped -------------------------------------------------------------------


def subagent_stop(data: bytes) -> str | None:
    """Finish the session with the outcome of its agent. Returns an error message, or None. Without
    an agent_id nothing happens."""
    try:
        given = _parse(data)
        key = _id(given)
        if key is None:
            return None
        entry = resumable.find(key)
        if entry is None:
            return f"no session of agent_id {secrets.shown(key)} is known"
        if not isinstance(entry.record, Record):
            return f"{entry.record.name}: its record is damaged: {entry.record.reason}"
        if entry.record.agent.finished is None:
            _finish(entry.record, given)
    except (_Unusable, SeshError, OSError) as error:
        return str(error)
    except Exception as error:
        bug_log.write(error)
        return f"a bug: {type(error).__name__}"
    return None


def _finish(record: Record, given: Mapping[str, Any]) -> None:
    code, error = _exit_code(given), _text(given.get("error"))
    failed = code != 0 if code is not None else error is not None
    report = Report(
        phase="failed" if failed else "completed",
        error=(error or (f"exit {code}" if code else None)) if failed else None,
        summary=_text(given.get("summary")),
    )
    report_progress.update(record.name, report, only=record.id)


def _exit_code(given: Mapping[str, Any]) -> int | None:
    for name in _EXITS:
        value = given.get(name)
        if isinstance(value, str) and len(value) < 10:
            try:
                value = int(value)
            except ValueError:
                continue
        if type(value) is int and value.bit_length() < 64:
            return value
    return None


def _text(value: object) -> str | None:
    """An error as text; None for values that mean no error."""
    if value is None or value is False or value in ("", 0):
        return None
    return value if isinstance(value, str) else json.dumps(value)


# --- a test with a sample ------------------------------------------------------------------------


def try_out(kind: str) -> str:
    """Run the hook on a sample in a temporary state directory; show input, output and the resulting
    record."""
    before = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory(prefix="sesh-test-") as directory:
        os.environ["XDG_STATE_HOME"] = directory
        try:
            return _tried(kind)
        finally:
            if before is None:
                del os.environ["XDG_STATE_HOME"]
            else:
                os.environ["XDG_STATE_HOME"] = before


def _tried(kind: str) -> str:
    report = Report(phase="approval", metadata={"plan": "three steps"})
    spec = Spec((), "/", datetime.now(UTC))
    record_only.create(_SAMPLE, spec, report, settings.load())
    sample: dict[str, Any] = {"agent_id": _SAMPLE, "agent_name": "tester", "task_id": "1"}
    if kind == "pre-delegate":
        sample |= {"task_description": "go on", "metadata": {}}
        answer = pre_delegate(json.dumps(sample).encode()).rstrip()
    else:
        sample |= {"exit_code": 0}
        answer = subagent_stop(json.dumps(sample).encode()) or "nothing"
    entry = resumable.find(_SAMPLE)
    phase = entry.readable.agent.phase if entry and entry.readable else "gone"
    return (
        f"the sample   a session named {_SAMPLE} in phase approval, made for this test alone\n"
        f"comes in     {json.dumps(sample)}\n"
        f"goes out     {answer}\n"
        f"afterwards   the session is in phase {phase}\n"
    )
