"""What `doctor --fix` does: for each check the steps that mend what it found.

A step re-checks its proof when it is done; what ends something that lives carries a question.
Nothing is deleted but temporary files; a damaged record is moved, never removed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from sesh.doctor import files, sessions
from sesh.doctor import tmux as servers_checks
from sesh.doctor.scene import Scene, number, shown
from sesh.doctor.tmux import Hidden
from sesh.model.errors import SeshError, StateError
from sesh.model.place import Process
from sesh.model.session_json import View
from sesh.model.states import State
from sesh.model.value import Value
from sesh.operations import adopt, recover, tmux_server
from sesh.operations.stop import go_on
from sesh.places import launch_files
from sesh.state import lookup, observe, records
from sesh.state.lookup import Orphan, Seen
from sesh.state.records import Entry
from sesh.state.unclaimed import Adrift
from sesh.system import processes
from sesh.system.tmux import Tmux

END_PATIENCE = 5.0  # seconds that a server may take to vanish


class Step(Value):
    id: str  # of the check that it mends
    what: str
    do: Callable[[], None]
    question: str | None = None  # to be answered first: it ends something


class Done(Value):
    """What became of a step: done; `left`, because nobody said yes; or failed, and why."""

    step: Step
    left: bool = False
    problem: str | None = None


def mend(
    ids: Collection[str],
    scene: Scene,
    look_again: Callable[[], Scene],
    may: Callable[[str], bool],
) -> Iterator[Done]:
    """Do what can be done for these checks, one step after the other, looking anew after each check
    for which something was done."""
    for id_, plan in _PLANS.items():
        if id_ not in ids:
            continue
        steps = _planned(id_, plan, scene)
        for step in steps:
            yield _do(step, may)
        if steps:
            scene = look_again()


def _planned(id_: str, plan: Callable[[Scene], list[Step]], scene: Scene) -> list[Step]:
    """The steps; none where the check itself can't be made, which its finding tells."""
    try:
        return plan(scene)
    except (SeshError, OSError):
        return []


def _do(step: Step, may: Callable[[str], bool]) -> Done:
    if step.question is not None and not may(step.question):
        return Done(step, left=True)
    try:
        step.do()
    except SeshError as error:
        return Done(step, problem=str(error))
    except OSError as error:
        return Done(step, problem=f"{error.filename or 'system'}: {error.strerror}")
    return Done(step)


# --- files ---------------------------------------------------------------------------------------


def _permissions(scene: Scene) -> list[Step]:
    wrong = [one for one in files.wrong_permissions(scene) if one.owner == os.getuid()]

    def make_private() -> None:
        for one in wrong:
            with suppress(FileNotFoundError):
                os.chmod(one.path, one.right)

    what = f"made {number(wrong, 'file')} private"
    return [Step("permissions", what, make_private)] if wrong else []


def _temp_files(scene: Scene) -> list[Step]:
    found = [path for path, status in scene.files if files.left_over(path, status)]

    def remove() -> None:
        for path in found:
            if os.path.lexists(path) and files.left_over(path, os.lstat(path)):
                os.unlink(path)

    what = f"removed {number(found, 'temporary file')}"
    return [Step("temp-files", what, remove)] if found else []


# --- tmux ----------------------------------------------------------------------------------------


def _sockets(scene: Scene) -> list[Step]:
    return [
        _reach(scene, hidden)
        for hidden in servers_checks.hidden_servers(scene)
        if hidden.by is None or hidden.empty or hidden.idle
    ]


def _reach(scene: Scene, hidden: Hidden) -> Step:
    """Make a server that lives reachable again. A server removes the socket when it ends, so one
    that is in the way must go first."""
    server = observe.server(hidden.socket, scene.run, scene.settings)
    blocking = hidden.by
    if blocking is not None and not hidden.empty:
        return _leave_one(server, hidden.process, blocking)

    def restore() -> None:
        if blocking is not None:
            _end_server(blocking)
        tmux_server.restore_socket(server, hidden.process)

    what = f"restored {shown(hidden.socket)}, the socket of tmux server {hidden.process.pid}"
    question = None
    if blocking is not None:
        question = f"end tmux server {blocking.pid}, which has no session and hides another?"
    return Step("tmux-socket", what, restore, question)


def _leave_one(server: Tmux, idle: Process, other: Process) -> Step:
    """End a server in which nothing lives, and make sure that the other is reached after it."""

    def end() -> None:
        if servers_checks.has_panes(processes.table(), idle):
            raise SeshError(f"something runs in tmux server {idle.pid} by now; left as it is")
        _end_server(idle)
        tmux_server.restore_socket(server, other)

    what = f"ended tmux server {idle.pid}; {other.pid} is the only one at {shown(server.socket)}"
    question = f"end tmux server {idle.pid}, in which nothing runs?"
    return Step("tmux-socket", what, end, question)


def _wedged(scene: Scene) -> list[Step]:
    return [
        Step(
            "tmux-server",
            f"ended the wedged tmux server {process.pid}",
            lambda process=process: _end_server(process),  # type: ignore[misc]
            f"end the wedged tmux server {process.pid}, in which nothing runs?",
        )
        for process in servers_checks.wedged(scene)
    ]


def _end_server(process: Process) -> None:
    """Ask exactly this process to end, and see that it does."""
    stat = processes.look(process.pid)
    if stat is None or stat.process != process:
        return
    if not processes.is_tmux(stat):
        raise SeshError(f"process {process.pid} is no tmux server")
    processes.send(process, signal.SIGTERM)
    deadline = time.monotonic() + END_PATIENCE
    while processes.alive(process):
        if time.monotonic() > deadline:
            raise SeshError(f"tmux server {process.pid} does not end")
        time.sleep(0.02)


# --- records -------------------------------------------------------------------------------------


def _damaged(scene: Scene) -> list[Step]:
    steps = []
    for one in scene.census.found:
        if one.damaged:
            steps.append(_quarantine(one.entry))
            agents = [agent for agent in scene.census.agents if agent.name == one.name]
            steps += [_rebuild(scene, "record-damaged", agent) for agent in agents]
    return steps


def _quarantine(entry: Entry) -> Step:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")

    def move() -> None:
        if records.quarantine(entry, stamp) is None:
            raise StateError(f"{shown(entry.path)} has changed meanwhile; left as it is")

    return Step("record-damaged", f"moved {shown(entry.path)} to quarantine", move)


def _unclaimed(scene: Scene) -> list[Step]:
    return [
        _rebuild(scene, "orphan-agent", orphan)
        for orphan in sessions.unclaimed_agents(scene)
        if records.entry(orphan.name) is None
    ]


def _rebuild(scene: Scene, id_: str, orphan: Orphan) -> Step:
    def rebuild() -> None:
        adopt.rebuild(orphan, scene.settings)

    pid = orphan.agent.process.pid
    return Step(id_, f"rebuilt the record of {orphan.name}, which is alive (pid {pid})", rebuild)


def _containers(scene: Scene) -> list[Step]:
    return [
        _salvage(scene, one)
        for one in scene.census.adrift
        if one.adoptable and records.entry(one.name) is None
    ]


def _salvage(scene: Scene, one: Adrift) -> Step:
    def rebuild() -> None:
        recover.rebuild(one, scene.settings)

    what = f"rebuilt the record of {one.name} from the labels of its container {one.container}"
    return Step("orphan-container", what, rebuild)


def _digests(scene: Scene) -> list[Step]:
    names = [one.name for one in scene.census.found if one.trouble]
    names += sessions.lying_digests(scene)
    return [_rewrite(name) for name in names]


def _rewrite(name: str) -> Step:
    """A full look writes the digest line anew wherever it says something else."""

    def look_again() -> None:
        found = lookup.one(name)
        if found.trouble:
            raise StateError(found.trouble)

    return Step("digest", f"wrote the digest line of {name} anew", look_again)


# --- sessions ------------------------------------------------------------------------------------


def _stops(scene: Scene) -> list[Step]:
    return [_finish(scene, one) for one in scene.judged(sessions.stops_too_long)]


def _finish(scene: Scene, found: Seen) -> Step:
    def finish() -> None:
        after = go_on([found], scene.settings)[0]
        if after.state is State.STOPPING and after.session:
            raise SeshError(after.session.verdict.reason or "not confirmed")

    return Step("stuck-stopping", f"finished the stop of {found.name}", finish)


def _log_pipes(scene: Scene) -> list[Step]:
    return [_log_again(scene, view) for view in sessions.unlogged(scene)]


def _log_again(scene: Scene, view: View) -> Step:
    def pipe() -> None:
        launch_files.make_transcript(view["id"])
        server = observe.server(view["socket"], scene.run, scene.settings)
        reply = server.pipe(view["pane"])
        if not reply.ok:
            raise SeshError(f"tmux: {reply.text}")

    return Step("log-pipe", f"what {view['name']} prints is logged again", pipe)


# In the order in which they are tried: what can be read and reached first, then what stands on it.
_PLANS: dict[str, Callable[[Scene], list[Step]]] = {
    "permissions": _permissions,
    "tmux-socket": _sockets,
    "tmux-server": _wedged,
    "record-damaged": _damaged,
    "orphan-agent": _unclaimed,
    "orphan-container": _containers,
    "stuck-stopping": _stops,
    "digest": _digests,
    "log-pipe": _log_pipes,
    "temp-files": _temp_files,
}
