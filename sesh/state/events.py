"""What happened: one JSON line an event, appended to events.jsonl. Never the truth."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime

from sesh.model.record import Record
from sesh.model.text import quick_json
from sesh.model.value_object import Value
from sesh.system import files, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    Event = dict[str, Any]
else:
    Event = dict
written: set[str] = set()  # kinds and states of what this process wrote since the last `tell`
KINDS = (
    *("started", "start-failed", "restarted", "restart-failed", "ended", "stopping", "stopped"),
    *("archived", "removed", "adopted", "paused", "resumed", "phase", "finished"),
    *("recovering", "failing", "hung", "healthy", "waiting", "breaker-opened", "notified"),
    "notify-failed",
)


def append(kind: str, record: Record, **details: Any) -> None:
    """Append the event of something that has been done. A full disk loses the event, and nothing
    else: what was done stays done."""
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
    """Append events with one write, so that lines of many processes never mix; not if `unless`,
    called while no other process writes, returns True."""
    lines = (_compact(event) + b"\n" for event in happened)
    if not files.append_line(paths.events_file(), b"".join(lines), unless):
        return
    written.update(event[key] for event in happened for key in ("kind", "state") if event.get(key))


def _compact(event: Event) -> bytes:
    return quick_json.dumps(event, separators=(",", ":")).encode()


def rotate() -> None:
    """Begin a new file. Whoever has the old one open finishes its line in that."""
    files.move_away(paths.events_file(), paths.older_events_file())


POLL = 0.2
_HEAD = b'{"time":"'


def read(since: datetime | None = None) -> Iterator[Event]:
    """All events so far, or those since a moment. A line that a full disk cut short is passed
    over."""
    begin = _line_of(since) if since else b""
    for file in _open_all():
        with file:
            for line in file:
                if line >= begin or not line.startswith(_HEAD):
                    event = _parse(line)
                    if event is not None:
                        yield event


def _line_of(moment: datetime) -> bytes:
    """How the line of an event at that moment begins: lines of ours sort like their times."""
    return _HEAD + _stamp(moment).encode()


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _open_all() -> list[BinaryIO]:
    """The files, oldest first. The newest is opened first: rotated in between, it is found twice,
    instead of missed."""
    newest, older = _open(paths.events_file()), _open(paths.older_events_file())
    if newest and older and os.path.sameopenfile(newest.fileno(), older.fileno()):
        older.close()
        older = None
    return [file for file in (older, newest) if file is not None]


def of_kind(kind: str, having: Sequence[Event] = ()) -> Iterator[Event]:
    """All events of one kind so far, `having` one of these details if any are named; the other
    lines are not even parsed."""
    mark = f'"{kind}"'.encode()
    details = [_compact(one)[1:-1] for one in having]
    for file in _open_all():
        with file:
            lines = (line for line in file if mark in line)
            if details:
                lines = (line for line in lines if any(detail in line for detail in details))
            found = (event for line in lines if (event := _parse(line)))
            yield from (event for event in found if event["kind"] == kind)


class Place(Value):
    """How far somebody has read: in which file, by its inode, and up to which byte."""

    inode: int
    offset: int


BEGIN, NOWHERE = Place(0, 0), Place(0, -1)


def end() -> Place:
    """The place behind all that was written so far."""
    try:
        newest = os.stat(paths.events_file())
    except OSError:
        return BEGIN
    return Place(newest.st_ino, newest.st_size)


def since(place: Place) -> tuple[list[Event], Place]:
    """The events behind a place, also across a rotation, and the place behind them. Where the place
    is not found any more, nothing is new: what was read once is never read again."""
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
            found += [event for line in whole.split(b"\n") if (event := _parse(line)) is not None]
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
    """All events so far, then each as it happens, until `wait` says that nobody listens; also
    across a rotation of the file, whose last lines are read before the new one is opened."""
    rest = b""
    opened = _open_all()
    file = opened.pop() if opened else None
    for one in opened:
        with one:
            yield from (event for line in one if (event := _parse(line)) is not None)
    while True:
        moved = file is not None and _moved(file)
        if file is None:
            file = _open(paths.events_file())
        if file is not None:
            *lines, rest = (rest + file.read()).split(b"\n")
            yield from (event for line in lines if (event := _parse(line)) is not None)
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
    """Is another file in its place by now, or was it cut?"""
    try:
        status = os.stat(paths.events_file())
    except FileNotFoundError:
        return False
    return status.st_ino != os.fstat(file.fileno()).st_ino or status.st_size < file.tell()


def _parse(line: bytes) -> Event | None:
    """A line of ours, or None: what somebody else wrote is passed over."""
    try:
        event = quick_json.loads(line)
        zone = datetime.fromisoformat(event["time"]).tzinfo
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    typed = isinstance(event["kind"], str) if "kind" in event else False
    typed = typed and isinstance(event.get("reason"), str | None)
    typed = typed and isinstance(event.get("command"), list | None)
    return event if typed and zone is not None else None
