"""The one decider: a table of what can occur, and properties of whatever may occur."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.model.observation import ExitReport, Observation, Presence, Sight, absent, seen, unknown
from sesh.model.place import ContainerRequest
from sesh.model.reconcile import reconcile
from sesh.model.record import Damaged, Record, Supervision
from sesh.model.states import ENDED, OUTCOMES, Cause, Desired, State
from sesh.model.value_object import replace
from tests.samples import NOW, exit_word, launch_word, record

ALIVE = seen("process 4711 is alive")
GONE = absent("process 4711 is gone")
HERE = seen("stands")
CLOSED = absent("its terminal was closed")
MUTE = unknown("tmux does not answer")
LATER = NOW + timedelta(hours=1)

RUNNING = record()
CLAIMED = record(launched=False)
STOPPING = record(desired=Desired.STOPPED)
LIMITED = record(desired=Desired.STOPPED, stop_reason="ran too long")
PAUSED = record(paused=NOW)
RETRYING = record(
    outcome=State.FAILED, cause=Cause.EXIT, exit_code=1, reason="exit 1",
    retry_at=LATER, retries=1, retries_max=3, ended=NOW,
)  # fmt: skip


def boxed(box: ContainerRequest, **supervision: object) -> Record:
    return replace(
        RUNNING,
        spec=replace(RUNNING.spec, box=box, supervision=replace(Supervision(), **supervision)),
    )


BOXED = boxed(ContainerRequest(image="box"), max_memory=50 << 20)


def ended(outcome: State, desired: Desired = Desired.RUNNING, cause: Cause | None = None) -> Record:
    return record(outcome=outcome, ended=NOW, reason="as recorded", desired=desired, cause=cause)


@pytest.mark.parametrize(
    ("what", "rec", "sight", "state", "cause"),
    [
        # alive
        ("alive", RUNNING, Observation(ALIVE, HERE), "running", None),
        ("alive, tmux mute", RUNNING, Observation(ALIVE, MUTE), "running", None),
        ("alive, stopped by a signal", RUNNING, Observation(ALIVE, HERE, frozen=True), "running",
         None),
        ("alive and paused", PAUSED, Observation(ALIVE, HERE), "paused", None),
        ("alive without terminal", RUNNING, Observation(ALIVE, CLOSED), "orphan", None),
        ("alive, record says completed", ended(State.COMPLETED), Observation(ALIVE, HERE),
         "orphan", None),
        ("alive, record says stopped", ended(State.STOPPED, desired=Desired.STOPPED),
         Observation(ALIVE, HERE), "orphan", None),
        ("alive beside an exit file", RUNNING, Observation(ALIVE, HERE, exit=exit_word()),
         "orphan", None),
        ("alive beside an old exit file", RUNNING,
         Observation(ALIVE, HERE, exit=exit_word(generation=1)), "running", None),
        # cannot be asked
        ("unknown", RUNNING, Observation(MUTE), "unknown", None),
        ("unknown while starting", CLAIMED, Observation(MUTE), "unknown", None),
        ("unknown while stopping", STOPPING, Observation(MUTE), "unknown", None),
        ("unknown, but an exit file", RUNNING, Observation(MUTE, exit=exit_word(3)), "failed",
         "exit"),
        ("unknown, but an old exit file", RUNNING, Observation(MUTE, exit=exit_word(generation=1)),
         "unknown", None),
        ("unknown, but recorded", ended(State.FAILED), Observation(MUTE), "failed", None),
        # starting
        ("claimed", CLAIMED, Observation(GONE), "starting", None),
        ("claimed long ago", record(launched=False), Observation(GONE), "timeout", "launch"),
        ("claimed, its container gone", CLAIMED, Observation(GONE, container=GONE), "failed",
         "launch"),
        ("claimed, rebooted", CLAIMED, Observation(GONE, rebooted=True), "lost", "reboot"),
        ("launched, ended at once", CLAIMED,
         Observation(GONE, HERE, launch=launch_word(), exit=exit_word(3)), "failed", "exit"),
        ("could not be executed", CLAIMED,
         Observation(GONE, exit=exit_word(127, problem="command not found")), "failed", "launch"),
        ("an older launch's word", CLAIMED, Observation(GONE, launch=launch_word(generation=1)),
         "starting", None),
        # stopping
        ("asked, alive", STOPPING, Observation(ALIVE, HERE), "stopping", None),
        ("asked, alive without terminal", STOPPING, Observation(ALIVE, CLOSED), "stopping", None),
        ("asked, gone, rest not looked for", STOPPING, Observation(GONE, HERE), "stopping", None),
        ("asked, gone, something remains", STOPPING,
         Observation(GONE, HERE, remains=seen("1 process")), "stopping", None),
        ("asked, exit file, something remains", STOPPING,
         Observation(GONE, exit=exit_word(143), remains=seen("1 process")), "stopping", None),
        ("asked, all gone", STOPPING,
         Observation(GONE, HERE, remains=absent("none"), exit=exit_word(143)), "stopped",
         "stopped"),
        ("asked, gone with its terminal", STOPPING,
         Observation(GONE, CLOSED, remains=absent("none")), "stopped", "stopped"),
        ("asked, rebooted", STOPPING,
         Observation(GONE, GONE, GONE, GONE, rebooted=True), "stopped", "stopped"),
        ("over its limit, alive", LIMITED, Observation(ALIVE, HERE), "stopping", None),
        ("over its limit, all gone", LIMITED,
         Observation(GONE, HERE, remains=absent("none"), exit=exit_word(143)), "timeout", "limit"),
        ("stopped", ended(State.STOPPED, desired=Desired.STOPPED), Observation(GONE), "stopped",
         None),
        # retry
        ("retry is due", RETRYING, Observation(GONE), "recovering", "exit"),
        ("retry, but stopped", replace(RETRYING, status=replace(RETRYING.status,
         desired=Desired.STOPPED)), Observation(GONE), "failed", "exit"),
        # ends
        ("exit 0", RUNNING, Observation(GONE, HERE, exit=exit_word(0)), "completed", "exit"),
        ("exit 0, another pane lives", RUNNING,
         Observation(GONE, HERE, others=seen("1 other pane"), exit=exit_word(0)), "stale", "exit"),
        ("exit 3, another pane lives", RUNNING,
         Observation(GONE, HERE, others=seen("1 other pane"), exit=exit_word(3)), "failed", "exit"),
        ("recorded end, another pane lives", ended(State.COMPLETED),
         Observation(GONE, HERE, others=seen("1 other pane")), "stale", None),
        ("exit 3", RUNNING, Observation(GONE, HERE, exit=exit_word(3)), "failed", "exit"),
        ("SIGKILL", RUNNING, Observation(GONE, HERE, exit=exit_word(137)), "failed", "signal"),
        ("exit 255 is no signal", RUNNING, Observation(GONE, HERE, exit=exit_word(255)), "failed",
         "exit"),
        ("hung up, 129", RUNNING, Observation(GONE, CLOSED, exit=exit_word(129, terminal=False)),
         "lost", "terminal-gone"),
        ("hung up, bash says 0", RUNNING,
         Observation(GONE, CLOSED, exit=exit_word(0, terminal=False)), "lost", "terminal-gone"),
        ("gone with its terminal, no word", RUNNING, Observation(GONE, CLOSED), "lost",
         "terminal-gone"),
        ("gone, keeper killed", RUNNING, Observation(GONE, HERE), "lost", "unknown"),
        ("gone, keeper killed, another pane lives", RUNNING,
         Observation(GONE, HERE, others=seen("1 other pane")), "stale", "unknown"),
        ("rebooted", RUNNING, Observation(GONE, GONE, rebooted=True), "lost", "reboot"),
        ("rebooted after its exit", RUNNING,
         Observation(GONE, GONE, rebooted=True, exit=exit_word(0)), "completed", "exit"),
        ("recorded timeout", ended(State.TIMEOUT, cause=Cause.TIMEOUT), Observation(GONE),
         "timeout", "timeout"),
        ("old exit file beside a gone agent", RUNNING,
         Observation(GONE, CLOSED, exit=exit_word(0, generation=1)), "lost", "terminal-gone"),
        # in a container
        ("exit 0, its container runs on", RUNNING,
         Observation(GONE, others=seen("its container"), container=HERE, exit=exit_word(0)),
         "stale", "exit"),
        ("exit 3, its container runs on", RUNNING,
         Observation(GONE, others=seen("its container"), container=HERE, exit=exit_word(3)),
         "failed", "exit"),
        ("gone with its container", RUNNING, Observation(GONE, container=absent("gone")), "lost",
         "container-gone"),
        ("its container ran out of memory", RUNNING,
         Observation(GONE, container=absent("stopped"), oom=True), "failed", "oom"),
        ("killed, and the container ran out of memory", RUNNING,
         Observation(GONE, container=HERE, exit=exit_word(137), oom=True), "failed", "oom"),
        ("exit 1 where something else ran out of memory", RUNNING,
         Observation(GONE, container=HERE, exit=exit_word(1), oom=True), "failed", "exit"),
        ("the kernel has chosen tmux", RUNNING,
         Observation(GONE, container=HERE, exit=exit_word(129, terminal=False), oom=True),
         "failed", "oom"),
        ("killed at the limit that its engine has from us", BOXED,
         Observation(GONE, container=HERE, exit=exit_word(137), oom=True), "timeout", "limit"),
        ("the kernel has chosen tmux at that limit", BOXED,
         Observation(GONE, container=HERE, exit=exit_word(129, terminal=False), oom=True),
         "timeout", "limit"),
        ("its container was ended at that limit", BOXED,
         Observation(GONE, container=absent("stopped"), oom=True), "timeout", "limit"),
        ("killed by somebody below that limit", BOXED,
         Observation(GONE, container=HERE, exit=exit_word(137)), "failed", "signal"),
        ("its word, then its container went", RUNNING,
         Observation(GONE, container=absent("gone"), exit=exit_word(0)), "completed", "exit"),
        ("alive, its container is paused", RUNNING, Observation(ALIVE, HERE, paused=True),
         "paused", None),
        ("its engine can't be asked", RUNNING, Observation(MUTE, container=MUTE), "unknown", None),
        ("asked, gone, its container is there", STOPPING,
         Observation(GONE, container=HERE, remains=seen("its container")), "stopping", None),
        ("asked, gone, the engine is mute", STOPPING,
         Observation(GONE, container=MUTE, remains=MUTE), "stopping", None),
        ("asked, gone with its container", STOPPING,
         Observation(GONE, container=absent("gone"), remains=absent("nothing")), "stopped",
         "stopped"),
    ],
)  # fmt: skip
def test_table(what: str, rec: Record, sight: Observation, state: str, cause: str | None) -> None:
    now = LATER if what == "claimed long ago" else NOW
    verdict = reconcile(rec, sight, now)
    assert (verdict.state, verdict.cause) == (state, cause)


def test_damaged() -> None:
    verdict = reconcile(Damaged("x", "/x.toml", "empty file"), Observation(MUTE), NOW)
    assert verdict.state is State.DAMAGED
    assert verdict.reason == "empty file"


def test_exit_status_and_signal_are_kept() -> None:
    verdict = reconcile(RUNNING, Observation(GONE, HERE, exit=exit_word(143)), NOW)
    assert (verdict.exit_code, verdict.signal, verdict.reason) == (143, 15, "killed by SIGTERM")


@pytest.mark.parametrize(
    ("command", "code", "signal"),
    [
        (("sh",), 130, None),
        (("/usr/bin/zsh", "-il"), 130, None),
        (("bash", "--login"), 130, None),
        (("sh",), 137, 9),  # this it cannot ignore
        (("sh", "-c", "sleep 9"), 130, 2),
        (("bash", "script"), 130, 2),
        (("python3",), 130, 2),
    ],
)
def test_an_interactive_shell_is_not_killed_by_an_interrupt(
    command: tuple[str, ...], code: int, signal: int | None
) -> None:
    record = replace(RUNNING, spec=replace(RUNNING.spec, command=command))
    found = reconcile(record, Observation(GONE, HERE, exit=exit_word(code)), NOW)
    assert (found.state, found.exit_code, found.signal) == ("failed", code, signal)
    assert found.cause == ("signal" if signal else "exit")
    assert signal or found.reason == "exit 130"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (137, "killed by SIGKILL, perhaps by the kernel at max-memory (1G)"),
        (143, "killed by SIGTERM"),
    ],
)
def test_a_kill_in_a_scope_may_be_the_kernels(code: int, reason: str) -> None:
    scoped = replace(RUNNING.spec, supervision=Supervision(scope=True, max_memory=1 << 30))
    found = reconcile(replace(RUNNING, spec=scoped), Observation(GONE, exit=exit_word(code)), NOW)
    assert (found.state, found.cause, found.reason) == ("failed", "signal", reason)


@pytest.mark.parametrize(
    ("sight", "reason"),
    [
        (Observation(GONE, exit=exit_word(137), oom=True), "killed at max-memory (50M)"),
        (
            Observation(GONE, exit=exit_word(129, terminal=False), oom=True),
            "killed at max-memory (50M): its terminal was closed",
        ),
        (
            Observation(GONE, container=absent("its container has stopped"), oom=True),
            "killed at max-memory (50M): its container has stopped",
        ),
    ],
)
def test_a_container_over_the_limit_names_it(sight: Observation, reason: str) -> None:
    assert reconcile(BOXED, sight, NOW).reason == reason


@pytest.mark.parametrize(
    "box",
    [
        ContainerRequest(image="box", memory="32m"),
        ContainerRequest(existing="mine"),
        ContainerRequest(image="box", options=("--memory=32m",)),
        ContainerRequest(image="box", options=("-m", "32m")),
    ],
)
def test_memory_used_up_at_another_limit_is_not_ours(box: ContainerRequest) -> None:
    rec = boxed(box, max_memory=50 << 20)
    verdict = reconcile(rec, Observation(GONE, exit=exit_word(137), oom=True), NOW)
    assert (verdict.state, verdict.cause) == (State.FAILED, Cause.OOM)
    assert verdict.reason == "killed: out of memory"


def test_the_kernels_limit_on_processor_time_lies_beyond_ours() -> None:
    rec = replace(RUNNING, spec=replace(RUNNING.spec, supervision=Supervision(max_cpu_time=1.0)))
    verdict = reconcile(rec, Observation(GONE, HERE, exit=exit_word(152)), NOW)
    assert (verdict.state, verdict.cause) == (State.TIMEOUT, Cause.LIMIT)
    assert verdict.reason == "ended by the kernel beyond max-cpu-time (1s)"


def test_a_stop_keeps_the_exit_status() -> None:
    sight = Observation(GONE, HERE, remains=absent("none"), exit=exit_word(7))
    assert reconcile(STOPPING, sight, NOW).exit_code == 7


@pytest.mark.parametrize(
    ("rec", "last"),
    [(RUNNING, "running"), (CLAIMED, "starting"), (STOPPING, "stopping"), (PAUSED, "paused")],
)
def test_unknown_says_what_was_last_known(rec: Record, last: str) -> None:
    assert reconcile(rec, Observation(MUTE), NOW).last_known == last


def test_a_failed_session_that_a_user_stopped_needs_no_attention() -> None:
    failed = ended(State.FAILED)
    stopped = replace(failed, status=replace(failed.status, desired=Desired.STOPPED))
    assert reconcile(failed, Observation(GONE), NOW).attention == "as recorded"
    assert reconcile(stopped, Observation(GONE), NOW).attention is None


def test_every_end_can_be_reached() -> None:
    """No combination of what can occur is left out: each state has a line in the table."""
    marks = getattr(test_table, "pytestmark")[0]  # noqa: B009  # mypy knows no pytestmark
    assert {line[3] for line in marks.args[1]} | {"damaged"} == {str(state) for state in State}


# --- properties ---------------------------------------------------------------------------------

sights = st.sampled_from([Sight(presence, presence.value) for presence in Presence])
exits = st.none() | st.builds(
    exit_word,
    st.integers(0, 255),
    generation=st.integers(1, 4),
    terminal=st.booleans(),
    problem=st.none() | st.just("command not found"),
)
observations = st.builds(
    Observation,
    sights,
    sights,
    sights,
    sights,
    exit=exits,
    launch=st.none() | st.builds(launch_word, generation=st.integers(1, 4)),
    rebooted=st.booleans(),
    frozen=st.booleans(),
    paused=st.booleans(),
    container=sights,
    oom=st.booleans(),
)
records = st.builds(
    record,
    launched=st.booleans(),
    generation=st.integers(1, 4),
    desired=st.sampled_from(Desired),
    outcome=st.none() | st.sampled_from(sorted(OUTCOMES)),
    paused=st.none() | st.just(NOW),
    retry_at=st.none() | st.just(LATER),
)
moments = st.integers(-100, 100).map(lambda seconds: NOW + timedelta(seconds=seconds))


@given(records, observations, moments)
def test_total_and_repeatable(rec: Record, sight: Observation, now: datetime) -> None:
    """Exactly one state for every combination, the same each time."""
    first = reconcile(rec, sight, now)
    assert first.state is not State.DAMAGED
    assert first == reconcile(rec, sight, now)


def _word_of_this(rec: Record, sight: Observation) -> ExitReport | None:
    word = sight.exit
    return word if word and word.generation == rec.place.generation else None


@given(records, observations)
def test_unknown_never_ends(rec: Record, sight: Observation) -> None:
    """Without an exit file of this generation (or an end on record), UNKNOWN ends nothing."""
    if rec.status.outcome is None and _word_of_this(rec, sight) is None:
        verdict = reconcile(rec, replace(sight, agent=MUTE), NOW)
        assert verdict.state is State.UNKNOWN
        assert verdict.state not in ENDED


@given(records, observations, st.integers(1, 4), st.integers(0, 255))
def test_an_old_report_changes_nothing(
    rec: Record, sight: Observation, generation: int, code: int
) -> None:
    if generation != rec.place.generation:
        without = reconcile(rec, replace(sight, exit=None, launch=None), NOW)
        words = replace(
            sight,
            exit=exit_word(code, generation=generation),
            launch=launch_word(generation=generation),
        )
        assert replace(reconcile(rec, words, NOW), evidence=()) == replace(without, evidence=())


@given(records, observations)
def test_stopped_only_when_confirmed(rec: Record, sight: Observation) -> None:
    verdict = reconcile(rec, sight, NOW)
    if verdict.state is State.STOPPED and rec.status.outcome is not State.STOPPED:
        assert rec.status.desired is Desired.STOPPED
        assert sight.remains.absent
        assert not sight.agent.present
        assert sight.agent.absent or _word_of_this(rec, sight)


@given(records, observations, moments)
def test_valid_until(rec: Record, sight: Observation, now: datetime) -> None:
    """The same observation gives the same verdict until just before that moment."""
    verdict = reconcile(rec, sight, now)
    moment = timedelta(microseconds=1)
    if verdict.valid_until is None:
        assert reconcile(rec, sight, LATER) == verdict
    else:
        assert verdict.valid_until > now
        assert reconcile(rec, sight, verdict.valid_until - moment) == verdict
        assert reconcile(rec, sight, verdict.valid_until) != verdict


@given(records, observations)
def test_living_sessions_are_never_ended(rec: Record, sight: Observation) -> None:
    verdict = reconcile(rec, replace(sight, agent=ALIVE), NOW)
    assert verdict.state not in ENDED


def test_all_combinations_of_sights_give_a_state() -> None:
    """Every record of the table × every combination of what a probe can see."""
    recs = [RUNNING, CLAIMED, STOPPING, PAUSED, RETRYING, *map(ended, sorted(OUTCOMES))]
    words = [None, exit_word(0), exit_word(3), exit_word(0, generation=1)]
    kinds = [ALIVE, GONE, MUTE]
    count = 0
    for rec, agent, terminal, others, remains, word, boot in product(
        recs, kinds, kinds, kinds, kinds, words, [False, True]
    ):
        sight = Observation(agent, terminal, others, remains, exit=word, rebooted=boot)
        assert reconcile(rec, sight, NOW).state in State
        count += 1
    assert count == len(recs) * 3**4 * 4 * 2


def test_a_session_ended_by_a_limit_needs_attention_until_it_is_stopped() -> None:
    sight = Observation(GONE, HERE, remains=absent("none"))
    assert reconcile(LIMITED, sight, NOW).attention == "ran too long"
    over = ended(State.TIMEOUT, desired=Desired.STOPPED)
    limited = replace(over, status=replace(over.status, stop_reason="ran too long"))
    assert reconcile(limited, sight, NOW).attention is not None
    assert reconcile(over, sight, NOW).attention is None


@pytest.mark.parametrize(("tries", "asks"), [(0, False), (4, False), (5, True), (6, True)])
def test_a_stop_that_was_tried_often_needs_attention(tries: int, asks: bool) -> None:
    sight = Observation(ALIVE, HERE)
    verdict = reconcile(record(desired=Desired.STOPPED, stop_tries=tries), sight, NOW)
    assert verdict.state is State.STOPPING
    assert (verdict.attention is not None) is asks


@pytest.mark.parametrize(
    ("wanted", "branch", "attention"),
    [
        ("main", seen("main"), None),
        ("main", seen("other"), "on branch other, should be on main"),
        ("main", absent("on no branch"), "on no branch, should be on main"),
        ("main", unknown("can't be read"), None),
        (None, seen("other"), None),
    ],
)
@pytest.mark.parametrize("rec", [RUNNING, PAUSED])
def test_a_living_session_on_another_branch_needs_attention(
    rec: Record, wanted: str | None, branch: Sight, attention: str | None
) -> None:
    rec = replace(rec, spec=replace(rec.spec, branch=wanted))
    verdict = reconcile(rec, Observation(ALIVE, HERE, branch=branch), NOW)
    assert verdict.attention == attention
    over = reconcile(rec, Observation(GONE, HERE, exit=exit_word(0), branch=branch), NOW)
    assert (over.state, over.attention) == (State.COMPLETED, None)
