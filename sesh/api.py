"""sesh for callers in Python: sessions that they run themselves, on the records of the commands.

    from sesh import api

    api.create("fix-login", metadata={"issue": 7})
    api.update("fix-login", phase="planning", metadata={"files": ["login.py"]})
    answer = api.should_resume("fix-login")
    if answer.resume:
        print(api.get("fix-login").history)
    api.finish("fix-login", "completed", summary="mended")
    api.cleanup()

`create` makes a record without a process (`sesh start --record-only`); all others work on any
session. What goes wrong is a `SeshError`, in one line: `NoSessionError`, `ConflictError` (the name
is taken; it has finished), `UsageError` (no such phase, no such key, looks like a secret),
`StateError` (a record or the disk). Nothing is kept in memory: many processes may do all of this at
once, and see what the commands see.
"""

from __future__ import annotations

import builtins
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from sesh import config, events, look, paths, phases, reports, resuming, store
from sesh.digest import Digest
from sesh.errors import (
    CannotTellError,
    ConflictError,
    NoSessionError,
    SeshError,
    StateError,
    UsageError,
)
from sesh.lifecycle import recording
from sesh.look import Seen
from sesh.model import Spec, State, Step, name_of
from sesh.phases import Answer, Said
from sesh.values import Value
from sesh.view import View, timestamp, view

__all__ = [
    "Answer",
    "CannotTellError",
    "ConflictError",
    "NoSessionError",
    "SeshError",
    "Session",
    "StateError",
    "Step",
    "UsageError",
    "cleanup",
    "create",
    "finish",
    "get",
    "list",
    "should_resume",
    "update",
]


class Session(Value):
    """What is known of a session; the names are those of sesh-json(5). Times are whole seconds."""

    name: str
    id: str
    state: State
    reason: str | None
    place: str  # host, docker, or none: nothing of sesh's runs
    group: str | None
    tags: tuple[str, ...]
    command: tuple[str, ...]
    cwd: str
    created: datetime
    ended: datetime | None
    phase: str | None
    history: tuple[Step, ...]
    updated: datetime | None
    finished: datetime | None
    errors: int
    last_error: str | None
    resume_ready: bool
    conversation: str | None
    summary: str | None
    metadata: Mapping[str, Any]


# --- saying --------------------------------------------------------------------------------------


def create(
    name: str,
    *,
    command: Sequence[str] = (),
    cwd: str | None = None,
    group: str | None = None,
    tags: Sequence[str] = (),
    phase: str = phases.WORKING[0],
    metadata: Mapping[str, Any] | None = None,
    summary: str | None = None,
    conversation: str | None = None,
    force: bool = False,
) -> Session:
    """Make the record of a session that the caller runs. A name whose session has ended is used
    again; a living one is a ConflictError. `command` is for people to read."""
    look.check_name(name)
    look.check_labels(group, tags)
    spec = Spec(
        command=tuple(command),
        cwd=os.path.abspath(cwd if cwd is not None else os.getcwd()),
        created=datetime.now(UTC),
        group=group,
        tags=tuple(dict.fromkeys(tags)),
    )
    said = Said(phase, metadata, summary=summary, conversation=conversation, force=force)
    return _of(recording.create(name, spec, said, config.load()))


def update(
    name: str,
    *,
    phase: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    error: str | None = None,
    summary: str | None = None,
    resume_ready: bool | None = None,
    conversation: str | None = None,
    force: bool = False,
) -> Session:
    """Say what the session is at. Metadata is merged, a None takes its key away; each error
    counts. With nothing but the name: that it is at work."""
    said = Said(phase, metadata, error, summary, resume_ready, conversation, force)
    return _of(reports.say(name, said))


def finish(name: str, outcome: str, *, summary: str | None = None) -> Session:
    """Say that its work is over: `completed`, `failed` or `abandoned`. The last word, said once."""
    if outcome not in phases.FINAL:
        raise UsageError(f"no outcome {outcome!a}; they are {', '.join(phases.FINAL)}")
    said = Said(phase=outcome, summary=summary)
    return _of(reports.say(name, said))


# --- asking --------------------------------------------------------------------------------------


def should_resume(name: str) -> Answer:
    """May its work be gone on with? `answer.resume`, and `answer.reason` in words. A session may
    also be named by its id or its conversation; one that is missing or damaged is a no."""
    return resuming.ask(resuming.find(name), name, config.load())


def get(name: str) -> Session:
    """One session as it is now."""
    look.check_name(name)
    store.check_owner(paths.state_dir())
    held = _held([name])
    if name in held:
        return _session(held[name])
    found = look.one(name)
    if found.damaged:
        raise StateError(f"{name}: its record is damaged ({found.damaged.reason})")
    return _of(found)


def list(*, phase: str | None = None, group: str | None = None) -> builtins.list[Session]:
    """All sessions that have a record in the list, by name: all, or those in one phase or group.
    Damaged ones are left out; `sesh doctor` tells of them."""
    held = _held(None)
    seen = (one for one in look.everything(leaving_out=held) if not one.damaged)
    every = {name: _session(shown) for name, shown in held.items()}
    every |= {one.name: _of(one) for one in seen}
    found = [every[name] for name in sorted(every)]
    return [
        one
        for one in found
        if (phase is None or one.phase == phase) and (group is None or one.group == group)
    ]


def cleanup(older_than: float = 0.0) -> builtins.list[str]:
    """Move records of sessions that have no process, and finished so many seconds ago, to the
    history; returns their names. All others are the business of `sesh gc`."""
    latest = timestamp(datetime.now(UTC) - timedelta(seconds=older_than)) or ""
    mark, limit = b'"ended":"', latest.encode()

    def wanted(found: Digest) -> bool:
        if b'"place":"none"' not in found.view:
            return False
        at = found.view.find(mark) + len(mark)
        return found.view[at : at + len(limit)] <= limit

    if not store.exists():
        return []
    moved = store.sweep(wanted)
    names = [name_of(one.id) for one in moved]
    now = events.new("archived", None, None, None)
    told = [
        {**now, "name": name, "id": one.id, "generation": int(one.generation)}
        for name, one in zip(names, moved, strict=True)
    ]
    with suppress(OSError):
        events.write(*told)
    return names


# --- as recorded ---------------------------------------------------------------------------------


def _held(names: Iterable[str] | None) -> dict[str, View]:
    """The sessions of which a digest line is still the truth; None: of all."""
    try:
        digests = look.held(names)
        return {name: json.loads(one.view) for name, one in digests.items()}
    except ValueError:
        return {}


def _of(found: Seen) -> Session:
    assert found.session is not None
    return _session(view(found.session.record, found.session.verdict))


def _session(shown: View) -> Session:
    known = {field: shown[field] for field in Session.fields}
    for field in ("created", "ended", "updated", "finished"):
        known[field] = _moment(known[field])
    known["state"] = State(known["state"])
    known["tags"], known["command"] = tuple(known["tags"]), tuple(known["command"])
    steps = ((one["phase"], _moment(one["at"])) for one in known["history"])
    known["history"] = tuple(Step(phase, at) for phase, at in steps if at)
    return Session(**known)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
