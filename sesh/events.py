"""What happened: one JSON line an event, appended to events.jsonl. Never the truth."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from sesh import paths, store
from sesh.model import Record

KINDS = (
    *("started", "start-failed", "restarted", "restart-failed", "ended", "stopping", "stopped"),
    *("archived", "removed"),
)


def append(kind: str, record: Record, **details: Any) -> None:
    """Write one whole line with one write: lines of many processes never mix."""
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "kind": kind,
        "name": record.name,
        "id": record.id,
        "generation": record.place.generation,
        **details,
    }
    data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    store.append_line(paths.events_file(), data)


Event = dict[str, Any]
POLL = 0.2


def read() -> Iterator[Event]:
    """All events so far. A line that a full disk cut short is passed over."""
    try:
        with open(paths.events_file(), "rb") as file:
            yield from (event for line in file if (event := _parse(line)) is not None)
    except FileNotFoundError:
        return


def follow() -> Iterator[Event]:
    """All events so far, then each as it happens, for ever; also across a rotation of the file."""
    offset, inode, rest = 0, 0, b""
    while True:
        try:
            status = os.stat(paths.events_file())
        except FileNotFoundError:
            time.sleep(POLL)
            continue
        if status.st_ino != inode or status.st_size < offset:
            offset, inode, rest = 0, status.st_ino, b""
        if status.st_size > offset:
            with open(paths.events_file(), "rb") as file:
                file.seek(offset)
                rest += file.read(status.st_size - offset)
            offset = status.st_size
            *lines, rest = rest.split(b"\n")
            yield from (event for line in lines if (event := _parse(line)) is not None)
        time.sleep(POLL)


def _parse(line: bytes) -> Event | None:
    """A line of ours, or None: what somebody else wrote is passed over."""
    try:
        event = json.loads(line)
        zone = datetime.fromisoformat(event["time"]).tzinfo
    except (ValueError, KeyError, TypeError):
        return None
    typed = isinstance(event["kind"], str) if "kind" in event else False
    typed = typed and isinstance(event.get("reason"), str | None)
    typed = typed and isinstance(event.get("command"), list | None)
    return event if typed and zone is not None else None
