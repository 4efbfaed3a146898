"""May an agent's work be gone on with? Whose it is, found by what others call it; and the answer.

Only looks. Whatever is wrong with a record is an answer too: no, and why.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sesh.agents import conversation_users
from sesh.model import progress
from sesh.model.configuration import Config
from sesh.model.progress import Answer, Thresholds
from sesh.model.record import ID_PATTERN, Record, name_of
from sesh.places import environment, launch_files
from sesh.state import history, log_files, records
from sesh.state.records import Entry

LEARNED = ("minted", "learned")  # kinds of agents that have a conversation


def ask(entry: Entry | None, name: str, settings: Config) -> Answer:
    """The answer for a record file, whatever is in it."""
    if entry is None:
        return Answer(False, f"no session named {name}")
    record = entry.record
    if not isinstance(record, Record):
        return Answer(False, f"its record is damaged: {record.reason}")
    now = datetime.now(UTC)
    there = conversation_there(record)
    return progress.resumable(record, now, thresholds(settings), there, heard(record))


def thresholds(settings: Config) -> Thresholds:
    resume = settings.resume
    return Thresholds(resume.max_idle, int(resume.max_errors), resume.phases)


def conversation_there(record: Record) -> bool | None:
    """Has it a conversation that can be resumed? None: it needs none, because its process is alive,
    or because the maker of the record runs the agent, and has not said that it is of a kind that
    has conversations."""
    if record.place.has_process and conversation_users.lives(record):
        return None
    kit, conversation = record.spec.kit, record.agent.conversation
    if conversation and kit and kit.transcript and record.place.agent_files_here:
        from sesh.agents import launch_kit

        return bool(
            launch_kit.transcripts(kit, conversation, environment.known(record.place.snapshot))
        )
    if conversation:
        return True
    if not record.place.has_process and (kit is None or kit.conversation not in LEARNED):
        return None
    return False


def heard(record: Record) -> datetime | None:
    """When its process gave the last sign of life: output, or a plain `sesh update`."""
    if not record.place.has_process:
        return None
    last = max(log_files.last_output(record.id) or 0.0, launch_files.last_beat(record))
    return datetime.fromtimestamp(last, UTC) if last else None


# --- whose? --------------------------------------------------------------------------------------


def find(key: str) -> Entry | None:
    """The record of a name, of an id (in the history too) or of a conversation."""
    return records.entry(key) or _by_id(key) or _by_conversation(key)


def _by_id(key: str) -> Entry | None:
    if not re.fullmatch(ID_PATTERN, key):
        return None
    entry = records.entry(name_of(key))
    if entry is not None and isinstance(entry.record, Record) and entry.record.id == key:
        return entry
    return history.entry(key) or (entry if entry and not isinstance(entry.record, Record) else None)


def _by_conversation(key: str) -> Entry | None:
    """The newest of them."""
    if not key or len(key) > 200:
        return None
    try:
        found = records.having("conversation", key)
    except OSError:
        return None
    mine = [(r.spec.created, one) for r, one in found if r.agent.conversation == key]
    return max(mine, key=lambda one: one[0])[1] if mine else None
