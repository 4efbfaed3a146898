"""Who else uses a conversation: two processes would corrupt it. Read-only."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from sesh.model.agents import claude
from sesh.model.errors import ConversationInUseError
from sesh.model.place import Process
from sesh.model.record import Record
from sesh.model.text.parse import TICKS, number
from sesh.places import agent_files
from sesh.places.agent_files import Variables
from sesh.state import records
from sesh.system import process_marks, processes, quick_read
from sesh.system.processes import Table


def check(record: Record, conversation: str, variables: Variables) -> None:
    """Raise when another process uses the conversation. (For containers only records can tell.)"""
    others = _others_in(record, conversation)
    who = next((one.name for one in others if alive(one)), None)
    if who is None and record.place.agent_files_here:
        who = _process(record, conversation, variables)
    if who is not None:
        raise ConversationInUseError(
            f"{record.name}: {who} uses its conversation {conversation}; next: end it, or "
            f"sesh restart --fresh {record.name} (starts a new conversation)"
        )


def in_other_record(record: Record, conversation: str) -> bool:
    """Is it the conversation of another session, alive or not?"""
    return bool(_others_in(record, conversation))


def similar_sessions(record: Record) -> list[Record]:
    """Other sessions of this agent in the same directory whose conversation is unknown."""
    found = [one for one, _ in records.having("cwd", record.spec.cwd) if one.id != record.id]
    wanted = record.spec.cwd, record.spec.kit, None
    return [one for one in found if (one.spec.cwd, one.spec.kit, one.agent.conversation) == wanted]


def open_elsewhere(record: Record, path: str) -> bool:
    """Does another process of the same program hold a file open for writing?"""
    table = processes.table()
    return bool(_writers(_others(record, table, _own(record, table)), [path]))


# --- sessions ------------------------------------------------------------------------------------


def _others_in(record: Record, conversation: str) -> list[Record]:
    found = [one for one, _ in records.having("conversation", conversation) if one.id != record.id]
    return [one for one in found if one.agent.conversation == conversation]


def alive(record: Record) -> bool:
    """Is its agent a living process on this machine?"""
    agent, place = record.place.agent, record.place
    here = place.machine == processes.here() and place.pids_here
    return agent is not None and here and processes.alive(agent.process)


# --- processes -----------------------------------------------------------------------------------


def _process(record: Record, conversation: str, variables: Variables) -> str | None:
    kit = record.spec.kit
    assert kit is not None
    table = processes.table()
    own = _own(record, table)
    others = _others(record, table, own)
    found = {*_registered(agent_files.home(kit.kind, variables), conversation)} - own
    for pid, words in others.items():  # on a command line: as an argument, or after `--resume=`
        if any(word == conversation or word.endswith(f"={conversation}") for word in words):
            found.add(pid)
    found |= _writers(others, agent_files.transcripts(kit, conversation, variables))
    return f"process {min(found)}" if found else None


def _others(record: Record, table: Table, own: set[int]) -> dict[int, list[str]]:
    """Living processes of the same program outside of the session, with their command lines."""
    found = processes.of_program(table, os.path.basename(record.spec.command[0]))
    return {pid: words for pid, words in found.items() if pid not in own}


def _writers(others: Iterable[int], paths: Iterable[str]) -> set[int]:
    """The processes that hold one of these files open for writing. Readers do no harm."""
    from sesh.system import process_usage

    real = {os.path.realpath(path) for path in paths}
    return {pid for pid in others if process_usage.written_by(pid) & real}


def _own(record: Record, table: Table) -> set[int]:
    """The processes of the session, while its agent is alive."""
    agent = record.place.agent
    if agent is None or not alive(record):
        return set()
    tree = processes.tree(processes.children(table), agent.process.pid)
    return {*tree, *process_marks.marked(table, [process_marks.mark(record)])[record.id]}


def _registered(home: str, conversation: str) -> list[int]:
    """Living processes that Claude's registry lists for a conversation."""
    found = []
    with suppress(OSError):
        for name in os.listdir(f"{home}/sessions"):
            one = claude.parse_registry(quick_read.read(f"{home}/sessions/{name}"))
            if one is None or one.conversation != conversation:
                continue
            start = number(one.start, TICKS)
            if start and isinstance(one.pid, int) and processes.alive(Process(one.pid, start)):
                found.append(one.pid)
    return found
