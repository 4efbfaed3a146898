"""The request to stop a session: recorded, taken over, or withdrawn.

It is recorded before any signal, so that a stop that is interrupted anywhere is known.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sesh.model.errors import CannotTellError, NotPermittedError
from sesh.model.observation import Session
from sesh.model.record import Record, Status
from sesh.model.states import ALIVE, Cause, Desired, State
from sesh.model.value_object import Value, replace
from sesh.state import events, lookup
from sesh.state.judge import Seen
from sesh.system import processes


class Ending(Value):
    """Why sesh ends a session that no person stops."""

    reason: str
    cause: Cause
    ran_well: bool = False  # long enough before that to have all retries again

    def retries_used(self, status: Status) -> int:
        return 0 if self.ran_well else status.retries


def ask(
    found: Seen, grace: float, ending: Ending | None, *, keep: bool, mine: bool = True
) -> Seen | None:
    """Record that a session shall stop, and return it. Returns None when it has ended. With an
    `ending` also when it is being stopped already, or has changed since it was judged. Unless the
    stop is `mine`, the next process that finds it continues it. Raises when its agent may not be
    signalled."""

    def requested(now: Seen) -> Record | None:
        state = now.state
        if now.session is None or state is State.UNKNOWN:
            raise CannotTellError(f"{now.name}: {_why(now)}")
        record, alive, stopping = now.session.record, _lives(state), state is State.STOPPING
        status = record.status
        if not record.place.has_process and state in ALIVE:
            _abandon(record.name)
            return None
        if ending is not None and (stopping or not (alive and lookup.same(found, now))):
            return None
        if alive and (why := refused(now)):
            withdraw(now)
            raise NotPermittedError(f"{record.name}: {why}")
        begun = stopping and _has_begun(status)
        status = replace(
            status,
            desired=Desired.STOPPED,
            stop_asked=datetime.now(UTC),
            stop_grace=min(float(grace), grace_left(record)) if begun else float(grace),
            stopper=processes.myself() if mine else None,
            stop_tries=status.stop_tries if stopping else 0,
            stop_reason=ending.reason if ending else None,
            stop_cause=ending.cause if ending else None,
            outcome=None if alive else status.outcome,
            retry_at=None,
            retries=ending.retries_used(status) if ending else status.retries,
            waits_for=None,
            keep=keep,
        )
        return replace(record, status=status)

    written = lookup.update(found, requested, _note_stopping)
    return written if written and written.intact.record.status.outcome is None else None


def _abandon(name: str) -> None:
    """End a session without a process, which nothing can signal."""
    from sesh.model.progress import Report
    from sesh.operations import report_progress

    report_progress.update(name, Report(phase="abandoned"))


def _note_stopping(before: Session, after: Session) -> None:
    state = before.verdict.state
    if _lives(state) and state is not State.STOPPING:
        events.append("stopping", after.record)


def _lives(state: State) -> bool:
    return state in ALIVE or state is State.ORPHAN


def _why(found: Seen) -> str:
    if found.damaged:
        return f"its record is damaged ({found.reason})"
    return found.reason or "cannot be queried"


def take_over(found: Seen) -> Seen | None:
    """Become the process that stops a session whose stop was interrupted, or only asked for: then
    its grace begins now. None when another process was faster."""
    if found.session is None or found.state is not State.STOPPING:
        return None
    if refused(found):
        withdraw(found)
        return None
    record, status = found.session.record, found.session.record.status
    asked = status.stop_asked if _has_begun(status) else datetime.now(UTC)
    status = replace(status, stopper=processes.myself(), stop_asked=asked)
    return lookup.update(found, replace(record, status=status))


def _has_begun(status: Status) -> bool:
    """Has a process begun to stop it, and so signalled its processes?"""
    return status.stopper is not None or status.stop_tries > 0


def under_way(found: Seen) -> bool:
    """Is a living process stopping it at this moment?"""
    stopper = found.session.record.status.stopper if found.session else None
    return found.state is State.STOPPING and stopper is not None and processes.alive(stopper)


def refused(found: Seen) -> str | None:
    """Why we may not end its agent: it has become another user's process. None: we may."""
    record = found.record
    if record is None or not record.place.calls_back or record.place.machine != processes.here():
        return None
    agent = record.place.agent
    if agent is None or not processes.foreign(agent.process.pid):
        return None
    stat = processes.look(agent.process.pid)
    if stat is not None and stat.process != agent.process:
        return None  # another process has its pid
    return not_permitted(agent.process.pid)


def not_permitted(pid: int) -> str:
    uid = processes.uid(pid)
    whose = "another user's" if uid is None else f"uid {uid}"
    return f"not permitted to signal process {pid} ({whose})"


def withdraw(found: Seen) -> None:
    """Withdraw the request to stop a session that we may not signal: it stays running."""
    if found.record and found.state is State.STOPPING:
        status = found.record.status.without_stop()
        lookup.update(found, replace(found.record, status=status))


def grace_left(record: Record) -> float:
    return left_of(record.status.stop_grace or 0.0, record.status.stop_asked)


def left_of(seconds: float, since: datetime | None) -> float:
    """What is left of a time that began at `since`. At least 0, and never more than all of it: the
    clock may have been set."""
    now = datetime.now(UTC)
    return min(max(seconds - (now - (since or now)).total_seconds(), 0.0), seconds)
