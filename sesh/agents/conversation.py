"""Back into the same conversation: is it still there, and is nobody else in it?"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import datetime

from sesh.agents import activity, claude, conversation_users, launch_kit
from sesh.agents.last_event import identity
from sesh.agents.launch_kit import Variables
from sesh.model.errors import SeshError
from sesh.model.record import Kit, Record
from sesh.model.value_object import Value
from sesh.system import files

_HEAD = 1 << 18  # bytes of a transcript in which its agent says where it works, and with whom


class Plan(Value):
    """How the next launch begins."""

    conversation: str | None
    resuming: bool = False


def plan(record: Record, variables: Variables, *, fresh: bool = False) -> Plan:
    """How to launch it again; raises when its conversation is gone or somebody else is in it."""
    kit = record.spec.kit
    assert kit is not None
    if fresh:
        return _anew(kit)
    if kit.conversation not in ("minted", "learned"):
        return Plan(record.agent.conversation, resuming=bool(kit.resume))
    conversation = _known(record, variables)
    if conversation is None:
        return _anew(kit)
    conversation_users.check(record, conversation, variables)
    return Plan(conversation, resuming=_is_there(record, conversation, variables))


def _anew(kit: Kit) -> Plan:
    return Plan(launch_kit.new_conversation() if kit.conversation == "minted" else None)


def _known(record: Record, variables: Variables) -> str | None:
    """The conversation that it was in; None: in none yet."""
    conversation = record.agent.conversation
    if conversation is None and record.place.agent_files_here:
        conversation = _by_transcript(record, variables)
    if conversation is None and _is_learned(record) and _was_prompted(record):
        says = f"sesh update {record.name} --conversation ID says it"
        raise _lost(record, f"its agent never said which conversation it was in; {says}")
    if conversation is not None and identity(conversation) is None:
        raise _lost(record, f"{conversation!a} can be no conversation of its agent")
    return conversation


def _is_there(record: Record, conversation: str, variables: Variables) -> bool:
    """Is there something to go on with? Raises when there was, and it is gone."""
    kit = record.spec.kit
    assert kit is not None
    if not record.place.agent_files_here or not kit.transcript:  # only its agent knows
        return _is_learned(record) or _was_prompted(record)
    kept = launch_kit.transcripts(kit, conversation, variables)
    if any(_holds_something(path, kit.kind) for path in kept):
        return True
    if kept or _is_learned(record) or _was_prompted(record):
        where = f"nothing of it is in {kit.transcript}"
        raise _lost(record, f"its conversation {conversation} is gone ({where})")
    return False  # nobody has said anything yet


def _lost(record: Record, why: str) -> SeshError:
    return SeshError(f"{record.name}: {why}; sesh restart --fresh {record.name} starts a new one")


def _is_learned(record: Record) -> bool:
    return record.spec.kit is not None and record.spec.kit.conversation == "learned"


def _holds_something(path: str, kind: str) -> bool:
    with suppress(OSError), files.open_binary(path, follow=True) as file:
        return kind != "claude" or claude.begun(file.read(_HEAD))
    return False


def _was_prompted(record: Record) -> bool:
    """Has it ever been given something to do? Where nobody could tell: yes."""
    kit, launch = record.spec.kit, activity.launch_of(record)
    assert kit is not None
    heard = activity.heard(launch)
    if record.agent.prompted or (heard and heard.prompted):
        return True
    if heard and heard.event == "SessionStart":  # and nothing since
        return False
    if kit.transcript and record.place.agent_files_here:  # which would be there
        return heard is None and record.place.generation > 1 and not _is_learned(record)
    if record.spec.prompt is not None and record.place.agent is not None:
        return True
    worked = activity.has_worked(launch)
    return heard is None if worked is None else worked


# --- by its transcript ---------------------------------------------------------------------------


def _by_transcript(record: Record, variables: Variables) -> str | None:
    """The conversation of an agent that never came to say which: the one transcript that was begun
    in its directory during this launch, and is nobody else's."""
    kit = record.spec.kit
    assert kit is not None
    if "{conversation}" not in kit.transcript:
        return None
    found = [
        path for path in launch_kit.transcripts(kit, "*", variables) if _may_be_of(record, path)
    ]
    named = [(path, name) for path in found if (name := launch_kit.conversation_in(path, kit))]
    free = [one for one in named if not conversation_users.taken(record, one[1])]
    left = [one for one in free if not conversation_users.written(record, one[0])]
    if not left:
        return None
    never = "and its agent never said which is its own"
    if len(left) > 1:
        count = f"{len(left)} conversations"
        raise _lost(record, f"{count} were begun in its directory meanwhile, {never}")
    [(path, conversation)] = left
    rival = next((one for one in conversation_users.rivals(record) if _may_be_of(one, path)), None)
    if rival:
        begun = f"{conversation} was begun in its directory while {rival.name} ran there too"
        raise _lost(record, f"{begun}, {never}")
    return conversation


def _may_be_of(record: Record, path: str) -> bool:
    """Was it begun in the session's directory, and during this launch?"""
    began = record.status.launched.timestamp()
    ended = record.status.ended.timestamp() if record.status.ended else float("inf")
    with suppress(OSError):
        if not began <= os.stat(path).st_mtime <= ended + 60:
            return False
        with files.open_binary(path, follow=True) as file:
            head = file.read(_HEAD)
        begun = _begun(head)
        here = f'"cwd":{json.dumps(record.spec.cwd)}'.encode() in head
        return here and (begun is None or begun >= began)
    return False


def _begun(head: bytes) -> float | None:
    """When a transcript was begun, by its first line; None: it does not say."""
    try:
        moment = datetime.fromisoformat(json.loads(head.partition(b"\n")[0])["timestamp"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return moment.timestamp() if moment.tzinfo else None
