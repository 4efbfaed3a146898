"""Figures on sessions, from their JSON objects and from events. PURE.

Sessions are counted by their records; ends, durations and restarts by launches, of which a session
may have had many. A launch is known by its events or, the newest one of a session, by its record;
where both tell of it, the record does. Events may be of any shape: what makes no sense is no event.
There may be many: what is made of each is a tuple, which costs a fifth of a Value.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sesh.model.states import ALIVE, FAILURES, OUTCOMES, Cause, State
from sesh.model.value import Value

Object = Mapping[str, Any]  # a session or an event as in sesh-json(5)
Key = tuple[str, int]  # session id and generation: one launch

RECOVERED_AFTER = 60.0  # seconds that a recovered session must not fail within
BOUNDS = (10, 60, 600, 3600, 6 * 3600, 86400)  # of the histogram of durations
_HEALTHY = frozenset({State.RUNNING.value, State.PAUSED.value, State.STARTING.value})
_NOT_ENDED = _HEALTHY | {State.STOPPING.value}
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


class Bucket(Value):
    """Durations that are shorter than this, and not shorter than the one before."""

    below_seconds: int | None  # None: however long
    count: int


class Figures(Value):
    """The fields of sesh-json(5). Null: there is nothing to count it from."""

    total: int
    listed: int
    archived: int
    alive: int
    healthy: int
    attention: int
    stale: int
    damaged: int
    states: Mapping[str, int]
    memory_bytes: int | None
    memory_average_bytes: int | None
    memory_peak_bytes: int | None
    launches: int
    ends: int
    failures: int
    failure_rate: float | None
    causes: Mapping[str, int]
    cause_rates: Mapping[str, float | None]
    duration_median_seconds: float | None
    duration_p95_seconds: float | None
    duration_longest_seconds: float | None
    durations: tuple[Bucket, ...]
    recoveries: int
    recovered: int
    recovery_rate: float | None
    recovery_median_seconds: float | None
    recovery_p95_seconds: float | None
    restarts: int
    resumed: int | None
    resume_rate: float | None


class Part(Value):
    """The figures of one group or template; `name` is None for sessions without one."""

    name: str | None
    figures: Figures


class Report(Value):
    whole: Figures
    groups: tuple[Part, ...]
    templates: tuple[Part, ...]

    @property
    def empty(self) -> bool:
        return not (self.whole.total or self.whole.launches or self.whole.ends)


def report(
    listed: Sequence[Object],
    archived: Sequence[Object],
    events: Iterable[Object],
    since: float | None = None,
) -> Report:
    """Everything that can be said of these sessions and events, since a moment if one is given."""
    told = [one for one in map(_understood, events) if one is not None]
    launches, restarts = _history([*listed, *archived], told)
    material = _Material(
        [one for one in listed if _recent(one, since)],
        [one for one in archived if _recent(one, since)],
        [one for one in launches if _since(one.began, since)],
        [one for one in launches if _since(one.ended, since)],
        [one for one in restarts if _since(one.at, since)],
    )
    return Report(_figures(material), _parts(material, "group"), _parts(material, "template"))


def as_json(found: Report) -> dict[str, Any]:
    """The report as plain values."""
    return {
        **_plain(found.whole),
        "groups": [{"name": part.name, **_plain(part.figures)} for part in found.groups],
        "templates": [{"name": part.name, **_plain(part.figures)} for part in found.templates],
    }


def _plain(figures: Figures) -> dict[str, Any]:
    plain = {name: getattr(figures, name) for name in figures.fields}
    buckets = [{name: getattr(one, name) for name in one.fields} for one in figures.durations]
    return {**plain, "durations": buckets}


# --- events and records → launches -------------------------------------------------------------


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


def _history(views: Sequence[Object], told: Sequence[_Told]) -> tuple[list[Launch], list[Restart]]:
    """Every launch, and the restarts among them."""
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
    """How each launch ended. That one was given up is told as its end once more, later: it ended
    when that was told first."""
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


# --- launches and sessions → figures -----------------------------------------------------------


class _Material(Value):
    """The input of figures."""

    listed: Sequence[Object]
    archived: Sequence[Object]
    began: Sequence[Launch]
    ended: Sequence[Launch]
    restarts: Sequence[Restart]


def _recent(view: Object, since: float | None) -> bool:
    """Has it started or ended since then? A damaged record is always counted."""
    if since is None or view["state"] == State.DAMAGED:
        return True
    started, ended = moment(view.get("started")), moment(view.get("ended"))
    if started is None and ended is None:
        return _since(moment(view.get("created")), since)
    return _since(started, since) or _since(ended, since)


def _since(at: float | None, since: float | None) -> bool:
    return at is not None and (since is None or at >= since)


def _parts(material: _Material, by: str) -> tuple[Part, ...]:
    """The figures of each group or template by name, those without any last."""
    split = {field: _split(getattr(material, field), by) for field in material.fields}
    names = {name for some in split.values() for name in some}
    return tuple(
        Part(name, _figures(_Material(*(some.get(name, []) for some in split.values()))))
        for name in sorted(names, key=lambda name: (name is None, name or ""))
    )


def _split(things: Iterable[Any], by: str) -> dict[str | None, list[Any]]:
    found: dict[str | None, list[Any]] = {}
    for thing in things:
        key = thing.get(by) if isinstance(thing, Mapping) else getattr(thing, by)
        found.setdefault(key, []).append(thing)
    return found


def _figures(material: _Material) -> Figures:
    return Figures(
        **_of_sessions(material.listed, material.archived),
        **_of_memory(material.listed),
        **_of_ends(material.began, material.ended),
        **_of_recoveries([one for one in material.restarts if one.retry >= 1]),
        **_of_restarts([one for one in material.restarts if one.launched]),
    )


def _of_sessions(listed: Sequence[Object], archived: Sequence[Object]) -> dict[str, Any]:
    states = _counts((view["state"] for view in (*listed, *archived)), State)
    return {
        "total": len(listed) + len(archived),
        "listed": len(listed),
        "archived": len(archived),
        "alive": sum(view["state"] in ALIVE for view in listed),
        "healthy": sum(_healthy(view) for view in listed),
        "attention": sum(bool(view.get("attention")) for view in listed),
        "stale": states[State.STALE],
        "damaged": states[State.DAMAGED],
        "states": states,
    }


def _healthy(view: Object) -> bool:
    return view["state"] in _HEALTHY and not view.get("attention")


def _of_memory(listed: Sequence[Object]) -> dict[str, Any]:
    used = [view["memory_bytes"] for view in listed if view.get("memory_bytes") is not None]
    peaks = [peak for view in listed if (peak := view.get("memory_peak_bytes")) is not None]
    return {
        "memory_bytes": sum(used) if used else None,
        "memory_average_bytes": round(sum(used) / len(used)) if used else None,
        "memory_peak_bytes": max([*used, *peaks], default=None),
    }


def _of_ends(began: Sequence[Launch], ended: Sequence[Launch]) -> dict[str, Any]:
    failures = [launch for launch in ended if launch.failed]
    causes = _counts((launch.cause for launch in failures), Cause)
    lasted = sorted(launch.duration for launch in ended if launch.duration is not None)
    return {
        "launches": len(began),
        "ends": len(ended),
        "failures": len(failures),
        "failure_rate": rate(len(failures), len(ended)),
        "causes": causes,
        "cause_rates": {cause: rate(count, len(ended)) for cause, count in causes.items()},
        "duration_median_seconds": _rounded(percentile(lasted, 0.5)),
        "duration_p95_seconds": _rounded(percentile(lasted, 0.95)),
        "duration_longest_seconds": _rounded(percentile(lasted, 1.0)),
        "durations": histogram(lasted),
    }


def _of_recoveries(tries: Sequence[Restart]) -> dict[str, Any]:
    recovered = [one for one in tries if one.recovered]
    waits = sorted(one.waited for one in recovered if one.waited is not None)
    return {
        "recoveries": len(tries),
        "recovered": len(recovered),
        "recovery_rate": rate(len(recovered), len(tries)),
        "recovery_median_seconds": _rounded(percentile(waits, 0.5)),
        "recovery_p95_seconds": _rounded(percentile(waits, 0.95)),
    }


def _of_restarts(restarts: Sequence[Restart]) -> dict[str, Any]:
    """Restarts of agents without a conversation do not count against the resume rate."""
    said = [one.resumed for one in restarts if one.resumed is not None]
    return {
        "restarts": len(restarts),
        "resumed": sum(said) if said else None,
        "resume_rate": rate(sum(said), len(said)),
    }


def _counts(words: Iterable[Hashable], all_of: Iterable[str]) -> dict[str, int]:
    """How often each of `all_of` occurs, with zeros."""
    found = Counter(words)
    return {str(word): found[word] for word in all_of}


# --- arithmetic --------------------------------------------------------------------------------


def moment(text: object) -> float | None:
    """A time as sessions and events have it, in seconds of the epoch."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.timestamp() if found.tzinfo else None


def rate(some: int, out_of: int) -> float | None:
    """Between 0 and 1; None: of nothing."""
    return round(some / out_of, 4) if out_of else None


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which that share of them lies, between two of them where need be."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = ordered[int(place)]
    high = ordered[min(int(place) + 1, len(ordered) - 1)]
    return min(high, low + (high - low) * (place % 1))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def histogram(lasted: Iterable[float]) -> tuple[Bucket, ...]:
    """How many durations lie between each two bounds."""
    counts = [0] * (len(BOUNDS) + 1)
    for seconds in lasted:
        counts[bisect_right(BOUNDS, seconds)] += 1
    return tuple(Bucket(bound, count) for bound, count in zip((*BOUNDS, None), counts, strict=True))
