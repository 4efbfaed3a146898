"""The copies of records that launches keep (`.claim`), for records that are lost. Only sesh writes
them: they are where no place reaches."""

from __future__ import annotations

from sesh.model import codec
from sesh.model.record import Record
from sesh.places import launch_files
from sesh.system.files import read_regular

_LIMIT = 1 << 20  # bytes


def kept(run: str, session_id: str) -> list[Record]:
    """The records that the launches of a session kept."""
    launches = launch_files.known(run, ".claim")
    found = (read(run, owner, launch) for owner, launch in launches if owner == session_id)
    return [record for record in found if record is not None]


def read(run: str, session_id: str, generation: int) -> Record | None:
    """The record that a launch kept; None when there is none that can be read."""
    try:
        record = decoded(read_regular(f"{run}/{session_id}.{generation}.claim", _LIMIT))
    except OSError:
        return None
    return record if record is not None and record.id == session_id else None


def decoded(raw: bytes) -> Record | None:
    """The record in a copy; None when it cannot be read."""
    try:
        return codec.decode(raw)
    except (ValueError, RecursionError, codec.DecodeError):
        return None
