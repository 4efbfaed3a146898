"""What happened: one JSON line an event, appended to events.jsonl. Never the truth."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sesh import files, paths
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
    files.append_line(paths.events_file(), data)
