"""Copies of conversations: which agents can make one, and whether that of a session can be copied.
Read-only."""

from __future__ import annotations

from sesh.agents import conversation, conversation_users
from sesh.agents.templates import built_in
from sesh.model.agents.hook_event import conversation_id
from sesh.model.errors import CannotTellError, SeshError
from sesh.model.record import Kit, Origin, Record
from sesh.places import agent_files
from sesh.places.agent_files import Variables
from sesh.system import processes


def check(record: Record) -> Kit:
    """The kit that a session is forked with; raises where that is not possible."""
    kit = record.spec.kit
    if kit is None:
        why = "it runs no agent that sesh knows (see sesh start -t)"
        raise SeshError(f"{record.name} cannot be forked: {why}")
    if not record.place.agent_files_here:
        why = f"the files of its agent are out of reach in place {record.place.kind}"
        raise SeshError(f"{record.name} cannot be forked: {why}")
    if record.place.machine.id != processes.here().id:
        raise CannotTellError(f"{record.name} is another machine's; fork it there")
    kit = built_in.with_fork(kit)
    if not kit.fork:
        agents = " and ".join(one.kind for one in built_in.kits() if one.fork)
        raise SeshError(f"{record.name}: {kit.kind} cannot fork a conversation; {agents} can")
    return kit


def origin(record: Record, kit: Kit, variables: Variables) -> Origin:
    """The conversation of a session, proven to be one that can be copied; raises where it is not.
    A living agent may be in it: a copy only reads it."""
    known = record.agent.conversation
    if conversation_users.alive(record):
        known = agent_files.current_conversation(record) or known
    if conversation_id(known) is None:
        why = "its conversation is not known yet; prompt it first"
        raise SeshError(f"{record.name} cannot be forked: {why}: sesh send {record.name} TEXT")
    assert known is not None
    problem = conversation.unusable(kit, known, variables)
    if problem:
        raise SeshError(f"{record.name} cannot be forked: {problem}")
    return Origin(record.id, record.name, known)
