"""Retries: whether an ended session is launched again, and when; and the breaker of a group that
fails too often. PURE: no I/O, no clock, no environment.

A retry is due at a time of day. A retry that a clock set back would put off is due at once.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterable
from datetime import datetime, timedelta

from sesh.model.observation import Verdict
from sesh.model.record import BreakerLimits, Record, Supervision
from sesh.model.states import Cause, Desired, Health, Retry, State
from sesh.model.text import units
from sesh.model.value_object import Value

NEVER_AGAIN = 125  # the exit status by which an agent asks not to be retried
_JITTER = 0.05  # of a delay, up or down: sessions that failed together are not retried together
_SOON, _NEVER = 0.0, float("inf")
_UNWELL = (Health.FAILING, Health.HUNG)
_BY_SESH = (Cause.HEALTH, Cause.TIMEOUT, Cause.LIMIT)


class After(Value):
    """What follows from an end: a retry, or none."""

    retry_at: datetime | None
    retries: int  # used so far
    gave_up: str | None = None  # why it is not retried, although it was to be


def after_end(
    record: Record, how: Verdict, ended: datetime, now: datetime, left: float = _NEVER
) -> After:
    """Whether it is retried, and when. Its timeout leaves it `left` seconds from now on."""
    supervision, used = record.spec.supervision, record.status.retries
    if _ended_well(record, how, ended):
        used = 0
    by_hand = record.status.retries == 0
    if (
        not supervision.retries
        or not _counts(supervision, how)
        or (how.cause is Cause.LAUNCH and by_hand)
    ):
        return After(None, used)  # the user has seen that it could not be launched
    if record.status.desired is Desired.STOPPED and record.status.stop_reason is None:
        return After(None, used)  # a person wants it to stop
    if record.status.paused is not None:
        return After(None, used, "not retried: it was paused")
    if how.state is State.TIMEOUT and left <= 0:
        return After(None, used)  # it has lived as long as it should
    if used >= supervision.retries:
        which = (
            f"all {supervision.retries} retries are"
            if supervision.retries > 1
            else "its one retry is"
        )
        return After(None, used, f"{which} used up")
    pause = delay(supervision, used + 1, record.launch)
    retry_at = ended + timedelta(seconds=pause)
    if min(max(_SOON, (retry_at - now).total_seconds()), pause) >= left:
        return After(None, used, f"not retried: {no_time(supervision)}")
    return After(retry_at, used)


def no_time(supervision: Supervision) -> str:
    return f"its timeout ({units.time(supervision.timeout)}) leaves no time for it"


def _ended_well(record: Record, how: Verdict, ended: datetime) -> bool:
    """Had it run so long that all its retries are available again? Not if sesh ended it: a session
    that hangs, or exceeds the same limit every time, would be retried for ever. (For unhealthy
    sessions, `ran_well` decides.)"""
    started = record.status.started
    if started is None or how.cause in _BY_SESH or record.status.health in _UNWELL:
        return False
    ran = (ended - started).total_seconds() - record.status.held
    return ran >= record.spec.supervision.retry_reset


def _counts(supervision: Supervision, how: Verdict) -> bool:
    """Is this end to be retried? Never if a person asked for it."""
    if how.state is State.STOPPED or how.exit_code == NEVER_AGAIN:
        return False
    kinds = {
        State.FAILED: {Retry.FAILURE},
        State.LOST: {Retry.LOST},
        State.TIMEOUT: {Retry.TIMEOUT},
    }
    what = kinds.get(how.state, set()) | {Retry.ALWAYS}
    if how.cause is Cause.LAUNCH:  # also if it was too late: nothing of it ever ran
        what |= {Retry.FAILURE}
    return not what.isdisjoint(supervision.retry_on)


def delay(supervision: Supervision, attempt: int, seed: str) -> float:
    """Seconds before an attempt: doubled each time, the same for the same launch."""
    plain = supervision.retry_delay * 2.0 ** min(attempt - 1, 60)
    bent = plain * (1 - _JITTER + 2 * _JITTER * crc32(seed.encode()) / 0xFFFFFFFF)
    return min(bent, supervision.retry_max_delay)


def wait(record: Record, now: datetime) -> float:
    """Seconds until the next retry. If that is longer than any delay, the clock was set: 0."""
    at = record.status.retry_at
    if at is None:
        return _SOON
    left = (at - now).total_seconds()
    ended = record.status.ended
    longest = (at - ended).total_seconds() if ended else left
    return _SOON if left > longest + 1 else left


def open_until(
    failures: Iterable[datetime], limits: BreakerLimits, now: datetime
) -> datetime | None:
    """Until when the breaker of these failures is open; None: closed. Failures while it is open (of
    sessions that ran before, or that a person started) do not keep it open."""
    if not limits.failures:
        return None
    until: datetime | None = None
    recent: list[datetime] = []
    for moment in sorted(moment for moment in failures if moment <= now):
        if until is not None and moment < until:
            continue
        since = moment - timedelta(seconds=limits.within)
        recent = [earlier for earlier in recent if earlier >= since] + [moment]
        if len(recent) > limits.failures:
            until, recent = moment + timedelta(seconds=limits.cooldown), []
    return until if until is not None and until > now else None
