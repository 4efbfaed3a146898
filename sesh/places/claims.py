"""The copies of records that launches keep (`.claim`), for records that are lost. Only sesh writes
them: they are where no place reaches."""

from __future__ import annotations

import os

from sesh.model import codec
from sesh.model.record import Record
from sesh.model.text import parse
from sesh.places import launch_files


def kept(run: str, session_id: str) -> list[Record]:
    """The records that the launches of a session kept."""
    try:
        names = os.listdir(run)
    except OSError:
        return []
    found = []
    for name in names:
        owner, _, generation = name.removesuffix(".claim").rpartition(".")
        number = parse.number(generation, parse.GENERATION)
        if name.endswith(".claim") and owner == session_id and number is not None:
            found.append(decoded(launch_files.read_claim(run, session_id, number)))
    return [record for record in found if record is not None and record.id == session_id]


def decoded(raw: bytes | None) -> Record | None:
    """The record in a copy; None when it cannot be read."""
    try:
        return codec.decode(raw) if raw else None
    except (ValueError, RecursionError, codec.DecodeError):
        return None
