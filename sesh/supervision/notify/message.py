"""What a notification says: the event as an object, and as a sentence."""

from __future__ import annotations

import os

from sesh.model.session_json import View
from sesh.state.events import Event

_SENTENCES = {
    "started": "was started",
    "start-failed": "could not be started",
    "restarted": "was restarted",
    "restart-failed": "could not be restarted",
    "stopping": "is being stopped",
    "stopped": "was stopped",
    "archived": "was moved to the history",
    "removed": "was removed",
    "adopted": "was adopted",
    "changed": "was changed",
    "renamed": "was renamed",
    "paused": "is paused",
    "resumed": "was resumed",
    "recovering": "will be restarted",
    "failing": "is unhealthy",
    "hung": "is hung",
    "healthy": "is healthy again",
    "waiting": "is waiting",
    "phase": "entered another phase",
    "finished": "has finished",
    "breaker-opened": "is not retried for now",
    "completed": "completed",
    "failed": "failed",
    "timeout": "timed out",
    "lost": "is lost",
    "test": "test notification",
}


def body(event: Event, session: View | None) -> Event:
    """The object that a target gets."""
    host = os.uname().nodename
    return {**event, "session": session, "host": host, "text": sentence(event)}


def sentence(event: Event) -> str:
    """An event in words: fix-login failed: exit 1"""
    kind, state = str(event["kind"]), event.get("state")
    what = _SENTENCES.get(str(state) if kind == "ended" else kind, kind)
    reason = event.get("reason")
    if kind == "recovering":
        reason = f"retry {event.get('retry')} of {event.get('retries_max')}"
    if kind == "breaker-opened":
        reason = f"retries of {_circuit(event)} are paused"
    name = event.get("name") or "sesh"
    return f"{name} {what}: {reason}" if reason else f"{name} {what}"


def _circuit(event: Event) -> str:
    """The group or template whose failures have opened the breaker."""
    known = (f"{what} {event[what]}" for what in ("group", "template") if event.get(what))
    return next(known, "its group")
