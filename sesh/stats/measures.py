"""Figures on sessions, from their JSON objects and from events. PURE.

Sessions are counted by their records; ends, durations and restarts by launches, of which a session
may have had many.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from sesh.model.states import ALIVE, Cause, State
from sesh.model.value_object import Value
from sesh.stats.launches import HEALTHY, Launch, Object, Restart, history, moment

BOUNDS = (10, 60, 600, 3600, 6 * 3600, 86400)  # of the histogram of durations


class Bucket(Value):
    """The durations from the bound of the bucket before to this one."""

    below_seconds: int | None  # None: no upper bound
    count: int


class Figures(Value):
    """The fields of sesh-json(5). Null: there is nothing to count."""

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
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None
    cost_usd: float | None
    cost_is_lower_bound: bool
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
    """All figures of these sessions and events, or of those since a moment."""
    launches, restarts = history([*listed, *archived], events)
    given = _Input(
        [one for one in listed if _recent(one, since)],
        [one for one in archived if _recent(one, since)],
        [one for one in launches if _since(one.began, since)],
        [one for one in launches if _since(one.ended, since)],
        [one for one in restarts if _since(one.at, since)],
    )
    return Report(_figures(given), _parts(given, "group"), _parts(given, "template"))


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


# --- launches and sessions → figures -----------------------------------------------------------


class _Input(Value):
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


def _parts(given: _Input, by: str) -> tuple[Part, ...]:
    """The figures of each group or template by name, those without any last."""
    split = {field: _split(getattr(given, field), by) for field in given.fields}
    names = {name for some in split.values() for name in some}
    return tuple(
        Part(name, _figures(_Input(*(some.get(name, []) for some in split.values()))))
        for name in sorted(names, key=lambda name: (name is None, name or ""))
    )


def _split(things: Iterable[Any], by: str) -> dict[str | None, list[Any]]:
    found: dict[str | None, list[Any]] = {}
    for thing in things:
        key = thing.get(by) if isinstance(thing, Mapping) else getattr(thing, by)
        found.setdefault(key, []).append(thing)
    return found


def _figures(given: _Input) -> Figures:
    return Figures(
        **_of_sessions(given.listed, given.archived),
        **_of_memory(given.listed),
        **_of_usage([*given.listed, *given.archived]),
        **_of_ends(given.began, given.ended),
        **_of_recoveries([one for one in given.restarts if one.retry >= 1]),
        **_of_restarts([one for one in given.restarts if one.launched]),
    )


def _of_sessions(listed: Sequence[Object], archived: Sequence[Object]) -> dict[str, Any]:
    states = _counts((view["state"] for view in (*listed, *archived)), State)
    return {
        "total": len(listed) + len(archived),
        "listed": len(listed),
        "archived": len(archived),
        "alive": sum(view["state"] in ALIVE for view in listed),
        "healthy": sum(v["state"] in HEALTHY and not v.get("attention") for v in listed),
        "attention": sum(bool(view.get("attention")) for view in listed),
        "stale": states[State.STALE],
        "damaged": states[State.DAMAGED],
        "states": states,
    }


def _of_memory(listed: Sequence[Object]) -> dict[str, Any]:
    used = [view["memory_bytes"] for view in listed if view.get("memory_bytes") is not None]
    peaks = [peak for view in listed if (peak := view.get("memory_peak_bytes")) is not None]
    return {
        "memory_bytes": sum(used) if used else None,
        "memory_average_bytes": round(sum(used) / len(used)) if used else None,
        "memory_peak_bytes": max([*used, *peaks], default=None),
    }


def _of_usage(views: Sequence[Object]) -> dict[str, Any]:
    """What agents have used. The cost of all is a lower bound when that of one is, or when it is
    not known of one that has used tokens."""
    used = [view["usage"] for view in views if view.get("usage")]
    used = [one for one in used if one.get("tokens_in") is not None]
    costs = [one["cost_usd"] for one in used if one.get("cost_usd") is not None]
    bounds = (one.get("cost_usd") is None or one.get("cost_is_lower_bound") for one in used)
    counts = {
        name: sum(one[name] for one in used) if used else None
        for name in ("tokens_in", "tokens_out", "tokens_cached")
    }
    return {
        **counts,
        "cost_usd": round(sum(costs), 6) if costs else None,
        "cost_is_lower_bound": bool(costs) and any(bounds),
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
    """The number of each word of `all_of`, also zero."""
    found = Counter(words)
    return {str(word): found[word] for word in all_of}


# --- arithmetic --------------------------------------------------------------------------------


def rate(some: int, out_of: int) -> float | None:
    """A share from 0 to 1; None when there is nothing to count."""
    return round(some / out_of, 4) if out_of else None


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which that share of the values lies, interpolated between two values."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = ordered[int(place)]
    high = ordered[min(int(place) + 1, len(ordered) - 1)]
    return min(high, low + (high - low) * (place % 1))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def histogram(lasted: Iterable[float]) -> tuple[Bucket, ...]:
    """The number of durations in each bucket."""
    counts = [0] * (len(BOUNDS) + 1)
    for seconds in lasted:
        counts[bisect_right(BOUNDS, seconds)] += 1
    return tuple(Bucket(bound, count) for bound, count in zip((*BOUNDS, None), counts, strict=True))
