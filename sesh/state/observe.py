"""Observe many records in few calls. Decides nothing, changes nothing.

/proc alone shows that an agent lives: pid and start ticks identify it, and the number of its
terminal proves that its pane exists (a hangup clears it). Each tmux server is asked once, and only
about sessions whose agent was not found alive.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial

from sesh.model.configuration import Config
from sesh.model.observation import ExitReport, LaunchReport, Observation, absent, seen, unknown
from sesh.model.place import Agent
from sesh.model.record import Record
from sesh.model.value_object import replace
from sesh.places import launch_files, registry
from sesh.places.interface import Answers, guarded
from sesh.state import clocks
from sesh.system import process_marks, processes
from sesh.system.process_marks import Mark

_SKEW = 2.0  # seconds by which a clock may be off just after the boot
_TWIN = (
    "it runs on another machine{} with the same machine id; "
    "systemd-machine-id-setup gives each its own"
)
_TERMINAL = seen("alive")
_NO_TERMINAL = seen("none (adopted without one)")
KEEPER_PATIENCE = 1.0  # seconds that a keeper may take to write how its agent ended


def observe(
    records: Sequence[Record], config: Config, answers: Answers | None = None
) -> list[Observation]:
    """Observe all records, in their order. `answers` keeps the answers of tmux servers."""
    answers = {} if answers is None else answers
    first = [_first_look(record) for record in records]
    done = [*first]
    for kind in {record.place.kind for record in records}:
        mine = [i for i, record in enumerate(records) if record.place.kind == kind]
        looks = [(records[i], first[i]) for i in mine]
        found = registry.KINDS[kind]().complete(looks, config, answers)
        for i, sight in zip(mine, found, strict=True):
            done[i] = sight
    return done


def _first_look(record: Record) -> Observation:
    """Observe by files. A container may write anything: an error concerns only its session."""
    if record.place.calls_back:
        return heard(record, by_files(record))
    return guarded(lambda: heard(record, by_files(record)))


# --- files and /proc ---------------------------------------------------------------------------


def by_files(record: Record) -> Observation:
    """Observe by the files of the launch and /proc, and by git if a branch was asked for."""
    sight = _by_files(record)
    if not _has_branch(record):
        return sight
    from sesh.system import git

    return replace(sight, branch=git.head(record.spec.cwd))


def _has_branch(record: Record) -> bool:
    """Is it alive, in a directory of this machine that should be on a certain branch?"""
    if record.spec.branch is None or record.status.outcome is not None:
        return False
    return record.directory_here and record.place.machine.id == processes.here().id


def _by_files(record: Record) -> Observation:
    if not record.place.has_process:
        return Observation(absent("sesh runs no process for it"))
    elsewhere = _elsewhere(record)
    if elsewhere:
        return Observation(unknown(elsewhere))
    place = record.place
    launch, exit_report = (
        registry.of(record).words(record) if record.status.outcome is None else (None, None)
    )
    agent = place.agent or (launch.agent if launch else None)
    if not place.pids_here:
        over = record.status.outcome is not None or exit_report is not None
        far = absent("it has ended") if over else unknown("its engine was not queried")
        return Observation(far, exit=exit_report, launch=launch)
    if place.machine.boot != processes.here().boot and not _still_carries(record, agent):
        twin = twin_of(record)
        if twin is not None:
            return Observation(unknown(twin))
        gone = absent("this machine was restarted")
        return Observation(gone, gone, gone, gone, exit=exit_report, launch=launch, rebooted=True)
    if agent is None:
        return _unseen(record, exit_report)
    return _by_process(record, agent, launch, exit_report)


def _unseen(record: Record, exit_report: ExitReport | None) -> Observation:
    """Its process is not known: it has not begun or, in a container, has ended before it was found
    among the processes of this machine."""
    place = record.place
    since = record.status.launched
    word = exit_report and launch_files.read_launch(place.run, record.id, place.generation, since)
    gone = word is not None or record.status.started is not None
    agent = absent("it is gone" if gone else "it has not started yet")
    return Observation(agent, exit=exit_report, began=word.at if word else None)


def heard(record: Record, sight: Observation) -> Observation:
    """Add the conversation that the agent is in."""
    if not record.heard or record.status.outcome is not None:
        return sight
    from sesh.places import agent_files

    conversation = agent_files.current_conversation(record)
    return replace(sight, conversation=conversation) if conversation else sight


def _still_carries(record: Record, agent: Agent | None) -> bool:
    """Does this agent live, although the record (edited by hand?) names another boot?"""
    if agent is None or not processes.alive(agent.process):
        return False
    stat = processes.look(agent.process.pid)
    return stat is not None and _carries(record, agent, stat)


def _elsewhere(record: Record) -> str | None:
    """Why its pids mean nothing here, if that is so."""
    there, here = record.place.machine, processes.here()
    if there.id != here.id:
        return "it runs on another machine"
    if there.pidns != here.pidns and there.boot == here.boot and record.place.pids_here:
        return "it runs in another pid namespace (a container, or its host)"
    return None


def twin_of(record: Record) -> str | None:
    """Why a boot with our machine id is another machine's, if it is: clones share that id. A boot
    that has shown a sign of life since our boot is another machine's; so is one with another host
    name, until we have been up long enough for its passes to leave such a sign."""
    place, status = record.place, record.status
    boot = clocks.boot_of(place.private_run, place.machine.boot)
    signs = [at.timestamp() for at in (status.launched, status.started, status.resumed) if at]
    if boot is not None:
        signs.append(boot.last.wall)
    began = processes.booted_at()
    renamed = boot is not None and boot.host != os.uname().nodename
    if max(signs) <= began + _SKEW and not (renamed and time.time() - began < clocks.HOUR):
        return None
    return _TWIN.format(f" ({boot.host})" if boot is not None and renamed else "")


def _by_process(
    record: Record, agent: Agent, launch: LaunchReport | None, exit_report: ExitReport | None
) -> Observation:
    stat = processes.look(agent.process.pid)
    pid = agent.process.pid
    if stat is None and exit_report is None and processes.foreign(pid):
        return Observation(unknown(f"pid {pid} is another user's, and hidden"), launch=launch)
    if stat is None or stat.start != agent.process.start or not _itself(record, agent, stat):
        if exit_report is None and record.status.outcome is None:
            exit_report = _await_exit(record, agent)
            if exit_report is None and _keeper_alive(agent):
                waiting = unknown("it has ended, but its keeper has not reported how yet")
                return Observation(waiting, launch=launch)
        return Observation(absent(f"gone (pid {pid})"), exit=exit_report, launch=launch)
    terminal = _TERMINAL if agent.tty else _NO_TERMINAL
    if agent.tty and stat.tty != agent.tty:
        terminal = absent("its terminal was closed")
    return Observation(
        seen(f"alive (pid {pid})"),
        terminal,
        exit=exit_report,
        launch=launch,
        frozen=stat.stopped,
    )


def _itself(record: Record, agent: Agent, stat: processes.Stat) -> bool:
    """Is it alive, and not another process with the same pid and start ticks? Its session or its
    marker shows that."""
    if not stat.alive:
        return False
    return processes.belongs(stat, agent) or _carries(record, agent, stat)


def _carries(record: Record, agent: Agent, stat: processes.Stat) -> bool:
    mark = Mark(record.id, record.place.run, agent=agent.process)
    return bool(process_marks.marked({stat.pid: stat}, [mark])[record.id])


def _await_exit(record: Record, agent: Agent) -> ExitReport | None:
    """The agent has just ended: give its keeper a moment to write how."""
    place, since = record.place, None if record.place.calls_back else record.status.launched
    read = partial(launch_files.read_exit, place.run, record.id, place.generation, since)
    deadline = time.monotonic() + KEEPER_PATIENCE
    while time.monotonic() < deadline and _keeper_alive(agent):
        word = read()
        if word is not None:
            return word
        time.sleep(0.005)
    return read()


def _keeper_alive(agent: Agent) -> bool:
    """Is the shell that waits for the agent alive? (Its start ticks are not known, but its session
    is: another process with that pid counts as dead.)"""
    stat = processes.look(agent.keeper)
    return stat is not None and stat.alive and stat.session == agent.leader
