"""Claude Code: the hooks it is given, what their events mean, and the registry that it keeps. PURE.

`sesh start -t claude` passes the hooks with --settings, so nobody's own settings are touched. Seen
with version 2.1: hooks come late (half a second and more) and not at all after Esc; the registry is
right within a tenth of a second. So the registry says what the agent does, and the hooks which tool
it wants to use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sesh.agents.last_event import (
    BUSY,
    IDLE,
    WAITING,
    HookEvent,
    identity,
    spoken,
    text,
    tool_input,
)

EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure"),
    *("PermissionRequest", "Notification", "Stop", "StopFailure", "SessionEnd"),
)
TIMEOUT = 5  # seconds after which Claude Code gives a hook up
_AT_WORK = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure")
_TELLS_NOTHING = ("SessionStart", "SessionEnd")  # of whether there is a conversation yet
_NOTIFICATIONS = {
    "permission_prompt": (WAITING, "permission"),
    "elicitation_dialog": (WAITING, "input"),
    "agent_needs_input": (WAITING, "input"),
    "idle_prompt": (IDLE, None),
}
_FAILURES = {"rate_limit": "rate limit", "authentication_failed": "login"}
_RESETS = ("will reset at ", "resets at ", "resets ")  # in front of a time, as people are told it
_ANSWERS = (b'"type":"assistant"', b"[Request interrupted by user", b"<local-command-stdout>")
_NO_EXIT = ("clear", "resume")  # reasons of a SessionEnd after which the agent goes on
_ASKS_FIRST, _TAKES = "PermissionRequest", "UserPromptSubmit"
_ASKS = "AskUserQuestion"  # a tool, but what it wants is an answer
# `shell`: the turn is over, and a shell that it left in the background runs; it takes prompts.
_STATUS = {"busy": BUSY, "shell": IDLE, "idle": IDLE, "waiting": WAITING}
_WAITS = {
    "permission prompt": "permission",
    "input needed": "input",
    "sandbox request": "permission: sandbox",
    "worker request": "permission",
    "dialog open": "input",
}


def settings(command: Sequence[str]) -> str:
    """The text for --settings: every event calls `command`."""
    from shlex import join

    hook = {"type": "command", "command": join(command), "timeout": TIMEOUT}
    return json.dumps({"hooks": {event: [{"hooks": [hook]}] for event in EVENTS}})


def meaning(event: Mapping[str, object], now: float) -> HookEvent | None:
    """What an event says of the session; None: nothing. (What its subagents do is its own affair,
    until one of them asks for a permission.)"""
    name = event.get("hook_event_name")
    if not isinstance(name, str) or name not in EVENTS:
        return None
    if event.get("agent_id") and name != _ASKS_FIRST:  # that one, a person has to answer
        return None
    tool = text(event.get("tool_name"))
    said = HookEvent(now, name, tool=tool, conversation=identity(event.get("session_id")))
    doing = _doing(name, event, tool)
    if doing is None:
        return None
    activity, what, lasting = doing
    return HookEvent(
        **{
            **said.__dict__,
            "activity": activity,
            "what": what,
            "lasting": lasting,
            "prompted": name not in _TELLS_NOTHING or event.get("source") == "resume",
            "input": tool_input(event.get("tool_input")) if name == _ASKS_FIRST else None,
            "taken": now if name == _TAKES else 0.0,
        }
    )


def _doing(
    name: str, event: Mapping[str, object], tool: str | None
) -> tuple[str | None, str | None, bool] | None:
    """What it does, what it waits for, and whether that is a trouble."""
    if name in _AT_WORK:
        return BUSY, None, False
    if name == _ASKS_FIRST:
        return WAITING, permission(tool), False
    if name == "Notification":
        known = _NOTIFICATIONS.get(str(event.get("notification_type")))
        return (*known, False) if known else None
    if name == "Stop":
        return IDLE, None, False
    if name == "StopFailure":
        return WAITING, _trouble(event), True
    if name == "SessionStart":
        return None if event.get("source") == "compact" else (IDLE, None, False)
    return None if event.get("reason") in _NO_EXIT else (None, None, False)


def _trouble(event: Mapping[str, object]) -> str:
    """What an error makes it wait for; for how long, where its last words say so."""
    error = text(event.get("error")) or "an error"
    what = _FAILURES.get(error, error.replace("_", " "))
    said = str(event.get("last_assistant_message"))
    for mark in _RESETS if error == "rate_limit" else ():
        _, found, rest = said.partition(mark)
        if found:
            return f"{what} until {(text(rest.strip()) or '')[:40].rstrip('. ')}"
    return what


def permission(tool: str | None) -> str:
    """What somebody is asked for who is asked whether a tool may be used."""
    if tool == _ASKS:
        return "input"
    return f"permission: {tool}" if tool else "permission"


def answered(transcript: bytes) -> bool:
    """Does a transcript hold an answer, or the end of a turn without one?"""
    return any(mark in transcript for mark in _ANSWERS)


def prompts(transcript: bytes) -> list[str]:
    """Prompts that a user typed, from lines of a transcript; queued ones included."""
    found = []
    for line in transcript.splitlines():
        if b'"type":"user"' not in line and b'"queue-operation"' not in line:
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and entry.get("type") in ("user", "queue-operation"):
            message = entry.get("message")
            content = message.get("content") if isinstance(message, dict) else entry.get("content")
            found.append(spoken(content))
    return found


def begun(transcript: bytes) -> bool:
    """Does the beginning of a transcript hold a message? One that does not can neither be resumed
    nor begun anew: Claude was killed before it had written down its first prompt."""
    return b'"type":"user"' in transcript


class Registered:
    """What the registry says of one process."""

    __slots__ = ("activity", "background", "conversation", "pid", "since", "start", "what")

    def __init__(self, found: Mapping[str, object]) -> None:
        self.pid = found["pid"]
        self.start = str(found.get("procStart"))
        self.conversation = identity(found.get("sessionId"))
        status = found.get("status")
        self.activity = _STATUS.get(str(status))
        self.background = status == "shell"
        self.what = _WAITS.get(str(found.get("waitingFor")), "input")
        since = found.get("statusUpdatedAt")
        self.since = since / 1000 if isinstance(since, int) else None


def registered(raw: bytes) -> Registered | None:
    """A file of the registry; None when it is not understood."""
    try:
        found = json.loads(raw)
        return Registered(found) if isinstance(found, dict) and "pid" in found else None
    except (ValueError, RecursionError):
        return None
