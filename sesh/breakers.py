"""Breakers: a group whose sessions fail too often is left alone for a while.

No state of its own: whether one is open follows from the ends in the event log.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from sesh import duties, events
from sesh.config import Config
from sesh.model import Record, State
from sesh.view import timestamp

_FAILURES = {State.FAILED.value, State.LOST.value, State.TIMEOUT.value}


def open_until(groups: Collection[str], config: Config) -> dict[str, datetime]:
    """The groups whose breaker is open, and until when."""
    if not groups or not config.breaker.failures:
        return {}
    settings, now = config.breaker, datetime.now(UTC)
    oldest = now - timedelta(seconds=settings.within + settings.cooldown)
    failures: dict[str, list[datetime]] = {group: [] for group in groups}
    for event in events.read(since=oldest):
        if event["kind"] == "ended" and event.get("state") in _FAILURES:
            times = failures.get(str(event.get("group")))
            if times is not None:
                times.append(datetime.fromisoformat(event["time"]))
    found = {}
    for group, times in failures.items():
        until = duties.open_until(times, settings.failures, settings.within, settings.cooldown, now)
        if until is not None:
            found[group] = until
    return found


def note_open(record: Record, until: datetime, config: Config) -> None:
    """Write down that it opened, once."""
    group = record.spec.group
    opened = until - timedelta(seconds=config.breaker.cooldown)
    for event in events.read(since=opened):
        if event["kind"] == "breaker-opened" and event.get("group") == group:
            return
    with suppress(OSError):
        events.append("breaker-opened", record, group=group, until=timestamp(until))


def sentence(group: str | None, until: datetime) -> str:
    return f"the breaker of group {group} is open until {timestamp(until)}"
