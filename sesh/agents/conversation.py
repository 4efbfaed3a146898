"""How a restart continues a conversation: does it still exist, and does no other process use it?"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime

from sesh.agents import activity, conversation_users, launch_kit
from sesh.model.agents import claude
from sesh.model.agents.hook_event import conversation_id
from sesh.model.errors import SeshError
from sesh.model.record import Kit, LaunchMode, Record
from sesh.model.text import quick_json
from sesh.model.value_object import Value
from sesh.places import agent_files
from sesh.places.agent_files import Variables
from sesh.system import files

_HEAD = 1 << 18  # bytes of a transcript that hold its directory and its first prompt


class Plan(Value):
    """The conversation of the next launch."""

    conversation: str | None
    mode: LaunchMode = LaunchMode.START


def plan(record: Record, variables: Variables, *, fresh: bool = False) -> Plan:
    """Choose the conversation of the next launch. Raises when the old one is gone or in use."""
    kit = record.spec.kit
    assert kit is not None
    if fresh:
        return _new(kit)
    if kit.conversation not in ("minted", "learned"):
        mode = LaunchMode.RESUME if kit.resume else LaunchMode.START
        return Plan(record.agent.conversation, mode)
    conversation = _known(record, variables)
    if conversation is not None:
        conversation_users.check(record, conversation, variables)
        if _is_there(record, conversation, variables):
            return Plan(conversation, LaunchMode.RESUME)
    return _begun_again(record, conversation, variables)


def _new(kit: Kit) -> Plan:
    return Plan(launch_kit.new_conversation() if kit.conversation == "minted" else None)


def _begun_again(record: Record, conversation: str | None, variables: Variables) -> Plan:
    """Begin a conversation that the agent has written nothing of: a copy, if it was to be one."""
    kit, origin = record.spec.kit, record.agent.forked_from
    assert kit is not None
    if origin is None:
        return Plan(conversation) if conversation else _new(kit)
    problem = unusable(kit, origin.conversation, variables)
    if problem:
        raise _lost(record, f"the conversation that it copies is gone ({problem})")
    return Plan(conversation or _new(kit).conversation, LaunchMode.FORK)


def _known(record: Record, variables: Variables) -> str | None:
    """The last conversation; None before the first one."""
    conversation = record.agent.conversation
    if conversation is None and record.place.agent_files_here:
        conversation = _by_transcript(record, variables)
    if conversation is None and _is_learned(record) and _was_prompted(record):
        remedy = f"record it with: sesh update {record.name} --conversation ID"
        raise _lost(record, f"its agent never reported its conversation; {remedy}")
    if conversation is not None and conversation_id(conversation) is None:
        raise _lost(record, f"invalid conversation {conversation!a}")
    return conversation


def _is_there(record: Record, conversation: str, variables: Variables) -> bool:
    """Is there something to resume? Raises when the conversation existed and is gone."""
    kit = record.spec.kit
    assert kit is not None
    if not record.place.agent_files_here or not kit.transcript:  # only the agent can tell
        return _is_learned(record) or _was_prompted(record)
    kept = agent_files.transcripts(kit, conversation, variables)
    if any(_holds_something(path, kit.kind) for path in kept):
        return True
    if kept or _is_learned(record) or _was_prompted(record):
        where = f"no transcript in {kit.transcript}"
        raise _lost(record, f"its conversation {conversation} is gone ({where})")
    return False  # the agent has got no prompt yet


def _lost(record: Record, why: str) -> SeshError:
    fresh = f"sesh restart --fresh {record.name} (starts a new conversation)"
    return SeshError(f"{record.name}: {why}; next: {fresh}")


def _is_learned(record: Record) -> bool:
    return record.spec.kit is not None and record.spec.kit.conversation == "learned"


def _holds_something(path: str, kind: str) -> bool:
    with suppress(OSError), files.open_binary(path, follow=True) as file:
        return kind != "claude" or claude.has_prompt(file.read(_HEAD))
    return False


def unusable(kit: Kit, conversation: str, variables: Variables) -> str | None:
    """Why a conversation can be neither resumed nor copied; None when it can."""
    kept = agent_files.transcripts(kit, conversation, variables)
    problem: str | None = f"no transcript of {conversation} in {kit.transcript}"
    for path in kept:
        problem = _problem(path, kit.kind)
        if problem is None:
            break
    return problem


def _problem(path: str, kind: str) -> str | None:
    try:
        with files.open_binary(path, follow=True) as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return f"{path} belongs to another user"
            if kind == "claude" and not claude.has_prompt(file.read(_HEAD)):
                return f"{path} has no prompt yet"
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None


def _was_prompted(record: Record) -> bool:
    """Has the agent ever got a prompt? Yes when there is no proof."""
    kit, launch = record.spec.kit, agent_files.launch_of(record)
    assert kit is not None
    event = agent_files.last_hook(launch)
    if record.agent.prompted or (event and event.prompted):
        return True
    if event and event.event == "SessionStart":  # and nothing since
        return False
    if kit.transcript and record.place.agent_files_here:  # a prompt would be in the transcript
        return event is None and record.place.generation > 1 and not _is_learned(record)
    if record.spec.prompt is not None and record.place.agent is not None:
        return True
    busy = activity.was_busy(launch)
    return event is None if busy is None else busy


# --- from its transcript -------------------------------------------------------------------------


def _by_transcript(record: Record, variables: Variables) -> str | None:
    """The conversation of an agent that has not reported it: the only transcript that was begun in
    its directory during this launch and belongs to no other session or process."""
    kit = record.spec.kit
    assert kit is not None
    if "{conversation}" not in kit.transcript:
        return None
    found = [
        path for path in agent_files.transcripts(kit, "*", variables) if _may_be_of(record, path)
    ]
    named = [(path, name) for path in found if (name := agent_files.conversation_in(path, kit))]
    left = [
        (path, name)
        for path, name in named
        if not conversation_users.in_other_record(record, name)
        and not conversation_users.open_elsewhere(record, path)
    ]
    if not left:
        return None
    never = "and its agent never reported its own"
    if len(left) > 1:
        count = f"{len(left)} conversations"
        raise _lost(record, f"{count} were started in its directory meanwhile, {never}")
    [(path, conversation)] = left
    for other in conversation_users.similar_sessions(record):
        if _may_be_of(other, path):
            begun = f"{conversation} was started in its directory while {other.name} ran there too"
            raise _lost(record, f"{begun}, {never}")
    return conversation


def _may_be_of(record: Record, path: str) -> bool:
    """Was this transcript begun in the session's directory during this launch?"""
    began = record.status.launched.timestamp()
    ended = record.status.ended.timestamp() if record.status.ended else float("inf")
    with suppress(OSError):
        if not began <= os.stat(path).st_mtime <= ended + 60:
            return False
        with files.open_binary(path, follow=True) as file:
            head = file.read(_HEAD)
        begun = _begun(head)
        here = f'"cwd":{quick_json.dumps(record.spec.cwd)}'.encode() in head
        return here and (begun is None or begun >= began)
    return False


def _begun(head: bytes) -> float | None:
    """When a transcript was begun, from its first line; None when that has no time."""
    try:
        moment = datetime.fromisoformat(quick_json.loads(head.partition(b"\n")[0])["timestamp"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return moment.timestamp() if moment.tzinfo else None
