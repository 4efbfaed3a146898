"""The facts on which `model/due` decides: ages, silence, memory, processor time and health.

All facts of a pass are of one moment, so that sessions with the same deadline are due together.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property

from sesh.model import due
from sesh.model.configuration import Config
from sesh.model.due import Action, Facts, Kind
from sesh.model.errors import CannotTellError
from sesh.model.record import Record
from sesh.model.states import State
from sesh.model.value_object import Value, replace
from sesh.places import launch_files, registry
from sesh.state import clocks
from sesh.state.clocks import Naps
from sesh.state.judge import Seen
from sesh.supervision import health_checks
from sesh.supervision.health_checks import Memory
from sesh.system import files, paths, process_usage, processes
from sesh.system.process_usage import Usage
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Pane

QUICK = 1.0  # seconds that a pass waits for health commands
_POLL = 0.01
Listed = dict[object, list[Pane] | Reply]  # the panes of each server that was asked


class Moment(Value):
    """One reading of the clocks, for all sessions of a pass."""

    wall: float
    uptime: float
    naps: Naps

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.wall, UTC)


def now() -> Moment:
    reading = clocks.read()
    return Moment(reading.wall, reading.uptime, clocks.naps(reading))


class Supervised(Value):
    """A session under supervision, with what is known about it at one moment."""

    seen: Seen
    memory: Memory
    facts: Facts
    now: Moment

    @property
    def record(self) -> Record:
        return self.seen.intact.record

    @cached_property
    def due(self) -> tuple[Action, ...]:
        return due.due(self.record, self.seen.intact.verdict, self.facts, self.now.at)

    def next_due(self) -> float | None:
        """When something is due again, in seconds of the epoch."""
        left = due.next_due(self.record, self.seen.intact.verdict, self.facts, self.now.at)
        return None if left is None else self.now.wall + left

    def wants(self, kind: Kind) -> bool:
        return any(action.kind is kind for action in self.due)

    def with_facts(self, noted: Memory | None = None, /, **changes: object) -> Supervised:
        facts = replace(self.facts, **changes)
        return Supervised(self.seen, noted or self.memory, facts, self.now)


def fetch_output(one: Seen, config: Config) -> Seen:
    """Fetch the output of a session elsewhere whose silence counts."""
    record = one.intact.record
    supervision = record.spec.supervision
    if one.state is State.RUNNING and (supervision.idle_timeout or supervision.max_silence):
        registry.of(record).fetch_transcript(record, config)
    return one


def remembered(one: Seen, moment: Moment) -> Supervised:
    """The ages of a session, and the facts that earlier passes have written."""
    record = one.intact.record
    if one.state is State.RECOVERING:
        life = clocks.life_age(record, moment.uptime)
        return Supervised(one, Memory(), Facts(life=life), moment)
    memory = health_checks.read(record)
    return Supervised(one, memory, _facts(record, memory, moment), moment)


def _facts(record: Record, memory: Memory, moment: Moment) -> Facts:
    clock = moment.uptime
    age = clocks.launch_age(record, clock)
    printed = files.changed(paths.transcript(record.id))
    spoken = None if printed is None else max(printed, launch_files.last_beat(record))
    return Facts(
        clock=clock,
        age=max(0.0, age - record.status.held),
        life=clocks.life_age(record, clock),
        silent=_silence(record, age, printed, moment),
        unheard=_silence(record, age, spoken, moment),
        since_measure=age if memory.measured is None else clock - memory.measured,
        since_check=age if memory.begun is None else clock - memory.begun,
        checking=memory.process is not None,
        checks=memory.checks,
        failures=memory.failures,
        last_failure=memory.last_failure,
    )


# --- silence -------------------------------------------------------------------------------------


def silent_for(record: Record) -> float | None:
    """Seconds since a session printed something, or began; time in pause does not count. None: its
    transcript is gone."""
    moment = now()
    age = clocks.launch_age(record, moment.uptime)
    return _silence(record, age, files.changed(paths.transcript(record.id)), moment)


def _silence(record: Record, age: float, last: float | None, moment: Moment) -> float | None:
    if last is None:
        return None
    status = record.status
    started = status.started.timestamp() if status.started else 0.0
    resumed = status.resumed.timestamp() if status.resumed else 0.0
    return due.silence(moment.wall, age, started, max(last, resumed), moment.naps)


def with_proven_silence(one: Supervised, config: Config, listed: Listed) -> Supervised:
    """Before a session counts as silent, ask tmux whether its output is logged at all. A log pipe
    that has died (a full disk) is started again, and silence counts from then on. `listed` keeps
    the answers of servers."""
    supervision, facts, record = one.record.spec.supervision, one.facts, one.record
    silent = supervision.idle_timeout and (facts.silent or 0.0) >= supervision.idle_timeout
    hung = supervision.max_silence and (facts.unheard or 0.0) >= supervision.max_silence
    pane = record.place.pane
    if one.seen.state is not State.RUNNING or pane is None or not (silent or hung):
        return one
    not_known = one.with_facts(silent=None, unheard=None)
    try:
        server = registry.of(record).tmux(record, config)
    except CannotTellError:
        return not_known
    key = (server.prefix, server.socket)
    panes = listed[key] if key in listed else listed.setdefault(key, server.panes())
    if isinstance(panes, Reply):
        return not_known  # a server that hangs reads nothing of what its panes print
    if not any(found.id == pane and not found.piped for found in panes):
        return one
    launch_files.make_transcript(record.id)
    server.pipe(pane)
    os.utime(paths.transcript(record.id))
    return not_known


# --- memory and processor time -------------------------------------------------------------------


def measure(sessions: Sequence[Supervised]) -> list[Supervised]:
    """Measure memory and processor time of all sessions for which that is due, in one process
    table."""
    wanting = {one.record.id for one in sessions if one.wants(Kind.MEASURE)}
    if not wanting:
        return [*sessions]
    measured = [one for one in sessions if one.record.id in wanting]
    limits = {
        one.record.id: one.record.spec.supervision.max_memory or float("inf") for one in measured
    }
    places = {one.record.id: one.record.place for one in measured}
    agents = {
        key: place.agent.process for key, place in places.items() if place.agent and place.pids_here
    }
    # Running health commands carry the marker, but do not belong to the session.
    checking = {one.memory.process.pid for one in measured if one.memory.process}
    used = process_usage.quick_usage(processes.table(), agents, checking, limits)
    return [
        _measured(one, used.get(one.record.id)) if one.record.id in wanting else one
        for one in sessions
    ]


def _measured(one: Supervised, used: Usage | None) -> Supervised:
    memory, found = replace(one.memory, measured=one.now.uptime), {}
    if used is not None:
        memory = replace(memory, peak=max(memory.peak, used.memory_bytes))
        found = {"memory": used.memory_bytes, "cpu": used.cpu_seconds}
    health_checks.write(one.record, memory)
    return one.with_facts(memory, since_measure=0.0, **found)


# --- health commands -----------------------------------------------------------------------------


def begin_check(one: Supervised) -> Supervised:
    """Start the health command of a session, if that is due."""
    if not one.wants(Kind.CHECK):
        return one
    memory = health_checks.begin(one.record, one.memory, processes.uptime())
    if memory.process is None:  # else the command has noted when it began
        health_checks.write(one.record, memory)
    return one.with_facts(memory, since_check=0.0, checking=memory.process is not None)


def collect_checks(sessions: Sequence[Supervised], seconds: float = 0.0) -> list[Supervised]:
    """Collect the results of health commands that have ended, or that end in the next `seconds`; a
    later pass collects the others."""
    deadline = time.monotonic() + seconds
    found = _collected(sessions)
    while any(one.facts.checking for one in found) and time.monotonic() < deadline:
        time.sleep(_POLL)
        found = _collected(found)
    return found


def _collected(sessions: Sequence[Supervised]) -> list[Supervised]:
    checking = [one for one in sessions if one.facts.checking]
    if not checking:
        return [*sessions]
    clock = processes.uptime()
    ages = [clocks.launch_age(one.record, clock) - one.record.status.held for one in checking]
    asked = [(one.record, one.memory, age) for one, age in zip(checking, ages, strict=True)]
    after = dict(zip(map(id, checking), health_checks.collect(asked, clock), strict=True))
    return [_heard(one, after[id(one)]) if id(one) in after else one for one in sessions]


def _heard(one: Supervised, memory: Memory) -> Supervised:
    if memory == one.memory:
        return one
    health_checks.write(one.record, memory)
    facts = _facts(one.record, memory, one.now)
    facts = replace(facts, memory=one.facts.memory, cpu=one.facts.cpu)
    return Supervised(one.seen, memory, facts, one.now)
