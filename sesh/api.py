"""sesh for Python programs that run agents themselves, on the same records as the commands.

    from sesh import api

    api.create("fix-login", metadata={"issue": 7})
    api.update("fix-login", phase="planning", metadata={"files": ["login.py"]})
    answer = api.should_resume("fix-login")
    if answer.resume:
        print(api.get("fix-login").history)
    api.finish("fix-login", "completed", summary="fixed")
    api.cleanup()

Agents that sesh runs:

    api.start("fix", template="claude", cwd="src")
    print(api.ask("fix", "which tests fail?", timeout=600))
    print(api.usage("fix").cost_usd, api.activity("fix"))
    for turn in api.transcript("fix"):
        print(turn.role, turn.text)
    api.stop("fix")

`create` makes a record without a process (`sesh start --record-only`); the other functions work on
any session. Errors are `SeshError`s with a one-line message: `NoSessionError`, `EndedError`,
`ConflictError` (the name is taken, or the work has finished), `AskedError` (one of these: the agent
asks something, so it got no prompt, or does not answer), `TimedOutError` (of `ask` and `wait`),
`UsageError` (an unknown phase, an invalid key, a value that looks like a secret), `StateError` (a
record or the disk). Nothing is kept in memory: many processes and threads may call this
concurrently, and see what the commands see.
"""

from __future__ import annotations

import builtins
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from sesh.agents import questions, resumable
from sesh.agents.activity import Activity
from sesh.agents.questions import Question
from sesh.model import digest, progress
from sesh.model.agents.hook_event import WAITING
from sesh.model.agents.turns import Turn
from sesh.model.digest import Digest
from sesh.model.errors import (
    CannotTellError,
    ConflictError,
    EndedError,
    NoSessionError,
    SeshError,
    StateError,
    TimedOutError,
    UsageError,
)
from sesh.model.place import RecordOnly
from sesh.model.progress import Answer, Report
from sesh.model.record import AgentUsage, Spec, Step
from sesh.model.session_json import View, timestamp, view
from sesh.model.states import State
from sesh.model.value_object import Value
from sesh.operations import report_progress
from sesh.operations.launch import record_only
from sesh.operations.send import AskedError, Terminal
from sesh.places import agent_files, launch_files
from sesh.state import events, history, lookup, records, settings
from sesh.state.judge import Seen
from sesh.system import paths
from sesh.terminal import output

__all__ = [
    "Activity",
    "AgentUsage",
    "Answer",
    "AskedError",
    "CannotTellError",
    "ConflictError",
    "EndedError",
    "NoSessionError",
    "Question",
    "SeshError",
    "Session",
    "StateError",
    "Step",
    "TimedOutError",
    "Turn",
    "UsageError",
    "activity",
    "answer",
    "ask",
    "cleanup",
    "create",
    "finish",
    "get",
    "list",
    "question",
    "send",
    "should_resume",
    "start",
    "stop",
    "transcript",
    "update",
    "usage",
    "wait",
]


class Session(Value):
    """A session; the fields are those of sesh-json(5). Times are whole seconds."""

    name: str
    id: str
    state: State
    reason: str | None
    place: str  # host, docker, or none: sesh runs no process
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


# --- reports -------------------------------------------------------------------------------------


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
    """Create the record of a session that the caller runs. The name of an ended session is used
    again; the name of a living one is a ConflictError. `command` is only shown."""
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
    report = Report(phase, metadata, summary=summary, conversation=conversation, force=force)
    return _of(record_only.create(name, spec, _checked(report), settings.load(), output.note))


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
    """Report progress. Metadata is merged, and None removes a key; errors are counted. With only a
    name it is a heartbeat."""
    _check_name(name)
    report = Report(phase, metadata, error, summary, resume_ready, conversation, force)
    return _of(report_progress.update(name, _checked(report)))


def finish(name: str, outcome: str, *, summary: str | None = None) -> Session:
    """Report that the work has finished: `completed`, `failed` or `abandoned`. Only once."""
    _check_name(name)
    if outcome not in progress.FINAL:
        raise UsageError(f"no outcome {outcome!a}; use one of {', '.join(progress.FINAL)}")
    report = Report(phase=outcome, summary=summary)
    return _of(report_progress.update(name, _checked(report)))


# --- arguments of callers that use no type checker -----------------------------------------------


def _check_name(name: str) -> None:
    _check(str, "a text", name=name or "")
    lookup.check_name(name or "")


def _check(kind: type, what: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None and not isinstance(value, kind):
            raise UsageError(f"{name} should be {what}, not {value!a:.40}")


def _checked(report: Report) -> Report:
    _check(str, "a text", phase=report.phase, error=report.error, summary=report.summary)
    _check(str, "a text", conversation=report.conversation)
    _check(Mapping, "a mapping", metadata=report.metadata)
    _check(bool, "True or False", resume_ready=report.resume_ready, force=report.force)
    return report


def _words(name: str, given: object) -> tuple[str, ...]:
    """A list of texts. A plain text is a mistake: it would be split into letters."""
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


# --- queries -------------------------------------------------------------------------------------


def should_resume(name: str) -> Answer:
    """Can its work be resumed? See `answer.resume` and `answer.reason`. `name` may also be an id or
    a conversation. For a missing or damaged session the answer is no."""
    _check(str, "a text", name=name)
    return resumable.check(resumable.find(name or ""), name, settings.load())


def get(name: str) -> Session:
    """The current state of a session."""
    _check_name(name)
    records.check_owner(paths.state_dir())
    held = _held([name])
    if name in held:
        return _session(held[name])
    return _of(lookup.one(name))


def list(*, phase: str | None = None, group: str | None = None) -> builtins.list[Session]:
    """The sessions in the list, sorted by name: all, or those of a phase or group. Damaged records
    are left out; `sesh doctor` reports them."""
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
    """Move records without a process that finished at least `older_than` seconds ago to the
    history; returns their names. `sesh gc` archives the others."""
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
    names = [one.name for one in moved]
    now = events.new("archived", None, None, None)
    archived = [
        {**now, "name": name, "id": one.id, "generation": int(one.generation)}
        for name, one in zip(names, moved, strict=True)
    ]
    with suppress(OSError):
        events.write(*archived)
    return names


# --- agents --------------------------------------------------------------------------------------


def start(
    name: str,
    command: Sequence[str] = (),
    *,
    template: str | None = None,
    prompt: str | None = None,
    cwd: str | os.PathLike[str] | None = None,
    group: str | None = None,
    tags: Sequence[str] = (),
) -> Session:
    """Start a command, or the agent of a template (claude, codex, …), and confirm that it runs."""
    from sesh.agents.templates import catalog
    from sesh.agents.templates.template import Template
    from sesh.operations.launch import start_request

    _check_name(name)
    _check(str, "a text", template=template, prompt=prompt, group=group)
    directory = _directory(cwd)
    request = start_request.Request(
        name,
        _words("command", command),
        directory,
        group=group,
        tags=_words("tags", tags),
        template=template,
        usual=Template() if template is None else catalog.load(template, directory),
        prompt=prompt,
    )
    return _of(start_request.start_session(request, settings.load(), output.note))


def send(name: str, text: str) -> None:
    """Type a text and press Enter; returns when it is proven that it arrived."""
    from sesh.operations import send as sending

    _check_text(name, text)
    sending.send(_terminal(name), sending.clean(os.fsencode(text)), (), enter=True, force=False)


def answer(name: str, word: str, about: str = "") -> str:
    """Answer the question of an agent: yes, no, always, the number of an option, or a text. Returns
    what was done. `about`: only if these words are in the question."""
    from sesh.operations import send as sending

    _check_text(name, word)
    _check(str, "a text", about=about)
    return sending.answer(_terminal(name), word, about)


def ask(name: str, text: str, timeout: float | None = None) -> str:
    """Send a prompt, wait until the agent has answered, and return the answer."""
    from sesh.operations.conversations import ask as asking

    _check_text(name, text)
    deadline = None if timeout is None else time.monotonic() + _seconds(timeout)
    return asking.ask(_terminal(name), text, deadline)


def wait(name: str, *wanted: str, timeout: float | None = None) -> str:
    """Wait until a session is in one of these states, or its agent is busy, waiting or idle; by
    default until it has ended. Returns which one it is."""
    from sesh.model.agents.hook_event import ACTIVITIES
    from sesh.model.states import ENDED
    from sesh.operations import wait as waiting

    _check_name(name)
    for word in wanted:
        if word not in (*ACTIVITIES, *State):
            raise UsageError(f"cannot wait for {word!a:.40}")
    states = frozenset(State(word) for word in wanted if word not in ACTIVITIES)
    doing = tuple(word for word in wanted if word in ACTIVITIES)
    goal = waiting.Wanted(states if wanted else ENDED, doing, " or ".join(wanted) or "ended")
    deadline = None if timeout is None else time.monotonic() + _seconds(timeout)
    for one in waiting.until([name], goal, deadline):
        if isinstance(one, waiting.GaveUp):
            raise one.error
        return one.word
    raise TimedOutError(f"timed out waiting for {name}")


def stop(name: str, grace: float | None = None) -> Session:
    """Stop a session: ask, wait for the grace period, kill, confirm. Its state afterwards."""
    from sesh.operations.stop import stop as stopping

    _check_name(name)
    config = settings.load()
    patience = config.stop.grace if grace is None else _seconds(grace)
    (after,) = stopping.stop([lookup.one(name)], config, patience)
    return _of(after)


def activity(name: str) -> Activity | None:
    """What the agent of a living session does; None: unknown, or not an agent that sesh knows."""
    from sesh.agents import screen

    found = _seen(name)
    record = found.intact.record
    if not record.heard or found.state is not State.RUNNING:
        return None
    launch = agent_files.launch_of(record)
    return screen.doing(launch, record.place.socket, record.place.pane)


def question(name: str) -> Question | None:
    """What the agent asks, with its answers; None: nothing."""
    doing = activity(name)
    if doing is None or doing.kind != WAITING or doing.trouble:
        return None
    asked = _terminal(name).dialog()
    if asked is not None:
        return asked.question
    return questions.of_plain(doing.question) if doing.question else None


def usage(name: str) -> AgentUsage | None:
    """What the agent has used in all conversations of the session; None: it is no agent that sesh
    knows. `usage.reason` says why nothing is known."""
    from sesh.agents.usage import session

    return session.of_record(_seen(name).intact.record)


def transcript(name: str) -> builtins.list[Turn]:
    """What was said in the conversation that the agent is in, or was in last. `turn.at` is in
    seconds since the epoch."""
    from sesh.operations.conversations import read

    return [*read.turns(_seen(name).intact.record)]


def _seen(name: str) -> Seen:
    _check_name(name)
    return lookup.one(name)


def _terminal(name: str) -> Terminal:
    return Terminal(_seen(name), settings.load())


def _check_text(name: str, text: str) -> None:
    _check_name(name)
    _check(str, "a text", text=text)
    if not (text or "").strip():
        raise UsageError("the text is empty")


def _seconds(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < 1e9:
        raise UsageError(f"{given!a:.40}: should be a number of seconds")
    return float(given)


# --- conversion ----------------------------------------------------------------------------------


def _held(names: Iterable[str] | None) -> dict[str, View]:
    """The sessions whose digest line is still valid, by name; `names` None: among all."""
    try:
        digests = lookup.held(names)
        return {name: json.loads(one.view) for name, one in digests.items()}
    except ValueError:
        return {}


def _of(found: Seen) -> Session:
    return _session(view(found.intact.record, found.intact.verdict))


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
