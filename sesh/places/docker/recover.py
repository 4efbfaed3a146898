"""Rebuild the record of a session from its container.

The container's labels hold the record as it was when the container was created; which launch it has
reached, and who the agent is, only a look inside shows. Where the state directory was deleted, the
mount of it is dead: sesh reaches such a container through its engine from then on.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError
from sesh.model.observation import Observation, absent
from sesh.model.place import Agent, Engine
from sesh.model.reconcile import how_it_ended
from sesh.model.record import Record, Status
from sesh.model.states import Desired
from sesh.model.value_object import Value, replace
from sesh.places import keepers, launch_files, remote
from sesh.places.docker import container as docker_container
from sesh.places.docker import observe, session_files
from sesh.system import container_engine, processes
from sesh.system.container_engine import Facts
from sesh.system.tmux import Trouble

_FORMAT = "#{pane_id}|#{pane_pid}|#{pane_dead}|#{pane_dead_status}|#{@sesh_exit}|#{pane_dead_time}"
_NO_PANES = (Trouble.NO_SERVER, Trouble.NO_SESSIONS)


class _Pane(Value):
    """The pane of its newest launch, as the tmux inside reports it."""

    id: str
    pid: int  # inside
    dead: bool
    code: int | None
    at: str
    generation: int


def rebuild(claim: Record, engine: Engine, facts: Facts, config: Config) -> Record:
    """The record of the session in this container; its name, command and directory are those of the
    claim."""
    record = _with_container(claim, engine, facts, config)
    if facts.running:
        record = _with_launch(record, config)
    return _with_end(record, facts)


def _with_container(claim: Record, engine: Engine, facts: Facts, config: Config) -> Record:
    """The record of the container; only the request and the name come from its labels."""
    run = processes.run_dir()
    mount = launch_files.mount_path(run, claim.id)
    there = os.path.isdir(mount)
    launches = [launch for owner, launch in launch_files.known(mount) if owner == claim.id]
    generation = max(launches, default=claim.place.generation)
    place = docker_container.place_of(claim.id, generation, engine, run, claim.spec)
    status = Status(desired=Desired.RUNNING, launched=claim.status.launched)
    record = Record(claim.name, claim.id, claim.spec, place, status)
    session_files.make(record)
    mounted = not container_engine.far(engine)
    if mounted and facts.running:
        timeout = config.docker.timeout
        mounted = there and session_files.stands(record, engine, facts.id, timeout)
    container = docker_container.container_of(facts, record, mounted=mounted)
    return replace(record, place=replace(place, container=container))


def _with_launch(record: Record, config: Config) -> Record:
    """Its newest launch: the pane, and the agent or how it ended."""
    container = session_files.container_of(record)
    pane = _newest_pane(record, config)
    if pane is not None:
        place = replace(record.place, generation=pane.generation, pane=pane.id)
        record = replace(record, place=place)
    if not container.mounted and record.place.pids_here:
        _equip(record, config)
    if not container.mounted:
        base = session_files.base(record)
        remote.refresh(session_files.run_inside, record, base, config.docker.timeout)
    launch, exit_word = observe.words(record)
    if pane is not None and pane.dead and exit_word is None and pane.code is not None:
        remote.keep_words(record, f"exit {pane.generation} {pane.at} {pane.code} here")
    agent = launch.agent if launch else None
    if agent is None and pane is not None and not pane.dead and container.init is not None:
        agent = _agent(container.init.pid, pane.pid)
    if agent is None:
        return record
    stat = None if launch else processes.look(agent.process.pid)
    began = datetime.fromtimestamp(processes.started_at(stat), UTC) if stat else None
    status = replace(record.status, started=launch.at if launch else began)
    return replace(record, place=replace(record.place, agent=agent), status=status)


def _newest_pane(record: Record, config: Config) -> _Pane | None:
    """The pane of the newest launch; None: proven that there is none."""
    form = f"{_FORMAT}|#{{@sesh_id}}|#{{pane_start_command}}"
    reply = observe.server(record, config).ask("list-panes", "-a", "-F", form)
    if reply.trouble in _NO_PANES:
        return None
    if not reply.ok:
        raise CannotTellError(f"{record.name}: tmux in its container: {reply.text}")
    line = re.compile(
        rf"(%[0-9]{{1,9}})\|([0-9]{{1,7}})\|([01]?)\|([0-9]*)\|([0-9 ]*)\|([0-9]*)\|{record.id}\|"
        rf".*/{record.id}\.([0-9]{{1,9}}) {record.id} .*"
    )
    matches = [match for text in reply.out.splitlines() if (match := line.fullmatch(text))]
    return max(map(_pane, matches), key=lambda pane: pane.generation, default=None)


def _pane(told: re.Match[str]) -> _Pane:
    pane, pid, dead, status, kept, at, generation = told.groups()
    code = observe.pane_status(int(generation), status, kept)
    return _Pane(pane, int(pid), dead == "1", code, at, int(generation))


def _equip(record: Record, config: Config) -> None:
    """Put tools and transcript where no mount is needed: the mount is dead."""
    equipped = session_files.equip(record, config.docker.timeout * 4)
    container_engine.checked(session_files.place(record).engine, equipped)
    pane = record.place.pane
    if pane is not None:
        server = observe.server(record, config)
        server.ask("set-option", "-t", pane, "@sesh_log", session_files.log(record))
        server.pipe(pane)


def _agent(init: int, keeper: int) -> Agent | None:
    """The agent, as this machine counts processes, of the keeper with this pid inside."""
    table = processes.table()
    family = processes.children(table)
    for pid in processes.tree(family, init):
        if pid in table and observe.inner_pid(pid) == keeper:
            return keepers.agent_below(table[pid], table, family)
    return None


def _with_end(record: Record, facts: Facts) -> Record:
    """Where there is neither an agent nor its keeper's report: it is gone, and perhaps why."""
    if record.place.agent is not None or any(observe.words(record)):
        return record
    gone = absent("its agent is gone")
    sight = Observation(gone, oom=facts.oom)
    if not facts.running:
        sight = replace(sight, container=absent(observe.how_it_stopped(facts)))
    how = how_it_ended(record, sight)
    ended = container_engine.moment(facts.finished) if not facts.running else None
    status = replace(
        record.status,
        outcome=how.state,
        cause=how.cause,
        reason=how.reason,
        ended=ended or datetime.now(UTC),
    )
    return replace(record, status=status)
