"""Claim a name, or the next generation of a session: the step before every launch."""

from __future__ import annotations

import os
from contextlib import suppress

from sesh.model import progress
from sesh.model.errors import CannotTellError, ConflictError, SeshError
from sesh.model.observation import Observation, Verdict, absent
from sesh.model.place import Place
from sesh.model.reconcile import reconcile
from sesh.model.record import AgentReport, LaunchMode, Record, Spec, Status, session_id
from sesh.model.states import ALIVE, Desired, State
from sesh.model.value_object import replace
from sesh.operations.launch.launch import now
from sesh.places import environment
from sesh.state import clocks, judge, log_files, lookup, records
from sesh.state.judge import Seen
from sesh.state.records import Entry
from sesh.system import processes

_TRIES = 5  # other commands that look at an ended session record what they see


def new_id(name: str) -> str:
    return session_id(name, now(), os.urandom(4).hex())


def new_record(
    identity: str, name: str, spec: Spec, place: Place, agent: AgentReport | None = None
) -> Record:
    stamp = now()
    status = Status(desired=Desired.RUNNING, launched=stamp, retries_max=spec.supervision.retries)
    spec = replace(spec, created=stamp)
    return Record(name, identity, spec, place, status, agent or AgentReport())


def free_name(name: str) -> Seen | None:
    """The ended session whose name may be used again, or None; raises when it is not free."""
    entry = records.entry(name)
    if entry is None:
        if lookup.orphans_named(name):
            raise ConflictError(f"{name} is alive, but {lookup.LOST.format(name)}")
        return None
    found = judge.judge([entry])[0]
    state, reason = found.state, found.intact.verdict.reason or found.state
    if state is State.UNKNOWN:
        raise CannotTellError(f"{name} exists, but its state is unknown: {reason}")
    if state is State.STALE:
        raise ConflictError(
            f"{name} is stale ({reason}); next: sesh restart {name}, or sesh stop {name}"
        )
    if state is State.ORPHAN:
        raise ConflictError(
            f"{name} is an orphan ({reason}); next: sesh adopt {name}, or sesh stop {name}"
        )
    if state is State.RECOVERING:
        raise ConflictError(f"{name} is recovering; next: sesh restart {name}, or sesh stop {name}")
    if state in ALIVE:
        raise ConflictError(
            f"{name} is already {state}; next: sesh attach {name}, or choose another name"
        )
    return found


def starting(record: Record) -> Verdict:
    return reconcile(record, Observation(absent("not launched yet")), record.status.launched)


def next_generation(old: Record, place: Place, attempt: int) -> Record:
    """`attempt` is the number of the retry; 0: a person restarts the session, and retries
    and age start over."""
    status = Status(
        desired=Desired.RUNNING,
        launched=now(),
        retries=attempt,
        retries_max=old.spec.supervision.retries,
        lived=round(clocks.life_age(old), 3) if attempt else 0.0,
        printed=log_files.size(old.id),
    )
    word = replace(progress.restarted(old.agent, status.launched), usage=None)
    return replace(old, place=place, status=status, agent=word)


def launched_now(status: Status) -> Status:
    """The launch begins now. The time since the claim, in which its container was made, say, counts
    towards its age."""
    stamp = now()
    taken = max(0.0, (stamp - status.launched).total_seconds())
    lived = round(status.lived + taken, 3) if status.lived else 0.0
    return replace(status, launched=stamp, lived=lived)


def with_conversation(record: Record) -> tuple[Record, LaunchMode]:
    """Add a conversation to a new record where sesh chooses its name; and how it is launched."""
    if record.spec.kit is None:
        return record, LaunchMode.START
    from sesh.agents import launch_kit

    return launch_kit.minted(record), launch_kit.first_mode(record)


def resumed(
    record: Record, old: Record, variables: environment.Environment, *, fresh: bool
) -> tuple[Record, LaunchMode]:
    """The next generation with its conversation, and how it is launched."""
    if record.spec.kit is None:
        return record, LaunchMode.START
    from sesh.agents import conversation

    plan = conversation.plan(old, variables, fresh=fresh)
    word = replace(
        record.agent.talking(plan.conversation, prompted=plan.mode is LaunchMode.RESUME),
        forked_from=None if plan.mode is LaunchMode.START else record.agent.forked_from,
    )
    return replace(record, agent=word), plan.mode


def claim_name(record: Record, verdict: Verdict, before: Seen | None) -> Entry:
    """Write a new record in place of `before`, the ended session of that name. Another sesh may
    have added to that record meanwhile or moved it to the history: it is still replaced."""
    seen = before
    clocks.note_boot(processes.run_dir())
    for _ in range(_TRIES):
        with suppress(ConflictError):
            return records.claim(record, verdict, seen.entry if seen else None)
        seen = free_name(record.name)
        if seen and not (before and lookup.same(before, seen)):
            break
    raise ConflictError(f"{record.name} was taken by another sesh just now")


def claim_generation(found: Seen, record: Record) -> Entry:
    """Write the next generation over the ended one. Raises when another sesh was faster."""
    clocks.note_boot(processes.run_dir())
    verdict = starting(record)
    written = lookup.update(found, lambda _: record, verdict=verdict, look=lookup.again)
    assert written is not None
    return written.entry


def lacking(record: Record) -> None:
    """Raise when the saved environment is gone and a variable given with -e is not set here."""
    names = [name for name in record.spec.env if name not in os.environ]
    if names:
        raise SeshError(
            f"{record.name}: its saved environment is gone and {', '.join(names)} "
            f"(given with -e) is not set here; export it and restart again"
        )
