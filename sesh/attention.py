"""What needs attention, judged by files and /proc alone: for prompts, which can't wait for tmux.

Asks no program and writes nothing. Where only tmux could tell, what it said last counts.
"""

from __future__ import annotations

from collections.abc import Container
from datetime import UTC, datetime

from sesh import digest, launchfiles, observe, paths, processes, store
from sesh.model import ENDED, Damaged, Record, State
from sesh.reconcile import reconcile
from sesh.store import Entry


def words(leaving_out: Container[str], launches: set[str] | None) -> list[str]:
    """One word (its state, or `frozen`) for each record that needs attention, and `orphan` for each
    living agent among the launches that no record claims; None stands for all launches."""
    here = processes.here()
    run = paths.run_dir(here.id, here.pidns)
    if launches is None:
        launches = {f"{session}.{generation}" for session, generation in launchfiles.known(run)}
    found = []
    claimed, damaged = set(), set()
    for entry in store.entries(leaving_out):
        if isinstance(entry.record, Damaged):
            found.append(State.DAMAGED.value)
            damaged.add(entry.record.name)
        else:
            found += _word(entry, entry.record)
            claimed.add(entry.record.launch)
    living = [launch for launch in launches - claimed if _lives(run, launch)]
    return found + [State.ORPHAN.value for launch in living if _name(launch) not in damaged]


def _word(entry: Entry, record: Record) -> list[str]:
    sight = observe.by_files(record)
    verdict = reconcile(record, sight, datetime.now(UTC))
    if verdict.state in ENDED and _was_stale(entry, record):
        return [State.STALE.value]
    if verdict.attention is None:
        return []
    return ["frozen" if verdict.state is State.RUNNING and sight.frozen else verdict.state.value]


def _was_stale(entry: Entry, record: Record) -> bool:
    """Did tmux show another pane of it when it was last asked? Those are gone with its server."""
    server = record.place.server
    if server is None or record.place.machine != processes.here() or not processes.alive(server):
        return False
    known = digest.parse(entry.raw)
    return known is not None and digest.state(known.view) == State.STALE


def _lives(run: str, launch: str) -> bool:
    session, _, generation = launch.rpartition(".")
    if not generation.isdigit():
        return False
    word = launchfiles.read_launch(run, session, int(generation))
    return word is not None and processes.alive(word.agent.process)


def _name(launch: str) -> str:
    """The session's name: an id is the name with date, time and a random word behind it."""
    return launch.rpartition(".")[0].rsplit("-", 3)[0]
