"""What is due for a supervised session. PURE: no I/O, no clock, no environment.

`due` decides from record, verdict and facts which actions are due now, `next_due` when to look
again. Ages count by a clock that cannot be set.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from math import ceil

from sesh.model.observation import Verdict
from sesh.model.reconcile import unhealthy
from sesh.model.record import Record, Supervision
from sesh.model.retry import delay, no_time, wait
from sesh.model.states import Cause, Health, Retry, State
from sesh.model.text import units
from sesh.model.text.units import amount
from sesh.model.value_object import Value

_SOON, _NEVER = 0.0, float("inf")
_ENGINE = 5.0  # seconds that an engine may take beyond the time limit of a command
_UNWELL = (Health.FAILING, Health.HUNG)
_HUNG_AGAIN = 30.0  # seconds until the next look at a hung session


class Kind(StrEnum):
    END = "end"  # stop it, because of `cause`
    RETRY = "retry"  # launch the next generation
    MEASURE = "measure"  # measure its memory and processor time
    CHECK = "check"  # run its health command
    NOTE = "note"  # its health has changed
    GIVE_UP = "give-up"  # cancel its retry


class Action(Value):
    """One action for one session."""

    kind: Kind
    why: str = ""
    cause: Cause | None = None
    health: Health | None = None
    ran_well: bool = False  # it was healthy long enough to have all its retries again


class Facts(Value):
    """What is known of a living agent beside its record. Unknown facts (None) are not judged."""

    clock: float = 0.0  # the uptime in seconds: actions with the same interval are due together
    age: float | None = None  # seconds that this launch has run, without pauses
    life: float | None = None  # the same for all launches, with the waits between them
    silent: float | None = None  # seconds since its last output, or since it began
    unheard: float | None = None  # the same; a report of its own counts as output
    memory: int | None = None
    cpu: float | None = None
    since_measure: float | None = None  # seconds since the last measurement, or since it began
    since_check: float | None = None
    checking: bool = False  # a health command is running
    checks: int = 0  # health commands that have ended
    failures: int = 0  # the last checks in a row that failed, after the start period
    last_failure: str = ""
    breaker_open: bool = False  # a breaker is open: it would not be retried now


# --- actions -------------------------------------------------------------------------------------


def due(record: Record, verdict: Verdict, facts: Facts, now: datetime) -> tuple[Action, ...]:
    """The actions that are due now: none for unknown, paused, stopping and ended sessions."""
    supervision = record.spec.supervision
    if verdict.state is State.RECOVERING:
        if _life_left(supervision, facts) <= 0:
            return (Action(Kind.GIVE_UP, no_time(supervision)),)
        return (Action(Kind.RETRY),) if wait(record, now) <= 0 else ()
    if verdict.state is not State.RUNNING:
        return ()
    end = _over(record, facts)
    if end is not None:
        return (end,)
    health, why = _health(record, facts)
    if health in _UNWELL:
        ran_well = _well_for(supervision, facts) >= supervision.retry_reset
        if _may_retry(record, facts, ran_well=ran_well):
            return (Action(Kind.END, unhealthy(health, why), Cause.HEALTH, ran_well=ran_well),)
    actions = []
    if health is not None and health is not record.status.health:
        actions.append(Action(Kind.NOTE, why, health=health))
    if _left(facts.clock, facts.since_measure, _measured(supervision)) <= 0:
        actions.append(Action(Kind.MEASURE))
    if _left(facts.clock, facts.since_check, _checked(supervision)) <= 0 and not facts.checking:
        actions.append(Action(Kind.CHECK))
    return tuple(actions)


def _over(record: Record, facts: Facts) -> Action | None:
    """The action for a limit that is exceeded, if any."""
    supervision = record.spec.supervision
    if supervision.timeout and _at_least(facts.life, supervision.timeout):
        earlier = ", earlier launches included" if record.status.lived else ""
        why = f"ran for its timeout ({units.time(supervision.timeout)}){earlier}"
        return Action(Kind.END, why, Cause.TIMEOUT)
    if supervision.idle_timeout and _at_least(facts.silent, supervision.idle_timeout):
        why = f"printed nothing for its idle timeout ({units.time(supervision.idle_timeout)})"
        return Action(Kind.END, why, Cause.TIMEOUT)
    if (
        supervision.max_memory
        and facts.memory is not None
        and facts.memory > supervision.max_memory
    ):
        used = f"{facts.memory / (1 << 20):.0f}M"
        why = f"used more memory than max-memory: {used} of {amount(supervision.max_memory)}"
        return Action(Kind.END, why, Cause.LIMIT)
    if supervision.max_cpu_time and _at_least(facts.cpu, supervision.max_cpu_time):
        used = f"{facts.cpu:.0f}s of {units.time(supervision.max_cpu_time)}"
        why = f"used more processor time than max-cpu-time: {used}"
        return Action(Kind.END, why, Cause.LIMIT)
    return None


def _health(record: Record, facts: Facts) -> tuple[Health | None, str]:
    """Its health, and why; None when that is not known yet."""
    supervision = record.spec.supervision
    if supervision.max_silence and _at_least(facts.unheard, supervision.max_silence):
        return Health.HUNG, f"silent for {units.time(supervision.max_silence)}"
    if supervision.health_cmd and facts.failures >= max(1, supervision.health_retries):
        return Health.FAILING, _failed_check(facts.last_failure)
    speaks_again = record.status.health is Health.HUNG
    if (
        supervision.max_silence
        and facts.unheard is None
        and (speaks_again or not supervision.health_cmd)
    ):
        return None, ""
    if supervision.health_cmd and (facts.failures or not facts.checks) and not speaks_again:
        return None, ""
    return (Health.OK, "") if supervision.health_cmd or supervision.max_silence else (None, "")


def _failed_check(why: str) -> str:
    """Why it is unhealthy: the result of its last health check."""
    if why.startswith("exit "):
        return f"health check exited {why.removeprefix('exit ')}"
    if why.startswith("took "):
        return f"health check {why}"
    return f"health check failed: {why}" if why else "health check failed"


def _well_for(supervision: Supervision, facts: Facts) -> float:
    """Seconds that it ran before it became unhealthy; 0 if not known."""
    well = facts.age or 0.0
    if supervision.max_silence and _at_least(facts.unheard, supervision.max_silence):
        well -= facts.unheard or 0.0
    if supervision.health_cmd and facts.failures:
        failing = facts.failures * supervision.health_interval + (facts.since_check or 0.0)
        well -= failing + supervision.health_start_period
    return well


def _at_least(value: float | None, limit: float) -> bool:
    return value is not None and value >= limit


def _left(clock: float, since: float | None, interval: float) -> float:
    """Seconds until an action is due that is done at multiples of an interval of the machine's
    clock, so that one pass does it for all sessions; at the earliest half an interval after the
    last time (or the launch)."""
    if not interval or since is None:
        return _NEVER
    return ceil((clock - since) / interval + 0.5) * interval - clock


def _measured(supervision: Supervision) -> float:
    """How often its memory and processor time are measured; 0: never."""
    return supervision.check_interval if supervision.max_memory or supervision.max_cpu_time else 0.0


def _checked(supervision: Supervision) -> float:
    return supervision.health_interval if supervision.health_cmd else 0.0


def next_due(record: Record, verdict: Verdict, facts: Facts, now: datetime) -> float | None:
    """Seconds until an action may be due; None: never."""
    supervision = record.spec.supervision
    if verdict.state is State.RECOVERING:
        return max(_SOON, min(_life_left(supervision, facts), wait(record, now)))
    if verdict.state is not State.RUNNING:
        return None
    waits = [
        limit - (value or 0.0)
        for limit, value in (
            (supervision.timeout, facts.life),
            (supervision.idle_timeout, facts.silent),
            (patience(record) if facts.checking else 0.0, facts.since_check),
        )
        if limit
    ]
    if supervision.max_silence:
        silence = supervision.max_silence - (facts.unheard or 0.0)
        hung = record.status.health is Health.HUNG  # it may print again
        waits.append(max(silence, _HUNG_AGAIN) if hung else silence)
    waits.append(_left(facts.clock, facts.since_measure, _measured(supervision)))
    if not facts.checking:
        waits.append(_left(facts.clock, facts.since_check, _checked(supervision)))
    return None if min(waits) == _NEVER else max(_SOON, min(waits))


def patience(record: Record) -> float:
    """Seconds that a health command may take. In a container it is ended in there at its time
    limit; an engine that does not answer even then tells nothing about the session."""
    return record.spec.supervision.health_timeout + (0.0 if record.place.calls_back else _ENGINE)


def first_due(record: Record, clock: float) -> float:
    """Seconds from the launch to the first action that may be due."""
    supervision = record.spec.supervision
    life = max(_SOON, supervision.timeout - record.status.lived) if supervision.timeout else _NEVER
    limits = (supervision.idle_timeout or _NEVER, supervision.max_silence or _NEVER)
    return min(
        *(life, *limits),
        _left(clock, 0.0, _measured(supervision)),
        _left(clock, 0.0, _checked(supervision)),
    )


def silence(
    now: float, age: float, started: float, last: float, naps: Sequence[tuple[float, float]] = ()
) -> float:
    """Seconds of silence. Only the times of files show that: if the clock was set forward since the
    session began, they are too old by that much. Time in which the machine was suspended does not
    count."""
    moved = max(0.0, now - age - started)
    return awake(max(0.0, min(age, now - max(last, started) - moved)), naps)


def awake(seconds: float, naps: Sequence[tuple[float, float]]) -> float:
    """How many of the last `seconds` the machine was not suspended. Each nap comes with the number
    of seconds since it was noticed and with its length: it ended before it was noticed."""
    return max(0.0, seconds - sum(min(still, max(0.0, seconds - ago)) for ago, still in naps))


def _may_retry(record: Record, facts: Facts, *, ran_well: bool) -> bool:
    """Would it be retried if it failed now?"""
    supervision, used = record.spec.supervision, 0 if ran_well else record.status.retries
    wanted = {Retry.FAILURE.value, Retry.ALWAYS.value} & set(supervision.retry_on)
    in_time = delay(supervision, used + 1, record.launch) < _life_left(supervision, facts)
    return bool(wanted) and used < supervision.retries and in_time and not facts.breaker_open


def _life_left(supervision: Supervision, facts: Facts) -> float:
    return supervision.timeout - (facts.life or 0.0) if supervision.timeout else _NEVER
