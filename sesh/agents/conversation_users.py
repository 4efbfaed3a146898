"""Who else is in a conversation: two processes in one would mix it up. Only looks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from sesh.agents import claude, launch_kit
from sesh.agents.launch_kit import Variables
from sesh.model.errors import TwinError
from sesh.model.parse import TICKS, number
from sesh.model.place import Process
from sesh.model.record import Kit, Record
from sesh.state import records
from sesh.system import processes, quick_read
from sesh.system.processes import Table

_FIRST_WORDS = 3  # of a command line, among which the program is


def check(record: Record, conversation: str, variables: Variables) -> None:
    """Raise when somebody else is in it. (What runs in a container, only its record tells.)"""
    who = _session(record, conversation)
    if who is None and not record.boxed:
        who = _process(record, conversation, variables)
    if who is not None:
        raise TwinError(
            f"{record.name}: {who} is in its conversation {conversation}; "
            f"end that one first, or sesh restart --fresh {record.name} starts a new one"
        )


def taken(record: Record, conversation: str) -> bool:
    """Is it another session's, be that alive or not?"""
    return bool(_others_in(record, conversation))


def rivals(record: Record) -> list[Record]:
    """Other sessions of such an agent in the same directory that are in no known conversation."""
    found = [one for one, _ in records.holding(record.spec.cwd) if one.id != record.id]
    alike = [one for one in found if (one.spec.cwd, one.spec.kit) == _whereabouts(record)]
    return [one for one in alike if one.agent.conversation is None]


def _whereabouts(record: Record) -> tuple[str, Kit | None]:
    return record.spec.cwd, record.spec.kit


def written(record: Record, path: str) -> bool:
    """Does another process of its program hold a file open for writing?"""
    return bool(_writers(record, [path], processes.table()))


# --- sessions ------------------------------------------------------------------------------------


def _others_in(record: Record, conversation: str) -> list[Record]:
    found = [one for one, _ in records.holding(conversation) if one.id != record.id]
    return [one for one in found if one.agent.conversation == conversation]


def _session(record: Record, conversation: str) -> str | None:
    """The living session that has it too."""
    others = _others_in(record, conversation)
    return next((one.name for one in others if lives(one)), None)


def lives(record: Record) -> bool:
    """Is its agent a living process of this machine?"""
    agent, place = record.place.agent, record.place
    here = place.machine == processes.here() and not place.far
    return agent is not None and here and processes.alive(agent.process)


# --- processes -----------------------------------------------------------------------------------


def _process(record: Record, conversation: str, variables: Variables) -> str | None:
    kit = record.spec.kit
    assert kit is not None
    table = processes.table()
    found = {*_registered(launch_kit.home(kit.kind, variables), conversation)}
    found |= {pid for pid in _of_program(record, table) if _names(pid, conversation)}
    found |= _writers(record, launch_kit.transcripts(kit, conversation, variables), table)
    found -= _own(record, table)
    return f"process {min(found)}" if found else None


def _writers(record: Record, paths: Iterable[str], table: Table) -> set[int]:
    """Others of its program that hold one of some files open for writing; readers do no harm."""
    real = {os.path.realpath(path) for path in paths}
    others = _of_program(record, table) - _own(record, table)
    return {pid for pid in others if processes.written_by(pid) & real}


def _own(record: Record, table: Table) -> set[int]:
    """Its own processes, while its agent lives."""
    agent = record.place.agent
    if agent is None or not lives(record):
        return set()
    tree = processes.tree(processes.children(table), agent.process.pid)
    return {*tree, *processes.marked(table, [processes.mark(record)])[record.id]}


def _registered(home: str, conversation: str) -> list[int]:
    """Living processes that Claude's registry names for it."""
    found = []
    with suppress(OSError):
        for name in os.listdir(f"{home}/sessions"):
            one = claude.registered(quick_read.read(f"{home}/sessions/{name}"))
            if one is None or one.conversation != conversation:
                continue
            start = number(one.start, TICKS)
            if start and isinstance(one.pid, int) and processes.alive(Process(one.pid, start)):
                found.append(one.pid)
    return found


def _of_program(record: Record, table: Table) -> set[int]:
    """Living processes of the session's program."""
    program = os.path.basename(record.spec.command[0])
    living = (stat.pid for stat in table.values() if stat.alive and stat.pid != os.getpid())
    return {pid for pid in living if program in _program(pid)}


def _program(pid: int) -> list[str]:
    return [os.path.basename(word) for word in processes.command(pid)[:_FIRST_WORDS]]


def _names(pid: int, conversation: str) -> bool:
    """Was it started with it: as a word, or behind `--resume=`?"""
    words = processes.command(pid)
    return any(word == conversation or word.endswith(f"={conversation}") for word in words)
