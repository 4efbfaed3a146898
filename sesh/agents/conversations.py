"""The conversations that agents keep in their files, whoever began them. Read-only and bounded: of
many files only the newest are read, and of a large one only its beginning and its end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from sesh.agents import conversation as one_conversation
from sesh.agents import conversation_users
from sesh.agents.conversation_users import User
from sesh.model.agents import outline
from sesh.model.agents.hook_event import conversation_id
from sesh.model.agents.outline import Outline
from sesh.model.errors import ConversationInUseError, SeshError, UsageError
from sesh.model.record import Kit
from sesh.model.text import parse
from sesh.model.value_object import Value
from sesh.places import agent_files
from sesh.places.agent_files import Variables
from sesh.state import records
from sesh.system import files

LAST = "last"
MOST = 300  # conversations in a list
_MOST_LOOKED_AT = 3000  # files, for those of a directory
_SNIFF, _HEAD, _TAIL = 1 << 14, 1 << 18, 1 << 16  # bytes of a file that are read
_WHOLE = 16 << 20  # bytes of a file that is read as a whole, to count its turns
_BUDGET = 64 << 20  # bytes of all these
_LEAST = 4  # characters of an abbreviated id


class Agent(Value):
    """A kind of agent, as a template describes it."""

    kit: Kit
    program: str


class Conversation(Value):
    """A conversation and who is in it."""

    id: str
    kind: str
    path: str
    changed: float
    size: int
    directory: str | None
    outline: Outline
    user: User | None = None  # that uses it now
    session: str | None = None  # the name of the newest session that was in it


class _File(Value):
    """A transcript that was found."""

    id: str
    path: str
    changed: float
    size: int


# --- lists ---------------------------------------------------------------------------------------


def listed(
    agents: Iterable[Agent], directory: str | None, variables: Variables
) -> tuple[list[Conversation], bool]:
    """The newest conversations of these agents that were begun in a directory (None: anywhere), the
    last changed one first; and whether there are more."""
    found: list[tuple[Agent, Conversation]] = []
    more, budget = False, _BUDGET
    for agent in agents:
        kept, rest = _of_agent(agent, directory, variables)
        more = more or rest
        found += [(agent, one) for one in kept]
    found.sort(key=lambda pair: -pair[1].changed)
    chosen = []
    for agent, one in found[:MOST]:
        whole = one.size <= min(_WHOLE, budget)
        budget -= one.size if whole else 0
        shown = _outlined(one, whole=whole)
        if shown is not None and shown.outline.own:
            chosen.append((agent, shown))
    return _with_users(chosen, variables), more or len(found) > MOST


def _of_agent(
    agent: Agent, directory: str | None, variables: Variables
) -> tuple[list[Conversation], bool]:
    """Those of one agent, without outlines."""
    everything = _files(agent.kit, variables)
    found: list[Conversation] = []
    for at, file in enumerate(everything):
        if len(found) == MOST or at == _MOST_LOOKED_AT:
            return found, True
        where = _directory(file.path)
        if directory is None or (where is not None and _same(where, directory)):
            values = (file.id, agent.kit.kind, file.path, file.changed, file.size, where)
            found.append(Conversation(*values, Outline()))
    return found, False


def _files(kit: Kit, variables: Variables) -> list[_File]:
    """All transcripts of an agent, the last changed one first."""
    if "{conversation}" not in kit.transcript:
        return []
    before, _, after = os.path.basename(kit.transcript).partition("{conversation}")
    found = []
    for path in agent_files.transcripts(kit, "*", variables):
        name = agent_files.conversation_in(path, kit)
        exact = bool(before) or os.path.basename(path) == f"{name}{after}"
        if name is None or conversation_id(name) is None or not exact:
            continue
        with suppress(OSError):
            status = os.stat(path)
            changed = parse.moment(status.st_mtime, time.time())
            found.append(_File(name, path, changed, status.st_size))
    return sorted(found, key=lambda file: -file.changed)


def _directory(path: str) -> str | None:
    with suppress(OSError):
        for much in (_SNIFF, _HEAD):
            head = _read(path, much)[0]
            found = outline.directory(head)
            if found is not None or len(head) < much:
                return found
    return None


def _same(one: str, other: str) -> bool:
    return one == other or one == os.path.realpath(other)


def _outlined(one: Conversation, *, whole: bool) -> Conversation | None:
    """With its outline; None when it cannot be read."""
    try:
        head, tail = _read(one.path, _WHOLE if whole else _HEAD, 0 if whole else _TAIL)
    except OSError:
        return None
    shown = outline.outline(one.kind, head, tail, whole=whole)
    values = (one.id, one.kind, one.path, one.changed, one.size, one.directory)
    return Conversation(*values, shown)


def _read(path: str, first: int, last: int = 0) -> tuple[bytes, bytes]:
    """The beginning and the end of a regular file of ours."""
    with files.open_binary(path, follow=True) as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid():
            raise PermissionError(path)
        head = file.read(first)
        at = max(len(head), status.st_size - last)
        file.seek(at)
        return head, file.read(last)


def _with_users(
    found: Iterable[tuple[Agent, Conversation]], variables: Variables
) -> list[Conversation]:
    """The same with who is in them."""
    pairs = list(found)
    users: dict[tuple[str, str], User] = {}
    for agent in dict.fromkeys(agent for agent, _ in pairs):
        mine = {one.id: [one.path] for other, one in pairs if other == agent}
        using = conversation_users.users(agent.kit, agent.program, mine, variables)
        users |= {(agent.kit.kind, name): user for name, user in using.items()}
    sessions = _sessions() if pairs else {}
    return [
        Conversation(
            *(one.id, one.kind, one.path, one.changed, one.size, one.directory, one.outline),
            user=users.get((one.kind, one.id)),
            session=sessions.get(one.id),
        )
        for _, one in pairs
    ]


def _sessions() -> Mapping[str, str]:
    """The newest session of each conversation."""
    known = [entry.readable for entry in records.entries() if entry.readable]
    known.sort(key=lambda record: record.spec.created)
    return {one.agent.conversation: one.name for one in known if one.agent.conversation}


# --- one that a new session continues ------------------------------------------------------------


def chosen(agent: Agent, given: str, directory: str, variables: Variables) -> Conversation:
    """The conversation that `given` names (an id, the beginning of one, or `last`), proven to be
    one that a session in this directory can continue; raises where it is not."""
    if given != LAST and conversation_id(given) is None:
        raise UsageError(f"--conversation {given!a}: invalid id; sesh conversations lists them")
    kind = agent.kit.kind
    if given != LAST and agent_files.transcripts(agent.kit, given, variables):
        found = _exactly(agent, given, directory, variables)
    else:
        here, _ = listed([agent], directory, variables)
        found = _last(kind, here, directory) if given == LAST else _begins(kind, here, given)
    problem = one_conversation.unusable(agent.kit, found.id, variables)
    if problem:
        raise SeshError(f"--conversation {given}: {problem}")
    if found.user is not None:
        raise _in_use(found.id, found.user)
    return found


def _exactly(agent: Agent, given: str, directory: str, variables: Variables) -> Conversation:
    file = next((file for file in _files(agent.kit, variables) if file.id == given), None)
    if file is None:
        raise SeshError(
            f"--conversation {given}: {agent.kit.transcript} holds no such conversation"
        )
    where = _directory(file.path)
    if where is not None and not _same(where, directory):
        raise SeshError(f"conversation {given} was begun in {where}; start it there, with -C")
    one = Conversation(given, agent.kit.kind, file.path, file.changed, file.size, where, Outline())
    shown = _outlined(one, whole=False)
    return _with_users([(agent, shown or one)], variables)[0]


def _last(kind: str, here: list[Conversation], directory: str) -> Conversation:
    free = next((one for one in here if one.user is None), None)
    if free is not None:
        return free
    if here and here[0].user:
        raise _in_use(here[0].id, here[0].user)
    raise SeshError(
        f"no conversation of {kind} was started in {directory}; next: sesh conversations -a"
    )


def _begins(kind: str, here: list[Conversation], given: str) -> Conversation:
    found = [one for one in here if one.id.startswith(given) and len(given) >= _LEAST]
    if not found:
        raise SeshError(f"no conversation {given} of {kind} here; sesh conversations lists them")
    if len(found) > 1:
        raise SeshError(f"{len(found)} conversations begin with {given}; give more of the id")
    return found[0]


def _in_use(conversation: str, user: User) -> ConversationInUseError:
    copy = f", or copy it: sesh fork {user.session}" if user.session else ""
    return ConversationInUseError(f"{user} uses conversation {conversation}; end it first{copy}")
