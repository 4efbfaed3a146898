"""One session as the JSON object that `ls`, `show` and `start` print. PURE.

What an agent is doing and when it printed something change without any change of the record; they
stand last, so that a fast lane can add them to what the digest line holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from sesh.model.codec import tree
from sesh.model.observation import Verdict
from sesh.model.record import AgentUsage, Damaged, Record, Spec, name_of
from sesh.model.states import ALIVE, ENDED, ENDED_WELL, HELD, OUTCOMES, State
from sesh.model.value_object import Any, Value

View = dict[str, Any]
KEEP_IN_LIST = timedelta(hours=1)  # how long `ls` shows sessions that ended well


# The fields in their order, by where they come from; "": see `_derived`, or not known to a record.
_SOURCES: tuple[tuple[str, ...], ...] = (
    ("record", "name", "id"),
    ("verdict", "state", "reason", "cause", "exit_code", "signal", "last_known"),
    ("status", "desired"),
    ("place", "generation"),
    ("", "place", "container", "image"),
    ("spec", "group", "tags", "template"),
    ("", "agent"),
    ("spec", "command", "cwd"),
    ("place", "branch"),
    ("", "worktree", "pid", "socket"),
    ("place", "pane"),
    ("spec", "created"),
    ("status", "started"),
    ("", "ended", "health"),
    ("verdict", "attention"),
    ("status", "retries", "retries_max", "retry_at"),
    ("spec", "max_age", "max_idle", "launch_timeout"),
    ("", "care"),
    ("spec", "breaker"),
    ("status", "lived", "paused", "held", "resumed"),
    ("word", "phase", "history", "updated", "finished", "errors", "last_error", "resume_ready"),
    ("word", "conversation", "forked_from", "summary", "metadata"),
    ("", "memory_bytes", "cpu_seconds", "ahead", "behind", "ahead_of", "dirty", "usage"),
)
_COPIED = [(name, source) for source, *names in _SOURCES if source for name in names]
LASTING = tuple(name for _, *names in _SOURCES for name in names)
_UNKNOWN = dict.fromkeys(LASTING)
# These change without any change of the record.
PASSING = (
    *("activity", "waiting_for", "activity_since", "activity_source", "background", "question"),
    *("last_output", "checked_at"),
)
FIELDS = LASTING + PASSING
USAGE_FIELDS = AgentUsage.fields  # of the object `usage`
_SCALARS = frozenset({str, int, float, bool, type(None)})
DAMAGED_FIELDS = ("name", "state", "reason", "path")


def timestamp(moment: datetime | None) -> str | None:
    """RFC 3339 in UTC, whole seconds: what jq's `fromdate` takes."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def view(record: Record, verdict: Verdict) -> View:
    """The fields that last as long as the record is unchanged."""
    sources = {
        "record": record,
        "verdict": verdict,
        "spec": record.spec,
        "place": record.place,
        "status": record.status,
        "word": record.agent,
    }
    shown = _derived(record, verdict)
    for name, source in _COPIED:
        value = getattr(sources[source], name)
        shown[name] = value if type(value) in _SCALARS else _plain(value)
    return shown


def _derived(record: Record, verdict: Verdict) -> View:
    """All fields, with those that the record does not hold as such."""
    spec, place, status = record.spec, record.place, record.status
    alive = verdict.state not in ENDED | {State.RECOVERING}
    agent = place.agent if alive and place.pids_here else None
    return {
        **_UNKNOWN,
        "place": place.kind,
        "container": place.container_name,
        "image": spec.box.image if spec.box else None,
        "agent": spec.kit.kind if spec.kit else None,
        "worktree": spec.worktree.path if spec.worktree else None,
        "pid": agent.process.pid if agent else None,
        "socket": place.socket or None,
        "ended": timestamp(verdict.ended or status.ended),
        "health": status.health.value if status.health and verdict.state in ALIVE else None,
        "usage": usage_view(record.agent.usage) if record.agent.usage else None,
        "care": None if spec.supervision is Spec.supervision else _plain(spec.supervision) or None,
    }


def usage_view(usage: AgentUsage) -> View:
    """What an agent has used, with all fields."""
    return {name: _plain(getattr(usage, name)) for name in USAGE_FIELDS}


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, Value):
        return {name: _plain(one) for name, one in tree(value).items()}
    return dict(value)


def damaged_view(damaged: Damaged) -> View:
    return {
        "name": damaged.name,
        "state": State.DAMAGED.value,
        "reason": damaged.reason,
        "path": damaged.path,
    }


def orphan_view(
    session_id: str,
    reason: str,
    pid: int | None,
    since: datetime | None,
    *,
    command: Sequence[str] = (),
    generation: int | None = None,
    memory_bytes: int | None = None,
) -> View:
    """An agent without a record. Fields that are not known are null."""
    known: View = {
        "name": name_of(session_id),
        "id": session_id,
        "state": State.ORPHAN.value,
        "reason": reason,
        "generation": generation,
        "place": "host",
        "tags": [],
        "command": list(command),
        "pid": pid,
        "started": timestamp(since),
        "attention": reason,
        "memory_bytes": memory_bytes,
        "retries": 0,
        "retries_max": 0,
        "history": [],
        "errors": 0,
        "metadata": {},
    }
    return {**_UNKNOWN, **known}


# --- the digest line -----------------------------------------------------------------------------


def guard(record: Record, verdict: Verdict) -> tuple[str, ...]:
    """The guard of a digest line: until when the session JSON beside it is true."""
    agent = record.place.agent
    mode, pid, start, tty = "look", "-", "-", "-"
    expected = verdict.state is State.RUNNING or (
        verdict.state is State.PAUSED and verdict.reason == HELD
    )
    # No guard covers the branch that its directory is on.
    quiet = expected and not (verdict.attention or record.spec.branch)
    if quiet and agent is not None and record.place.pids_here:
        mode = record.place.guard
        pid, start, tty = str(agent.process.pid), str(agent.process.start), str(agent.tty)
    elif verdict.state is State.STALE and (init := record.place.init) is not None:
        mode, pid, start = "up", str(init.pid), str(init.start)
    elif verdict.state in OUTCOMES:
        mode = "ended"
    elif not record.place.has_process:
        mode = "word"
    hides = hide_after(record, verdict)
    hide = "-" if hides is None else str(hides)
    generation = str(record.place.generation)
    return (record.id, generation, record.place.machine.key, mode, pid, start, tty, hide)


def hide_after(record: Record, verdict: Verdict) -> int | None:
    """From when on `ls` shows a session that ended well only with --all, in epoch seconds."""
    ended = verdict.ended or record.status.ended
    if verdict.state not in ENDED_WELL or ended is None:
        return None
    return int((ended + KEEP_IN_LIST).timestamp())
