"""The record of a session: what was asked for, and what is known of it. Data only: no I/O, no
decisions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from sesh.model.place import ContainerRequest, Place, Process
from sesh.model.states import Cause, Desired, Health, Retry, State
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Value

SCHEMA = 1
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
ID_PATTERN = NAME_PATTERN + r"-\d{8}-\d{6}-[0-9a-f]{8}"
_NAME = lazy(NAME_PATTERN)


def valid_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def session_id(name: str, moment: datetime, salt: str) -> str:
    """A new id: the name, when, and eight random hexadecimal digits."""
    return f"{name}-{moment:%Y%m%d-%H%M%S}-{salt}"


def name_of(session_id: str) -> str:
    """The name that an id was made of."""
    return session_id.rsplit("-", 3)[0]


class Care(Value):
    """How a session is looked after while nobody watches. Times in seconds; 0 and "": not at all.
    All but `timeout` count for one launch."""

    timeout: float = 0.0  # how long it may live, from a person's start on: retries included
    idle_timeout: float = 0.0  # how long it may print nothing
    retries: int = 0
    retry_delay: float = 10.0  # doubled from retry to retry
    retry_max_delay: float = 300.0
    retry_reset: float = 600.0  # having run for so long, it has all its retries again
    retry_on: tuple[str, ...] = (Retry.FAILURE.value,)
    max_memory: int = 0  # bytes, of its whole tree
    max_cpu_time: float = 0.0  # of its whole tree
    check_interval: float = 30.0  # between two looks at memory and processor time
    health_cmd: str = ""  # run by sh in the session's place
    health_interval: float = 30.0
    health_timeout: float = 30.0
    health_retries: int = 3  # failures in a row before it counts as failing
    health_start_period: float = 0.0  # while it starts up, failures do not count
    max_silence: float = 0.0  # no output and no word of its own for so long: hung
    scope: bool = False  # in a systemd scope of its own, whose memory the kernel limits

    @property
    def watched(self) -> bool:
        """Is there anything to be looked at while it runs?"""
        return bool(
            self.timeout
            or self.idle_timeout
            or self.max_silence
            or self.max_memory
            or self.max_cpu_time
            or self.health_cmd
        )


class BreakerLimits(Value):
    """When the breaker of its group or template keeps a session from being launched again."""

    failures: int = 10  # of the whole circle; more of them open it; 0: never
    within: float = 600.0
    cooldown: float = 1800.0


OPTION = "{option}"


class Answers(Value):
    """How an agent's questions are answered: which options mean it, by how they begin, and the keys
    that take one. {option} is what stands in front of it on the screen."""

    keys: tuple[str, ...] = (OPTION,)
    marked: tuple[str, ...] = ("Enter",)  # of options without numbers: take the one that is marked
    yes: tuple[str, ...] = ("Yes",)
    no: tuple[str, ...] = ("No",)
    always: tuple[str, ...] = ("Yes, and don't ask again", "Yes, and always", "Always")
    text: tuple[str, ...] = ()  # behind which a text can be typed


class Kit(Value):
    """What its template said of the agent: how it is launched, resumed and heard. Kept as it was at
    the start: a template that changes later changes no session. In `start`, `resume`, `prompt` and
    `transcript`, {conversation}, {hooks} and {prompt} stand for what is known at a launch."""

    kind: str  # whose protocol it speaks: claude, codex, aider …
    conversation: str = ""  # minted (by us, at the start), learned (from its hooks), or none
    start: tuple[str, ...] = ()  # words behind the command, at a launch without a conversation
    resume: tuple[str, ...] = ()  # words behind the command, at a launch that goes on with one
    prompt: tuple[str, ...] = ()  # words behind these, when a first prompt was given
    transcript: str = ""  # where the agent keeps a conversation: a pattern for files
    rules: str = ""  # the rules for its title and its screen
    answers: Answers = Answers()


class Worktree(Value):
    """A git worktree that was made for the session."""

    path: str
    repository: str  # the main one's directory
    branch: str
    made_branch: bool = False  # by us, for this


class Spec(Value):
    """What was asked for. Never changed after start."""

    command: tuple[str, ...]
    cwd: str
    created: datetime
    group: str | None = None
    tags: tuple[str, ...] = ()
    env: tuple[str, ...] = ()  # names given with -e; their values are only in the snapshot
    launch_timeout: float = 10.0
    max_age: float | None = None  # seconds it may run; 0: for ever; None: as the settings say
    max_idle: float | None = None  # seconds it may print nothing; the same
    box: ContainerRequest | None = None  # None: on this machine
    care: Care = Care()
    breaker: BreakerLimits | None = None  # None: as the settings say
    template: str | None = None
    kit: Kit | None = None  # None: any command
    prompt: str | None = None  # what an agent is to begin with; not said again when it is resumed
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
    retries: int = 0
    retries_max: int = 0
    retry_at: datetime | None = None
    stop_asked: datetime | None = None
    stop_grace: float | None = None  # seconds between asking and killing
    stopper: Process | None = None  # who brings it down; while that lives, no pass joins in
    stop_tries: int = 0  # how often a stop was tried and could not be confirmed
    stop_reason: str | None = None  # the limit that it was ended by; None: a person asked
    stop_cause: Cause | None = None  # of which kind that limit is
    remains: tuple[Process, ...] = ()  # of its tree, to be ended, and not found by its marker
    keep: bool = False  # its container outlives the stop
    starter: Process | None = None  # who has its container made; None: that is done, or needless
    lived: float = 0.0  # seconds from a person's start to this launch; 0: this is what it wanted
    held: float = 0.0  # seconds that this launch was paused for
    resumed: datetime | None = None  # when that ended last
    health: Health | None = None
    health_reason: str | None = None
    waits_for: str | None = None  # what keeps the next retry waiting: a breaker, or a twin
    gave_up: str | None = None  # why it is not tried again, although it was to be


class Step(Value):
    """One phase of an agent's work, and when it began."""

    phase: str
    at: datetime


class AgentWord(Value):
    """What the agent says of itself."""

    phase: str | None = None
    history: tuple[Step, ...] = ()
    updated: datetime | None = None  # when it said something last
    finished: datetime | None = None
    errors: int = 0
    last_error: str | None = None
    resume_ready: bool = True
    conversation: str | None = None
    prompted: bool = False  # by us, or it went on with its conversation: there is something in it
    summary: str | None = None
    metadata: Mapping[str, object] = MappingProxyType({})


class Record(Value):
    name: str
    id: str
    spec: Spec
    place: Place
    status: Status
    agent: AgentWord = AgentWord()
    schema: int = SCHEMA

    @property
    def heard(self) -> bool:
        """Is it an agent whose launch sesh has equipped to be heard?"""
        return self.spec.kit is not None and self.place.has_process

    @property
    def directory_here(self) -> bool:
        """Is its directory one of the machine that launched it?"""
        return self.place.pids_here and (self.spec.box is None or self.spec.box.mount)

    @property
    def launch(self) -> str:
        """The stem of this generation's per-launch files."""
        return f"{self.id}.{self.place.generation}"


class Damaged(Value):
    """A record that can't be read: named, reported, never deleted, never in the way."""

    name: str
    path: str
    reason: str
