"""The record of a session: what was asked for, and what is known of it. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from sesh.model.place import ContainerRequest, Place, Process
from sesh.model.states import Cause, Desired, Health, Retry, State
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Value, replace

SCHEMA = 1
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
ID_PATTERN = NAME_PATTERN + r"-\d{8}-\d{6}-[0-9a-f]{8}"
_NAME = lazy(NAME_PATTERN)
_MOST_EARLIER = 100  # conversations


def valid_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def session_id(name: str, moment: datetime, salt: str) -> str:
    """A new id: the name, when, and eight random hexadecimal digits."""
    return f"{name}-{moment:%Y%m%d-%H%M%S}-{salt}"


def name_of(session_id: str) -> str:
    """The name in an id: that at the start. `records.names_of` knows later ones."""
    return session_id.rsplit("-", 3)[0]


class Supervision(Value):
    """How a session is supervised. Times in seconds; 0 and "": off. All but `timeout` count for one
    launch."""

    timeout: float = 0.0  # how long it may live since a person started it, with all retries
    idle_timeout: float = 0.0  # how long it may print nothing
    retries: int = 0
    retry_delay: float = 10.0  # doubled from retry to retry
    retry_max_delay: float = 300.0
    retry_reset: float = 600.0  # after this time without an end, all retries are available again
    retry_on: tuple[str, ...] = (Retry.FAILURE.value,)
    max_memory: int = 0  # bytes, of its whole tree
    max_cpu_time: float = 0.0  # of its whole tree
    check_interval: float = 30.0  # between two measurements of memory and processor time
    health_cmd: str = ""  # run by sh in the session's place
    health_interval: float = 30.0
    health_timeout: float = 30.0
    health_retries: int = 3  # failures in a row before it counts as failing
    health_start_period: float = 0.0  # in this time after the start, failures do not count
    max_silence: float = 0.0  # without output or a report for longer, it is hung
    scope: bool = False  # in a systemd scope of its own, whose memory the kernel limits
    notify: tuple[str, ...] | None = None  # kinds to notify about; None: as in the settings

    @property
    def watched(self) -> bool:
        """Can anything become due while it runs?"""
        return bool(
            self.timeout
            or self.idle_timeout
            or self.max_silence
            or self.max_memory
            or self.max_cpu_time
            or self.health_cmd
        )


class BreakerLimits(Value):
    """When the breaker of its group or template keeps a session from being retried."""

    failures: int = 10  # of all sessions of the group or template; more open it; 0: never
    within: float = 600.0
    cooldown: float = 1800.0


OPTION = "{option}"


class Answers(Value):
    """How an agent's questions are answered: how the options for each answer begin, and the keys
    that choose one. {option} is the number or letter of the option on the screen."""

    keys: tuple[str, ...] = (OPTION,)
    marked: tuple[str, ...] = ("Enter",)  # chooses the marked option, where options have no numbers
    yes: tuple[str, ...] = ("Yes",)
    no: tuple[str, ...] = ("No",)
    always: tuple[str, ...] = ("Yes, and don't ask again", "Yes, and always", "Always")
    text: tuple[str, ...] = ()  # options after which a text can be typed


class LaunchMode(StrEnum):
    """What an agent is launched with: the arguments of this name in its Kit."""

    START = "start"
    RESUME = "resume"
    FORK = "fork"


class Kit(Value):
    """The [agent] table of its template: how the agent is launched, resumed and followed. Kept as
    it was at the start: a template that changes later changes no session. In `start`, `resume`,
    `fork`, `prompt` and `transcript`, {conversation}, {parent}, {hooks} and {prompt} are replaced
    at a launch."""

    kind: str  # the protocol: claude, codex, aider …
    conversation: str = ""  # minted (by sesh at the start), learned (from its hooks), or none
    start: tuple[str, ...] = ()  # arguments at a launch without a conversation
    resume: tuple[str, ...] = ()  # arguments at a launch that continues a conversation
    prompt: tuple[str, ...] = ()  # further arguments when a first prompt was given
    transcript: str = ""  # the files in which the agent keeps a conversation: a pattern
    rules: str = ""  # the rules for its title and its screen
    fork: tuple[str, ...] = ()  # arguments at a launch that continues a copy of a conversation
    answers: Answers = Answers()


class Worktree(Value):
    """A git worktree that was created for the session."""

    path: str
    repository: str  # the directory of the main worktree
    branch: str
    made_branch: bool = False  # sesh created the branch


class Spec(Value):
    """What was asked for. Only `sesh set` changes it after the start."""

    command: tuple[str, ...]
    cwd: str
    created: datetime
    group: str | None = None
    tags: tuple[str, ...] = ()
    env: tuple[str, ...] = ()  # names given with -e; their values are only in the snapshot
    launch_timeout: float = 10.0
    max_age: float | None = None  # seconds that it may run; 0: no limit; None: as in the settings
    max_idle: float | None = None  # seconds without output; the same
    box: ContainerRequest | None = None  # None: on this machine
    supervision: Supervision = Supervision()
    breaker: BreakerLimits | None = None  # None: as in the settings
    template: str | None = None
    kit: Kit | None = None  # None: any command
    prompt: str | None = None  # the first prompt of an agent; not sent again when it is resumed
    branch: str | None = None  # that its directory should be on
    worktree: Worktree | None = None


class Status(Value):
    """What is known to have happened."""

    desired: Desired
    launched: datetime  # when this generation was claimed
    started: datetime | None = None  # when the agent was first seen
    ended: datetime | None = None
    outcome: State | None = None
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    paused: datetime | None = None
    frozen: bool = False  # by its pause, in a place where no look shows that
    retries: int = 0
    retries_max: int = 0
    retry_at: datetime | None = None
    stop_asked: datetime | None = None
    stop_grace: float | None = None  # seconds between asking and killing
    stopper: Process | None = None  # the process that stops it; while it lives, no pass does
    stop_tries: int = 0  # stops that could not be confirmed
    stop_reason: str | None = None  # the limit because of which it is stopped; None: by a person
    stop_cause: Cause | None = None  # the kind of that limit
    remains: tuple[Process, ...] = ()  # processes to end that no marker finds
    keep: bool = False  # its container outlives the stop
    starter: Process | None = None  # the process that creates its container, while it does
    lived: float = 0.0  # seconds from a person's start to this launch; 0: a person launched it
    printed: int = 0  # bytes of the transcript before this launch
    held: float = 0.0  # seconds in which this launch was paused
    resumed: datetime | None = None  # when the last pause ended
    health: Health | None = None
    health_reason: str | None = None
    waits_for: str | None = None  # what delays the retry: a breaker, or a used conversation
    gave_up: str | None = None  # why it is not retried, although it was to be

    def without_stop(self) -> Status:
        """The same for a session that is wanted: no stop of it is requested."""
        return replace(
            self,
            desired=Desired.RUNNING,
            stop_asked=None,
            stop_grace=None,
            stopper=None,
            stop_tries=0,
            stop_reason=None,
            stop_cause=None,
        )


class Step(Value):
    """One phase of an agent's work, and when it began."""

    phase: str
    at: datetime


class AgentUsage(Value):
    """What an agent has used in all conversations of its session, by its transcripts. Fields that
    are not known are None."""

    tokens_in: int | None = None  # not from the cache
    tokens_out: int | None = None
    tokens_cached: int | None = None  # input that came from the cache
    cost_usd: float | None = None
    cost_source: str | None = None  # agent, prices, or both
    cost_is_lower_bound: bool = False
    turns: int | None = None
    model: str | None = None  # of the last answer
    context_used: int | None = None  # tokens
    context_window: int | None = None
    current_tool: str | None = None
    current_tool_since: datetime | None = None
    last_answer: str | None = None
    last_answer_at: datetime | None = None
    trouble: str | None = None  # the error that ended its last turn
    reason: str | None = None  # why nothing is known


class Origin(Value):
    """The conversation that another one began as a copy of, and the session it was copied from."""

    session: str  # its id
    name: str
    conversation: str


class AgentReport(Value):
    """What the agent reports about itself, and what its conversations have used."""

    phase: str | None = None
    history: tuple[Step, ...] = ()
    updated: datetime | None = None  # when it reported last
    finished: datetime | None = None
    errors: int = 0
    last_error: str | None = None
    resume_ready: bool = True
    conversation: str | None = None
    earlier: tuple[str, ...] = ()  # conversations of this session before that one
    prompted: bool = False  # its conversation has a prompt
    forked_from: Origin | None = None  # its conversation began as a copy
    summary: str | None = None
    metadata: Mapping[str, object] = MappingProxyType({})
    usage: AgentUsage | None = None  # up to its end; None: it has not ended, or is not known yet

    def talking(self, conversation: str | None, *, prompted: bool = False) -> AgentReport:
        """The same in another conversation."""
        old = self.conversation
        moved = old is not None and old != conversation and old not in self.earlier
        earlier = (*self.earlier, old)[-_MOST_EARLIER:] if moved and old else self.earlier
        return replace(self, conversation=conversation, earlier=earlier, prompted=prompted)


class Record(Value):
    name: str
    id: str
    spec: Spec
    place: Place
    status: Status
    agent: AgentReport = AgentReport()
    schema: int = SCHEMA

    @property
    def heard(self) -> bool:
        """Is it an agent whose hooks or files show what it does?"""
        return self.spec.kit is not None and self.place.has_process

    @property
    def directory_here(self) -> bool:
        """Is its directory on the machine that launched it?"""
        return self.place.pids_here and (self.spec.box is None or self.spec.box.mount)

    @property
    def launch(self) -> str:
        """The common part of the names of this generation's files."""
        return f"{self.id}.{self.place.generation}"


class Damaged(Value):
    """A record that cannot be read: reported, never deleted."""

    name: str
    path: str
    reason: str
