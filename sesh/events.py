"""What happened: one JSON line an event, appended to events.jsonl. Never the truth."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any

from sesh import paths
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
    fd = os.open(
        paths.events_file(),
        os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
        0o600,
    )
    try:
        os.fchmod(fd, 0o600)
        if _torn(fd):
            data = b"\n" + data
        if os.write(fd, data) != len(data):
            raise OSError(28, "No space left on device")
    finally:
        os.close(fd)


def _torn(fd: int) -> bool:
    """Did a full disk cut the last line short? Then ours must not be glued to it."""
    size = os.fstat(fd).st_size
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"
