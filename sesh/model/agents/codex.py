"""Codex: the program that it calls after every turn, and its transcript. PURE.

`sesh start -t codex` passes the program with `-c notify=[…]`, for that launch only. Between these
calls, Codex shows in its title what it is doing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sesh.model.agents.hook_event import (
    IDLE,
    HookEvent,
    conversation_id,
    entries,
    message_text,
    text,
    tool_input,
)
from sesh.model.text import quick_json
from sesh.model.value_object import Any

TURN_COMPLETE = "agent-turn-complete"
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")


def notify(command: Sequence[str]) -> str:
    """The text for -c. A JSON array of strings is also a TOML array."""
    return f"notify={quick_json.dumps(list(command))}"


def last_call(transcript: bytes) -> tuple[str | None, dict[str, Any] | None]:
    """The last tool call in a transcript, with its input."""
    for entry in entries(reversed(transcript.splitlines())):
        payload = entry.get("payload")
        if isinstance(payload, dict) and payload.get("type") in _CALLS:
            return text(payload.get("name")), arguments(payload)
    return None, None


def arguments(payload: Mapping[str, object]) -> dict[str, Any] | None:
    """The input is JSON for functions, and text for other tools."""
    given = payload.get("arguments", payload.get("input"))
    try:
        found = quick_json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        found = {"input": given}
    return tool_input(found)


def prompts(transcript: bytes) -> list[str]:
    """The prompts in lines of a transcript."""
    found = []
    for entry in entries(transcript.splitlines()):
        payload = entry.get("payload")
        if isinstance(payload, dict) and payload.get("type") == "user_message":
            found.append(message_text(payload.get("message")))
        elif isinstance(payload, dict) and payload.get("role") == "user":
            found.append(message_text(payload.get("content")))
    return found


def turn_over(transcript: bytes) -> bool:
    """Does a transcript contain the end of a turn? (See `claude.turn_over`: lines may be cut.)"""
    return b'"task_complete"' in transcript or b'"turn_aborted"' in transcript


def parse_event(event: Mapping[str, object], now: float) -> HookEvent | None:
    """The meaning of its call after a turn; None for other events."""
    if event.get("type") != TURN_COMPLETE:
        return None
    conversation = conversation_id(event.get("thread-id"))
    return HookEvent(now, TURN_COMPLETE, IDLE, conversation=conversation, prompted=True)
