"""The launches of sessions, from events and from records. PURE.

A session may have had many launches. A launch is known by its events or, the newest one of a
session, by its record; where both describe it, the record counts. Events that are not
well formed are ignored. There may be many, so each becomes a tuple, which costs a fifth of a Value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sesh.model.states import FAILURES, OUTCOMES, Cause, State

Object = Mapping[str, Any]  # a session or an event as in sesh-json(5)
Key = tuple[str, int]  # session id and generation: one launch
Labels = tuple[str | None, str | None]  # group and template

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
    outcome: str | None  # None: no end is known
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
    """An attempt to launch a session again."""

    group: str | None
    template: str | None
    at: float
    retry: int  # the number of the retry; 0: a person asked for it
    launched: bool
    recovered: bool  # launched, and it did not fail at once
    waited: float | None  # since the first end that nothing has recovered from
    resumed: bool | None  # the agent's conversation; None: not known


class _Event(NamedTuple):
    """A well-formed event about a launch."""

    key: Key
    at: float
    kind: str
    event: Object


class _End(NamedTuple):
    ended: float | None
    outcome: str
    cause: str | None


def _parsed(event: Object) -> _Event | None:
    kind, session_id, generation = event.get("kind"), event.get("id"), event.get("generation")
    if not isinstance(kind, str) or kind not in _KINDS:
        return None
    at = moment(event.get("time"))
    if at is None or not isinstance(session_id, str) or not isinstance(generation, int):
        return None
    return _Event((session_id, generation), at, kind, event)


def history(
    views: Sequence[Object], events: Iterable[Object]
) -> tuple[list[Launch], list[Restart]]:
    """Every launch, and the restarts among them."""
    known = [one for one in map(_parsed, events) if one is not None]
    began = {one.key: one.at for one in known if one.kind in _BEGINNINGS}
    ends = _ends(known)
    for view in views:
        if view.get("generation") is None:  # a damaged record
            continue
        key = (view["id"], view["generation"])
        started = moment(view.get("started"))
        if started is not None:
            began[key] = started
        ends[key] = _end_by_record(view, ends.get(key))
    labels = _labels(views, known)
    restarts = _restarts([one for one in known if one.kind in _RESTARTS], labels, ends)
    launches = [_launch(key, labels, began, ends) for key in {**began, **ends}]
    return launches, restarts


def _ends(known: Sequence[_Event]) -> dict[Key, _End | None]:
    """How each launch ended. A session that is not retried has a second event of its end, later:
    the first one has the time of the end."""
    found: dict[Key, _End | None] = {}
    for one in known:
        if one.kind in _ENDS:
            before, end = found.get(one.key), _end(one)
            if before is not None and one.kind == "ended":
                end = end._replace(ended=min(before.ended or one.at, one.at))
            found[one.key] = end
    return found


def _end(known: _Event) -> _End:
    state, cause = known.event.get("state"), known.event.get("cause")
    by_kind = State.STOPPED.value if known.kind == "stopped" else State.FAILED.value
    outcome = state if isinstance(state, str) and state in OUTCOMES else by_kind
    if known.kind in _NO_LAUNCHES:
        return _End(known.at, outcome, Cause.LAUNCH.value)
    return _End(known.at, outcome, cause if isinstance(cause, str) else None)


def _end_by_record(view: Object, known: _End | None) -> _End | None:
    """The end of a session's newest launch. `stale` and `recovering` do not show how it
    ended; an event may."""
    state, ended = view["state"], moment(view.get("ended"))
    if state in _NOT_ENDED:
        return None
    if state in OUTCOMES:
        return _End(ended, state, view.get("cause"))
    if state in (State.STALE, State.RECOVERING):
        as_a_rule = State.COMPLETED if state == State.STALE else State.FAILED
        outcome = known.outcome if known else as_a_rule.value
        return _End(ended, outcome, view.get("cause"))
    return known


def _labels(views: Sequence[Object], known: Sequence[_Event]) -> dict[str, Labels]:
    """Session id → group and template: from its record, else from the last event that has them."""
    found = {one.key[0]: _labels_of(one.event) for one in known if "group" in one.event}
    return {**found, **{view["id"]: _labels_of(view) for view in views if "id" in view}}


def _labels_of(one: Object) -> Labels:
    group, template = one.get("group"), one.get("template")
    return (
        group if isinstance(group, str) else None,
        template if isinstance(template, str) else None,
    )


def _launch(
    key: Key,
    labels: Mapping[str, Labels],
    began: Mapping[Key, float],
    ends: Mapping[Key, _End | None],
) -> Launch:
    end = ends.get(key)
    group, template = labels.get(key[0], (None, None))
    return Launch(
        group,
        template,
        began.get(key),
        end.ended if end else None,
        end.outcome if end else None,
        (end.cause if end.cause in _CAUSES else Cause.UNKNOWN.value) if end else None,
    )


def _restarts(
    known: Sequence[_Event],
    labels: Mapping[str, Labels],
    ends: Mapping[Key, _End | None],
) -> list[Restart]:
    """Retries that fail one after another all count from the end before the first of them."""
    found = []
    down: dict[str, float | None] = {}  # session id → since when, while its retries fail
    for one in sorted(known, key=lambda one: (one.key, one.at)):
        session_id, generation = one.key
        before = ends.get((session_id, generation - 1))
        since = down.get(session_id, before.ended if before else None)
        restart = _restart(one, labels, ends.get(one.key), since)
        down.pop(session_id, None)
        if restart.retry >= 1 and not restart.recovered:
            down[session_id] = since
        found.append(restart)
    return found


def _restart(
    known: _Event,
    labels: Mapping[str, Labels],
    end: _End | None,
    since: float | None,
) -> Restart:
    group, template = labels.get(known.key[0], (None, None))
    retry, resumed = known.event.get("retry"), known.event.get("resumed_conversation")
    launched = known.kind == "restarted"
    return Restart(
        group=group,
        template=template,
        at=known.at,
        retry=retry if isinstance(retry, int) else 0,
        launched=launched,
        recovered=launched and not _failed_soon(end, known.at),
        waited=None if since is None else max(0.0, known.at - since),
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
