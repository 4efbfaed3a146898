"""Give a session another name: in tmux, then in its record. Its id stays, and with it all files
that are named after that: transcript, launches, saved environment."""

from __future__ import annotations

from datetime import UTC, datetime

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError
from sesh.model.observation import Session
from sesh.model.reconcile import reconcile
from sesh.model.record import Record
from sesh.model.states import ALIVE, State
from sesh.model.value_object import replace
from sesh.operations.forget import Note, bury, release
from sesh.operations.launch import claim
from sesh.places import panes, registry
from sesh.state import events, lookup, records
from sesh.state.judge import Seen
from sesh.system import processes
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Pane, Tmux, Trouble

_TRIES = 20
_UNSETTLED = (State.STARTING, State.STOPPING, State.ORPHAN)


def rename(found: Seen, name: str, config: Config, note: Note) -> Seen:
    """Give a session a name that is free, or that of an ended session, whose record moves to the
    history. The tmux session first: if sesh is killed before the record follows, attach gives it
    the name of the record again."""
    lookup.check_name(name)
    _check(found)
    old = found.intact.record
    if name == old.name:
        raise ConflictError(f"{name} already has that name")
    before = claim.free_name(name)
    release(before, config)
    shown = _pane(found, config)
    if shown is not None:
        _in_tmux(*shown, name, before)
    try:
        written = _in_record(found, name, before)
    except BaseException:
        if shown is not None:
            server, pane = shown
            server.rename(pane, old.name)
        raise
    bury(before, config, note)
    events.append("renamed", written.intact.record, previous=old.name)
    return written


def _check(found: Seen) -> None:
    state = found.intact.verdict.state
    if state is State.UNKNOWN:
        raise CannotTellError(f"{found.name}: {found.reason}; not renamed")
    if state in _UNSETTLED:
        raise ConflictError(f"{found.name} is {state}; not renamed")


def _pane(found: Seen, config: Config) -> tuple[Tmux, Pane] | None:
    """The pane of the session with its server; None where there is none."""
    record, place = found.intact.record, registry.of(found.intact.record)
    if record.place.pane is None or record.place.machine != processes.here():
        return None
    if not place.has_screen(record):
        return None
    server = place.tmux(record, config)
    listed = server.panes()
    if isinstance(listed, Reply):
        if found.state in ALIVE and listed.trouble is not Trouble.NO_SERVER:
            raise CannotTellError(f"{record.name}: tmux: {listed.text}; not renamed")
        return None
    pane = panes.find(record, listed)
    return (server, pane) if pane else None


def _in_tmux(server: Tmux, pane: Pane, name: str, before: Seen | None) -> None:
    reply = server.rename(pane, name)
    if reply.trouble is Trouble.DUPLICATE:
        panes.close_dead({name: before.intact.record.id if before else ""}, server)
        reply = server.rename(pane, name)
    if reply.trouble is Trouble.DUPLICATE:
        raise ConflictError(f"tmux already has a session named {name}; choose another name")
    if not reply.ok:
        raise CannotTellError(f"tmux: {reply.text}; not renamed")


def _in_record(found: Seen, name: str, before: Seen | None) -> Seen:
    now = found
    for _ in range(_TRIES):
        session = now.intact
        record: Record = replace(session.record, name=name)
        verdict = reconcile(record, session.seen, datetime.now(UTC))
        over = before.entry if before else None
        entry = records.rename(now.entry, record, verdict, over)
        if entry is not None:
            return Seen(entry, Session(record, session.seen, verdict))
        now = lookup.one(found.name)
        lookup.check_same_launch(found, now)
        _check(now)
    raise ConflictError(f"{found.name} is being changed by other processes; try again")
