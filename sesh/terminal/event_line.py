"""One event as a line for people."""

from __future__ import annotations

from datetime import datetime

from sesh.model.session_json import View
from sesh.model.text import formatting


def event_line(event: View) -> str:
    """When it happened, to which session, what, and the detail that matters."""
    moment = datetime.fromisoformat(str(event["time"])).astimezone()
    who = formatting.escape(str(event.get("name") or formatting.NOTHING))
    kind = formatting.escape(event["kind"])
    detail = formatting.escape(_detail(event))
    return f"{moment:%Y-%m-%d %H:%M:%S}  {who:<20}  {kind:<14}  {detail}".rstrip()


def _detail(event: View) -> str:
    if event["kind"] == "recovering":
        at = _clock(event.get("retry_at"))
        return f"retry {event.get('retry')} of {event.get('retries_max')} at {at}"
    if event["kind"] == "breaker-opened":
        what = "group" if event.get("group") else "template"
        return f"{what} {event.get(what)}, until {_clock(event.get('until'))}"
    if event["kind"] in ("notified", "notify-failed"):
        why = event.get("reason")
        text = f"{event.get('event') or 'an event'} to {event.get('target') or 'an unknown target'}"
        return f"{text}: {why}" if why else text
    if event["kind"] == "phase":
        before = event.get("previous")
        return f"{event.get('phase')}{f', was {before}' if before else ''}"
    if event["kind"] == "changed":
        return ", ".join(str(key) for key in event.get("keys") or ())
    if event["kind"] == "renamed":
        return f"was {event.get('previous')}"
    if event["kind"] == "finished":
        summary = event.get("summary")
        return f"{event.get('outcome')}{f': {summary}' if summary else ''}"
    detail = event.get("reason") or ""
    if not detail and event.get("command"):
        detail = formatting.command_line([str(word) for word in event["command"]])
    if event.get("retry"):
        detail = f"retry {event['retry']}: {detail}"
    state = str(event.get("state") or "")
    return f"{state}: {detail}" if state and not event["kind"].endswith(state) else detail


def _clock(stamp: object) -> str:
    """A time of an event as people here write it; unchanged if it is no time."""
    try:
        return formatting.clock(formatting.epoch(str(stamp)) or 0)
    except ValueError:
        return str(stamp)
