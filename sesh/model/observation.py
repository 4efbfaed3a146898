"""The observation of a session, and the verdict that follows from it. Data only."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from sesh.model.place import Agent, Process
from sesh.model.record import Record
from sesh.model.states import Cause, State
from sesh.model.value_object import Value


class Presence(StrEnum):
    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Sight(Value):
    """One thing that was looked for. ABSENT needs proof; UNKNOWN has a reason."""

    presence: Presence
    what: str

    @property
    def present(self) -> bool:
        return self.presence is Presence.PRESENT

    @property
    def absent(self) -> bool:
        return self.presence is Presence.ABSENT

    @property
    def unknown(self) -> bool:
        return self.presence is Presence.UNKNOWN


def seen(what: str) -> Sight:
    return Sight(Presence.PRESENT, what)


def absent(what: str) -> Sight:
    return Sight(Presence.ABSENT, what)


def unknown(why: str) -> Sight:
    return Sight(Presence.UNKNOWN, why)


class ExitReport(Value):
    """How the agent of one generation ended, as its keeper wrote."""

    generation: int
    code: int
    terminal: bool  # was the terminal still there
    at: datetime
    problem: str | None = None  # why the command could not even be executed


class LaunchReport(Value):
    """That the agent of one generation began, as its launch wrote."""

    generation: int
    agent: Agent
    pane: str
    server: Process
    at: datetime


class Observation(Value):
    """What was found of one session just now."""

    agent: Sight
    terminal: Sight = Sight(Presence.UNKNOWN, "not looked for")
    others: Sight = Sight(Presence.UNKNOWN, "not looked for")  # other living panes
    remains: Sight = Sight(Presence.UNKNOWN, "not looked for")  # processes that carry its marker
    exit: ExitReport | None = None
    launch: LaunchReport | None = None
    began: datetime | None = None  # when an agent began that ended before it was seen
    rebooted: bool = False
    frozen: bool = False  # the agent is stopped by a signal
    paused: bool = False  # its container is paused
    container: Sight = Sight(Presence.UNKNOWN, "not looked for")
    oom: bool = False  # the kernel has killed a process there because of its memory
    conversation: str | None = None  # that the agent is in
    branch: Sight = Sight(Presence.UNKNOWN, "not looked for")  # that its directory is on


class Verdict(Value):
    """The state that follows from record, observation and time, with its reason and evidence."""

    state: State
    reason: str | None = None
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    ended: datetime | None = None
    last_known: State | None = None
    valid_until: datetime | None = None
    attention: str | None = None
    evidence: tuple[str, ...] = ()


class Session(Value):
    """A record, with its observation and verdict."""

    record: Record
    seen: Observation
    verdict: Verdict

    @property
    def name(self) -> str:
        return self.record.name
