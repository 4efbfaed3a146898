"""What can be counted: by tables, and what must hold for any sessions and events."""

from __future__ import annotations

import json
import statistics
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.model.session_json import timestamp
from sesh.model.states import Cause, State
from sesh.state import events
from sesh.stats import measures
from sesh.stats.measures import BOUNDS, Figures, Report, report

BEGIN = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    moment = BEGIN + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def session(name: str, state: str, **facts: Any) -> dict[str, Any]:
    """A session's object; `started` and `ended` in seconds."""
    times: dict[str, Any] = {
        field: timestamp(BEGIN + timedelta(seconds=facts.pop(field)))
        for field in ("created", "started", "ended")
        if field in facts
    }
    known = {"name": name, "id": f"{name}-id", "state": state, "generation": 1}
    return {**known, "group": None, "template": None, "attention": None, **facts, **times}


def event(kind: str, seconds: float, name: str = "a", generation: int = 1, **more: Any) -> Any:
    known = {"time": at(seconds), "kind": kind, "name": name, "id": f"{name}-id"}
    return {**known, "generation": generation, **more}


def failed(seconds: float, name: str = "a", generation: int = 1, **more: Any) -> Any:
    return event("ended", seconds, name, generation, **{"state": "failed", "cause": "exit", **more})


def whole(*told: Any, listed: Any = (), archived: Any = (), since: float | None = None) -> Figures:
    begin = None if since is None else BEGIN.timestamp() + since
    return report(listed, archived, told, begin).whole


# --- sessions ----------------------------------------------------------------------------------


def test_statistics_without_any_session() -> None:
    found = report([], [], [])
    assert found.empty
    assert (found.groups, found.templates) == ((), ())
    plain = measures.as_json(found)
    assert set(plain["states"].values()) == set(plain["causes"].values()) == {0}
    assert set(plain["cause_rates"].values()) == {None}
    unknown = {name for name, value in plain.items() if value is None}
    assert unknown == {
        *("memory_bytes", "memory_average_bytes", "memory_peak_bytes", "failure_rate"),
        *("duration_median_seconds", "duration_p95_seconds", "duration_longest_seconds"),
        *("recovery_rate", "recovery_median_seconds", "recovery_p95_seconds"),
        *("resumed", "resume_rate"),
        *("tokens_in", "tokens_out", "tokens_cached", "cost_usd"),
    }


def test_sessions_by_state() -> None:
    found = whole(
        listed=[
            session("a", "running"),
            session("b", "running", attention="hung"),
            session("c", "paused"),
            session("d", "starting"),
            session("e", "stopping"),
            session("f", "stale", attention="exit 0, its container still up"),
            session("g", "failed", attention="exit 3"),
            {"name": "h", "state": "damaged", "reason": "empty file", "path": "/h.toml"},
            session("i", "unknown"),
        ],
        archived=[
            session("j", "failed", attention="exit 3"),
            session("k", "completed"),
            {"name": "l", "state": "damaged", "reason": "empty file", "path": "/l.toml"},
        ],
    )
    assert (found.total, found.listed, found.archived) == (12, 9, 3)
    assert (found.alive, found.healthy, found.attention) == (5, 3, 3)
    assert (found.stale, found.damaged) == (1, 2)
    assert list(found.states) == list(State)
    counted = {state: count for state, count in found.states.items() if count}
    first = {"damaged": 2, "starting": 1, "running": 2, "paused": 1, "stopping": 1}
    assert counted == first | {"stale": 1, "failed": 2, "completed": 1, "unknown": 1}


def test_only_known_memory_counts() -> None:
    found = whole(
        listed=[
            session("a", "running", memory_bytes=100),
            session("b", "paused", memory_bytes=301),
            session("c", "failed", memory_bytes=None),
        ]
    )
    assert found.memory_bytes == 401
    assert found.memory_average_bytes == 200
    assert found.memory_peak_bytes == 301


# --- launches ----------------------------------------------------------------------------------


def test_launches_are_known_by_events_alone() -> None:
    found = whole(
        event("started", 0),
        failed(20),
        event("restarted", 30, generation=2),
        event("stopped", 90, generation=2, state="stopped", cause="stopped"),
        event("started", 50, "b"),
    )
    assert (found.total, found.launches, found.ends, found.failures) == (0, 3, 2, 1)
    assert found.failure_rate == 0.5
    assert (found.causes["exit"], found.cause_rates["exit"]) == (1, 0.5)
    assert (found.duration_median_seconds, found.duration_longest_seconds) == (40, 60)


def test_the_order_of_lines_does_not_matter() -> None:
    """The end of what ends at once may stand before its start."""
    story = [event("started", 0), failed(20)]
    assert whole(*story) == whole(*reversed(story))
    assert whole(*story).duration_median_seconds == 20


def test_a_record_and_its_events_are_one_launch_and_the_record_wins() -> None:
    told = (event("started", 1), failed(33))
    known = session("a", "failed", cause="signal", started=0, ended=30)
    for found in (whole(*told, listed=[known]), whole(*told, archived=[known])):
        assert (found.launches, found.ends, found.failures) == (1, 1, 1)
        assert (found.causes["signal"], found.causes["exit"]) == (1, 0)
        assert found.duration_median_seconds == 30


def test_of_a_restarted_session_the_launches_before_are_known_by_events() -> None:
    known = session("a", "running", generation=2, started=40)
    found = whole(
        event("started", 0), failed(20), event("restarted", 40, generation=2), listed=[known]
    )
    assert (found.launches, found.ends, found.restarts) == (2, 1, 1)


@pytest.mark.parametrize(
    ("state", "told", "failures", "ends"),
    [
        ("completed", None, 0, 1),
        ("stopped", None, 0, 1),
        ("failed", None, 1, 1),
        ("lost", None, 1, 1),
        ("timeout", None, 1, 1),
        ("stale", None, 0, 1),
        ("stale", "completed", 0, 1),
        ("recovering", None, 1, 1),
        ("recovering", "timeout", 1, 1),
        ("running", None, 0, 0),
        ("running", "failed", 0, 0),  # it was adopted: alive after all
        ("starting", None, 0, 0),
        ("unknown", None, 0, 0),
        ("orphan", "failed", 1, 1),
    ],
)
def test_which_events_count_as_an_end(
    state: str, told: str | None, failures: int, ends: int
) -> None:
    ended = {} if state in ("running", "starting", "unknown", "orphan") else {"ended": 30}
    known = session("a", state, cause="unknown", started=0, **ended)
    found = whole(*([failed(31, state=told)] if told else []), listed=[known])
    assert (found.failures, found.ends) == (failures, ends)


def test_a_launch_that_failed_has_an_end_and_no_duration() -> None:
    found = whole(event("start-failed", 3), event("restart-failed", 9, generation=2))
    assert (found.launches, found.ends, found.failures, found.causes["launch"]) == (0, 2, 2, 2)
    assert (found.restarts, found.recoveries) == (0, 0)
    assert found.duration_median_seconds is None


@pytest.mark.parametrize("order", [1, -1])
def test_an_end_reported_again_when_it_was_given_up_counts_once(order: int) -> None:
    told = [failed(30), failed(90, state="failed")][::order]
    found = whole(event("started", 0), *told)
    assert (found.ends, found.failures, found.duration_longest_seconds) == (1, 1, 30)


def test_a_clock_that_was_set_back_makes_no_negative_duration() -> None:
    assert whole(event("started", 50), failed(20)).duration_longest_seconds == 0


def test_an_unknown_cause() -> None:
    found = whole(failed(1, cause="aliens"), failed(1, "b", cause=None), failed(1, "c", cause=[]))
    assert (found.failures, found.causes["unknown"]) == (3, 3)


def test_durations_in_buckets() -> None:
    lasted = (0, 9.9, 10, 59, 3600, 86400, 10**7)
    archived = [
        session(f"s{number}", "completed", started=0, ended=seconds)
        for number, seconds in enumerate(lasted)
    ]
    counts = [(one.below_seconds, one.count) for one in whole(archived=archived).durations]
    assert counts == [(10, 2), (60, 2), (600, 0), (3600, 0), (21600, 1), (86400, 0), (None, 2)]


# --- recovery and restarts ---------------------------------------------------------------------


def recovery(*after: Any, retry: Any = 1) -> Figures:
    """A session that failed at 100 and was launched again at 110."""
    again = event("restarted", 110, generation=2, retry=retry)
    return whole(event("started", 0), failed(100), again, *after)


@pytest.mark.parametrize(
    ("after", "recovered"),
    [
        ([], 1),  # it lives
        ([failed(111, generation=2)], 0),
        ([failed(169, generation=2)], 0),
        ([failed(171, generation=2)], 1),
        ([failed(120, generation=2, state="lost")], 0),
        ([failed(120, generation=2, state="timeout")], 0),
        ([failed(120, generation=2, state="completed")], 1),
        ([event("stopped", 120, generation=2, state="stopped")], 1),
        ([failed(111, "b", generation=2)], 1),  # somebody else
    ],
)
def test_when_a_recovery_succeeded(after: list[Any], recovered: int) -> None:
    found = recovery(*after)
    assert (found.recoveries, found.recovered, found.recovery_rate) == (1, recovered, recovered)
    assert found.recovery_median_seconds == (10 if recovered else None)
    assert found.restarts == 1


@pytest.mark.parametrize("retry", [0, None, "1", [1]])
def test_a_restart_by_hand_is_no_recovery(retry: Any) -> None:
    found = recovery(retry=retry)
    assert (found.restarts, found.recoveries, found.recovery_rate) == (1, 0, None)


def test_a_recovery_that_could_not_be_launched_is_an_attempt() -> None:
    found = whole(failed(100), event("restart-failed", 110, generation=2, retry=1))
    assert (found.recoveries, found.recovered, found.restarts) == (1, 0, 0)


def test_a_recovery_whose_end_before_is_forgotten() -> None:
    found = whole(event("restarted", 110, generation=2, retry=1))
    assert (found.recovered, found.recovery_median_seconds) == (1, None)


def test_a_session_that_failed_again_and_recovers_once_more() -> None:
    """By its record it is recovering: that of the second launch."""
    known = session("a", "recovering", generation=2, started=110, ended=112, cause="exit")
    again = event("restarted", 110, generation=2, retry=1)
    found = whole(
        event("started", 0), failed(100), again, failed(112, generation=2), listed=[known]
    )
    assert (found.recoveries, found.recovered) == (1, 0)
    assert (found.ends, found.failures) == (2, 2)


def test_the_time_to_recovery_counts_from_the_first_end() -> None:
    """Retries that fail at once, or can't be launched, are a part of it."""
    told = [
        *(event("started", 0), failed(100), event("restarted", 110, generation=2, retry=1)),
        *(failed(112, generation=2), event("restart-failed", 200, generation=3, retry=2)),
        event("restarted", 400, generation=4, retry=3),
    ]
    for story in (told, told[::-1]):
        found = whole(*story)
        assert (found.recoveries, found.recovered, found.recovery_median_seconds) == (3, 1, 300)
    forgotten = whole(*told[2:])  # when it ended first
    assert (forgotten.recovered, forgotten.recovery_median_seconds) == (1, None)


def test_a_restart_by_hand_ends_the_row() -> None:
    found = whole(
        *(event("started", 0), failed(100), event("restarted", 110, generation=2, retry=1)),
        *(failed(112, generation=2), event("restarted", 300, generation=3)),
        *(failed(350, generation=3), event("restarted", 400, generation=4, retry=1)),
    )
    assert (found.recovered, found.recovery_median_seconds) == (1, 50)


def test_a_recovery_that_lasted_ends_the_row() -> None:
    found = whole(
        *(event("started", 0), failed(100), event("restarted", 110, generation=2, retry=1)),
        *(failed(500, generation=2), event("restarted", 530, generation=3, retry=2)),
    )
    assert (found.recovered, found.recovery_median_seconds) == (2, 20)


def test_resumed_conversations() -> None:
    assert recovery().resume_rate is None
    said = [
        event("restarted", 10 * number, generation=number, resumed_conversation=resumed)
        for number, resumed in enumerate([True, False, True, None], 2)
    ]
    found = whole(*said)
    assert (found.restarts, found.resumed, found.resume_rate) == (4, 2, 0.6667)


# --- since -------------------------------------------------------------------------------------


def test_only_what_started_or_ended_since_then() -> None:
    listed = [
        session("old", "running", started=0),
        session("new", "running", started=200),
        session("ended", "completed", started=0, ended=150),
        session("before", "completed", started=0, ended=50),
        session("claimed", "starting", created=120),
        {"name": "odd", "state": "damaged", "reason": "empty file", "path": "/odd.toml"},
    ]
    found = whole(listed=listed, since=100)
    counted = {state: count for state, count in found.states.items() if count}
    assert counted == {"running": 1, "completed": 1, "starting": 1, "damaged": 1}
    assert (found.launches, found.ends) == (1, 1)
    assert found.duration_median_seconds == 150


def test_only_events_since_then() -> None:
    told = [event("started", 0), failed(90), event("restarted", 110, generation=2, retry=1)]
    found = whole(*told, since=100)
    assert (found.launches, found.ends, found.recoveries) == (1, 0, 1)
    assert found.recovery_median_seconds == 20
    assert report([], [], told, BEGIN.timestamp() + 200).empty


# --- groups and templates ----------------------------------------------------------------------


def parts(found: Report) -> dict[str, dict[str | None, tuple[int, int, int]]]:
    return {
        kind: {
            part.name: (part.figures.total, part.figures.ends, part.figures.recoveries)
            for part in getattr(found, kind)
        }
        for kind in ("groups", "templates")
    }


def test_by_group_and_template() -> None:
    found = report(
        [
            session("a", "running", group="web", template="claude", generation=2, started=110),
            session("b", "running"),
            {"name": "h", "state": "damaged", "reason": "empty file", "path": "/h.toml"},
        ],
        [session("c", "completed", group="docs", started=0, ended=5)],
        [
            failed(100, group="an older word"),
            event("restarted", 110, generation=2, retry=1),
            failed(7, "gone", group="web", template="codex"),
            failed(7, "odd", group=7),
        ],
    )
    assert parts(found) == {
        "groups": {"docs": (1, 1, 0), "web": (1, 2, 1), None: (2, 1, 0)},
        "templates": {"claude": (1, 1, 1), "codex": (0, 1, 0), None: (3, 2, 0)},
    }


def test_as_json_has_the_same_fields_for_all_and_for_each() -> None:
    plain = measures.as_json(report([session("a", "running", group="web")], [], []))
    assert list(plain) == [*Figures.fields, "groups", "templates"]
    assert [list(part) for part in plain["groups"]] == [["name", *Figures.fields]]
    assert [part["name"] for part in plain["groups"] + plain["templates"]] == ["web", None]
    assert json.loads(json.dumps(plain)) == plain


# --- whatever it is given ----------------------------------------------------------------------


numbers = st.lists(st.floats(0, 1e9), min_size=1).map(sorted)
junk: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=3), st.just([])
)
times = st.floats(-1e6, 1e6).map(at)
told_events = st.fixed_dictionaries(
    {},
    optional={
        "time": times | times | junk,
        "kind": st.sampled_from(events.KINDS) | junk,
        "id": st.sampled_from(["a", "b", "c"]) | junk,
        "generation": st.integers(1, 4) | junk,
        "state": st.sampled_from([*State]) | junk,
        "cause": st.sampled_from([*Cause]) | junk,
        "group": st.sampled_from(["web", "docs"]) | junk,
        "retry": st.integers(0, 3) | junk,
        "resumed_conversation": junk,
    },
)
sessions = st.builds(
    session,
    st.sampled_from(["a", "b", "c", "d"]),
    st.sampled_from([state.value for state in State if state is not State.DAMAGED]),
    generation=st.integers(1, 4),
    group=st.none() | st.sampled_from(["web", "docs"]),
    started=st.integers(-1000, 1000),
    ended=st.integers(-1000, 1000),
    memory_bytes=st.none() | st.integers(0, 10**12),
)


@given(numbers, st.floats(0, 1), st.floats(0, 1))
def test_a_percentile_lies_among_the_values_and_grows_with_its_share(
    values: list[float], one: float, other: float
) -> None:
    low, high = (measures.percentile(values, share) for share in sorted((one, other)))
    assert low is not None
    assert high is not None
    assert values[0] <= low <= values[-1]
    assert low <= high or low == pytest.approx(high)


@given(numbers)
def test_the_median_and_the_extremes(values: list[float]) -> None:
    assert measures.percentile(values, 0.5) == pytest.approx(statistics.median(values))
    assert measures.percentile(values, 0.0) == values[0]
    assert measures.percentile(values, 1.0) == values[-1]


@given(numbers)
def test_every_duration_is_in_one_bucket(values: list[float]) -> None:
    buckets = measures.histogram(values)
    assert [one.below_seconds for one in buckets] == [*BOUNDS, None]
    assert sum(one.count for one in buckets) == len(values)


@given(st.lists(sessions), st.lists(sessions), st.lists(told_events), st.none() | st.floats(0, 1e3))
def test_any_input_gives_figures_that_fit_together(
    listed: list[Any], archived: list[Any], told: list[Any], since: float | None
) -> None:
    begin = None if since is None else BEGIN.timestamp() + since
    found = report(listed, archived, told, begin)
    every = [found.whole, *(part.figures for part in (*found.groups, *found.templates))]
    for one in every:
        _check(one)
    for parts in (found.groups, found.templates):
        for field in ("total", "ends", "failures", "launches", "recoveries", "restarts"):
            total = sum(getattr(part.figures, field) for part in parts)
            assert total == getattr(found.whole, field)


def _check(one: Figures) -> None:
    rates = (one.failure_rate, one.recovery_rate, one.resume_rate, *one.cause_rates.values())
    assert all(rate is None or 0 <= rate <= 1 for rate in rates)
    assert sum(one.states.values()) == one.total == one.listed + one.archived
    assert sum(one.causes.values()) == one.failures <= one.ends
    assert one.recovered <= one.recoveries
    assert sum(bucket.count for bucket in one.durations) <= one.ends
    assert one.healthy <= one.alive <= one.listed
