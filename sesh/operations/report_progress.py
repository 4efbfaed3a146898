"""Record the progress that an agent, or the program that runs it, reports."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sesh.model import progress
from sesh.model.errors import ConflictError
from sesh.model.observation import Session
from sesh.model.progress import Report
from sesh.model.record import Damaged, Record
from sesh.model.value_object import replace
from sesh.state import events, judge, lookup, observe
from sesh.state.judge import Seen


def update(name: str, report: Report, only: str | None = None) -> Seen:
    """Record a report about a session; with `only`, about the session with that id."""

    def change(record: Record) -> Record:
        if only is not None and record.id != only:
            raise ConflictError(f"{name} is a different session now")
        return progress.apply(record, report, datetime.now(UTC))

    return _update(name, change)


def prompted(record: Record) -> None:
    """Record that its agent gets a prompt, unless that is recorded."""
    if record.spec.kit is None or record.agent.prompted:
        return

    def change(now_known: Record) -> Record:
        if now_known.launch != record.launch:
            raise ConflictError(f"{record.name} was started again by another sesh just now")
        return replace(now_known, agent=replace(now_known.agent, prompted=True))

    _update(record.name, change)


def _update(name: str, change: Callable[[Record], Record]) -> Seen:
    written = lookup.update(
        _look(name),
        lambda now: change(now.intact.record),
        _write_events,
        look=lambda _: _look(name),
    )
    assert written is not None
    return written


def _look(name: str) -> Seen:
    """Judge a session. A record without a process is judged by its files alone."""
    entry = lookup.find(name)
    record = entry.record
    if isinstance(record, Damaged) or record.place.has_process:
        return judge.judge([entry])[0]
    return judge.seen_as(entry, record, observe.by_files(record))


def _write_events(before: Session, after: Session) -> None:
    word, previous = after.record.agent, before.record.agent.phase
    if word.phase != previous:
        events.append("phase", after.record, phase=word.phase, previous=previous)
    if word.finished is not None:
        seconds = round(progress.duration(after.record), 3)
        details = {"outcome": word.phase, "duration": seconds, "summary": word.summary}
        events.append("finished", after.record, **details)
