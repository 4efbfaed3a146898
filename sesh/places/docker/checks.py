"""The checks of `doctor` that only containers have: do their engines answer, can each session be
started again? Without any use of containers there are no findings."""

from __future__ import annotations

from collections.abc import Sequence

from sesh.model.configuration import Docker
from sesh.model.errors import CannotTellError
from sesh.model.place import Container, Engine
from sesh.model.record import Record, name_of
from sesh.model.text import formatting
from sesh.model.text.shell_words import join
from sesh.places import launch_files
from sesh.places.docker import session_files
from sesh.places.docker.unclaimed import Containers
from sesh.places.finding import Finding, Level
from sesh.places.interface import Examined
from sesh.system import container_engine, processes
from sesh.system.container_engine import Trouble
from sesh.system.subprocesses import Reply


def engine(look: Examined) -> list[Finding]:
    """Does every engine answer that a record or the settings name?"""
    assert isinstance(look.inventory, Containers)
    named = {session_files.place(record).engine for record in look.records}
    wanted = look.settings.docker != Docker()
    findings = [
        _silent(one, said)
        for one, said in look.inventory.answers.items()
        if isinstance(said, Reply) and (one in named or wanted)
    ]
    return findings + _no_command(look) if wanted and not named else findings


def _silent(one: Engine, said: Reply) -> Finding:
    where = one.host or one.context or "the engine of this machine"
    text = f"{where} gives no usable answer: {said.text}"
    if said.trouble is Trouble.DENIED:
        text = f"no permission to use {where}; members of the group docker have it"
    fix = join(container_engine.argv(one, "version"))
    return Finding(Level.FAIL, text, fix, "shows its error", (where,))


def _no_command(look: Examined) -> list[Finding]:
    try:
        container_engine.chosen(look.settings)
    except CannotTellError as error:
        return [Finding(Level.FAIL, str(error), f"command -v {look.settings.docker.command}")]
    return []


def zombies(look: Examined) -> list[Finding]:
    """Dead processes that the first process of a container does not wait for."""
    containers = [session_files.place(record).container for record in look.records]
    inits = {one.init: one for one in containers if one and one.init}
    table = processes.table() if inits else {}
    return [
        _unreaped(container, dead)
        for init, container in inits.items()
        if (dead := _dead_children(table, init.pid))
    ]


def _dead_children(table: processes.Table, pid: int) -> list[int]:
    """Children that are dead when read twice: a reaped one is gone the second time."""
    dead = [one.pid for one in table.values() if one.ppid == pid and not one.alive]
    again = (processes.look(one) for one in dead)
    return [one.pid for one in again if one is not None and not one.alive]


def _unreaped(container: Container, dead: list[int]) -> Finding:
    count = "1 zombie process" if len(dead) == 1 else f"{len(dead)} zombie processes"
    text = f"{count} in container {container.name}: its first process does not reap them"
    note = "ends everything in it; docker run --init prevents this"
    pids = tuple(map(str, dead))
    return Finding(Level.WARN, text, f"docker restart {container.name}", note, pids)


def mount_size(look: Examined) -> list[Finding]:
    """Private mounts into which an agent has written too much: only the disk limits it."""
    names = {record.id: record.name for record in look.records}
    return [
        _overfull(names.get(session_id) or name_of(session_id), session_id, much)
        for session_id, held in look.mounts.items()
        if (much := session_files.overfull(held))
    ]


def _overfull(name: str, session_id: str, much: str) -> Finding:
    text = f"the private mount of {name} holds {much}"
    fix = f"du -sh {join([launch_files.mount_path(processes.run_dir(), session_id)])}"
    return Finding(
        Level.WARN, text, fix, f"sesh stop {name} removes it with its container", (name,)
    )


def image(look: Examined) -> list[Finding]:
    """Is the image of each session there, in case its container must be created again?"""
    assert isinstance(look.inventory, Containers)
    users: dict[tuple[Engine, str], list[Record]] = {}
    for record in look.records:
        where, box = session_files.place(record).engine, record.spec.box
        if box and box.image and isinstance(look.inventory.answers.get(where), list):
            users.setdefault((where, box.image), []).append(record)
    return [
        _missing(where, name, sessions)
        for (where, name), sessions in users.items()
        if _lacks(where, name, look.config.docker.timeout)
    ]


def _lacks(one: Engine, name: str, timeout: float) -> bool:
    said = container_engine.directory_of(one, name, timeout)
    return isinstance(said, Reply) and said.trouble is Trouble.NO_IMAGE


def _missing(one: Engine, name: str, sessions: Sequence[Record]) -> Finding:
    names = tuple(sorted(record.name for record in sessions))
    text = f"the image {name}, which a restart of {formatting.few(names)} may need, is gone"
    fix = join(container_engine.argv(one, "pull", name))
    return Finding(Level.WARN, text, fix, subjects=names)


CHECKS = {"engine": engine, "zombies": zombies, "mount-size": mount_size, "image": image}
