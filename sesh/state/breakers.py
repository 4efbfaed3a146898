"""Breakers: sessions of a group or template that fails too often are not retried for a while.

A breaker has no state of its own: whether it is open follows from the ends in the event log. A
process that finds an open breaker writes until when it is open (`paths.breakers_file`), so that
`ls` reads the log only if there may be one.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import ceil

from sesh.model import digest, retry
from sesh.model.configuration import Config
from sesh.model.errors import SeshError
from sesh.model.reconcile import recorded_end
from sesh.model.record import BreakerLimits, Record
from sesh.model.session_json import View, timestamp
from sesh.model.states import Cause, State
from sesh.model.text import formatting, quick_json
from sesh.model.value_object import Any, Value
from sesh.state import events, freshness, settings
from sesh.system import files, paths, quick_read

# Sessions that are lost with their place, as in a reboot, have not failed: all are to come back.
_FAILURES = {State.FAILED.value, State.TIMEOUT.value}
_LOST = {
    *(Cause.REBOOT.value, Cause.TERMINAL_GONE.value, Cause.CONTAINER_GONE.value),
    Cause.UNKNOWN.value,
}  # also when no retry was made then
Circuit = tuple[str, str]  # what has a breaker: `group` or `template`, and its name


class Member(Value):
    """What the breakers of a session depend on."""

    id: str
    circuits: tuple[Circuit, ...]
    limits: BreakerLimits


def circuits(record: Record) -> tuple[Circuit, ...]:
    """The breakers for which a session's failures count."""
    return _circuits(record.spec.group, record.spec.template)


def _circuits(group: str | None, template: str | None) -> tuple[Circuit, ...]:
    found = (("group", group), ("template", template))
    return tuple((kind, name) for kind, name in found if name is not None)


def limits_of(record: Record, config: Config) -> BreakerLimits:
    """The session's own limits, or those of the settings."""
    return record.spec.breaker or usual(config)


def usual(config: Config) -> BreakerLimits:
    usual = config.breaker
    return BreakerLimits(int(usual.failures), usual.within, usual.cooldown)


def _shown(view: View, config: Config) -> Member:
    own = view.get("breaker")
    limits = BreakerLimits(**own) if own else usual(config)
    return Member(view["id"], _circuits(view.get("group"), view.get("template")), limits)


class Opened(Value):
    """An open breaker: until when at the latest, and for which sessions, by id."""

    until: datetime
    ids: frozenset[str]


def open_for(records: Collection[Record], config: Config) -> dict[str, tuple[Circuit, datetime]]:
    """The sessions with an open breaker, by id: which breaker, and until when; of several, the one
    that is open longest."""
    members = [Member(one.id, circuits(one), limits_of(one, config)) for one in records]
    found: dict[str, tuple[Circuit, datetime]] = {}
    for one, circuit, until in _open(members):
        if one.id not in found or found[one.id][1] < until:
            found[one.id] = circuit, until
    return found


def open_among(views: Iterable[View], config: Config) -> dict[Circuit, Opened]:
    """All breakers that are open for these sessions, given as session JSON."""
    found: dict[Circuit, Opened] = {}
    for one, circuit, until in _open([_shown(view, config) for view in views if view.get("id")]):
        before = found.get(circuit, Opened(until, frozenset()))
        found[circuit] = Opened(max(before.until, until), before.ids | {one.id})
    return found


def _open(members: Collection[Member]) -> list[tuple[Member, Circuit, datetime]]:
    breakers = {(circuit, one.limits) for one in members for circuit in one.circuits}
    failures = _failures_of(breakers)
    now = datetime.now(UTC)
    open_until = {key: retry.open_until(failures[key[0]], key[1], now) for key in breakers}
    found = [
        (one, circuit, until)
        for one in members
        for circuit in one.circuits
        if (until := open_until[circuit, one.limits]) is not None
    ]
    if found:
        last = ceil(max(until for _, _, until in found).timestamp())
        if not freshness.breaker_open(paths.breakers_file(), last - 1):
            with suppress(SeshError, OSError):  # it is for showing only
                files.write_private(paths.breakers_file(), b"%d\n" % last, durable=False)
    return found


def note_ended(ended: Collection[Record], config: Config | None = None) -> None:
    """These sessions have just ended: if that has opened a breaker, `ls` shows it."""
    failed = [one for one in ended if circuits(one) and _has_failed(one)]
    if not failed:
        return
    with suppress(SeshError, OSError):  # it is for showing only
        config = config or settings.load()
        concerned = {circuit for one in failed for circuit in circuits(one)}
        members = [Member(one.id, circuits(one), limits_of(one, config)) for one in failed]
        own = (_shown(view, config) for view in _with_own_limits())
        _open([*members, *(one for one in own if not concerned.isdisjoint(one.circuits))])


def _with_own_limits() -> list[View]:
    """The sessions with limits of their own, by their digest lines."""
    directory = quick_read.directory(paths.sessions_dir())
    try:
        names = freshness.names(paths.sessions_dir())
        found = [freshness.digest_of(name, directory) for name in names]
    finally:
        os.close(directory)
    return [quick_json.loads(one.view) for one in found if one and digest.has_breaker(one.view)]


def _failures_of(
    breakers: Collection[tuple[Circuit, BreakerLimits]],
) -> dict[Circuit, list[datetime]]:
    """When sessions of these breakers have failed, since the beginning of the log: failures in an
    earlier cool-down do not count, and its time follows from the failures before."""
    failures: dict[Circuit, list[datetime]] = {circuit: [] for circuit, _ in breakers}
    if not any(limits.failures for _, limits in breakers):
        return failures
    known = set()  # one failure per launch: a retry that is given up is no second failure
    for event in events.of_kind("ended", [{kind: name} for kind, name in failures]):
        launch = (str(event.get("id")), str(event.get("generation")))
        if launch in known or not _is_failure(event.get("state"), event.get("cause")):
            continue
        known.add(launch)
        for circuit in _circuits_of(event):
            if circuit in failures:
                failures[circuit].append(datetime.fromisoformat(event["time"]))
    return failures


def _has_failed(record: Record) -> bool:
    how = recorded_end(record)
    return _is_failure(how.state, how.cause)


def _is_failure(state: object, cause: object) -> bool:
    return str(state) in _FAILURES and str(cause) not in _LOST


def _circuits_of(event: dict[str, Any]) -> list[Circuit]:
    return [(kind, str(event[kind])) for kind in ("group", "template") if event.get(kind)]


def note_open(record: Record, circuit: Circuit, until: datetime, config: Config) -> None:
    """Append the event that it opened, once."""
    opened = until - timedelta(seconds=limits_of(record, config).cooldown)
    for event in events.read(since=opened):
        if event["kind"] == "breaker-opened" and circuit in _circuits_of(event):
            return
    events.append("breaker-opened", record, **{circuit[0]: circuit[1]}, until=timestamp(until))


def sentence(circuit: Circuit, until: datetime) -> str:
    when = formatting.clock(until.timestamp())
    return f"retries of {circuit[0]} {circuit[1]} are paused until {when} (breaker open)"
