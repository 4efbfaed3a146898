"""Who else uses a conversation: two processes would corrupt it. Read-only."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from sesh.model.agents import claude
from sesh.model.errors import ConversationInUseError
from sesh.model.place import Process
from sesh.model.record import Kit, Record
from sesh.model.text.parse import TICKS, number
from sesh.model.value_object import Value
from sesh.places import agent_files
from sesh.places.agent_files import Variables
from sesh.state import records
from sesh.system import process_marks, processes, quick_read
from sesh.system.processes import Table

_DEEPEST = 12  # processes between the one that writes a conversation and the launched agent


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


class User(Value):
    """Who uses a conversation: a session, or a process outside of sesh."""

    session: str | None
    pid: int | None

    def __str__(self) -> str:
        return f"session {self.session}" if self.session else f"process {self.pid}"


def users(
    kit: Kit, program: str, conversations: Mapping[str, Collection[str]], variables: Variables
) -> dict[str, User]:
    """Who uses these conversations, each with its files."""
    table = processes.table()
    sessions = [entry.readable for entry in records.entries() if entry.readable]
    agents = {
        one.place.agent.process.pid: one.name for one in sessions if one.place.agent and alive(one)
    }
    candidates = processes.of_program(table, program)
    found = {}
    for conversation, pid in _processes(kit, candidates, conversations, variables).items():
        name = next((agents[one] for one in _upwards(pid, table) if one in agents), None)
        found[conversation] = User(name, None if name else pid)
    for record in sessions:
        known = record.agent.conversation
        if known in conversations and _may_use(record):
            found[known or ""] = User(record.name, None)
    return found


def _upwards(pid: int, table: Table) -> Iterator[int]:
    """A process and those above it."""
    for _ in range(_DEEPEST):
        yield pid
        if pid not in table:
            return
        pid = table[pid].ppid


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
    return bool(_writers(_others(record, table, _own(record, table)), {path: ""}))


# --- sessions ------------------------------------------------------------------------------------


def _others_in(record: Record, conversation: str) -> list[Record]:
    found = [one for one, _ in records.having("conversation", conversation) if one.id != record.id]
    return [one for one in found if one.agent.conversation == conversation]


def alive(record: Record) -> bool:
    """Is its agent a living process on this machine?"""
    agent, place = record.place.agent, record.place
    here = place.machine == processes.here() and place.pids_here
    return agent is not None and here and processes.alive(agent.process)


def _may_use(record: Record) -> bool:
    """Is its agent alive, or will it be retried? (That of another machine may be alive.)"""
    elsewhere = record.place.machine != processes.here()
    unseen = elsewhere and record.place.has_process and record.status.outcome is None
    return alive(record) or unseen or record.status.retry_at is not None


# --- processes -----------------------------------------------------------------------------------


def _process(record: Record, conversation: str, variables: Variables) -> str | None:
    kit = record.spec.kit
    assert kit is not None
    table = processes.table()
    own = _own(record, table)
    paths = agent_files.transcripts(kit, conversation, variables)
    others = _others(record, table, own)
    found = _processes(kit, others, {conversation: paths}, variables, own)
    return f"process {found[conversation]}" if found else None


def _processes(
    kit: Kit,
    candidates: Mapping[int, list[str]],
    conversations: Mapping[str, Collection[str]],
    variables: Variables,
    own: Collection[int] = (),
) -> dict[str, int]:
    """The process with the lowest pid that uses each of these conversations."""
    found = [*_registered(agent_files.home(kit.kind, variables))]
    for pid, words in candidates.items():  # on a command line: as an argument, or after `--resume=`
        named = {word.rpartition("=")[2] for word in words} & conversations.keys()
        if named and not _is_fork(kit, words):
            found += [(name, pid) for name in named]
    paths = {path: name for name, kept in conversations.items() for path in kept}
    found += _writers(candidates, paths)
    users = sorted((pid, name) for name, pid in found if name in conversations and pid not in own)
    return {name: pid for pid, name in reversed(users)}


def _is_fork(kit: Kit, words: Collection[str]) -> bool:
    """Does a command line only copy the conversation that it names? It has a word of the template's
    `fork` that no other launch has."""
    from sesh.agents.templates import built_in

    fork = built_in.with_fork(kit).fork
    marks = {word for word in fork if "{" not in word} - {*kit.start, *kit.resume}
    return bool(marks) and marks <= {*words}


def _others(record: Record, table: Table, own: set[int]) -> dict[int, list[str]]:
    """Living processes of the same program outside of the session, with their command lines."""
    found = processes.of_program(table, os.path.basename(record.spec.command[0]))
    return {pid: words for pid, words in found.items() if pid not in own}


def _writers(others: Iterable[int], paths: Mapping[str, str]) -> list[tuple[str, int]]:
    """The processes that hold one of these files open for writing, each with the conversation in
    it. Readers do no harm."""
    from sesh.system import process_usage

    real = {os.path.realpath(path): conversation for path, conversation in paths.items()}
    return [(real[path], pid) for pid in others for path in process_usage.written_by(pid) & {*real}]


def _own(record: Record, table: Table) -> set[int]:
    """The processes of the session, while its agent is alive."""
    agent = record.place.agent
    if agent is None or not alive(record):
        return set()
    tree = processes.tree(processes.children(table), agent.process.pid)
    return {*tree, *process_marks.marked(table, [process_marks.mark(record)])[record.id]}


def _registered(home: str) -> Iterator[tuple[str, int]]:
    """The conversations in Claude's registry whose process lives, each with that."""
    try:
        names = os.listdir(f"{home}/sessions")
    except OSError:
        return
    for name in names:
        with suppress(OSError):
            one = claude.parse_registry(quick_read.read(f"{home}/sessions/{name}"))
            if one is None or one.conversation is None:
                continue
            start = number(one.start, TICKS)
            if start and isinstance(one.pid, int) and processes.alive(Process(one.pid, start)):
                yield one.conversation, one.pid
