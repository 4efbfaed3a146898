"""Give a container that no record claims its record back, or end it.

The record as it was when the container was made is in its labels; which launch it is at, and who
the agent is, only a look inside tells. Where the state directory is gone, what was mounted of it is
dead: such a container is spoken to through its engine from then on.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, SeshError
from sesh.model.observation import Observation, absent, unknown
from sesh.model.place import Agent
from sesh.model.reconcile import how_it_ended, reconcile
from sesh.model.record import Record, Status
from sesh.model.states import ALIVE, Desired, State
from sesh.model.value_object import Value, replace
from sesh.operations.launch import start_elsewhere
from sesh.operations.stop.stop import stop
from sesh.places import launch_files, remote
from sesh.places.docker import container as docker_container
from sesh.places.docker import observe, session_files
from sesh.state import events, lookup, orphans, records, unclaimed
from sesh.state.judge import Seen
from sesh.state.unclaimed import Adrift
from sesh.system import container_engine, processes
from sesh.system.container_engine import Facts, Trouble
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Trouble as TmuxTrouble

_FORMAT = "#{pane_id}|#{pane_pid}|#{pane_dead}|#{pane_dead_status}|#{@sesh_exit}|#{pane_dead_time}"
_NOBODY = (TmuxTrouble.NO_SERVER, TmuxTrouble.NO_SESSIONS)


class _Pane(Value):
    """The pane of its newest launch, as the tmux inside tells it."""

    id: str
    pid: int  # in there
    dead: bool
    code: int | None
    at: str
    generation: int


# --- rebuilding ----------------------------------------------------------------------------------


def rebuild(found: Adrift, config: Config) -> Seen:
    """Make it a session again: its name, command and directory as they were asked for."""
    facts = _facts(found, config)
    claim = _claim_of(found, facts)
    if records.entry(found.name) is not None:
        raise ConflictError(
            f"a record named {found.name} exists; sesh show {found.name} says of what"
        )
    records.prepare()
    record = _with_container(claim, facts, found, config)
    if facts.running:
        record = _with_launch(record, config)
    record = _with_end(record, facts)
    sight = Observation(unknown("it was adopted just now"))
    records.claim(record, reconcile(record, sight, datetime.now(UTC)), None)
    events.append("adopted", record, command=list(record.spec.command))
    return lookup.one(record.name)


def _facts(found: Adrift, config: Config) -> Facts:
    """What is true of it now."""
    told = container_engine.inspect(found.engine, [found.facts.id], config.docker.timeout)
    if isinstance(told, Reply):
        raise container_engine.problem(found.engine, told)
    facts = told.get(found.facts.id)
    if facts is None:
        raise SeshError(f"{found.name}: its container is gone")
    return facts


def _claim_of(found: Adrift, facts: Facts) -> Record:
    claim = unclaimed.claim_of(facts)
    if claim is None:
        raise SeshError(
            f"{found.name}: the labels of {facts.name} do not tell what it was started with; "
            f"sesh stop {found.name} removes it"
        )
    if facts.status == "created":
        end = "sesh gc removes it" if found.proven else f"next: docker rm {facts.name}"
        raise SeshError(f"{found.name}: its container was never started; {end}")
    if facts.paused:
        raise ConflictError(
            f"{found.name}: its container is paused; docker unpause {facts.name} first"
        )
    return claim


def _with_container(claim: Record, facts: Facts, found: Adrift, config: Config) -> Record:
    """The record of the container; nothing but the wish and the name comes from its labels."""
    run = processes.run_dir()
    there = os.path.isdir(session_files.path(run, claim.id))
    launches = {
        g for i, g in launch_files.known(session_files.path(run, claim.id)) if i == claim.id
    }
    generation = max(launches, default=claim.place.generation)
    place = docker_container.place_of(claim.id, generation, found.engine, run, claim.spec)
    status = Status(desired=Desired.RUNNING, launched=claim.status.launched)
    record = Record(claim.name, claim.id, claim.spec, place, status)
    session_files.make(record)
    mounted = not container_engine.far(found.engine)
    if mounted and facts.running:
        timeout = config.docker.timeout
        mounted = there and session_files.stands(record, found.engine, facts.id, timeout)
    container = docker_container.container_of(facts, record, mounted=mounted)
    return replace(record, place=replace(place, container=container))


# --- what is in it -------------------------------------------------------------------------------


def _with_launch(record: Record, config: Config) -> Record:
    """The newest launch in there: its pane, its agent or how that ended."""
    container = session_files.container_of(record)
    pane = _newest_pane(record, config)
    if pane is not None:
        place = replace(record.place, generation=pane.generation, pane=pane.id)
        record = replace(record, place=place)
    if not container.mounted and record.place.pids_here:
        _equip(record, config)
    session_files.refresh(record, config.docker.timeout)
    launch, exit_word = observe.words(record)
    if pane is not None and pane.dead and exit_word is None and pane.code is not None:
        remote.keep_words(record, f"exit {pane.generation} {pane.at} {pane.code} here")
    agent = launch.agent if launch else None
    if agent is None and pane is not None and not pane.dead and container.init is not None:
        agent = _agent(container.init.pid, pane.pid)
    if agent is None:
        return record
    began = launch.at if launch else _began(agent)
    return replace(
        record,
        place=replace(record.place, agent=agent),
        status=replace(record.status, started=began),
    )


def _newest_pane(record: Record, config: Config) -> _Pane | None:
    """None when there is none, for certain."""
    form = f"{_FORMAT}|#{{@sesh_id}}|#{{pane_start_command}}"
    reply = observe.server(record, config).ask("list-panes", "-a", "-F", form)
    if reply.trouble in _NOBODY:
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
    """What was mounted is dead: tools and transcript go where nothing is mounted."""
    start_elsewhere.equipped(record, {}, resuming=False)
    said = session_files.equip(record, config.docker.timeout * 4)
    engine, pane = session_files.place(record).engine, record.place.pane
    if not said.ok:
        raise container_engine.problem(engine, said)
    if pane is not None:
        server = observe.server(record, config)
        server.ask("set-option", "-t", pane, "@sesh_log", session_files.log(record))
        server.pipe(pane)


def _agent(init: int, keeper: int) -> Agent | None:
    """As this machine counts: the process that the keeper with this number in there waits for."""
    table = processes.table()
    family = processes.children(table)
    for pid in processes.tree(family, init):
        if pid in table and observe.inner_pid(pid) == keeper:
            return orphans.agent_below(table[pid], table, family)
    return None


def _began(agent: Agent) -> datetime | None:
    stat = processes.look(agent.process.pid)
    return datetime.fromtimestamp(processes.started_at(stat), UTC) if stat else None


def _with_end(record: Record, facts: Facts) -> Record:
    """Where there is neither an agent nor its keeper's word: gone, and perhaps why."""
    if record.place.agent is not None or any(observe.words(record)):
        return record
    gone = absent("its agent is gone")
    sight = Observation(gone, oom=facts.oom)
    if not facts.running:
        sight = replace(sight, container=absent(observe.how_it_stopped(facts)))
    how = how_it_ended(record, sight)
    ended = container_engine.moment(facts.finished) if not facts.running else None
    return replace(
        record,
        status=replace(
            record.status,
            outcome=how.state,
            cause=how.cause,
            reason=how.reason,
            ended=ended or datetime.now(UTC),
        ),
    )


# --- the end -------------------------------------------------------------------------------------


def end(found: Adrift, config: Config, grace: float) -> bool:
    """End what runs in it and remove it; the way of every stop, where its record can be rebuilt.
    Not what is not proven to be ours."""
    if found.keep:
        return False
    try:
        seen = rebuild(found, config)
    except CannotTellError:
        raise
    except SeshError:
        return remove(found, config)
    after = stop([seen], config, grace)[0]
    return after.state not in ALIVE | {State.ORPHAN, State.UNKNOWN}


def remove(found: Adrift, config: Config) -> bool:
    """Remove it, if it still is what it was, and ours."""
    try:
        if unclaimed.again(found, config) is None:
            return False
    except SeshError:
        return False
    said = container_engine.ask(
        found.engine, "rm", "--force", found.facts.id, timeout=container_engine.STOP_TIMEOUT
    )
    if said.ok or said.trouble is Trouble.NO_CONTAINER:
        session_files.remove(session_files.path(processes.run_dir(), found.session_id))
        return True
    return False
