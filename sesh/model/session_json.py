"""One session as the JSON object that `ls`, `show` and `start` print. PURE.

What an agent is doing and when it printed something change without any change of the record; they
stand last, so that a fast lane can add them to what the digest line holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sesh.model.observation import Verdict
from sesh.model.record import BreakerLimits, Care, Damaged, Record, name_of
from sesh.model.states import ALIVE, ENDED, State

View = dict[str, Any]

# The last ones change without any change of the record.
PASSING = (
    *("activity", "waiting_for", "activity_since", "activity_source", "background", "question"),
    *("last_output", "checked_at"),
)
LASTING = (
    *("name", "id", "state", "reason", "cause", "exit_code", "signal", "last_known", "desired"),
    *("generation", "place", "container", "image", "group", "tags", "template", "agent"),
    *("command", "cwd", "branch", "worktree", "pid", "socket", "pane", "created", "started"),
    *("ended", "health", "attention", "retries", "retries_max", "retry_at", "max_age", "max_idle"),
    *("launch_timeout", "care", "breaker", "lived", "paused", "held", "resumed", "phase"),
    *("history", "updated", "finished", "errors", "last_error", "resume_ready", "conversation"),
    *("summary", "metadata", "memory_bytes", "cpu_seconds", "ahead", "behind", "ahead_of", "dirty"),
)
FIELDS = LASTING + PASSING
DAMAGED_FIELDS = ("name", "state", "reason", "path")


def timestamp(moment: datetime | None) -> str | None:
    """RFC 3339 in UTC, whole seconds: what jq's `fromdate` takes."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def asked(care: Care) -> dict[str, Any]:
    """What of it is not as it would be anyway."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name in care.fields
        if (value := getattr(care, name)) != getattr(Care, name)
    }


def limits(breaker: BreakerLimits) -> dict[str, float]:
    return {name: getattr(breaker, name) for name in breaker.fields}


def view(record: Record, verdict: Verdict) -> View:
    """What lasts, in the order of LASTING."""
    spec, place, status, word = record.spec, record.place, record.status, record.agent
    alive = verdict.state not in ENDED | {State.RECOVERING}
    agent = place.agent if alive and place.pids_here else None
    return {
        "name": record.name,
        "id": record.id,
        "state": verdict.state.value,
        "reason": verdict.reason,
        "cause": verdict.cause,
        "exit_code": verdict.exit_code,
        "signal": verdict.signal,
        "last_known": verdict.last_known,
        "desired": status.desired.value,
        "generation": place.generation,
        "place": place.kind,
        "container": place.container_name,
        "image": spec.box.image if spec.box else None,
        "group": spec.group,
        "tags": list(spec.tags),
        "template": spec.template,
        "agent": spec.kit.kind if spec.kit else None,
        "command": list(spec.command),
        "cwd": spec.cwd,
        "branch": place.branch,
        "worktree": spec.worktree.path if spec.worktree else None,
        "pid": agent.process.pid if agent else None,
        "socket": place.socket or None,
        "pane": place.pane,
        "created": timestamp(spec.created),
        "started": timestamp(status.started),
        "ended": timestamp(verdict.ended or status.ended),
        "health": status.health.value if status.health and verdict.state in ALIVE else None,
        "attention": verdict.attention,
        "retries": status.retries,
        "retries_max": status.retries_max,
        "retry_at": timestamp(status.retry_at),
        "max_age": spec.max_age,
        "max_idle": spec.max_idle,
        "launch_timeout": spec.launch_timeout,
        "care": asked(spec.care) or None,
        "breaker": limits(spec.breaker) if spec.breaker else None,
        "lived": status.lived,
        "paused": timestamp(status.paused),
        "held": status.held,
        "resumed": timestamp(status.resumed),
        "phase": word.phase,
        "history": [{"phase": step.phase, "at": timestamp(step.at)} for step in word.history],
        "updated": timestamp(word.updated),
        "finished": timestamp(word.finished),
        "errors": word.errors,
        "last_error": word.last_error,
        "resume_ready": word.resume_ready,
        "conversation": word.conversation,
        "summary": word.summary,
        "metadata": dict(word.metadata),
        "memory_bytes": None,
        "cpu_seconds": None,
        "ahead": None,
        "behind": None,
        "ahead_of": None,
        "dirty": None,
    }


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
    """Something that lives without a record: little is known of it, nothing is left out."""
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
    return {field: known.get(field) for field in LASTING}
