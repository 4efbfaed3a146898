"""Where a session runs. Data only: no I/O, no decisions."""

from __future__ import annotations

from sesh.model.value_object import Value


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
    """The identity that the launch file wrote just before it became the agent."""

    process: Process
    keeper: int  # the inner shell of the keeper, which waits for the agent; 0: adopted, none
    leader: int  # the outer shell of the keeper: session leader of the pane
    tty: int  # the terminal's device number, 0 once the terminal is gone


class ContainerRequest(Value):
    """The container in which a session is to run: a new or an existing one."""

    image: str | None = None
    existing: str | None = None  # used, and never removed by sesh
    mount: bool = True  # the session's directory, at the same path
    mounts: tuple[str, ...] = ()
    user: str | None = None
    network: str | None = None
    memory: str | None = None
    cpus: str | None = None
    options: tuple[str, ...] = ()  # passed to the engine unchanged


class Engine(Value):
    """A container engine: the program that talks to it, and its address, if one was given."""

    command: str
    host: str | None = None
    context: str | None = None


class Container(Value):
    """The container that a session runs in now."""

    id: str
    name: str
    started: str  # as the engine reports it; changes when the container is started again
    made: bool  # by sesh, so that sesh may remove it
    mounted: bool  # its launch files arrive through the private mount
    init: Process | None = None  # its first process; None: not on this machine
    freezer: str | None = None  # the file in which the kernel reports whether it is paused
    ooms: int = 0  # out-of-memory kills before this launch
    created: str = ""  # as the engine reports it; empty: by a version that did not record it


class Place(Value):
    """Where a session runs now. The fields that all kinds have; the answers are those of a host.

    Code that needs a difference between kinds asks a capability. Everything else that differs is
    in `places/`, behind one interface."""

    generation: int
    machine: Machine  # the machine that launched it
    run: str  # directory of the per-launch files
    snapshot: str  # file with the environment's values
    socket: str
    branch: str | None = None
    pane: str | None = None
    server: Process | None = None
    agent: Agent | None = None
    since: int = 0  # start ticks of its first launch since the boot; 0: not known

    kind = ""
    has_process = True  # sesh runs a process for it
    agent_files_here = True  # transcripts and other files of the agent are on this machine
    calls_back = True  # its tmux server is one of this machine, and starts a pass after an end

    @property
    def pids_here(self) -> bool:
        """Are its pids those of the machine that launched it?"""
        return True

    @property
    def private_run(self) -> str:
        """The directory of the launch files that only sesh can reach."""
        return self.run

    @property
    def guard(self) -> str:
        """The mode of the digest line of a living agent: see `state/freshness`."""
        return "pid"

    @property
    def init(self) -> Process | None:
        """The first process of its container, if that is on this machine."""
        return None

    @property
    def container_name(self) -> str | None:
        return None


class Host(Place):
    """A tmux server of this machine."""

    kind = "host"


class Elsewhere(Place):
    """A place that is not a tmux server of this machine. Base of all such kinds: the processes of a
    session may write into `run`, so sesh keeps its own files beside it."""

    agent_files_here = False
    calls_back = False

    @property
    def pids_here(self) -> bool:
        return False

    @property
    def private_run(self) -> str:
        return self.run.rpartition("/")[0]


class InContainer(Elsewhere):
    """A container: of an engine on this machine, or on another one."""

    engine: Engine = Engine("docker")
    container: Container | None = None

    kind = "docker"

    @property
    def pids_here(self) -> bool:
        return self.container is None or self.container.init is not None

    @property
    def guard(self) -> str:
        if self.container is None:
            return "pid"
        return f"box:{self.container.freezer}" if self.container.freezer else "box"

    @property
    def init(self) -> Process | None:
        return self.container.init if self.container else None

    @property
    def container_name(self) -> str | None:
        return self.container.name if self.container else None


class RecordOnly(Place):
    """No process of sesh: another program runs the agent and reports its progress."""

    kind = "none"
    has_process = False
    agent_files_here = False
    calls_back = False


KINDS: dict[str, type[Place]] = {one.kind: one for one in (Host, InContainer, RecordOnly)}
