"""What is due, as a table and as properties: pure, so every case is cheap."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.model import due, retry
from sesh.model.due import Action, Facts, Kind
from sesh.model.observation import Verdict
from sesh.model.reconcile import ended_by
from sesh.model.record import BreakerLimits, Record, Supervision
from sesh.model.retry import After
from sesh.model.states import OUTCOMES, Cause, Health, Retry, State
from sesh.model.value_object import replace
from tests.samples import NOW, record

MB = 1 << 20


def supervised(supervision: Supervision, **status: Any) -> Record:
    made = record(**status)
    return replace(made, spec=replace(made.spec, supervision=supervision))


def due_now(
    supervision: dict[str, Any], facts: dict[str, Any], state: State = State.RUNNING, **status: Any
) -> tuple[Action, ...]:
    return due.due(
        supervised(Supervision(**supervision), **status), Verdict(state), Facts(**facts), NOW
    )


# --- limits and health ---------------------------------------------------------------------------


def test_unhealthy_sessions_are_ended_only_if_they_may_be_retried() -> None:
    supervision = {"health_cmd": "true", "health_retries": 1, "retries": 3}
    unwell = {"age": 60.0, "failures": 1, "checks": 1, "last_failure": "exit 1"}
    (ended,) = due_now(supervision, unwell)
    assert (ended.kind, ended.cause) == (Kind.END, Cause.HEALTH)
    (noted,) = due_now(supervision, {**unwell, "breaker_open": True})
    assert (noted.kind, noted.health) == (Kind.NOTE, Health.FAILING)
    assert due_now(supervision, {**unwell, "breaker_open": True}, health=Health.FAILING) == ()


@pytest.mark.parametrize(
    ("supervision", "facts", "cause", "why"),
    [
        ({"timeout": 60.0}, {"life": 59.9}, None, ""),
        ({"timeout": 60.0}, {"life": 60.0}, Cause.TIMEOUT, "ran for its timeout (1m)"),
        ({"timeout": 60.0}, {"age": 60.0}, None, ""),  # of the launch alone
        ({"timeout": 60.0}, {}, None, ""),
        ({"idle_timeout": 5.0}, {"age": 99.0, "silent": 4.9}, None, ""),
        (
            {"idle_timeout": 5.0},
            {"silent": 5.0},
            Cause.TIMEOUT,
            "printed nothing for its idle timeout (5s)",
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
            "used more processor time than max-cpu-time: 3601s of 1h",
        ),
    ],
)
def test_limits(
    supervision: dict[str, Any], facts: dict[str, Any], cause: Cause | None, why: str
) -> None:
    ends = [action for action in due_now(supervision, facts) if action.kind is Kind.END]
    assert ends == ([Action(Kind.END, why, cause)] if cause else [])


def test_an_earlier_life_is_reported() -> None:
    (end,) = due_now({"timeout": 60.0}, {"life": 60.0, "age": 1.0}, lived=59.0)
    assert end.why == "ran for its timeout (1m), earlier launches included"


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
        ({"checks": 0, "unheard": 9.9}, Health.HUNG, Health.OK),  # it speaks: hung it is no more
        ({"checks": 1, "failures": 1, "unheard": 0.0}, Health.HUNG, Health.OK),
        ({"checks": 1, "unheard": None}, Health.HUNG, None),  # nobody knows whether it speaks
        ({"checks": 3, "failures": 3, "unheard": None}, Health.HUNG, Health.FAILING),
    ],
)
def test_a_change_of_health_is_noted_once(
    facts: dict[str, Any], was: Health | None, now: Health | None
) -> None:
    supervision = {"health_cmd": "true", "max_silence": 10.0}
    notes = [a.health for a in due_now(supervision, facts, health=was) if a.kind is Kind.NOTE]
    assert notes == ([now] if now else [])


@pytest.mark.parametrize("was", [None, Health.OK, Health.HUNG])
def test_unknown_silence_is_not_judged(was: Health | None) -> None:
    assert due_now({"max_silence": 10.0}, {"unheard": None}, health=was) == ()


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
    supervision = {"max_silence": 4.0, "retries": retries}
    found = due_now(supervision, {"unheard": 5.0, "age": age}, retries=used)
    assert [a.kind for a in found] == [Kind.END if ends else Kind.NOTE]
    if ends:
        why = "hung: silent for 4s"
        assert found[0] == Action(Kind.END, why, Cause.HEALTH, ran_well=age > 600)


@pytest.mark.parametrize(("life", "ends"), [(69.0, True), (91.0, False)])
def test_the_unwell_are_not_ended_when_no_time_is_left_to_launch_them_again(
    life: float, ends: bool
) -> None:
    supervision = {"max_silence": 4.0, "retries": 1, "retry_delay": 20.0, "timeout": 100.0}
    found = due_now(supervision, {"unheard": 5.0, "age": 5.0, "life": life})
    assert [action.kind for action in found] == [Kind.END if ends else Kind.NOTE]


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
def test_time_hung_or_failing_is_not_healthy_time(facts: dict[str, Any], ends: bool) -> None:
    supervision = {"max_silence": 4.0, "health_cmd": "x", "health_start_period": 50.0, "retries": 1}
    for health in (Health.HUNG, Health.OK):
        found = due_now(supervision, {"checks": 99, **facts}, retries=1, health=health)
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
    supervision: dict[str, Any] = {"max_memory": MB, "health_cmd": "x"}  # every 30 s

    def kinds(now: float, **facts: Any) -> set[Kind]:
        since = {"since_measure": now - last, "since_check": now - last}
        return {action.kind for action in due_now(supervision, {"clock": now, **since, **facts})}

    assert kinds(due_at - 0.1) == set()
    assert kinds(due_at) == {Kind.MEASURE, Kind.CHECK}
    assert kinds(due_at, checking=True) == {Kind.MEASURE}
    facts = Facts(clock=clock, since_measure=clock - last, since_check=clock - last)
    left = due.next_due(supervised(Supervision(**supervision)), Verdict(State.RUNNING), facts, NOW)
    assert left == pytest.approx(max(0.0, due_at - clock))


# --- retries -------------------------------------------------------------------------------------


FOR_EVER = float("inf")


def after(
    supervision: Supervision, how: Verdict, ran: float = 1.0, left: float = FOR_EVER, **status: Any
) -> After:
    status = {"started": NOW - timedelta(seconds=ran), **status}
    return retry.after_end(supervised(supervision, **status), how, NOW, NOW, left)


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
    supervision = Supervision(retries=3, retry_on=(wanted.value,))
    assert (after(supervision, ENDS[end]).retry_at is not None) == (wanted in (end, Retry.ALWAYS))


@pytest.mark.parametrize(
    "how",
    [
        Verdict(State.STOPPED, cause=Cause.STOPPED),
        Verdict(State.FAILED, cause=Cause.EXIT, exit_code=125),
        Verdict(State.FAILED, cause=Cause.LAUNCH),  # whoever has started it was told
        Verdict(State.TIMEOUT, cause=Cause.LAUNCH),
    ],
)
def test_ends_that_are_never_retried(how: Verdict) -> None:
    assert after(Supervision(retries=3, retry_on=("always",)), how) == After(None, 0)


@pytest.mark.parametrize("state", [State.FAILED, State.TIMEOUT])
def test_a_retry_that_could_not_be_launched_is_retried(state: State) -> None:
    how = Verdict(state, cause=Cause.LAUNCH)
    assert after(Supervision(retries=3), how, retries=1).retry_at is not None


def test_a_launch_that_took_too_long_is_a_failure_and_a_timeout() -> None:
    too_late = Verdict(State.TIMEOUT, cause=Cause.LAUNCH)
    retried = {
        wanted
        for wanted in Retry
        if after(Supervision(retries=3, retry_on=(wanted.value,)), too_late, retries=1).retry_at
    }
    assert retried == {Retry.FAILURE, Retry.TIMEOUT, Retry.ALWAYS}


def test_the_delays_double_up_to_the_longest() -> None:
    supervision = Supervision(retries=9, retry_delay=10.0, retry_max_delay=300.0)
    plain = [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0, 300.0]
    for number, expected in enumerate(plain, 1):
        found = retry.delay(supervision, number, f"demo.{number}")
        assert expected * 0.95 <= found <= min(expected * 1.05, 300.0)
        assert found == retry.delay(supervision, number, f"demo.{number}")


def test_the_delays_are_exact() -> None:
    """What a launch is called bends its delay, and nothing else does."""
    supervision = Supervision(retries=9, retry_delay=10.0, retry_max_delay=300.0)
    found = [round(retry.delay(supervision, number, f"demo.{number}"), 3) for number in range(1, 8)]
    assert found == [10.138, 19.456, 39.209, 82.594, 162.252, 300.0, 300.0]


def test_retries_are_counted_and_used_up() -> None:
    supervision = Supervision(retries=2)
    assert after(supervision, FAILED, retries=1).retry_at is not None
    assert after(supervision, FAILED, retries=2) == After(None, 2, "all 2 retries are used up")


NO_TIME = "not retried: its timeout (1m) leaves no time for it"


@pytest.mark.parametrize(
    ("end", "left", "used", "retried", "told"),
    [
        ("failure", 9.0, 0, False, NO_TIME),  # its retry would be in ten seconds
        ("failure", 11.0, 0, True, None),
        ("failure", 11.0, 1, False, NO_TIME),  # in twenty
        ("lost", -5.0, 0, False, NO_TIME),
        ("timeout", 11.0, 0, True, None),  # by another limit
        ("timeout", 9.0, 0, False, NO_TIME),
        ("timeout", 0.0, 0, False, None),  # this one: it has had its time
        ("timeout", -1.0, 3, False, None),
        ("always", -1.0, 0, False, NO_TIME),
    ],
)
def test_no_retry_outlives_the_timeout(
    end: str, left: float, used: int, retried: bool, told: str | None
) -> None:
    supervision = Supervision(timeout=60.0, retries=3, retry_delay=10.0, retry_on=("always",))
    found = after(supervision, ENDS[end], left=left, retries=used)
    assert (found.retry_at is not None, found.gave_up) == (retried, told)


def test_an_end_that_is_seen_late_has_waited_already() -> None:
    supervision = Supervision(timeout=60.0, retries=3, retry_delay=10.0)
    late = NOW + timedelta(seconds=8)
    assert retry.after_end(supervised(supervision), FAILED, NOW, late, 4.0).retry_at is not None
    assert retry.after_end(supervised(supervision), FAILED, NOW, late, 1.0).gave_up == NO_TIME
    year = NOW - timedelta(days=365)  # the clock was set back: it waits no longer than its delay
    assert retry.after_end(supervised(supervision), FAILED, NOW, year, 12.0).retry_at is not None


@pytest.mark.parametrize(
    ("life", "kinds", "left"),
    [
        (None, [], 5.0),
        (54.0, [], 5.0),
        (56.0, [], 4.0),
        (60.0, [Kind.GIVE_UP], 0.0),
        (61.0, [Kind.GIVE_UP], 0.0),
    ],
)
def test_a_retry_after_the_timeout_is_given_up(
    life: float | None, kinds: list[Kind], left: float
) -> None:
    """As when a breaker has put it off."""
    supervision = Supervision(timeout=60.0, retries=1)
    waiting = supervised(supervision, retry_at=NOW + timedelta(seconds=5), ended=NOW)
    how, facts = Verdict(State.RECOVERING), Facts(life=life)
    found = due.due(waiting, how, facts, NOW)
    assert [action.kind for action in found] == kinds
    assert due.next_due(waiting, how, facts, NOW) == pytest.approx(left)


@pytest.mark.parametrize(("lived", "expected"), [(0.0, 60.0), (59.0, 1.0), (61.0, 0.0)])
def test_the_first_look_at_a_launch_is_when_its_timeout_is_over(
    lived: float, expected: float
) -> None:
    assert due.first_due(supervised(Supervision(timeout=60.0), lived=lived), 1000.0) == expected


@pytest.mark.parametrize(("ran", "used"), [(599.9, 2), (600.0, 0)])
def test_all_retries_are_available_after_a_healthy_run(ran: float, used: int) -> None:
    found = after(Supervision(retries=3, retry_reset=600.0), FAILED, ran, retries=2)
    assert found.retries == used


@pytest.mark.parametrize("cause", [Cause.HEALTH, Cause.TIMEOUT, Cause.LIMIT])
def test_an_end_that_sesh_had_to_make_gives_back_no_retries(cause: Cause) -> None:
    supervision = Supervision(retries=1, retry_reset=1.0, retry_on=("timeout", "failure"))
    how = Verdict(ended_by(cause), cause=cause)
    assert after(supervision, how, 1e6, retries=1) == After(None, 1, "its one retry is used up")
    assert after(supervision, how, 1e6).retry_at is not None


@pytest.mark.parametrize("health", [Health.HUNG, Health.FAILING])
def test_the_end_of_an_unhealthy_session_gives_back_no_retries(health: Health) -> None:
    assert after(Supervision(retries=1), FAILED, 1e6, retries=1, health=health).gave_up


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
    waiting = supervised(Supervision(retries=1), retry_at=NOW + timedelta(seconds=20), ended=NOW)
    found = due.due(waiting, Verdict(State.RECOVERING), Facts(), moment)
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
        ([40, 30, 20, 10, 9, 8, 1], 90),  # what fails meanwhile does not keep it open
        ([150, 149, 148, 147, 46, 45, 44, 43], 57),  # it closed, and opened again
        ([150, 149, 148, 147, 60, 50, 46, 45], None),  # some of these while it was open
    ],
)
def test_a_breaker_opens_and_closes(ago: list[int], until: int | None) -> None:
    failures = [NOW - timedelta(seconds=seconds) for seconds in ago]
    found = retry.open_until(failures, BreakerLimits(3, 60.0, 100.0), NOW)
    assert found == (None if until is None else NOW + timedelta(seconds=until))


# --- properties ----------------------------------------------------------------------------------

amounts = st.none() | st.floats(0, 1e6)
facts = st.builds(
    Facts,
    clock=st.floats(0, 1e6),
    age=amounts,
    life=amounts,
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
    Supervision,
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
def test_only_running_and_waiting_sessions_are_acted_on(
    supervision: Supervision, found: Facts, state: State, retries: int
) -> None:
    actions = due.due(supervised(supervision, retries=retries), Verdict(state), found, NOW)
    if state not in (State.RUNNING, State.RECOVERING):
        assert actions == ()
    kinds = [action.kind for action in actions]
    assert len(kinds) == len(set(kinds))
    assert Kind.END not in kinds or kinds == [Kind.END]
    assert bool({Kind.RETRY, Kind.GIVE_UP} & {*kinds}) <= (state is State.RECOVERING)


@given(cares, facts, used)
def test_the_next_look_is_never_later_than_what_is_due(
    supervision: Supervision, found: Facts, retries: int
) -> None:
    """At the time that `next_due` names and not before, `due` has something to do; limits that
    only a measurement can tell are not known beforehand."""
    one, verdict = supervised(supervision, retries=retries), Verdict(State.RUNNING)
    kinds = {action.kind for action in due.due(one, verdict, found, NOW)}
    left = due.next_due(one, verdict, found, NOW)
    if kinds & {Kind.MEASURE, Kind.CHECK}:
        assert left == 0.0
    if left is None:
        assert not supervision.watched
    else:
        assert left >= 0.0


def later(found: Facts, seconds: float) -> Facts:
    """The same, so many seconds later, if nothing happens meanwhile."""
    ages = {name: getattr(found, name) for name in ("age", "life", "silent", "unheard")}
    grown = {name: age + seconds for name, age in ages.items() if age is not None}
    since = {name: getattr(found, name) + seconds for name in ("since_measure", "since_check")}
    return replace(found, clock=found.clock + seconds, **grown, **since)


@given(cares, facts, used, st.floats(0, 1), st.sampled_from([State.RUNNING, State.RECOVERING]))
def test_before_the_next_look_nothing_new_is_due(
    supervision: Supervision, found: Facts, retries: int, part: float, state: State
) -> None:
    found = replace(found, checking=False)  # one that is under way is waited for on its own
    one = supervised(supervision, retries=retries, retry_at=NOW + timedelta(seconds=500), ended=NOW)
    verdict = Verdict(state)
    kinds = {action.kind for action in due.due(one, verdict, found, NOW)}
    left = due.next_due(one, verdict, found, NOW)
    wait = (1e6 if left is None else max(0.0, left - 0.1)) * part
    then, moment = later(found, wait), NOW + timedelta(seconds=wait)
    assert {action.kind for action in due.due(one, verdict, then, moment)} <= kinds


@given(cares, facts, used, states)
def test_actions_of_a_launch_are_due_once(
    supervision: Supervision, found: Facts, retries: int, state: State
) -> None:
    """Whoever asks next, of the record that the first has written: two passes that saw the same
    can't both write it."""
    one = supervised(supervision, retries=retries, retry_at=NOW, ended=NOW)
    for action in due.due(one, Verdict(state), found, NOW):
        if action.kind is Kind.END:
            assert due.due(one, Verdict(State.STOPPING), found, NOW) == ()
        elif action.kind is Kind.GIVE_UP:
            assert due.due(one, Verdict(State.FAILED), found, NOW) == ()
        elif action.kind is Kind.RETRY:
            assert due.due(one, Verdict(State.STARTING), found, NOW) == ()
        elif action.kind is Kind.NOTE:
            noted = supervised(supervision, retries=retries, health=action.health)
            again = due.due(noted, Verdict(state), found, NOW)
            assert Kind.NOTE not in [action.kind for action in again]
        elif action.kind is Kind.CHECK:
            begun = due.due(one, Verdict(state), replace(found, checking=True), NOW)
            assert Kind.CHECK not in [action.kind for action in begun]
        elif action.kind is Kind.MEASURE:
            measured = due.due(one, Verdict(state), replace(found, since_measure=0.0), NOW)
            assert Kind.MEASURE not in [action.kind for action in measured]


ends = st.builds(
    Verdict,
    st.sampled_from(sorted(OUTCOMES)),
    cause=st.sampled_from(Cause),
    exit_code=st.none() | st.integers(0, 255),
)


@given(cares, ends, used, st.floats(0, 1e5), st.floats(-1e5, 1e5) | st.just(FOR_EVER))
def test_retries_exceed_neither_their_number_nor_the_timeout(
    supervision: Supervision, how: Verdict, retries: int, ran: float, left: float
) -> None:
    found = after(supervision, how, ran, left, retries=retries)
    assert found.retry_at is None or found.retries < supervision.retries
    assert not (found.gave_up and found.retry_at)
    if found.retry_at is not None:
        wait = (found.retry_at - NOW).total_seconds()
        assert 0 < wait <= supervision.retry_max_delay + 1e-6
        assert wait < left + 1e-6
