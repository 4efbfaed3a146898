"""What an agent, or whoever runs it, says of a session: written into its record, and told.

The record is read, changed and written only if nobody else has written it meanwhile; else all of it
again: of many that speak at once, each is heard.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from sesh.model import progress
from sesh.model.errors import ConflictError, StateError
from sesh.model.observation import Session
from sesh.model.progress import Said
from sesh.model.reconcile import reconcile
from sesh.model.record import Damaged, Record
from sesh.model.value import replace
from sesh.state import ends, events, lookup, observe, records
from sesh.state.lookup import Seen
from sesh.state.records import Entry

TRIES = 200  # at each of them another one was faster


def say(name: str, what: Said, only: str | None = None) -> Seen:
    """Write down what was said of a session; with `only`, of the one of that id."""

    def work(record: Record, now: datetime) -> Record:
        if only is not None and record.id != only:
            raise ConflictError(f"{name} is another session by now")
        return progress.said(record, what, now)

    return _change(name, work)


def prompted(record: Record) -> None:
    """Write down that its agent is given something to do, if nobody has yet."""
    if record.spec.kit is None or record.agent.prompted:
        return

    def work(now_known: Record, _: datetime) -> Record:
        if now_known.launch != record.launch:
            raise ConflictError(f"{record.name} was started again by another sesh just now")
        return replace(now_known, agent=replace(now_known.agent, prompted=True))

    _change(record.name, work)


def _change(name: str, work: Callable[[Record, datetime], Record]) -> Seen:
    for _ in range(TRIES):
        found = look_at(lookup.find(name))
        if found.session is None:
            raise StateError(f"{name}: its record is damaged; see sesh show {name}")
        before = found.session.record
        now = datetime.now(UTC)
        record = work(before, now)
        verdict = reconcile(record, found.session.seen, now)
        ended = record.status.outcome is not before.status.outcome
        with ends.announced(record, ended=ended) as tell:
            entry = records.swap(found.entry, record, verdict)
            if entry is not None:
                with suppress(OSError):  # one that can't be written takes nothing from the record
                    _tell(before, record)
                    if ended:
                        tell()
        if entry is not None:
            return Seen(entry, Session(record, found.session.seen, verdict))
    raise ConflictError(f"{name} is being changed by others; try again")


def look_at(entry: Entry) -> Seen:
    """What is true of it. A record without a process needs no look around."""
    record = entry.record
    if isinstance(record, Damaged) or not record.record_only:
        return lookup.judge([entry])[0]
    sight = observe.by_files(record)
    return Seen(entry, Session(record, sight, reconcile(record, sight, datetime.now(UTC))))


def _tell(before: Record, after: Record) -> None:
    word = after.agent
    if word.phase != before.agent.phase:
        events.append("phase", after, phase=word.phase, previous=before.agent.phase)
    if word.finished is not None:
        seconds = round(progress.duration(after), 3)
        details = {"outcome": word.phase, "duration": seconds, "summary": word.summary}
        events.append("finished", after, **details)
