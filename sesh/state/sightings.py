"""When orphans were first seen: gc ends an orphan only when two passes, some time apart, see it.

`run/MACHINE/orphans.seen` holds the boot id, then a line "PID START ID SECONDS" each; the seconds
are since the boot, so that a moved clock changes nothing. A file of another boot is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from sesh.model.place import Process
from sesh.system import files

_LIMIT = 1 << 20
Key = tuple[Process, str]  # with the session id


# What was seen → the seconds since the boot at which it was first seen.
Sightings = Mapping[Key, float]


def read(run: str, boot: str) -> Sightings:
    """What was seen before; nothing, where the file cannot be read or parsed."""
    try:
        first, *lines = files.read_regular(_path(run), _LIMIT).decode().splitlines()
    except (OSError, ValueError):
        return {}
    known = {}
    if first == boot:
        for line in lines:
            with suppress(ValueError):
                pid, start, session_id, seconds = line.split(" ")
                known[Process(int(pid), int(start)), session_id] = float(seconds)
    return known


def remember(run: str, boot: str, before: Sightings, now: Iterable[Key], uptime: float) -> None:
    """Record what is seen now; what is gone is forgotten."""
    known = {key: before.get(key, uptime) for key in now}
    if known == before:
        return
    lines = [f"{p.pid} {p.start} {session_id} {at}" for (p, session_id), at in known.items()]
    files.write_private(_path(run), "\n".join([boot, *lines, ""]).encode(), durable=False)


def _path(run: str) -> str:
    return f"{run}/orphans.seen"
