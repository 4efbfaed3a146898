"""Give a place that no record claims its record back, or end it."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, SeshError
from sesh.model.observation import Observation, unknown
from sesh.model.reconcile import reconcile
from sesh.model.record import LaunchMode, Record
from sesh.model.states import ALIVE, State
from sesh.operations.launch import start_elsewhere
from sesh.operations.stop.stop import stop
from sesh.places import launch_files, registry
from sesh.places.unclaimed import UnclaimedPlace
from sesh.state import events, lookup, records, unclaimed
from sesh.state.judge import Seen


def rebuild(found: UnclaimedPlace, config: Config) -> Seen:
    """Make it a session again: with the name, command and directory of its start."""
    if records.entry(found.name) is not None:
        raise ConflictError(f"a record named {found.name} exists; next: sesh show {found.name}")
    records.prepare()
    record = registry.ELSEWHERE[found.kind]().rebuild(found, config)
    _restore_kit(record)
    sight = Observation(unknown("it was adopted just now"))
    records.claim(record, reconcile(record, sight, datetime.now(UTC)), None)
    events.append("adopted", record, command=list(record.spec.command))
    return lookup.one(record.name)


def _restore_kit(record: Record) -> None:
    """The file on this machine that sesh reads the agent's reports with."""
    if record.place.agent is not None and not os.path.exists(f"{launch_files.own(record)}.kit"):
        start_elsewhere.equipped(record, {}, LaunchMode.START)


def end(found: UnclaimedPlace, config: Config, grace: float) -> bool:
    """End what runs in it and remove it: by a stop, where its record can be rebuilt. Not what is
    not proven to be ours."""
    if found.keep:
        return False
    try:
        seen = rebuild(found, config)
    except CannotTellError:
        raise
    except SeshError:
        return remove(found, config)
    after = stop([seen], config, grace)[0]
    return after.state not in ALIVE | {State.ORPHAN, State.UNKNOWN}


def remove(found: UnclaimedPlace, config: Config) -> bool:
    """Remove it, if it still is what it was, and ours."""
    try:
        if unclaimed.again(found, config) is None:
            return False
    except SeshError:
        return False
    return registry.ELSEWHERE[found.kind]().remove_unclaimed(found, config)
