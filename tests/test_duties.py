"""What is due, as a table and as properties: pure, so every case is cheap."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh import duties
from sesh.duties import Action, Facts, Kind
from sesh.model import (
    OUTCOMES,
    Care,
    Cause,
    Health,
    Record,
    Retry,
    State,
    Verdict,
)
from sesh.reconcile import ended_by
from sesh.values import replace
from tests.samples import NOW, record

MB = 1 << 20


def cared(care: Care, **status: Any) -> Record:
    made = record(**status)
    return replace(made, spec=replace(made.spec, care=care))


def due(
    care: dict[str, Any], facts: dict[str, Any], state: State = State.RUNNING, **status: Any
) -> tuple[Action, ...]:
    return duties.due(cared(Care(**care), **status), Verdict(state), Facts(**facts), NOW)


# --- limits and health ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("care", "facts", "cause", "why"),
    [
        ({"timeout": 60.0}, {"age": 59.9}, None, ""),
        ({"timeout": 60.0}, {"age": 60.0}, Cause.TIMEOUT, "ran for its timeout (1 minute)"),
        ({"timeout": 60.0}, {}, None, ""),
        ({"idle_timeout": 5.0}, {"age": 99.0, "silent": 4.9}, None, ""),
        (
            {"idle_timeout": 5.0},
            {"silent": 5.0},
            Cause.TIMEOUT,
            "printed nothing for its idle timeout (5 seconds)",
        ),
        ({"max_memory": 100 * MB}, {"memory": 100 * MB}, None, ""),
        (
            {"max_memory": 100 * MB},
            {"memory": 101 * MB},
            Cause.LIMIT,
            "used more memory than max-memory: 101M of 100M",
        ),
        ({"max_cpu_time": 3600.0}, {"cpu": 3599.0}, None, ""),
        (
            {"max_cpu_time": 3600.0},
            {"cpu": 3601.0},
            Cause.LIMIT,
            "used more processor time than max-cpu-time: 3601 s of 1 hour",
        ),
    ],
)
def test_limits(care: dict[str, Any], facts: dict[str, Any], cause: Cause | None, why: str) -> None:
    ends = [action for action in due(care, facts) if action.kind is Kind.END]
    assert ends == ([Action(Kind.END, why, cause)] if cause else [])


@pytest.mark.parametrize(
    ("facts", "was", "now"),
    [
        ({"checks": 0}, None, None),
        ({"checks": 1}, None, Health.OK),
        ({"checks": 1}, Health.OK, None),
        ({"checks": 3, "failures": 2}, Health.OK, None),
        ({"checks": 3, "failures": 3}, Health.OK, Health.FAILING),
        ({"checks": 4, "failures": 4}, Health.FAILING, None),
        ({"checks": 5, "failures": 0}, Health.FAILING, Health.OK),
        ({"checks": 1, "unheard": 10.0}, Health.OK, Health.HUNG),
        ({"checks": 1, "unheard": 9.9}, Health.HUNG, Health.OK),
    ],
)
def test_a_change_of_health_is_noted_once(
    facts: dict[str, Any], was: Health | None, now: Health | None
) -> None:
    care = {"health_cmd": "true", "max_silence": 10.0}
    notes = [a.health for a in due(care, facts, health=was) if a.kind is Kind.NOTE]
    assert notes == ([now] if now else [])


@pytest.mark.parametrize(
    ("retries", "used", "age", "ends"),
    [
        (0, 0, 5.0, False),
        (2, 0, 5.0, True),
        (2, 2, 5.0, False),
        (2, 2, 604.9, False),  # what it was silent for does not count as well
        (2, 2, 605.0, True),  # it ran well for long: it has all of them again
    ],
)
def test_the_unwell_are_ended_only_to_be_launched_again(
    retries: int, used: int, age: float, ends: bool
) -> None:
    care = {"max_silence": 4.0, "retries": retries}
    found = due(care, {"unheard": 5.0, "age": age}, retries=used)
    assert [a.kind for a in found] == [Kind.END if ends else Kind.NOTE]
    if ends:
        why = "hung: silent for 4 seconds"
        assert found[0] == Action(Kind.END, why, Cause.HEALTH, ran_well=age > 600)


@pytest.mark.parametrize(
    ("facts", "ends"),
    [
        ({"age": 9e5, "unheard": 9e5}, False),  # it never said a word
        ({"age": 9e5, "unheard": 9e5 - 599}, False),
        ({"age": 9e5, "unheard": 9e5 - 600}, True),
        ({"age": 9e5, "failures": 9, "since_check": 5.0}, True),
        ({"age": 955.0, "failures": 10, "since_check": 5.0}, True),  # ten checks of 30 s before
        ({"age": 954.0, "failures": 10, "since_check": 5.0}, False),
        ({"age": 954.0, "failures": 50, "since_check": 5.0}, False),  # never well
    ],
)
def test_time_hung_or_failing_is_not_well(facts: dict[str, Any], ends: bool) -> None:
    care = {"max_silence": 4.0, "health_cmd": "x", "health_start_period": 50.0, "retries": 1}
    for health in (Health.HUNG, Health.OK):
        found = due(care, {"checks": 99, **facts}, retries=1, health=health)
        assert (Kind.END in [action.kind for action in found]) is ends


@pytest.mark.parametrize(
    ("clock", "last", "due_at"),
    [
        (1000.0, 990.0, 1020.0),  # every 30 s: 990, 1020, 1050
        (1000.0, 989.9, 1020.0),  # half an interval at least
        (1000.0, 975.0, 990.0),
        (1000.0, 961.0, 990.0),
        (1000.0, 1000.0, 1020.0),
        (1006.0, 1006.0, 1050.0),
    ],
)
def test_looks_and_checks_happen_for_all_at_the_same_moments(
    clock: float, last: float, due_at: float
) -> None:
    care: dict[str, Any] = {"max_memory": MB, "health_cmd": "x"}  # every 30 s

    def kinds(now: float, **facts: Any) -> set[Kind]:
        since = {"since_measure": now - last, "since_check": now - last}
        return {action.kind for action in due(care, {"clock": now, **since, **facts})}

    assert kinds(due_at - 0.1) == set()
    assert kinds(due_at) == {Kind.MEASURE, Kind.CHECK}
    assert kinds(due_at, checking=True) == {Kind.MEASURE}
    facts = Facts(clock=clock, since_measure=clock - last, since_check=clock - last)
    left = duties.next_due(cared(Care(**care)), Verdict(State.RUNNING), facts, NOW)
    assert left == pytest.approx(max(0.0, due_at - clock))


# --- retries -------------------------------------------------------------------------------------


def after(care: Care, how: Verdict, ran: float = 1.0, **status: Any) -> duties.After:
    status = {"started": NOW - timedelta(seconds=ran), **status}
    return duties.after_end(cared(care, **status), how, NOW)


FAILED = Verdict(State.FAILED, cause=Cause.EXIT, exit_code=1)
ENDS = {
    "failure": FAILED,
    "lost": Verdict(State.LOST, cause=Cause.REBOOT),
    "timeout": Verdict(State.TIMEOUT, cause=Cause.TIMEOUT),
    "always": Verdict(State.COMPLETED, cause=Cause.EXIT, exit_code=0),
}


@pytest.mark.parametrize("wanted", Retry)
@pytest.mark.parametrize("end", ENDS)
def test_which_ends_are_retried(wanted: Retry, end: str) -> None:
    care = Care(retries=3, retry_on=(wanted.value,))
    assert (after(care, ENDS[end]).retry_at is not None) == (wanted in (end, Retry.ALWAYS))


@pytest.mark.parametrize(
    "how",
    [
        Verdict(State.STOPPED, cause=Cause.STOPPED),
        Verdict(State.FAILED, cause=Cause.EXIT, exit_code=125),
        Verdict(State.FAILED, cause=Cause.LAUNCH),  # whoever has started it was told
    ],
)
def test_what_is_never_retried(how: Verdict) -> None:
    assert after(Care(retries=3, retry_on=("always",)), how) == duties.After(None, 0)


def test_a_retry_that_could_not_be_launched_is_retried() -> None:
    how = Verdict(State.FAILED, cause=Cause.LAUNCH)
    assert after(Care(retries=3), how, retries=1).retry_at is not None


def test_the_delays_double_up_to_the_longest() -> None:
    care = Care(retries=9, retry_delay=10.0, retry_max_delay=300.0)
    plain = [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0, 300.0]
    for number, expected in enumerate(plain, 1):
        found = duties.delay(care, number, f"demo.{number}")
        assert expected * 0.95 <= found <= min(expected * 1.05, 300.0)
        assert found == duties.delay(care, number, f"demo.{number}")


def test_retries_are_counted_and_used_up() -> None:
    care = Care(retries=2)
    assert after(care, FAILED, retries=1).retry_at is not None
    assert after(care, FAILED, retries=2) == duties.After(None, 2, used_up=True)


@pytest.mark.parametrize(("ran", "used"), [(599.9, 2), (600.0, 0)])
def test_having_run_well_it_has_all_retries_again(ran: float, used: int) -> None:
    found = after(Care(retries=3, retry_reset=600.0), FAILED, ran, retries=2)
    assert found.retries == used


@pytest.mark.parametrize("cause", [Cause.HEALTH, Cause.TIMEOUT, Cause.LIMIT])
def test_an_end_that_sesh_had_to_make_gives_back_no_retries(cause: Cause) -> None:
    care = Care(retries=1, retry_reset=1.0, retry_on=("timeout", "failure"))
    how = Verdict(ended_by(cause), cause=cause)
    assert after(care, how, 1e6, retries=1) == duties.After(None, 1, used_up=True)
    assert after(care, how, 1e6).retry_at is not None


@pytest.mark.parametrize("health", [Health.HUNG, Health.FAILING])
def test_neither_does_the_end_of_what_was_not_well(health: Health) -> None:
    assert after(Care(retries=1), FAILED, 1e6, retries=1, health=health).used_up


@pytest.mark.parametrize(
    ("moment", "kinds"),
    [
        (NOW + timedelta(seconds=19), []),
        (NOW + timedelta(seconds=20), [Kind.RETRY]),
        (NOW + timedelta(days=400), [Kind.RETRY]),  # the clock was set forward
        (NOW - timedelta(days=400), [Kind.RETRY]),  # or back: not in a year
    ],
)
def test_when_a_retry_is_due(moment: datetime, kinds: list[Kind]) -> None:
    waiting = cared(Care(retries=1), retry_at=NOW + timedelta(seconds=20), ended=NOW)
    found = duties.due(waiting, Verdict(State.RECOVERING), Facts(), moment)
    assert [action.kind for action in found] == kinds


# --- breakers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ago", "until"),
    [
        ([], None),
        ([30, 20, 10], None),  # three are not more than three
        ([40, 30, 20, 10], 90),
        ([400, 30, 20, 10], None),  # not within a minute
        ([130, 120, 110, 105], None),  # its cool-down is over
        ([95, 90, 85, 80, 10], 20),  # a late failure does not open it again
    ],
)
def test_a_breaker_opens_and_closes(ago: list[int], until: int | None) -> None:
    failures = [NOW - timedelta(seconds=seconds) for seconds in ago]
    found = duties.open_until(failures, 3, 60.0, 100.0, NOW)
    assert found == (None if until is None else NOW + timedelta(seconds=until))


# --- properties ----------------------------------------------------------------------------------

amounts = st.none() | st.floats(0, 1e6)
facts = st.builds(
    Facts,
    clock=st.floats(0, 1e6),
    age=amounts,
    silent=amounts,
    unheard=amounts,
    memory=st.none() | st.integers(0, 1 << 40),
    cpu=amounts,
    since_measure=st.floats(0, 1e6),
    since_check=st.floats(0, 1e6),
    checking=st.booleans(),
    checks=st.integers(0, 9),
    failures=st.integers(0, 9),
)
limits = st.just(0.0) | st.floats(0.1, 1e6)
cares = st.builds(
    Care,
    timeout=limits,
    idle_timeout=limits,
    retries=st.integers(0, 4),
    retry_delay=st.floats(0.1, 1e4),
    retry_max_delay=st.floats(0.1, 1e4),
    retry_reset=st.floats(0.1, 1e4),
    retry_on=st.lists(st.sampled_from([word.value for word in Retry]), min_size=1).map(tuple),
    max_memory=st.just(0) | st.integers(1 << 16, 1 << 40),
    max_cpu_time=limits,
    health_cmd=st.sampled_from(["", "true"]),
    max_silence=limits,
)
states = st.sampled_from(State)
used = st.integers(0, 5)


@given(cares, facts, states, used)
def test_nothing_is_done_but_for_what_runs_or_waits(
    care: Care, found: Facts, state: State, retries: int
) -> None:
    actions = duties.due(cared(care, retries=retries), Verdict(state), found, NOW)
    if state not in (State.RUNNING, State.RECOVERING):
        assert actions == ()
    kinds = [action.kind for action in actions]
    assert len(kinds) == len(set(kinds))
    assert Kind.END not in kinds or kinds == [Kind.END]
    assert (Kind.RETRY in kinds) <= (state is State.RECOVERING)


@given(cares, facts, used)
def test_the_next_look_is_never_later_than_what_is_due(
    care: Care, found: Facts, retries: int
) -> None:
    """At the time that `next_due` names and not before, `due` has something to do; limits that
    only a measurement can tell are not known beforehand."""
    one, verdict = cared(care, retries=retries), Verdict(State.RUNNING)
    kinds = {action.kind for action in duties.due(one, verdict, found, NOW)}
    left = duties.next_due(one, verdict, found, NOW)
    if kinds & {Kind.MEASURE, Kind.CHECK}:
        assert left == 0.0
    if left is None:
        assert not care.watched
    else:
        assert left >= 0.0


ends = st.builds(
    Verdict,
    st.sampled_from(sorted(OUTCOMES)),
    cause=st.sampled_from(Cause),
    exit_code=st.none() | st.integers(0, 255),
)


@given(cares, ends, used, st.floats(0, 1e5))
def test_retries_never_exceed_their_number(
    care: Care, how: Verdict, retries: int, ran: float
) -> None:
    found = after(care, how, ran, retries=retries)
    assert found.retry_at is None or found.retries < care.retries
    assert not (found.used_up and found.retry_at)
    if found.retry_at is not None:
        wait = (found.retry_at - NOW).total_seconds()
        assert 0 < wait <= care.retry_max_delay + 1e-6
