"""Claude Code: its hooks, the meaning of their events, and its registry. PURE.

`sesh start -t claude` passes the hooks with --settings; the user's own settings stay as they are.
Version 2.1 calls hooks late (by half a second and more), and not at all after Esc; its registry is
correct within a tenth of a second. So the registry shows what the agent does, and the hooks show
which tool it wants to use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sesh.model.agents.hook_event import (
    BUSY,
    IDLE,
    WAITING,
    HookEvent,
    conversation_id,
    entries,
    message_text,
    text,
    tool_input,
)
from sesh.model.text import quick_json

EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure"),
    *("PermissionRequest", "Notification", "Stop", "StopFailure", "SessionEnd"),
)
TIMEOUT = 5  # seconds that Claude Code waits for a hook
_AT_WORK = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure")
_NO_PROMPT_NEEDED = ("SessionStart", "SessionEnd")  # they come without a prompt
_NOTIFICATIONS = {
    "permission_prompt": (WAITING, "permission"),
    "elicitation_dialog": (WAITING, "input"),
    "agent_needs_input": (WAITING, "input"),
    "idle_prompt": (IDLE, None),
}
_FAILURES = {"rate_limit": "rate limit", "authentication_failed": "login"}
_RESETS = ("will reset at ", "resets at ", "resets ")  # followed by a time in text for people
_ANSWERS = (b'"type":"assistant"', b"[Request interrupted by user", b"<local-command-stdout>")
_NO_EXIT = ("clear", "resume")  # reasons of a SessionEnd after which the agent keeps running
_ASKS_FIRST, _TAKES = "PermissionRequest", "UserPromptSubmit"
_ASKS = "AskUserQuestion"  # a tool that asks the user a question
# `shell`: the turn is over and a background shell still runs; the agent takes prompts.
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
    from sesh.model.text.shell_words import join

    hook = {"type": "command", "command": join(command), "timeout": TIMEOUT}
    return quick_json.dumps({"hooks": {event: [{"hooks": [hook]}] for event in EVENTS}})


def parse_event(event: Mapping[str, object], now: float) -> HookEvent | None:
    """The meaning of an event; None: nothing. (Events of subagents do not count, except a request
    for permission.)"""
    name = event.get("hook_event_name")
    if not isinstance(name, str) or name not in EVENTS:
        return None
    if event.get("agent_id") and name != _ASKS_FIRST:  # a person has to answer it
        return None
    tool = text(event.get("tool_name"))
    doing = _doing(name, event, tool)
    if doing is None:
        return None
    activity, what, lasting = doing
    return HookEvent(
        now,
        name,
        activity,
        what,
        lasting,
        tool,
        conversation_id(event.get("session_id")),
        prompted=name not in _NO_PROMPT_NEEDED or event.get("source") == "resume",
        input=tool_input(event.get("tool_input")) if name == _ASKS_FIRST else None,
        taken=now if name == _TAKES else 0.0,
    )


def _doing(
    name: str, event: Mapping[str, object], tool: str | None
) -> tuple[str | None, str | None, bool] | None:
    """What it does, what it waits for, and whether an error makes it wait."""
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
    """What an error makes it wait for, and until when, if its last message tells that."""
    error = text(event.get("error")) or "an error"
    what = _FAILURES.get(error, error.replace("_", " "))
    message = str(event.get("last_assistant_message"))
    for mark in _RESETS if error == "rate_limit" else ():
        _, found, rest = message.partition(mark)
        if found:
            return f"{what} until {(text(rest.strip()) or '')[:40].rstrip('. ')}"
    return what


def permission(tool: str | None) -> str:
    """What an agent waits for that asks whether it may use a tool."""
    if tool == _ASKS:
        return "input"
    return f"permission: {tool}" if tool else "permission"


# The part of a transcript that was read may begin and end within a line, and a line (a large
# prompt) may be longer than that part. So these two search its text instead of parsing lines.


def turn_over(transcript: bytes) -> bool:
    """Does a transcript contain an answer, or the end of a turn without one?"""
    return any(mark in transcript for mark in _ANSWERS)


def has_prompt(transcript: bytes) -> bool:
    """Does the beginning of a transcript contain a prompt? Claude can neither resume nor reuse the
    conversation of a transcript without one: it was killed before it wrote its first prompt."""
    return b'"type":"user"' in transcript


def prompts(transcript: bytes) -> list[str]:
    """The prompts in lines of a transcript, including queued prompts."""
    found = []
    for entry in entries(transcript.splitlines()):
        if entry.get("type") in ("user", "queue-operation"):
            message = entry.get("message")
            content = message.get("content") if isinstance(message, dict) else entry.get("content")
            found.append(message_text(content))
    return found


class Registered:
    """The registry's entry of a process."""

    __slots__ = ("activity", "background", "conversation", "pid", "since", "start", "what")

    def __init__(self, found: Mapping[str, object]) -> None:
        self.pid = found["pid"]
        self.start = str(found.get("procStart"))
        self.conversation = conversation_id(found.get("sessionId"))
        status = found.get("status")
        self.activity = _STATUS.get(str(status))
        self.background = status == "shell"
        self.what = _WAITS.get(str(found.get("waitingFor")), "input")
        since = found.get("statusUpdatedAt")
        self.since = since / 1000 if isinstance(since, int) else None


def parse_registry(raw: bytes) -> Registered | None:
    """An entry of the registry; None when the file is not valid."""
    try:
        found = quick_json.loads(raw)
        return Registered(found) if isinstance(found, dict) and "pid" in found else None
    except (ValueError, RecursionError):
        return None
