"""Breakers: a group, or a template, whose sessions fail too often is left alone for a while.

No state of its own: whether one is open follows from the ends in the event log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from sesh import duties, events, output
from sesh.config import Config
from sesh.model import Record, State
from sesh.view import timestamp

# What is lost is lost with its place, as after a reboot: nobody's fault, and all are to come back.
_FAILURES = {State.FAILED.value, State.TIMEOUT.value}
Circle = tuple[str, str]  # `group` or `template`, and its name


def circles(record: Record) -> list[Circle]:
    """What a session's failures count for."""
    found = (("group", record.spec.group), ("template", record.spec.template))
    return [(kind, name) for kind, name in found if name is not None]


def open_for(records: Collection[Record], config: Config) -> dict[str, tuple[Circle, datetime]]:
    """Of these sessions, by their ids, those with an open breaker: which, and until when; the one
    that is open longest."""
    until = _open_until({circle for one in records for circle in circles(one)}, config)
    found = {}
    for one in records:
        closed_off = [(circle, until[circle]) for circle in circles(one) if circle in until]
        if closed_off:
            found[one.id] = max(closed_off, key=lambda pair: pair[1])
    return found


def _open_until(wanted: Collection[Circle], config: Config) -> dict[Circle, datetime]:
    settings, now = config.breaker, datetime.now(UTC)
    if not wanted or not settings.failures:
        return {}
    failures: dict[Circle, list[datetime]] = {circle: [] for circle in wanted}
    oldest = now - timedelta(seconds=settings.within + settings.cooldown)
    for event in _failures(oldest):
        for circle in _circles_of(event):
            if circle in failures:
                failures[circle].append(datetime.fromisoformat(event["time"]))
    limits = (settings.failures, settings.within, settings.cooldown)
    opened = {circle: duties.open_until(times, *limits, now) for circle, times in failures.items()}
    return {circle: until for circle, until in opened.items() if until is not None}


def _failures(since: datetime) -> Iterator[dict[str, Any]]:
    """The ends that count, one of each launch: that it was given up is no second failure."""
    known = set()
    for event in events.read(since=since):
        if event["kind"] == "ended" and event.get("state") in _FAILURES:
            launch = (event.get("id"), event.get("generation"))
            if launch not in known:
                known.add(launch)
                yield event


def _circles_of(event: dict[str, Any]) -> list[Circle]:
    return [(kind, str(event[kind])) for kind in ("group", "template") if event.get(kind)]


def note_open(record: Record, circle: Circle, until: datetime, config: Config) -> None:
    """Write down that it opened, once."""
    opened = until - timedelta(seconds=config.breaker.cooldown)
    for event in events.read(since=opened):
        if event["kind"] == "breaker-opened" and circle in _circles_of(event):
            return
    with suppress(OSError):
        events.append("breaker-opened", record, **{circle[0]: circle[1]}, until=timestamp(until))


def sentence(circle: Circle, until: datetime) -> str:
    when = output.clock(until.timestamp())
    return f"the breaker of {circle[0]} {circle[1]} is open until {when}"
