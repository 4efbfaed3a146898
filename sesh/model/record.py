"""The words of sesh as types: record, observation, verdict. Data only: no I/O, no decisions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from sesh.model.value import Value

SCHEMA = 1
NOWHERE = "none"  # the kind of place of a record without a process
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
ID_PATTERN = NAME_PATTERN + r"-\d{8}-\d{6}-[0-9a-f]{8}"
_NAME = re.compile(NAME_PATTERN)


def valid_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def session_id(name: str, moment: datetime, salt: str) -> str:
    """A new id: the name, when, and eight random hexadecimal digits."""
    return f"{name}-{moment:%Y%m%d-%H%M%S}-{salt}"


def name_of(session_id: str) -> str:
    """The name that an id was made of."""
    return session_id.rsplit("-", 3)[0]


class State(StrEnum):
    DAMAGED = "damaged"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    RECOVERING = "recovering"
    STALE = "stale"
    FAILED = "failed"
    TIMEOUT = "timeout"
    COMPLETED = "completed"
    STOPPED = "stopped"
    LOST = "lost"
    UNKNOWN = "unknown"
    ORPHAN = "orphan"


# What `status` calls alive, and what has ended. `orphan`, `unknown` and `damaged` are neither.
ALIVE = frozenset({State.RUNNING, State.PAUSED, State.STARTING, State.STOPPING, State.RECOVERING})
ENDED = frozenset(
    {State.STALE, State.FAILED, State.TIMEOUT, State.COMPLETED, State.STOPPED, State.LOST}
)
# The ends that a record can hold. `stale` is not one: it is an end beside something still up.
OUTCOMES = ENDED - {State.STALE}


class Cause(StrEnum):
    EXIT = "exit"
    SIGNAL = "signal"
    OOM = "oom"
    REBOOT = "reboot"
    TERMINAL_GONE = "terminal-gone"
    CONTAINER_GONE = "container-gone"
    LIMIT = "limit"
    TIMEOUT = "timeout"
    STOPPED = "stopped"
    LAUNCH = "launch"
    HEALTH = "health"
    UNKNOWN = "unknown"


class Health(StrEnum):
    """What is known of an agent that lives, beside that it lives."""

    OK = "ok"
    FAILING = "failing"  # its health command says so
    HUNG = "hung"  # it has been silent for too long


class Retry(StrEnum):
    """The ends that may be retried."""

    FAILURE = "failure"
    LOST = "lost"
    TIMEOUT = "timeout"
    ALWAYS = "always"


class Desired(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"


class Machine(Value):
    """Where a pid means something. The boot id alone is the same inside a container."""

    id: str
    boot: str
    pidns: str

    @property
    def key(self) -> str:
        return f"{self.id}/{self.boot}/{self.pidns}"


class Process(Value):
    """A process that can't be mistaken for a later one of the same pid (on one machine)."""

    pid: int
    start: int  # kernel start ticks: field 22 of /proc/PID/stat, which no clock change moves


class Agent(Value):
    """What the launch file wrote of itself just before it became the agent."""

    process: Process
    keeper: int  # the inner shell of the keeper, which waits for the agent; 0: adopted, none
    leader: int  # the outer shell of the keeper: session leader of the pane
    tty: int  # the terminal's device number, 0 once the terminal is gone


class Boxing(Value):
    """The container that a session was asked to run in: a new one, or one that exists."""

    image: str | None = None
    existing: str | None = None  # used, and never removed by sesh
    mount: bool = True  # the session's directory, at the same path
    mounts: tuple[str, ...] = ()
    user: str | None = None
    network: str | None = None
    memory: str | None = None
    cpus: str | None = None
    options: tuple[str, ...] = ()  # passed on to the engine as they are


class Engine(Value):
    """Which container engine: the program that speaks to it, and where it is, if that was said."""

    command: str
    host: str | None = None
    context: str | None = None


class Container(Value):
    """The container that a session runs in now."""

    id: str
    name: str
    started: str  # as the engine says it: a container that was started again has another
    made: bool  # by sesh, so that sesh may remove it
    mounted: bool  # its words come through the private mount
    init: Process | None = None  # its first process; None: not on this machine
    freezer: str | None = None  # the file by which the kernel says that it is paused
    ooms: int = 0  # how often the kernel had killed there for want of memory before this launch
    created: str = ""  # as the engine says it; empty: recorded before that was noted


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
    box: Boxing | None = None  # None: on this machine
    care: Care = Care()
    breaker: BreakerLimits | None = None  # None: as the settings say
    template: str | None = None
    kit: Kit | None = None  # None: any command
    prompt: str | None = None  # what an agent is to begin with; not said again when it is resumed
    branch: str | None = None  # that its directory should be on
    worktree: Worktree | None = None


class Place(Value):
    """Where it runs now."""

    kind: str
    generation: int
    machine: Machine
    run: str  # directory of the per-launch files
    snapshot: str  # file with the environment's values
    socket: str
    branch: str | None = None
    pane: str | None = None
    server: Process | None = None
    agent: Agent | None = None
    engine: Engine | None = None
    container: Container | None = None
    since: int = 0  # start ticks of its first launch since the boot; 0: not known

    @property
    def far(self) -> bool:
        """Do its pids mean nothing here, because its engine runs on another machine?"""
        return self.container is not None and self.container.init is None


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
    def boxed(self) -> bool:
        """Does it run in a container?"""
        return self.spec.box is not None

    @property
    def record_only(self) -> bool:
        """Is there no process of sesh's, because somebody else runs the agent?"""
        return self.place.kind == NOWHERE

    @property
    def heard(self) -> bool:
        """Is it an agent whose launch sesh has equipped to be heard?"""
        return self.spec.kit is not None and not self.record_only

    @property
    def hosted(self) -> bool:
        """Does it run in a tmux of this machine's?"""
        return not self.boxed and not self.record_only

    @property
    def launch(self) -> str:
        """The stem of this generation's per-launch files."""
        return f"{self.id}.{self.place.generation}"


class Damaged(Value):
    """A record that can't be read: named, reported, never deleted, never in the way."""

    name: str
    path: str
    reason: str


class Presence(StrEnum):
    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Sight(Value):
    """One thing that was looked for. ABSENT only on proof; UNKNOWN says why."""

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


class ExitWord(Value):
    """The keeper's word of how one generation's agent ended."""

    generation: int
    code: int
    terminal: bool  # was the terminal still there
    at: datetime
    problem: str | None = None  # why the command could not even be executed


class LaunchWord(Value):
    """The launch file's word that one generation's agent began."""

    generation: int
    agent: Agent
    pane: str
    server: Process
    at: datetime


class Observation(Value):
    """What a probe saw just now of one session."""

    agent: Sight
    terminal: Sight = Sight(Presence.UNKNOWN, "not looked for")
    others: Sight = Sight(Presence.UNKNOWN, "not looked for")  # what costs: other live panes
    remains: Sight = Sight(Presence.UNKNOWN, "not looked for")  # processes that carry its marker
    exit: ExitWord | None = None
    launch: LaunchWord | None = None
    began: datetime | None = None  # when a launch did whose agent ended before anybody saw it
    rebooted: bool = False
    frozen: bool = False  # the agent is stopped by a signal
    paused: bool = False  # its container is paused
    container: Sight = Sight(Presence.UNKNOWN, "not looked for")
    oom: bool = False  # the kernel has killed for want of memory there
    conversation: str | None = None  # the one that its hooks named last
    branch: Sight = Sight(Presence.UNKNOWN, "not looked for")  # that its directory is on


class Verdict(Value):
    """The state that follows from record, observation and time; with its reason and evidence."""

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
    """A record beside what is true of it right now."""

    record: Record
    seen: Observation
    verdict: Verdict

    @property
    def name(self) -> str:
        return self.record.name
