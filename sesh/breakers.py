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
from sesh.model import BreakerLimits, Cause, Record, State
from sesh.view import timestamp

# What is lost is lost with its place, as after a reboot: nobody's fault, and all are to come back.
_FAILURES = {State.FAILED.value, State.TIMEOUT.value}
_LOST = {
    *(Cause.REBOOT.value, Cause.TERMINAL_GONE.value, Cause.CONTAINER_GONE.value),
    Cause.UNKNOWN.value,
}  # also when it was given up then
Circle = tuple[str, str]  # `group` or `template`, and its name


def circles(record: Record) -> list[Circle]:
    """What a session's failures count for."""
    found = (("group", record.spec.group), ("template", record.spec.template))
    return [(kind, name) for kind, name in found if name is not None]


def open_for(records: Collection[Record], config: Config) -> dict[str, tuple[Circle, datetime]]:
    """Of these sessions, by their ids, those with an open breaker: which, and until when; the one
    that is open longest."""
    limits = {one.id: limits_of(one, config) for one in records}
    failures = _failures_of({circle for one in records for circle in circles(one)}, limits.values())
    now = datetime.now(UTC)
    found = {}
    for one in records:
        closed_off = [
            (circle, until)
            for circle in circles(one)
            if (until := duties.open_until(failures[circle], limits[one.id], now)) is not None
        ]
        if closed_off:
            found[one.id] = max(closed_off, key=lambda pair: pair[1])
    return found


def limits_of(record: Record, config: Config) -> BreakerLimits:
    """Its own, if it was started with some; else those of today's settings."""
    own, usual = record.spec.breaker, config.breaker
    return own or BreakerLimits(int(usual.failures), usual.within, usual.cooldown)


def _failures_of(
    wanted: Collection[Circle], limits: Collection[BreakerLimits]
) -> dict[Circle, list[datetime]]:
    """When sessions of these circles have failed, from the beginning of the log on: what was during
    an earlier cool-down does not count, and when that was follows from what was before."""
    failures: dict[Circle, list[datetime]] = {circle: [] for circle in wanted}
    if not wanted or not any(one.failures for one in limits):
        return failures
    for event in _failures():
        for circle in _circles_of(event):
            if circle in failures:
                failures[circle].append(datetime.fromisoformat(event["time"]))
    return failures


def _failures() -> Iterator[dict[str, Any]]:
    """The ends that count, one of each launch: that it was given up is no second failure."""
    known = set()
    for event in events.of_kind("ended"):
        failed = str(event.get("state")) in _FAILURES and str(event.get("cause")) not in _LOST
        if failed:
            launch = (str(event.get("id")), str(event.get("generation")))
            if launch not in known:
                known.add(launch)
                yield event


def _circles_of(event: dict[str, Any]) -> list[Circle]:
    return [(kind, str(event[kind])) for kind in ("group", "template") if event.get(kind)]


def note_open(record: Record, circle: Circle, until: datetime, config: Config) -> None:
    """Write down that it opened, once."""
    opened = until - timedelta(seconds=limits_of(record, config).cooldown)
    for event in events.read(since=opened):
        if event["kind"] == "breaker-opened" and circle in _circles_of(event):
            return
    with suppress(OSError):
        events.append("breaker-opened", record, **{circle[0]: circle[1]}, until=timestamp(until))


def sentence(circle: Circle, until: datetime) -> str:
    when = output.clock(until.timestamp())
    return f"the breaker of {circle[0]} {circle[1]} is open until {when}"
