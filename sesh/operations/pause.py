"""Pause and resume sessions. A paused session has no clients, takes no input, and its limits do not
count. A frozen one does not run either; one that runs is held."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from sesh.model.configuration import Config
from sesh.model.errors import SeshError
from sesh.model.record import Record, Status
from sesh.model.states import State
from sesh.model.value_object import replace
from sesh.places import registry
from sesh.state import judge, lookup
from sesh.state.judge import Seen, readable


def pause(found: Seen, config: Config, *, hold: bool) -> SeshError | None:
    """Freeze a running or held session, or hold a running one. Returns why a session that was to be
    frozen is only held."""
    record = lookup.must_be(found, State.RUNNING, State.PAUSED)
    unseen = not hold and not record.place.pids_here  # no look will show that it is frozen
    if record.status.paused is None:
        now = datetime.now(UTC)
        _write(found, lambda status: replace(status, paused=now, frozen=unseen), "paused")
    elif unseen:
        _write(found, lambda status: replace(status, frozen=True), None)
    if not record.place.calls_back:  # no program runs in a container that is frozen
        _detach([record], config)
    if hold:
        return None
    try:
        registry.of(record).freeze(record, config)
    except SeshError as error:
        if unseen:
            held = lookup.one(found.name)
            lookup.check_same_launch(found, held)
            _write(held, lambda status: replace(status, frozen=False), None)
        return error
    return None


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
    watched = [r for r in sessions if r.place.calls_back and r.spec.supervision.watched]
    for server, _ in registry.by_server(watched, config):
        server.call_back_now()


def _resumed(status: Status) -> Status:
    moment = datetime.now(UTC)
    since = status.paused or moment
    held = status.held + max(0.0, (moment - since).total_seconds())
    return replace(status, paused=None, frozen=False, held=held, resumed=moment)


def _write(found: Seen, change: Callable[[Status], Status], event: str | None) -> None:
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
