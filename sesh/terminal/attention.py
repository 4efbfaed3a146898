"""What needs attention, judged by files and /proc alone: for prompts, which can't wait for tmux.

Runs no program and writes nothing. Where only tmux knows, its last recorded answer counts.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from sesh.agents import activity
from sesh.model import digest
from sesh.model.observation import Observation, seen
from sesh.model.reconcile import off_branch, reconcile
from sesh.model.record import Damaged, Record
from sesh.model.states import Health, State
from sesh.model.value_object import replace
from sesh.places import agent_files, launch_files, registry
from sesh.state import lookup, observe, records
from sesh.state.records import Entry
from sesh.system import processes

_LOOKS = 3  # at most, at a record that other processes keep changing


def words(leaving_out: Collection[str], launches: set[str] | None) -> list[str]:
    """One word (its state, or what is wrong with it while it runs) for each record that needs
    attention, and `orphan` for each living agent among the launches that no record claims; None
    stands for all launches."""
    found = []
    claimed, damaged = set(), set()
    for entry in records.entries(leaving_out):
        found += _settled_word(entry)
        if isinstance(entry.record, Damaged):
            damaged.add(entry.record.name)
        else:
            claimed.add(entry.record.launch)
    unclaimed = [
        (session_id, generation)
        for session_id, generation in launch_files.known(processes.run_dir())
        if (launches is None or f"{session_id}.{generation}" in launches)
        and f"{session_id}.{generation}" not in claimed
    ]
    orphans = [one for one in lookup.living(unclaimed) if one.name not in damaged]
    return found + [State.ORPHAN.value for _ in orphans]


def _settled_word(entry: Entry) -> list[str]:
    """Its word, by a record that did not change during the look: a pass that records an end removes
    the keeper's file about it."""
    for _ in range(_LOOKS):
        found = _word(entry, entry.readable) if entry.readable else [State.DAMAGED.value]
        if not found or records.unchanged(entry):
            break
        fresh = records.again(entry)
        if fresh is None:
            return []
        entry = fresh
    return found


def _word(entry: Entry, record: Record) -> list[str]:
    sight = _with_last_answer(observe.by_files(record), entry, record)
    verdict = reconcile(record, sight, datetime.now(UTC))
    if verdict.attention is None:
        return ["waiting"] if _waits(record, verdict.state) else []
    if verdict.state not in (State.RUNNING, State.PAUSED):
        return [verdict.state.value]
    if sight.frozen:
        return ["frozen"]
    if record.status.health in (Health.FAILING, Health.HUNG):
        return [record.status.health.value]
    return ["off-branch" if off_branch(record, sight) else verdict.state.value]


def _waits(record: Record, state: State) -> bool:
    """Does its agent wait for the user?"""
    if not record.heard or state is not State.RUNNING:
        return False
    return activity.attention(activity.of(agent_files.launch_of(record))) is not None


def _with_last_answer(sight: Observation, entry: Entry, record: Record) -> Observation:
    """Add what only a program knows, as last recorded: other panes of its tmux session, which are
    gone with their server; a container on a far engine."""
    shown = registry.of(record).by_proc(record, sight)
    if shown is not None:
        return shown
    known = digest.parse(entry.raw)
    if known is None or digest.state(known.view) != State.STALE:
        return sight
    if not record.place.pids_here:
        return replace(sight, others=seen("its container, at the last look,"))
    server = record.place.server
    if server is None or record.place.machine != processes.here() or not processes.alive(server):
        return sight
    return replace(sight, others=seen("another pane, at the last look,"))
