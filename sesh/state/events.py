"""What happened: one line of JSON per event, appended to events.jsonl. No state follows from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime

from sesh.model.record import Record
from sesh.model.states import OUTCOMES
from sesh.model.text import quick_json
from sesh.model.value_object import Any, Value
from sesh.system import files, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

Event = dict[str, Any]
# Kinds and states of the events that this process has written since the last `send_new`.
written: set[str] = set()
KINDS = (
    *("started", "start-failed", "restarted", "restart-failed", "ended", "stopping", "stopped"),
    *(
        "archived",
        "removed",
        "adopted",
        "changed",
        "renamed",
        "paused",
        "resumed",
        "phase",
        "finished",
    ),
    *("recovering", "failing", "hung", "healthy", "waiting", "breaker-opened", "notified"),
    "notify-failed",
)
# What can be notified: kinds, and states in which a session has ended. Never a notification itself:
# there would be no end.
NOTIFIABLE = (
    *(kind for kind in KINDS if kind not in ("notified", "notify-failed")),
    *sorted(OUTCOMES - {*KINDS}),
)


def append(kind: str, record: Record, **details: Any) -> None:
    """Append the event of an action that is done. A full disk loses the event and nothing else."""
    with suppress(OSError):
        write(new(kind, record.name, record.id, record.place.generation, **details))


def new(
    kind: str, name: str | None, session_id: str | None, generation: int | None, **details: Any
) -> Event:
    """An event that happens now."""
    return {
        "time": _stamp(datetime.now(UTC)),
        "kind": kind,
        "name": name,
        "id": session_id,
        "generation": generation,
        **details,
    }


def write(*happened: Event, unless: Callable[[], bool] | None = None) -> None:
    """Append events in one write, so that lines of several processes never mix; not if `unless`,
    which is called while no other process writes, returns True."""
    lines = [quick_json.dumps(event, separators=(",", ":")) + "\n" for event in happened]
    if files.append_line(paths.events_file(), "".join(lines).encode(), unless):
        keys = ("kind", "state")
        written.update(event[key] for event in happened for key in keys if event.get(key))


def rotate() -> None:
    """Begin a new file. Processes that have the old file open finish their line there."""
    files.move_away(paths.events_file(), paths.older_events_file())


POLL = 0.2
_TAIL = 64 << 10
# A log has megabytes, and most lines are of no interest to a reader. So lines that cannot be wanted
# are recognised by their bytes; every other line is parsed, and what it says decides.
_HEAD = b'{"time":"'


def read(since: datetime | None = None) -> Iterator[Event]:
    """All events so far, or those since a moment. A line that a full disk has cut is ignored."""
    begin = b""
    if since is not None:  # events have milliseconds
        since = since.replace(microsecond=since.microsecond // 1000 * 1000)
        begin = _HEAD + _stamp(since).encode()  # our lines sort like their times
    for line in _lines():
        event = None if line < begin and line.startswith(_HEAD) else _parse(line)
        if event and (since is None or datetime.fromisoformat(event["time"]) >= since):
            yield event


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _lines() -> Iterator[bytes]:
    for file in _open_all():
        with file:
            yield from file


def _open_all() -> list[BinaryIO]:
    """The files, oldest first. The newest is opened first: if it is rotated meanwhile, it is found
    twice instead of missed."""
    newest, older = _open(paths.events_file()), _open(paths.older_events_file())
    if newest and older and os.path.sameopenfile(newest.fileno(), older.fileno()):
        older.close()
        older = None
    return [file for file in (older, newest) if file is not None]


def of_kind(kind: str, having: Sequence[Event] = ()) -> Iterator[Event]:
    """All events of one kind so far, `having` one of these details if any are given."""
    mark = quick_json.dumps(kind).encode()
    words = [quick_json.dumps(word).encode() for one in having for word in one.values()]
    for line in _lines():
        if mark in line and (not words or any(word in line for word in words)):
            event = _parse(line)
            fits = not having or any(one.items() <= (event or {}).items() for one in having)
            if event and event["kind"] == kind and fits:
                yield event


def latest(session_id: str) -> list[Event]:
    """The events of a session among the last ones, as far as a small part of the log shows."""
    with suppress(OSError), files.opened(paths.events_file(), os.O_RDONLY) as fd:
        lines = os.pread(fd, _TAIL, max(0, os.fstat(fd).st_size - _TAIL)).split(b"\n")
        found = (_parse(line) for line in lines if session_id.encode() in line)
        return [event for event in found if event and event.get("id") == session_id]
    return []


class Place(Value):
    """How far a reader has come: the inode of the file, and the offset in it."""

    inode: int
    offset: int


BEGIN, NOWHERE = Place(0, 0), Place(0, -1)


def end() -> Place:
    """The place after all events so far."""
    try:
        newest = os.stat(paths.events_file())
    except OSError:
        return BEGIN
    return Place(newest.st_ino, newest.st_size)


def grown(place: Place) -> bool:
    """May there be events after a place?"""
    try:
        status = os.stat(paths.events_file())
    except FileNotFoundError:
        return True  # it may just have been rotated
    return (status.st_ino, status.st_size) != (place.inode, place.offset)


def since(place: Place) -> tuple[list[Event], Place]:
    """The events after a place, also across a rotation, and the place after them. None are new if
    the place does not exist any more: no event is read twice."""
    with ExitStack() as closing:
        opened = [closing.enter_context(file) for file in _open_all()]
        if not opened:
            return [], BEGIN
        first = _holder(opened, place)
        if first is None:
            newest = os.fstat(opened[-1].fileno())
            return [], Place(newest.st_ino, newest.st_size)
        found: list[Event] = []
        for file in opened[first:]:
            file.seek(place.offset)
            whole, newline, _ = file.read().rpartition(b"\n")
            found += filter(None, map(_parse, whole.split(b"\n")))
            end = place.offset + len(whole) + len(newline)
            read, place = Place(os.fstat(file.fileno()).st_ino, end), BEGIN
    return found, read


def _holder(opened: list[BinaryIO], place: Place) -> int | None:
    """Which of the files the place is in."""
    if place == BEGIN:
        return 0
    for number, file in enumerate(opened):
        status = os.fstat(file.fileno())
        if status.st_ino == place.inode and status.st_size >= place.offset:
            return number
    return None


def follow(wait: Callable[[float], bool]) -> Iterator[Event]:
    """All events so far, then each as it happens, until `wait` returns False; also across a
    rotation of the file, whose last lines are read before the new file is opened."""
    rest = b""
    opened = _open_all()
    file = opened.pop() if opened else None
    for one in opened:
        with one:
            yield from filter(None, map(_parse, one))
    while True:
        moved = file is not None and _moved(file)
        if file is None:
            file = _open(paths.events_file())
        if file is not None:
            *lines, rest = (rest + file.read()).split(b"\n")
            yield from filter(None, map(_parse, lines))
        if moved and file is not None:
            file.close()
            file, rest = None, b""
        elif not wait(POLL):
            return


def _open(path: str) -> BinaryIO | None:
    try:
        return files.open_binary(path)
    except FileNotFoundError:
        return None


def _moved(file: BinaryIO) -> bool:
    """Was the file replaced or truncated?"""
    try:
        status = os.stat(paths.events_file())
    except FileNotFoundError:
        return False
    return status.st_ino != os.fstat(file.fileno()).st_ino or status.st_size < file.tell()


def _parse(line: bytes) -> Event | None:
    """The event of a line, or None: lines that sesh did not write are ignored."""
    try:
        event = quick_json.loads(line)
        zoned = datetime.fromisoformat(event["time"]).tzinfo is not None
        typed = isinstance(event["kind"], str) and isinstance(event.get("reason"), str | None)
        typed = typed and isinstance(event.get("command"), list | None)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return event if typed and zoned else None
