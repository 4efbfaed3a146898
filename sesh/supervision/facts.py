"""The facts on which `model/due` decides: ages, silence, memory, processor time and health."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from sesh.model import due
from sesh.model.configuration import Config
from sesh.model.due import Action, Facts, Kind
from sesh.model.errors import CannotTellError
from sesh.model.place import Process
from sesh.model.record import Record
from sesh.model.states import State
from sesh.model.value_object import Value, replace
from sesh.operations import logs
from sesh.places import launch_files, registry
from sesh.state import clocks
from sesh.state.judge import Seen
from sesh.supervision import health_checks
from sesh.supervision.health_checks import Memory
from sesh.system import paths, process_usage, processes
from sesh.system.process_usage import Usage
from sesh.system.subprocesses import Reply

QUICK = 1.0  # seconds that a pass waits for health commands
_POLL = 0.01


class Supervised(Value):
    """A session under supervision, with what is known about it."""

    seen: Seen
    memory: Memory
    facts: Facts

    @property
    def record(self) -> Record:
        assert self.seen.session is not None
        return self.seen.session.record

    def due(self) -> tuple[Action, ...]:
        assert self.seen.session is not None
        return due.due(self.record, self.seen.session.verdict, self.facts, datetime.now(UTC))

    def next_due(self) -> float | None:
        """When something is due again, in seconds of the epoch."""
        assert self.seen.session is not None
        verdict = self.seen.session.verdict
        left = due.next_due(self.record, verdict, self.facts, datetime.now(UTC))
        return None if left is None else time.time() + left

    def wants(self, kind: Kind) -> bool:
        return any(action.kind is kind for action in self.due())

    def with_facts(self, **changes: object) -> Supervised:
        return Supervised(self.seen, self.memory, replace(self.facts, **changes))


def gather(one: Seen, config: Config) -> Supervised:
    """All facts about a session, the result of its health command included."""
    assert one.session is not None
    care = one.session.record.spec.care
    if one.state is State.RUNNING and (care.idle_timeout or care.max_silence):
        logs.fetch(one.session.record, config)
    known = remembered(one)
    return _heard(known) if known.facts.checking else known


def remembered(one: Seen) -> Supervised:
    """The facts that earlier passes have written down, and ages."""
    assert one.session is not None
    record = one.session.record
    if one.state is State.RECOVERING:
        return Supervised(one, Memory(), Facts(life=clocks.life_age(record)))
    memory = health_checks.read(record)
    return Supervised(one, memory, _facts(record, memory, processes.uptime()))


def refreshed(one: Supervised) -> Supervised:
    """The facts as they are by now: a pass takes time."""
    if one.seen.state is State.RECOVERING:
        return one
    return Supervised(one.seen, one.memory, _facts(one.record, one.memory, processes.uptime()))


def _facts(record: Record, memory: Memory, now: float) -> Facts:
    age = clocks.launch_age(record, now)
    printed = _modified(paths.transcript(record.id))
    spoken = None if printed is None else max(printed, launch_files.last_beat(record))
    return Facts(
        clock=now,
        age=max(0.0, age - record.status.held),
        life=clocks.life_age(record, now),
        silent=_silence(record, age, printed),
        unheard=_silence(record, age, spoken),
        since_measure=age if memory.measured is None else now - memory.measured,
        since_check=age if memory.begun is None else now - memory.begun,
        checking=memory.process is not None,
        checks=memory.checks,
        failures=memory.failures,
        last_failure=memory.last_failure,
    )


# --- silence -------------------------------------------------------------------------------------


def silent_for(record: Record) -> float | None:
    """Seconds since a session printed something, or began; time in pause does not count. None: its
    transcript is gone."""
    return _silence(record, clocks.launch_age(record), _modified(paths.transcript(record.id)))


def _silence(record: Record, age: float, last: float | None) -> float | None:
    if last is None:
        return None
    status = record.status
    started = status.started.timestamp() if status.started else 0.0
    resumed = status.resumed.timestamp() if status.resumed else 0.0
    return due.silence(time.time(), age, started, max(last, resumed), clocks.naps())


def _modified(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


def with_proven_silence(one: Supervised, config: Config) -> Supervised:
    """Before a session counts as silent, ask tmux whether its output is logged at all. A log pipe
    that has died (a full disk) is started again, and silence counts from then on."""
    care, facts, record = one.record.spec.care, one.facts, one.record
    silent = care.idle_timeout and (facts.silent or 0.0) >= care.idle_timeout
    hung = care.max_silence and (facts.unheard or 0.0) >= care.max_silence
    pane = record.place.pane
    if one.seen.state is not State.RUNNING or pane is None or not (silent or hung):
        return one
    not_known = one.with_facts(silent=None, unheard=None)
    try:
        server = registry.of(record).tmux(record, config)
    except CannotTellError:
        return not_known
    listed = server.panes()
    if isinstance(listed, Reply):
        return not_known  # a server that hangs reads nothing of what its panes print
    if not any(found.id == pane and not found.piped for found in listed):
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
        return list(sessions)
    measured = [one for one in sessions if one.record.id in wanting]
    limits = {one.record.id: one.record.spec.care.max_memory or float("inf") for one in measured}
    table = processes.table()
    used = process_usage.quick_usage(table, _agents(measured), _checking(measured), limits)
    return [
        _measured(one, used.get(one.record.id)) if one.record.id in wanting else one
        for one in sessions
    ]


def _agents(sessions: Iterable[Supervised]) -> dict[str, Process]:
    """The agents whose processes can be seen from here."""
    places = {one.record.id: one.record.place for one in sessions}
    return {
        key: place.agent.process for key, place in places.items() if place.agent and place.pids_here
    }


def _checking(sessions: Iterable[Supervised]) -> set[int]:
    """Running health commands: they carry the marker, but do not belong to the session."""
    return {one.memory.process.pid for one in sessions if one.memory.process}


def _measured(one: Supervised, used: Usage | None) -> Supervised:
    now = processes.uptime()
    memory = replace(one.memory, measured=now)
    facts = replace(one.facts, clock=now, since_measure=0.0)
    if used is not None:
        memory = replace(memory, peak=max(memory.peak, used.memory_bytes))
        facts = replace(facts, memory=used.memory_bytes, cpu=used.cpu_seconds)
    health_checks.write(one.record, memory)
    return Supervised(one.seen, memory, facts)


# --- health commands -----------------------------------------------------------------------------


def begin_check(one: Supervised) -> Supervised:
    """Start the health command of a session, if that is due. Results are collected for all
    sessions together."""
    if not one.wants(Kind.CHECK):
        return one
    now = processes.uptime()
    memory = health_checks.begin(one.record, one.memory, now)
    if memory.process is None:  # else the command has noted when it began
        health_checks.write(one.record, memory)
    checking = memory.process is not None
    facts = replace(one.facts, clock=now, since_check=0.0, checking=checking)
    return Supervised(one.seen, memory, facts)


def collect_checks(sessions: Sequence[Supervised]) -> list[Supervised]:
    """Collect the results of health commands that end quickly; a later pass collects the others."""
    deadline = time.monotonic() + QUICK
    found = list(sessions)
    while any(one.facts.checking for one in found) and time.monotonic() < deadline:
        time.sleep(_POLL)
        found = [_heard(one) if one.facts.checking else one for one in found]
    return found


def _heard(one: Supervised) -> Supervised:
    now = processes.uptime()
    age = clocks.launch_age(one.record, now) - one.record.status.held
    memory = health_checks.collect(one.record, one.memory, now, age)
    if memory == one.memory:
        return one
    health_checks.write(one.record, memory)
    facts = _facts(one.record, memory, now)
    return Supervised(one.seen, memory, replace(facts, memory=one.facts.memory, cpu=one.facts.cpu))
