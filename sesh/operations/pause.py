"""Pause and resume sessions. A paused session has no clients, takes no input, and its limits do not
count. A frozen session does not run either."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from sesh.model.configuration import Config
from sesh.model.record import Record, Status
from sesh.model.states import State
from sesh.model.value_object import replace
from sesh.places import registry
from sesh.state import judge, lookup
from sesh.state.judge import Seen, readable


def pause(found: Seen, config: Config, *, freeze: bool) -> None:
    """Pause a running session, or freeze a paused one."""
    record = lookup.must_be(found, State.RUNNING, State.PAUSED)
    if record.status.paused is None:
        _write(found, lambda status: replace(status, paused=datetime.now(UTC)), "paused")
    if not record.place.calls_back:  # no program runs in a container that is frozen
        _detach([record], config)
    if freeze:
        registry.of(record).freeze(record, config)


def detach(paused: Iterable[Seen], config: Config) -> None:
    """Detach all clients from sessions on this host: one call for each server."""
    sessions = readable(paused)
    _detach([record for record in sessions if record.place.calls_back], config)


def _detach(sessions: Iterable[Record], config: Config) -> None:
    for server, some in registry.by_server(sessions, config):
        server.detach_each(dict.fromkeys([record.name for record in some], ""))


def resume(found: Seen, config: Config) -> None:
    """Continue a session. It is thawed first: a session that cannot be thawed stays paused."""
    record = lookup.must_be(found, State.PAUSED, State.RUNNING)
    registry.of(record).thaw(record, config)
    if record.status.paused is not None:
        _write(found, _resumed, "resumed")


def supervise_again(resumed: Iterable[Seen], config: Config) -> None:
    """Run a pass for resumed sessions, one call for each server: their limits count again, and
    their wake-ups came while they were paused."""
    sessions = readable(resumed)
    watched = [r for r in sessions if r.place.calls_back and r.spec.care.watched]
    for server, _ in registry.by_server(watched, config):
        server.call_back_now()


def _resumed(status: Status) -> Status:
    moment = datetime.now(UTC)
    since = status.paused or moment
    held = status.held + max(0.0, (moment - since).total_seconds())
    return replace(status, paused=None, held=held, resumed=moment)


def _write(found: Seen, change: Callable[[Status], Status], event: str) -> None:
    lookup.update(
        _thawed(found),
        lambda now: replace(now.intact.record, status=change(now.intact.record.status)),
        event,
        look=lambda _: _thawed(lookup.again(found)),
    )


def _thawed(found: Seen) -> Seen:
    """The session, judged as if it were not frozen: that is about to change."""
    session = found.intact
    sight = replace(session.seen, frozen=False, paused=False)
    return judge.seen_as(found.entry, session.record, sight)
