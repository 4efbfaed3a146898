"""Codex: the program that it calls after every turn, and what that is told. PURE.

`sesh start -t codex` passes the program with `-c notify=[…]`, for that launch only. What Codex is
doing meanwhile, its title says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sesh.agents.last_event import IDLE, HookEvent, identity, spoken, text, tool_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TURN_COMPLETE = "agent-turn-complete"
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")


def notify(command: Sequence[str]) -> str:
    """The text for -c: a TOML array of strings, which JSON's are."""
    return f"notify={json.dumps(list(command))}"


def last_call(transcript: bytes) -> tuple[str | None, dict[str, Any] | None]:
    """The tool that was called last, and with what, by the end of a transcript."""
    for line in reversed(transcript.splitlines()):
        if b'"function_call"' not in line and b'"custom_tool_call"' not in line:
            continue
        try:
            payload = json.loads(line).get("payload")
        except (ValueError, RecursionError, AttributeError):
            continue
        if isinstance(payload, dict) and payload.get("type") in _CALLS:
            return text(payload.get("name")), _arguments(payload)
    return None, None


def _arguments(payload: Mapping[str, object]) -> dict[str, Any] | None:
    """Of a function JSON, of other tools a text."""
    given = payload.get("arguments", payload.get("input"))
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        found = {"input": given}
    return tool_input(found)


def prompts(transcript: bytes) -> list[str]:
    """Prompts that a user typed, from lines of a transcript."""
    found = []
    for line in transcript.splitlines():
        if b'"user' not in line:
            continue
        try:
            payload = json.loads(line).get("payload")
        except (ValueError, RecursionError, AttributeError):
            continue
        if isinstance(payload, dict) and payload.get("type") == "user_message":
            found.append(spoken(payload.get("message")))
        elif isinstance(payload, dict) and payload.get("role") == "user":
            found.append(spoken(payload.get("content")))
    return found


def turn_over(transcript: bytes) -> bool:
    """Does a transcript hold the end of a turn?"""
    return b'"task_complete"' in transcript or b'"turn_aborted"' in transcript


def meaning(event: Mapping[str, object], now: float) -> HookEvent | None:
    """What it says after a turn; None: nothing that we know."""
    if event.get("type") != TURN_COMPLETE:
        return None
    conversation = identity(event.get("thread-id"))
    return HookEvent(now, TURN_COMPLETE, IDLE, conversation=conversation, prompted=True)
