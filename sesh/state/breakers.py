"""Breakers: sessions of a group or template that fails too often are not retried for a while.

A breaker has no state of its own: whether it is open follows from the ends in the event log. A
process that finds an open breaker writes until when it is open (`paths.breakers_file`), so that
`ls` reads the log only if there may be one.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import ceil

from sesh.model import digest, retry
from sesh.model.configuration import Config
from sesh.model.errors import SeshError
from sesh.model.observation import Verdict
from sesh.model.reconcile import recorded_end
from sesh.model.record import BreakerLimits, Record
from sesh.model.session_json import View, timestamp
from sesh.model.states import Cause, State
from sesh.model.text import formatting, quick_json
from sesh.model.value_object import Value
from sesh.state import events, freshness, settings
from sesh.system import files, paths, quick_read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Sessions that are lost with their place, as in a reboot, have not failed: all are to come back.
_FAILURES = {State.FAILED.value, State.TIMEOUT.value}
_LOST = {
    *(Cause.REBOOT.value, Cause.TERMINAL_GONE.value, Cause.CONTAINER_GONE.value),
    Cause.UNKNOWN.value,
}  # also when no retry was made then
Circle = tuple[str, str]  # `group` or `template`, and its name


class Member(Value):
    """What the breakers of a session depend on."""

    id: str
    circles: tuple[Circle, ...]
    limits: BreakerLimits


def circles(record: Record) -> tuple[Circle, ...]:
    """The breakers for which a session's failures count."""
    return _circles(record.spec.group, record.spec.template)


def _circles(group: str | None, template: str | None) -> tuple[Circle, ...]:
    found = (("group", group), ("template", template))
    return tuple((kind, name) for kind, name in found if name is not None)


def limits_of(record: Record, config: Config) -> BreakerLimits:
    """The session's own limits, or those of the settings."""
    return record.spec.breaker or _usual(config)


def _usual(config: Config) -> BreakerLimits:
    usual = config.breaker
    return BreakerLimits(int(usual.failures), usual.within, usual.cooldown)


def _shown(view: View, config: Config) -> Member:
    own = view.get("breaker")
    limits = BreakerLimits(**own) if own else _usual(config)
    return Member(view["id"], _circles(view.get("group"), view.get("template")), limits)


class Opened(Value):
    """An open breaker: until when at the latest, and for which sessions, by id."""

    until: datetime
    ids: frozenset[str]


def open_for(records: Collection[Record], config: Config) -> dict[str, tuple[Circle, datetime]]:
    """The sessions with an open breaker, by id: which breaker, and until when; of several, the one
    that is open longest."""
    members = [Member(one.id, circles(one), limits_of(one, config)) for one in records]
    found: dict[str, tuple[Circle, datetime]] = {}
    for one, circle, until in _open(members):
        if one.id not in found or found[one.id][1] < until:
            found[one.id] = circle, until
    return found


def open_among(views: Iterable[View], config: Config) -> dict[Circle, Opened]:
    """All breakers that are open for these sessions, given as session JSON."""
    found: dict[Circle, Opened] = {}
    for one, circle, until in _open([_shown(view, config) for view in views if view.get("id")]):
        before = found.get(circle, Opened(until, frozenset()))
        found[circle] = Opened(max(before.until, until), before.ids | {one.id})
    return found


def _open(members: Collection[Member]) -> list[tuple[Member, Circle, datetime]]:
    breakers = {(circle, one.limits) for one in members for circle in one.circles}
    failures = _failures_of({circle for circle, _ in breakers}, {limits for _, limits in breakers})
    now = datetime.now(UTC)
    open_until = {key: retry.open_until(failures[key[0]], key[1], now) for key in breakers}
    found = [
        (one, circle, until)
        for one in members
        for circle in one.circles
        if (until := open_until[circle, one.limits]) is not None
    ]
    if found:
        _leave_word(max(until for _, _, until in found))
    return found


def _leave_word(until: datetime) -> None:
    """Write until when a breaker is open."""
    moment = ceil(until.timestamp())
    if not freshness.breaker_open(paths.breakers_file(), moment - 1):
        with suppress(SeshError, OSError):  # it is for showing only
            files.write_private(paths.breakers_file(), b"%d\n" % moment, durable=False)


def heed(ended: Collection[Record], config: Config | None = None) -> None:
    """These sessions have just ended: if that has opened a breaker, `ls` shows it."""
    failed = [one for one in ended if circles(one) and _has_failed(recorded_end(one))]
    if not failed:
        return
    with suppress(SeshError, OSError):  # it is for showing only
        config = config or settings.load()
        concerned = {circle for one in failed for circle in circles(one)}
        members = [Member(one.id, circles(one), limits_of(one, config)) for one in failed]
        own = (_shown(view, config) for view in _with_own_limits())
        _open([*members, *(one for one in own if not concerned.isdisjoint(one.circles))])


def _with_own_limits() -> list[View]:
    """The sessions with limits of their own, by their digest lines."""
    directory = quick_read.directory(paths.sessions_dir())
    try:
        found = [
            freshness.digest_of(name, directory) for name in freshness.names(paths.sessions_dir())
        ]
    finally:
        os.close(directory)
    return [quick_json.loads(one.view) for one in found if one and digest.has_breaker(one.view)]


def _has_failed(how: Verdict) -> bool:
    return _is_failure(str(how.state), str(how.cause))


def _failures_of(
    wanted: Collection[Circle], limits: Collection[BreakerLimits]
) -> dict[Circle, list[datetime]]:
    """When sessions of these breakers have failed, since the beginning of the log: failures in an
    earlier cool-down do not count, and its time follows from the failures before."""
    failures: dict[Circle, list[datetime]] = {circle: [] for circle in wanted}
    if not wanted or not any(one.failures for one in limits):
        return failures
    for event in _failures(wanted):
        for circle in _circles_of(event):
            if circle in failures:
                failures[circle].append(datetime.fromisoformat(event["time"]))
    return failures


def _failures(wanted: Collection[Circle]) -> Iterator[dict[str, Any]]:
    """The ends that count, one per launch: a retry that is given up is no second failure."""
    known = set()
    for event in events.of_kind("ended", [{kind: name} for kind, name in wanted]):
        if _is_failure(str(event.get("state")), str(event.get("cause"))):
            launch = (str(event.get("id")), str(event.get("generation")))
            if launch not in known:
                known.add(launch)
                yield event


def _is_failure(state: str, cause: str) -> bool:
    return state in _FAILURES and cause not in _LOST


def _circles_of(event: dict[str, Any]) -> list[Circle]:
    return [(kind, str(event[kind])) for kind in ("group", "template") if event.get(kind)]


def note_open(record: Record, circle: Circle, until: datetime, config: Config) -> None:
    """Append the event that it opened, once."""
    opened = until - timedelta(seconds=limits_of(record, config).cooldown)
    for event in events.read(since=opened):
        if event["kind"] == "breaker-opened" and circle in _circles_of(event):
            return
    events.append("breaker-opened", record, **{circle[0]: circle[1]}, until=timestamp(until))


def sentence(circle: Circle, until: datetime) -> str:
    when = formatting.clock(until.timestamp())
    return f"the breaker of {circle[0]} {circle[1]} is open until {when}"
