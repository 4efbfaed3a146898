"""What was said in the conversations of a session, by its agent's transcripts."""

from __future__ import annotations

from collections.abc import Iterator

from sesh.agents import transcripts
from sesh.agents.transcripts import Files
from sesh.agents.usage import session
from sesh.model.agents.turns import Turn
from sesh.model.errors import SeshError
from sesh.model.record import Record
from sesh.model.value_object import Value
from sesh.places import environment
from sesh.system import processes


class Conversation(Value):
    """A conversation, and where its transcripts are."""

    kind: str
    id: str
    files: Files

    def turns(self) -> Iterator[Turn]:
        return transcripts.turns(self.kind, self.files.main, follow=self.files.follow)


def kind_of(record: Record) -> str:
    """The kind of its agent. Raises when sesh cannot read what that says."""
    kit = record.spec.kit
    why = transcripts.why_none(kit.kind if kit else "a command that is started without a template")
    if why is not None or kit is None:
        raise SeshError(f"{record.name}: {why}")
    if record.place.machine.id != processes.here().id:
        raise SeshError(f"{record.name}: its transcripts are on another machine")
    return kit.kind


def current(record: Record) -> Conversation | None:
    """The conversation that its agent is in, or was in last; None: nothing was said yet."""
    kind = kind_of(record)
    now, _ = session.conversations(record)
    return _found(record, kind, now) if now is not None else None


def every(record: Record) -> list[Conversation]:
    """All conversations of the session whose transcripts are there, the current one last."""
    kind = kind_of(record)
    now, others = session.conversations(record)
    known = [_found(record, kind, one) for one in (*others, now) if one is not None]
    return [one for one in known if one is not None]


def _found(record: Record, kind: str, conversation: str) -> Conversation | None:
    variables = environment.known(record.place.snapshot)
    files = transcripts.find(record, conversation, variables)
    if files.main:
        return Conversation(kind, conversation, files)
    if record.place.agent_files_here:
        return None
    raise SeshError(f"{record.name}: {files.reason}")


def turns(record: Record) -> Iterator[Turn]:
    """The turns of the current conversation. Raises when its transcript cannot be read."""
    found = current(record)
    if found is None:
        return
    try:
        yield from found.turns()
    except OSError as error:
        where, why = error.filename or found.files.main[0], error.strerror or "cannot be read"
        raise SeshError(f"{record.name}: its transcript {where}: {why}") from None
