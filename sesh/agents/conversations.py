"""Back into the same conversation: is it still there, and is nobody else in it?"""

from __future__ import annotations

import os
from contextlib import suppress

from sesh import guards, processes
from sesh.agents import activity, claude, kits
from sesh.agents.kits import Variables
from sesh.agents.said import identity
from sesh.errors import ConflictError, SeshError
from sesh.model import AgentWord, Process, Record
from sesh.values import Value, replace

_HEAD = 1 << 18  # bytes of a transcript in which its agent says where it works, and with whom
_FIRST_WORDS = 3  # of a command line, among which the program is


class Plan(Value):
    """How the next launch begins."""

    agent: AgentWord
    resuming: bool = False


def plan(record: Record, variables: Variables, *, fresh: bool = False) -> Plan:
    """How to launch it again; raises when its conversation is gone or somebody else is in it."""
    kit, word = record.spec.kit, record.agent
    if kit is None:
        return Plan(word)
    if fresh:
        return Plan(kits.minted(replace(record, agent=replace(word, conversation=None))).agent)
    if kit.conversation not in ("minted", "learned"):
        return Plan(word, resuming=bool(kit.resume))
    conversation = word.conversation
    if conversation is None and not record.boxed:
        conversation = _by_transcript(record, variables)
    if conversation is None and kit.conversation == "learned" and not kit.transcript:
        raise SeshError(
            f"{record.name}: its agent never said which conversation it was in; "
            f"sesh restart --fresh {record.name} starts a new one"
        )
    if conversation is None:
        return Plan(word)
    if identity(conversation) is None:
        raise SeshError(
            f"{record.name}: {conversation!a} can be no conversation of its agent; "
            f"sesh restart --fresh {record.name} starts a new one"
        )
    word = replace(word, conversation=conversation)
    if record.boxed:  # what is in there, only its agent knows: it says so when there is nothing
        return Plan(word, resuming=_was_prompted(record))
    _check_alone(record, conversation, variables)
    kept = kits.transcripts(kit, conversation, variables)
    if not kit.transcript or any(_holds_something(path, kit.kind) for path in kept):
        return Plan(word, resuming=True)
    if kept or _was_prompted(record) or kit.conversation == "learned":
        raise SeshError(
            f"{record.name}: its conversation {conversation} is gone (nothing of it is "
            f"in {kit.transcript}); sesh restart --fresh {record.name} starts a new one"
        )
    return Plan(word)  # nobody has said anything yet: there is nothing to go on with


def _holds_something(path: str, kind: str) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        return kind != "claude" or claude.begun(file.read(_HEAD))
    return False


def _was_prompted(record: Record) -> bool:
    """Has it ever been given something to do, as far as its hooks said?"""
    heard = activity.heard(activity.launch_of(record))
    return record.place.generation > 1 if heard is None else heard.prompted


def _by_transcript(record: Record, variables: Variables) -> str | None:
    """The conversation of an agent that never came to say which: the one transcript that was begun
    in its directory during this launch."""
    kit = record.spec.kit
    assert kit is not None
    if "{conversation}" not in kit.transcript:
        return None
    began = record.status.launched.timestamp()
    ended = record.status.ended.timestamp() if record.status.ended else float("inf")
    found = []
    for path in kits.transcripts(kit, "*", variables):
        with suppress(OSError):
            status = os.stat(path)
            if began <= status.st_mtime <= ended + 60 and _is_of(path, record.spec.cwd):
                found.append(path)
    if len(found) > 1:
        raise SeshError(
            f"{record.name}: {len(found)} conversations were begun in its directory meanwhile, and "
            f"its agent never said which is its own; sesh restart --fresh {record.name} starts "
            "a new one"
        )
    return kits.conversation_in(found[0], kit) if found else None


def _is_of(path: str, cwd: str) -> bool:
    """Does it say that it was begun in this directory?"""
    import json

    with open(path, "rb") as file:
        head = file.read(_HEAD)
    return f'"cwd":{json.dumps(cwd)}'.encode() in head


# --- nobody else ---------------------------------------------------------------------------------


def _check_alone(record: Record, conversation: str, variables: Variables) -> None:
    """Two processes in one conversation would mix it up."""
    kit = record.spec.kit
    assert kit is not None
    program = os.path.basename(record.spec.command[0])
    twins = {*_registered(kits.home(kit.kind, variables), conversation)}
    twins |= {*_by_words(conversation, program)}
    if twins:
        pid = min(twins)
        raise ConflictError(
            f"{record.name}: process {pid} is in its conversation {conversation}; "
            f"end that one first, or sesh restart --fresh {record.name} starts a new one"
        )


def _registered(home: str, conversation: str) -> list[int]:
    """Living processes that Claude's registry names for it."""
    found = []
    with suppress(OSError):
        for name in os.listdir(f"{home}/sessions"):
            one = claude.registered(guards.read(f"{home}/sessions/{name}"))
            if one is None or one.conversation != conversation or not one.start.isdigit():
                continue
            if isinstance(one.pid, int) and processes.alive(Process(one.pid, int(one.start))):
                found.append(one.pid)
    return found


def _by_words(conversation: str, program: str) -> list[int]:
    """Living processes of this program that were started with it."""
    found = []
    for stat in processes.table().values():
        if not stat.alive or stat.pid == os.getpid():
            continue
        words = processes.command(stat.pid)
        names = [os.path.basename(word) for word in words[:_FIRST_WORDS]]
        if program in names and conversation in words:
            found.append(stat.pid)
    return found
