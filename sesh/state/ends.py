"""The events of a launch, each once: that it began, or failed; and its end.

The event of a launch is written before its record: as soon as the record shows that the agent
began, any process may write the event of its end.

An end and its event belong together: the record is written first, then the event.
A marker in `run/MACHINE/untold` exists from before the record is written until after the event is.
If the process is killed in between, the next look finds the marker and appends the event, unless
the log has it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sesh.model.errors import SeshError
from sesh.model.observation import Verdict
from sesh.model.reconcile import recorded_end
from sesh.model.record import Record
from sesh.model.session_json import timestamp
from sesh.model.states import State
from sesh.model.text import parse, quick_json
from sesh.model.value_object import Any, Value
from sesh.state import events, history, records
from sesh.state.events import Event, Place
from sesh.state.records import Entry
from sesh.system import files, processes

KINDS = ("ended", "stopped")
_FIRST = ("started", "restarted", "start-failed", "restart-failed", "adopted")
_LIMIT = 1 << 16
_ABANDONED = 60.0  # seconds after which the process that made a marker will not continue


class Marker(Value):
    """The event of an end is not written yet."""

    place: Place  # the end of the log before: the event comes after it, if it was written
    gave_up: str | None  # which end: a launch that was to be retried and is given up ends twice


def write(old: Entry, record: Record, verdict: Verdict) -> Entry | None:
    """Write a record that has ended, and its event; None: another process was faster."""
    with announced(record) as tell:
        written = records.swap(old, record, verdict)
        if written is not None:
            tell()
    return written


@contextmanager
def announced(record: Record, *, ended: bool = True) -> Iterator[Callable[[], None]]:
    """Keep a marker while an end is written. Yields the function that appends the event. If that
    fails, the marker stays for the next look. Does nothing if the session has not ended."""
    if not ended:
        yield lambda: None
        return
    marker = Marker(events.end(), record.status.gave_up)
    path = _path(f"{record.launch}.{os.getpid()}")
    failed = False

    def tell() -> None:
        nonlocal failed
        failed = True
        _tell(record, marker)
        failed = False

    _announce(path, marker)
    yield tell
    if not failed:
        with suppress(OSError):
            os.unlink(path)


def _announce(path: str, marker: Marker) -> None:
    place = marker.place
    told = quick_json.dumps([place.inode, place.offset, marker.gave_up]).encode()
    with suppress(OSError, SeshError):  # a full disk: then a kill can lose the event
        try:
            files.jot(path, told)
        except FileNotFoundError:
            files.make_private(os.path.dirname(path))
            files.jot(path, told)


def _tell(record: Record, marker: Marker) -> None:
    """Append the event of an end, and that of its retry, once."""
    happened = _events(record)
    launch = record.id, record.place.generation

    def is_there() -> bool:
        if not events.grown(marker.place):
            return False
        later, _ = events.since(marker.place)
        ends = (one for one in later if one["kind"] in KINDS)
        return any((one.get("id"), one.get("generation")) == launch for one in ends)

    events.write(*happened, unless=is_there)


def _events(record: Record) -> list[Event]:
    status, how = record.status, recorded_end(record)
    which: tuple[Any, ...] = (record.name, record.id, record.place.generation)
    happened = [
        events.new(
            "stopped" if how.state is State.STOPPED else "ended",
            *which,
            state=how.state,
            cause=how.cause,
            exit_code=how.exit_code,
            signal=how.signal,
            reason=how.reason,
            group=record.spec.group,
            template=record.spec.template,
        )
    ]
    if status.retry_at is not None:
        retry, most, at = status.retries + 1, status.retries_max, timestamp(status.retry_at)
        one = events.new("recovering", *which, retry=retry, retries_max=most, retry_at=at)
        happened.append(one)
    return happened


# --- the event of a launch -----------------------------------------------------------------------


def announce_launch(entry: Entry, record: Record, failure: Verdict | None = None) -> None:
    """Append the event of a launch whose record is still as it was claimed, unless the log has it:
    a process that was killed may have written only that."""

    def is_known() -> bool:
        if not records.unchanged(entry):
            return True
        later = events.latest(record.id)
        return any(e["kind"] in _FIRST and e.get("generation") == generation for e in later)

    generation = record.place.generation
    kind = "started" if generation == 1 else "restarted"
    event = launch_failed(record, kind, failure) if failure else _begun(record, kind)
    with suppress(OSError):
        events.write(event, unless=is_known)


def launch_failed(record: Record, kind: str, how: Verdict) -> Event:
    """The event of a launch that failed; `kind`: of one that does not."""
    details = {"state": how.state, "reason": how.reason, **_retry(record)}
    return _event(record, kind.removesuffix("ed") + "-failed", details)


def _begun(record: Record, kind: str) -> Event:
    command = {"command": list(record.spec.command)}
    return _event(
        record, kind, {**command, **_copied(record), **_retry(record), **_resumed(record)}
    )


def _event(record: Record, kind: str, details: dict[str, Any]) -> Event:
    return events.new(kind, record.name, record.id, record.place.generation, **details)


def _retry(record: Record) -> dict[str, int]:
    return {"retry": record.status.retries} if record.status.retries else {}


def _copied(record: Record) -> dict[str, str]:
    """The session whose conversation a new one began with a copy of."""
    origin = record.agent.forked_from if record.place.generation == 1 else None
    return {"forked_from": origin.name} if origin else {}


def _resumed(record: Record) -> dict[str, bool]:
    """Whether an agent continues its conversation, if it has any."""
    kit = record.spec.kit
    if record.place.generation == 1 or kit is None or kit.conversation == "none":
        return {}
    return {"resumed_conversation": record.agent.prompted}


# --- markers of killed processes -----------------------------------------------------------------


def append_missing() -> None:
    """Append the events that are missing."""
    try:
        names = os.listdir(_path())
    except OSError:
        return
    for name in names:
        with suppress(OSError, SeshError):
            _finish(name)


def _finish(name: str) -> None:
    path, (launch, _, writer) = _path(name), name.rpartition(".")
    abandoned = time.time() - os.stat(path).st_mtime > _ABANDONED
    pid = parse.number(writer, parse.PID)
    if not abandoned and pid and processes.look(pid):
        return
    marker = _read(path)
    record = _record(launch) if marker else None
    if marker and record and record.status.outcome and record.status.gave_up == marker.gave_up:
        _tell(record, marker)
    os.unlink(path)


def _read(path: str) -> Marker | None:
    try:
        inode, offset, gave_up = quick_json.loads(files.read_regular(path, _LIMIT))
        return Marker(Place(int(inode), int(offset)), gave_up)
    except (ValueError, TypeError, RecursionError):
        return None


def _record(launch: str) -> Record | None:
    """The record of a launch, in the list or in the history."""
    session_id = launch.rpartition(".")[0]
    past = history.entry(session_id)
    for record in (records.of_id(session_id), past and past.readable):
        if record and record.launch == launch:
            return record
    return None


def _path(name: str = "") -> str:
    return f"{processes.run_dir()}/untold/{name}"
