"""One event as a line for people."""

from __future__ import annotations

from datetime import datetime

from sesh.model.session_json import View
from sesh.model.text import formatting

_NAME, _KIND = 20, 14  # columns
_BEFORE = 19 + 2 + _NAME + 2 + _KIND + 2  # columns in front of a detail
_LEAST = 16  # columns for a detail beside all others


def event_line(event: View, width: int | None = None) -> str:
    """When it happened, to which session, what, and the detail that matters. On a terminal of this
    width it is wrapped; in narrow ones, what happened is below when and to which session."""
    moment = datetime.fromisoformat(str(event["time"])).astimezone()
    when = f"{moment:%Y-%m-%d %H:%M:%S}  "
    who = formatting.escape(str(event.get("name") or formatting.NOTHING))
    what = f"{formatting.escape(event['kind']):<{_KIND}}  "
    detail = formatting.escape(_detail(event))
    if width is None:
        return f"{when}{who:<{_NAME}}  {what}{detail}".rstrip()
    beside = width >= _BEFORE + _LEAST
    if beside and formatting.display_width(who) <= _NAME:
        return _hanging(f"{when}{who:<{_NAME}}  {what}", detail, width)
    first = when + who
    if formatting.display_width(first) > width:
        first = f"{when.rstrip()}\n{who}"
    indent = " " * (_BEFORE - _KIND - 2 if beside else 2)
    if width < len(indent + what) + _LEAST:
        return f"{first}\n{indent}{what.rstrip()}\n{_hanging(indent * 2, detail, width)}".rstrip()
    return f"{first}\n{_hanging(indent + what, detail, width)}"


def _hanging(head: str, text: str, width: int) -> str:
    return formatting.hanging(head, text, width, break_words=True).rstrip()


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
    if event.get("forked_from"):
        detail = f"copy of {event['forked_from']}: {detail}"
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
