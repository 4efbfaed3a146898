"""Can an agent's work be resumed? Finds its session by name, id or conversation. Read-only.

A problem with a record is also an answer: no, with the reason.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sesh.agents import conversation_users
from sesh.model import progress
from sesh.model.configuration import Config
from sesh.model.progress import Answer
from sesh.model.record import ID_PATTERN, Record
from sesh.places import agent_files, environment, launch_files
from sesh.state import history, log_files, records
from sesh.state.records import Entry

_WITH_CONVERSATION = ("minted", "learned")  # `conversation` of agents that have one


def check(entry: Entry | None, name: str, settings: Config) -> Answer:
    """The answer for a record file, damaged or not."""
    if entry is None:
        return Answer(False, f"no session named {name}")
    record = entry.record
    if not isinstance(record, Record):
        return Answer(False, f"its record is damaged: {record.reason}")
    now = datetime.now(UTC)
    conversation, last = has_conversation(record), last_sign_of_life(record)
    return progress.resumable(record, now, settings.resume, conversation, last)


def has_conversation(record: Record) -> bool | None:
    """Does it have a conversation to resume? None: it needs none, because its process is alive, or
    because another program runs the agent, and its template names no kind of conversation."""
    if record.place.has_process and conversation_users.alive(record):
        return None
    kit, conversation = record.spec.kit, record.agent.conversation
    if conversation and kit and kit.transcript and record.place.agent_files_here:
        return bool(
            agent_files.transcripts(kit, conversation, environment.known(record.place.snapshot))
        )
    if conversation:
        return True
    if not record.place.has_process and (kit is None or kit.conversation not in _WITH_CONVERSATION):
        return None
    return False


def last_sign_of_life(record: Record) -> datetime | None:
    """When its process last printed something or called `sesh update`."""
    if not record.place.has_process:
        return None
    last = max(log_files.last_output(record.id) or 0.0, launch_files.last_beat(record))
    return datetime.fromtimestamp(last, UTC) if last else None


# --- lookup --------------------------------------------------------------------------------------


def find(key: str) -> Entry | None:
    """The record with this name, id (also in the history) or conversation."""
    return records.entry(key) or _by_id(key) or _by_conversation(key)


def _by_id(key: str) -> Entry | None:
    if not re.fullmatch(ID_PATTERN, key):
        return None
    found = [entry for name in records.names_of(key) if (entry := records.entry(name))]
    for entry in found:
        if entry.readable and entry.readable.id == key:
            return entry
    damaged = (entry for entry in found if not entry.readable)
    return history.entry(key) or next(damaged, None)


def _by_conversation(key: str) -> Entry | None:
    """The newest record with this conversation."""
    if not key or len(key) > 200:
        return None
    try:
        found = records.having("conversation", key)
    except OSError:
        return None
    mine = [pair for pair in found if pair[0].agent.conversation == key]
    return max(mine, key=lambda pair: pair[0].spec.created)[1] if mine else None
