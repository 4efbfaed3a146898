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

from sesh.agents import resumable
from sesh.model import digest, progress
from sesh.model.digest import Digest
from sesh.model.errors import (
    CannotTellError,
    ConflictError,
    NoSessionError,
    SeshError,
    StateError,
    UsageError,
)
from sesh.model.place import RecordOnly
from sesh.model.progress import Answer, Report
from sesh.model.record import Spec, Step, name_of
from sesh.model.session_json import View, timestamp, view
from sesh.model.states import State
from sesh.model.value_object import Value
from sesh.operations import report_progress
from sesh.operations.launch import record_only
from sesh.places import launch_files
from sesh.state import events, history, lookup, records, settings
from sesh.state.judge import Seen
from sesh.system import paths
from sesh.terminal import output

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
    cwd: str | os.PathLike[str] | None = None,
    group: str | None = None,
    tags: Sequence[str] = (),
    phase: str = progress.WORKING[0],
    metadata: Mapping[str, Any] | None = None,
    summary: str | None = None,
    conversation: str | None = None,
    force: bool = False,
) -> Session:
    """Make the record of a session that the caller runs. A name whose session has ended is used
    again; a living one is a ConflictError. `command` is for people to read."""
    _check_name(name)
    _check(str, "a text", group=group)
    words, labels = _words("command", command), _words("tags", tags)
    launch_files.check_command(words)
    lookup.check_labels(group, labels)
    spec = Spec(
        command=words,
        cwd=_directory(cwd),
        created=datetime.now(UTC),
        group=group,
        tags=tuple(dict.fromkeys(labels)),
    )
    said = Report(phase, metadata, summary=summary, conversation=conversation, force=force)
    return _of(record_only.create(name, spec, _checked(said), settings.load(), output.note))


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
    _check_name(name)
    said = Report(phase, metadata, error, summary, resume_ready, conversation, force)
    return _of(report_progress.say(name, _checked(said)))


def finish(name: str, outcome: str, *, summary: str | None = None) -> Session:
    """Say that its work is over: `completed`, `failed` or `abandoned`. The last word, said once."""
    _check_name(name)
    if outcome not in progress.FINAL:
        raise UsageError(f"no outcome {outcome!a}; they are {', '.join(progress.FINAL)}")
    said = Report(phase=outcome, summary=summary)
    return _of(report_progress.say(name, _checked(said)))


# --- what callers may give, whatever their types say ---------------------------------------------


def _check_name(name: str) -> None:
    _check(str, "a text", name=name or "")
    lookup.check_name(name or "")


def _check(kind: type, what: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None and not isinstance(value, kind):
            raise UsageError(f"{name} should be {what}, not {value!a:.40}")


def _checked(said: Report) -> Report:
    _check(str, "a text", phase=said.phase, error=said.error, summary=said.summary)
    _check(str, "a text", conversation=said.conversation)
    _check(Mapping, "a mapping", metadata=said.metadata)
    _check(bool, "True or False", resume_ready=said.resume_ready, force=said.force)
    return said


def _words(name: str, given: object) -> tuple[str, ...]:
    """A text alone is a mistake: it would be taken apart into its letters."""
    found = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (None,)
    if not all(isinstance(word, str) for word in found):
        raise UsageError(f"{name} should be a list of texts, not {given!a:.40}")
    return found


def _directory(given: object) -> str:
    if given is None or isinstance(given, str):
        return launch_files.directory(given)
    if not isinstance(given, os.PathLike) or not isinstance(path := os.fspath(given), str):
        raise UsageError(f"cwd should be the path of a directory, not {given!a:.40}")
    return launch_files.directory(path)


# --- asking --------------------------------------------------------------------------------------


def should_resume(name: str) -> Answer:
    """Can its work be resumed? `answer.resume`, and `answer.reason` in words. A session may
    also be named by its id or its conversation; one that is missing or damaged is a no."""
    _check(str, "a text", name=name)
    return resumable.check(resumable.find(name or ""), name, settings.load())


def get(name: str) -> Session:
    """One session as it is now."""
    _check_name(name)
    records.check_owner(paths.state_dir())
    held = _held([name])
    if name in held:
        return _session(held[name])
    found = lookup.one(name)
    if found.damaged:
        raise StateError(f"{name}: its record is damaged ({found.damaged.reason})")
    return _of(found)


def list(*, phase: str | None = None, group: str | None = None) -> builtins.list[Session]:
    """All sessions that have a record in the list, by name: all, or those in one phase or group.
    Damaged ones are left out; `sesh doctor` tells of them."""
    held = _held(None)
    seen = (one for one in lookup.everything(leaving_out=held) if not one.damaged)
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
    try:
        latest = timestamp(datetime.now(UTC) - timedelta(seconds=older_than)) or ""
    except (OverflowError, TypeError, ValueError):
        raise UsageError(f"{older_than!a:.40}: should be a number of seconds") from None

    def wanted(found: Digest) -> bool:
        bare = digest.text(found.view, "place") == RecordOnly.kind
        return bare and (digest.text(found.view, "ended") or "") <= latest

    if not records.exists():
        return []
    moved = history.sweep(wanted)
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
        digests = lookup.held(names)
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
