"""Checks of containers: do their engines answer, is every one of ours known, could each session be
started again? Without any use of containers there are no findings."""

from __future__ import annotations

from collections.abc import Sequence

from sesh.doctor.scene import FIX, Check, Finding, Level, Scene, Step, few, number
from sesh.model.errors import CannotTellError
from sesh.model.place import Container, Engine, InContainer
from sesh.model.record import Record, name_of
from sesh.model.session_json import View
from sesh.model.states import Cause, State
from sesh.model.text.shell_words import join
from sesh.operations import recover
from sesh.places.docker import session_files
from sesh.state import records, unclaimed
from sesh.state.unclaimed import Adrift
from sesh.system import container_engine, processes
from sesh.system.container_engine import Trouble
from sesh.system.subprocesses import Reply

# --- engines -------------------------------------------------------------------------------------


def engine(scene: Scene) -> list[Finding]:
    """Does every engine answer that a record or the settings name?"""
    named = {place.engine for place in scene.containers}
    asked = scene.census.engines
    findings = [
        _silent(one, said)
        for one, said in asked.items()
        if isinstance(said, Reply) and (one in named or unclaimed.wanted(scene.settings))
    ]
    if not named and unclaimed.wanted(scene.settings):
        findings += _no_command(scene)
    return findings


def _silent(one: Engine, said: Reply) -> Finding:
    where = one.host or one.context or "the engine of this machine"
    text = f"{where} gives no usable answer: {said.text}"
    if said.trouble is Trouble.DENIED:
        text = f"no permission to speak to {where}; a member of the group docker has it"
    mend = join(container_engine.argv(one, "version"))
    return Finding(Level.FAIL, text, mend, "shows what it says", (where,))


def _no_command(scene: Scene) -> list[Finding]:
    try:
        container_engine.chosen(scene.settings)
    except CannotTellError as error:
        command = scene.settings.docker.command
        return [Finding(Level.FAIL, str(error), f"command -v {command}")]
    return []


# --- without a record ----------------------------------------------------------------------------


def orphan_container(scene: Scene) -> list[Finding]:
    """Containers of ours that no record claims, and that may hold a user's work."""
    free = _rebuildable(scene)
    taken = [one for one in scene.census.adrift if one.adoptable and one not in free]
    strange = [one for one in scene.census.adrift if not one.adoptable and one.keep]
    mine = _unclaimed(taken, "sesh stop --orphans")
    return [*_unclaimed(free, None), *mine, *_labelled(strange)]


def rebuild_all(scene: Scene) -> list[Step]:
    return [_rebuild(scene, one) for one in _rebuildable(scene)]


def _rebuild(scene: Scene, one: Adrift) -> Step:
    what = f"rebuilt the record of {one.name} from the labels of its container {one.container}"
    return Step(what, lambda: recover.rebuild(one, scene.settings))


def _rebuildable(scene: Scene) -> list[Adrift]:
    adoptable = [one for one in scene.census.adrift if one.adoptable]
    return [one for one in adoptable if records.entry(one.name) is None]


def _labelled(found: Sequence[Adrift]) -> list[Finding]:
    """Containers that sesh leaves alone: a user may have made them from an image of one of ours."""
    if not found:
        return []
    names = tuple(one.container for one in found)
    which = few([f"{one.container} ({one.facts.status}, labels of {one.name})" for one in found])
    text = f"{number(found, 'container')} with labels of sesh, not made by it: {which}"
    note = "shows what it is; sesh leaves it alone"
    mend = join(container_engine.argv(found[0].engine, "inspect", names[0]))
    return [Finding(Level.WARN, text, mend, note, names)]


def _unclaimed(found: Sequence[Adrift], mend: str | None) -> list[Finding]:
    """For several at once, `doctor --fix` rebuilds all records."""
    if not found:
        return []
    names = tuple(one.name for one in found)
    which = few([f"{one.name} ({_how(one)})" for one in found])
    text = f"{number(found, 'container')} of ours without a record: {which}"
    note = None
    if mend is None:
        mend = f"sesh adopt {names[0]}" if len(found) == 1 else FIX
        note = "rebuilds their records" if len(found) > 1 else "rebuilds its record"
    return [Finding(Level.FAIL, text, mend, note, names)]


def _how(one: Adrift) -> str:
    what = "running" if one.busy and one.facts.running else one.facts.status
    idle = ", its agent gone" if one.facts.running and not one.busy else ""
    return f"{one.container}, {what}{idle}"


def container_left(scene: Scene) -> list[Finding]:
    """Containers of failed or killed starts, and of archived sessions."""
    found = [one for one in scene.census.adrift if one.left_over]
    if not found:
        return []
    which = few([f"{one.container} ({one.facts.status})" for one in found])
    text = f"{number(found, 'container')} left over: {which}"
    names = tuple(one.container for one in found)
    note = "removes what two passes a minute apart have seen"
    return [Finding(Level.WARN, text, "sesh gc", note, names)]


# --- with a record -------------------------------------------------------------------------------


def container_gone(scene: Scene) -> list[Finding]:
    """Sessions that were lost with their container."""
    found = sorted(str(view["name"]) for view in scene.views if went_with_container(view))
    if not found:
        return []
    reasons = {view["name"]: view["reason"] for view in scene.views}
    which = few([f"{name} ({reasons[name]})" for name in found])
    text = f"{number(found, 'session')} lost with the container: {which}"
    mend = f"sesh restart {' '.join(found[:20])}"
    return [Finding(Level.FAIL, text, mend, subjects=tuple(found))]


def went_with_container(view: View) -> bool:
    gone = view["state"] == State.LOST and view["cause"] == Cause.CONTAINER_GONE
    return gone and bool(view["attention"])


def zombies(scene: Scene) -> list[Finding]:
    """Dead processes that the first process of a container does not wait for."""
    inits = {p.container.init: p.container for p in scene.containers if p.container}
    return [
        _unreaped(container, dead)
        for init, container in inits.items()
        if init is not None and (dead := _dead_children(scene, init.pid))
    ]


def _dead_children(scene: Scene, pid: int) -> list[int]:
    """Children that are dead when read twice: a reaped one is gone the second time."""
    dead = [one.pid for one in scene.table.values() if one.ppid == pid and not one.alive]
    again = (processes.look(one) for one in dead)
    return [one.pid for one in again if one is not None and not one.alive]


def _unreaped(container: Container, dead: list[int]) -> Finding:
    count = "1 dead process stays" if len(dead) == 1 else f"{len(dead)} dead processes stay"
    text = f"{count} in container {container.name}: its first process waits for none"
    note = "ends what runs in it; docker run --init prevents it"
    pids = tuple(map(str, dead))
    return Finding(Level.WARN, text, f"docker restart {container.name}", note, pids)


def mount_size(scene: Scene) -> list[Finding]:
    """Private mounts into which an agent has written too much: only the disk limits it."""
    return [
        _overfull(session_id, much)
        for session_id, held in scene.mounts.items()
        if (much := session_files.overfull(held))
    ]


def _overfull(session_id: str, much: str) -> Finding:
    name = name_of(session_id)
    text = f"the private mount of {name} holds {much}"
    mend = f"du -sh {join([session_files.path(processes.run_dir(), session_id)])}"
    note = f"sesh stop {name} removes it with its container"
    return Finding(Level.WARN, text, mend, note, (name,))


# --- images --------------------------------------------------------------------------------------


def image(scene: Scene) -> list[Finding]:
    """Is the image of each session there, in case its container must be created again?"""
    users: dict[tuple[Engine, str], list[Record]] = {}
    for record in scene.boxed:
        place, box = record.place, record.spec.box
        if isinstance(place, InContainer) and box and box.image and _answers(scene, place.engine):
            users.setdefault((place.engine, box.image), []).append(record)
    return [
        _missing(where, name, sessions)
        for (where, name), sessions in users.items()
        if _lacks(where, name, scene.config.docker.timeout)
    ]


def _answers(scene: Scene, one: Engine) -> bool:
    return isinstance(scene.census.engines.get(one), list)


def _lacks(one: Engine, name: str, timeout: float) -> bool:
    said = container_engine.directory_of(one, name, timeout)
    return isinstance(said, Reply) and said.trouble is Trouble.NO_IMAGE


def _missing(one: Engine, name: str, sessions: Sequence[Record]) -> Finding:
    names = tuple(sorted(record.name for record in sessions))
    text = f"the image {name} is gone, which a restart of {few(names)} may need"
    mend = join(container_engine.argv(one, "pull", name))
    return Finding(Level.WARN, text, mend, subjects=names)


CHECKS = (
    Check("engine", "every container engine in use answers", engine),
    Check(
        "orphan-container",
        "every container of ours has a record",
        orphan_container,
        rebuild_all,
    ),
    Check("container-left", "no container is left over", container_left),
    Check("container-gone", "no session has lost its container", container_gone),
    Check("zombies", "no dead process stays in a container", zombies),
    Check("mount-size", "no private mount holds too much", mount_size),
    Check("image", "the images of sessions are there", image),
)
