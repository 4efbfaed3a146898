"""Where a session runs. Data only: no I/O, no decisions."""

from __future__ import annotations

from sesh.model.value import Value

NOWHERE = "none"  # the kind of place of a record without a process


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
