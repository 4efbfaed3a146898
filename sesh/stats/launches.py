"""The launches of sessions, from events and from records. PURE.

A session may have had many launches. A launch is known by its events or, the newest one of a
session, by its record; where both describe it, the record counts. Events may be of any shape: those
that make no sense are ignored. There may be many, so each becomes a tuple, which costs a fifth of a
Value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sesh.model.states import FAILURES, OUTCOMES, Cause, State

Object = Mapping[str, Any]  # a session or an event as in sesh-json(5)
Key = tuple[str, int]  # session id and generation: one launch

RECOVERED_AFTER = 60.0  # seconds that a recovered session must not fail within
HEALTHY = frozenset({State.RUNNING.value, State.PAUSED.value, State.STARTING.value})
_NOT_ENDED = HEALTHY | {State.STOPPING.value}
_BEGINNINGS = frozenset({"started", "restarted"})
_NO_LAUNCHES = frozenset({"start-failed", "restart-failed"})
_ENDS = frozenset({"ended", "stopped"}) | _NO_LAUNCHES
_RESTARTS = frozenset({"restarted", "restart-failed"})
_KINDS = _BEGINNINGS | _ENDS
_CAUSES = frozenset(cause.value for cause in Cause)


class Launch(NamedTuple):
    """One launch of a session."""

    group: str | None
    template: str | None
    began: float | None
    ended: float | None
    outcome: str | None  # None: not ended, as far as is known
    cause: str | None

    @property
    def failed(self) -> bool:
        return self.outcome in FAILURES

    @property
    def duration(self) -> float | None:
        if self.began is None or self.ended is None:
            return None
        return max(0.0, self.ended - self.began)


class Restart(NamedTuple):
    """A launch that was not the first of its session, or was meant to be one."""

    group: str | None
    template: str | None
    at: float
    retry: int  # the number of the retry; 0: a person asked for it
    launched: bool
    recovered: bool  # launched, and it did not fail at once
    waited: float | None  # since the first end that nothing has recovered from
    resumed: bool | None  # the agent's conversation; None: not known


class _Told(NamedTuple):
    """An event that makes sense."""

    key: Key
    at: float
    kind: str
    event: Object


class _End(NamedTuple):
    ended: float | None
    outcome: str
    cause: str | None


def _understood(event: Object) -> _Told | None:
    kind, session_id, generation = event.get("kind"), event.get("id"), event.get("generation")
    if not isinstance(kind, str) or kind not in _KINDS:
        return None
    at = moment(event.get("time"))
    if at is None or not isinstance(session_id, str) or not isinstance(generation, int):
        return None
    return _Told((session_id, generation), at, kind, event)


def history(
    views: Sequence[Object], events: Iterable[Object]
) -> tuple[list[Launch], list[Restart]]:
    """Every launch, and the restarts among them."""
    told = [one for one in map(_understood, events) if one is not None]
    began = {one.key: one.at for one in told if one.kind in _BEGINNINGS}
    ends = _ends(told)
    for view in views:
        if view.get("generation") is None:  # a damaged record
            continue
        key = (view["id"], view["generation"])
        started = moment(view.get("started"))
        if started is not None:
            began[key] = started
        ends[key] = _end_by_record(view, ends.get(key))
    kin = _kin(views, told)
    restarts = _restarts([one for one in told if one.kind in _RESTARTS], kin, ends)
    launches = [_launch(key, kin, began, ends) for key in {**began, **ends}]
    return launches, restarts


def _ends(told: Sequence[_Told]) -> dict[Key, _End | None]:
    """How each launch ended. A session that is not retried has a second event of its end, later:
    the first one has the time of the end."""
    found: dict[Key, _End | None] = {}
    for one in told:
        if one.kind in _ENDS:
            before, end = found.get(one.key), _end(one)
            if before is not None and one.kind == "ended":
                end = end._replace(ended=min(before.ended or one.at, one.at))
            found[one.key] = end
    return found


def _end(told: _Told) -> _End:
    state, cause = told.event.get("state"), told.event.get("cause")
    by_kind = State.STOPPED.value if told.kind == "stopped" else State.FAILED.value
    outcome = state if isinstance(state, str) and state in OUTCOMES else by_kind
    if told.kind in _NO_LAUNCHES:
        return _End(told.at, outcome, Cause.LAUNCH.value)
    return _End(told.at, outcome, cause if isinstance(cause, str) else None)


def _end_by_record(view: Object, told: _End | None) -> _End | None:
    """The end of a session's newest launch. `stale` and `recovering` do not say how it was; an
    event may."""
    state, ended = view["state"], moment(view.get("ended"))
    if state in _NOT_ENDED:
        return None
    if state in OUTCOMES:
        return _End(ended, state, view.get("cause"))
    if state in (State.STALE, State.RECOVERING):
        as_a_rule = State.COMPLETED if state == State.STALE else State.FAILED
        outcome = told.outcome if told else as_a_rule.value
        return _End(ended, outcome, view.get("cause"))
    return told


def _kin(
    views: Sequence[Object], told: Sequence[_Told]
) -> dict[str, tuple[str | None, str | None]]:
    """Session id → group and template: from its record, else from the last event that says so."""
    found = {one.key[0]: _family(one.event) for one in told if "group" in one.event}
    return {**found, **{view["id"]: _family(view) for view in views if "id" in view}}


def _family(one: Object) -> tuple[str | None, str | None]:
    group, template = one.get("group"), one.get("template")
    return (
        group if isinstance(group, str) else None,
        template if isinstance(template, str) else None,
    )


def _launch(
    key: Key,
    kin: Mapping[str, tuple[str | None, str | None]],
    began: Mapping[Key, float],
    ends: Mapping[Key, _End | None],
) -> Launch:
    end = ends.get(key)
    group, template = kin.get(key[0], (None, None))
    return Launch(
        group,
        template,
        began.get(key),
        end.ended if end else None,
        end.outcome if end else None,
        (end.cause if end.cause in _CAUSES else Cause.UNKNOWN.value) if end else None,
    )


def _restarts(
    told: Sequence[_Told],
    kin: Mapping[str, tuple[str | None, str | None]],
    ends: Mapping[Key, _End | None],
) -> list[Restart]:
    """In a row of retries that came to nothing, all wait for the end before the first of them."""
    found = []
    down: dict[str, float | None] = {}  # session id → since when, while its retries fail
    for one in sorted(told, key=lambda one: (one.key, one.at)):
        session_id, generation = one.key
        before = ends.get((session_id, generation - 1))
        since = down.get(session_id, before.ended if before else None)
        restart = _restart(one, kin, ends.get(one.key), since)
        down.pop(session_id, None)
        if restart.retry >= 1 and not restart.recovered:
            down[session_id] = since
        found.append(restart)
    return found


def _restart(
    told: _Told,
    kin: Mapping[str, tuple[str | None, str | None]],
    end: _End | None,
    since: float | None,
) -> Restart:
    group, template = kin.get(told.key[0], (None, None))
    retry, resumed = told.event.get("retry"), told.event.get("resumed_conversation")
    launched = told.kind == "restarted"
    return Restart(
        group=group,
        template=template,
        at=told.at,
        retry=retry if isinstance(retry, int) else 0,
        launched=launched,
        recovered=launched and not _failed_soon(end, told.at),
        waited=None if since is None else max(0.0, told.at - since),
        resumed=resumed if isinstance(resumed, bool) else None,
    )


def _failed_soon(end: _End | None, since: float) -> bool:
    if end is None or end.outcome not in FAILURES:
        return False
    return end.ended is None or end.ended - since <= RECOVERED_AFTER


def moment(text: object) -> float | None:
    """A time as sessions and events have it, in seconds of the epoch."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.timestamp() if found.tzinfo else None
