"""The settings as values: every section with its defaults. PURE. `state/settings` reads them."""

from __future__ import annotations

from sesh.model.record import BreakerLimits, Supervision
from sesh.model.value_object import Value, replace

HIGHEST = 1e9  # seconds, or pieces
MOST = int(HIGHEST)
MOST_RETRIES = 1000


class Count(int):
    """A plain number; other whole numbers are sizes."""

    lowest = 0
    highest = MOST


class Retries(Count):
    highest = MOST_RETRIES


class Failures(Retries):
    """A number of failures, at least one."""

    lowest = 1


class Start(Value):
    """Defaults for new sessions: see `record.Care`."""

    launch_timeout: float = 10.0
    timeout: float = 0.0
    idle_timeout: float = 0.0
    retries: Count = Retries(Supervision.retries)
    retry_delay: float = Supervision.retry_delay
    retry_max_delay: float = Supervision.retry_max_delay
    retry_reset: float = Supervision.retry_reset
    retry_on: tuple[str, ...] = Supervision.retry_on
    max_memory: int = 0
    max_cpu_time: float = 0.0
    check_interval: float = Supervision.check_interval
    health_cmd: str = ""
    health_interval: float = Supervision.health_interval
    health_timeout: float = Supervision.health_timeout
    health_retries: Count = Failures(Supervision.health_retries)
    health_start_period: float = 0.0
    max_silence: float = 0.0
    scope: bool = False


class Stop(Value):
    grace: float = 10.0


class Logs(Value):
    max_size: int = 32 << 20  # of one transcript


class Tmux(Value):
    socket: str = ""  # "": sesh's own server; "default": the user's own; else a path
    include: str = ""  # a file with tmux settings for sesh's own server
    timeout: float = 2.0


class Gc(Value):
    archive_after: float = 3600.0  # completed sessions leave the list
    archive_failed_after: float = 30 * 86400.0  # failed sessions leave the list
    close_after: float = 3600.0  # the dead pane of an ended session
    keep_history: float = 30 * 86400.0
    max_history: Count = Count(1000)
    max_transcripts: int = 1 << 30  # bytes of all transcripts
    max_events: int = 10 << 20
    max_age: float = 0.0  # end older sessions; 0: off
    max_idle: float = 0.0
    kill_orphans: bool = False


class Docker(Value):
    command: str = "docker"  # or podman
    timeout: float = 2.5  # for one question


class Git(Value):
    worktree_dir: str = ""  # parent of new worktrees; "": beside the repository


class Breaker(Value):
    """When a group fails too often, retries pause for a while."""

    failures: Count = Count(BreakerLimits.failures)  # more failures open it; 0: off
    within: float = BreakerLimits.within
    cooldown: float = BreakerLimits.cooldown


class Notify(Value):
    command: str = ""  # run by sh, with the event as JSON on its standard input
    webhooks: tuple[str, ...] = ()  # addresses that get the event by POST
    on: tuple[str, ...] = (
        *("failed", "timeout", "lost", "waiting", "failing", "hung", "breaker-opened"),
    )
    timeout: float = 5.0  # of one try
    tries: Count = Count(3)


class Resume(Value):
    """Thresholds for resuming an agent's work."""

    max_idle: float = 1800.0  # seconds since the last sign of life
    max_errors: Count = Count(3)  # from this number of errors on, do not resume; 0: off
    phases: tuple[str, ...] = ("approval", "investigating", "planning")


class Config(Value):
    start: Start = Start()
    stop: Stop = Stop()
    logs: Logs = Logs()
    gc: Gc = Gc()
    tmux: Tmux = Tmux()
    docker: Docker = Docker()
    git: Git = Git()
    breaker: Breaker = Breaker()
    notify: Notify = Notify()
    resume: Resume = Resume()


_PATIENCE = 10.0  # seconds


def with_long_timeout(config: Config) -> Config:
    """The settings for commands that start something: they wait longer for tmux. Commands that only
    look must not wait for a tmux that hangs."""
    timeout = max(config.tmux.timeout, _PATIENCE)
    changed: Config = replace(config, tmux=replace(config.tmux, timeout=timeout))
    return changed


SECTIONS: dict[str, type[Value]] = {name: type(getattr(Config, name)) for name in Config.fields}
