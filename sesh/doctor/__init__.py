"""What doctor looks at: every check by its id, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sesh.doctor import containers, files, machine, sessions, tmux
from sesh.doctor.scene import Finding, Level, Scene
from sesh.model.errors import SeshError, UsageError
from sesh.model.value import Value


class Check(Value):
    id: str
    what: str  # what is true when all is well
    look: Callable[[Scene], list[Finding]]


CHECKS = (
    Check("tmux", "tmux is installed and new enough", tmux.installed),
    Check("tmux-server", "every tmux server answers", tmux.silent_servers),
    Check("tmux-socket", "every tmux server can be reached at its socket", tmux.sockets),
    Check("stale", "no session has ended and left something up", sessions.stale),
    Check("failed", "no session has failed", sessions.failed),
    Check("lost", "no session is lost", sessions.lost),
    Check("unwell", "every running session is well", sessions.unwell),
    Check("overdue", "no deadline and no retry is overdue", sessions.overdue),
    Check("branch", "every living session is on its branch", sessions.branch),
    Check("breaker", "no group fails too often", sessions.breaker),
    Check("stuck-starting", "no session is stuck at its start", sessions.stuck_starting),
    Check("stuck-stopping", "every stop is confirmed", sessions.stuck_stopping),
    Check("orphan-agent", "every agent has its record and its terminal", sessions.orphan_agent),
    Check("orphan-tmux", "every tmux session of ours has a record", sessions.orphan_tmux),
    Check("orphan-process", "no process outlives its session", sessions.orphan_process),
    Check("record-disagrees", "what is recorded as ended is dead", sessions.record_disagrees),
    Check("record-damaged", "every record can be read", sessions.record_damaged),
    Check("digest", "every digest line says what its record says", sessions.digest),
    Check("log-pipe", "what living sessions print is logged", sessions.log_pipe),
    Check("engine", "every container engine in use answers", containers.engine),
    Check("orphan-container", "every container of ours has a record", containers.orphan_container),
    Check("container-left", "no container is left over", containers.container_left),
    Check("container-gone", "no session has lost its container", containers.container_gone),
    Check("zombies", "no dead process stays in a container", containers.zombies),
    Check("mount-size", "no private mount holds too much", containers.mount_size),
    Check("image", "the images of sessions are there", containers.image),
    Check("config", "the settings can be read", files.settings),
    Check("permissions", "files of sesh are private and readable", files.permissions),
    Check("temp-files", "no temporary file is left over", files.temp_files),
    Check("disk", "there is room on the disk", files.disk),
    Check("state-size", "the state directory is of a reasonable size", files.state_size),
    Check("other-sesh", "the sesh on PATH is this one", machine.other_sesh),
    Check("timer", "gc is called regularly", machine.timer),
    Check("linger", "sessions outlive a login (systemd)", machine.linger),
    Check("notices", "every notification was delivered", machine.undelivered),
)
IDS = tuple(check.id for check in CHECKS)


def choose(only: Collection[str]) -> list[Check]:
    """The checks of these ids, or all."""
    for wanted in only:
        if wanted not in IDS:
            raise _unknown(wanted)
    return [check for check in CHECKS if not only or check.id in only]


def _unknown(wanted: str) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(wanted, IDS, 1)
    hint = f"did you mean {near[0]}?" if near else "sesh doctor --list-checks shows all"
    return UsageError(f"no check named {wanted}; {hint}")


def run(chosen: Sequence[Check], scene: Scene) -> list[Finding]:
    """What every check says: at least one finding each, `ok` where all is well."""
    return [finding for check in chosen for finding in examine(check, scene)]


def examine(check: Check, scene: Scene) -> list[Finding]:
    """One check. That it could not be made is a finding too."""
    try:
        found = check.look(scene)
    except (SeshError, OSError) as error:
        return [Finding(check.id, Level.FAIL, f"could not be checked: {_why(error)}")]
    return found or [Finding(check.id, Level.OK, check.what)]


def _why(error: SeshError | OSError) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'system'}: {error.strerror or error}"
    return str(error)
