"""Looking after sessions: the facts that `duties` decides upon, and what it decides, carried out.

Level-triggered: whoever runs a pass, and however late, what is due is done, once. A launch is
ended or tried again only if it is still the one that was looked at; the generation proves it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from sesh.model import digest, due, retry
from sesh.model.configuration import Config
from sesh.model.digest import Digest
from sesh.model.due import Action, Facts, Kind
from sesh.model.errors import (
    CannotTellError,
    ConflictError,
    NoSessionError,
    SeshError,
    StateError,
    TwinError,
)
from sesh.model.observation import Session, Verdict
from sesh.model.place import Process
from sesh.model.reconcile import ended_by, reconcile
from sesh.model.record import Record, name_of
from sesh.model.states import Cause, Health, State
from sesh.model.value import Value, replace
from sesh.operations import logs
from sesh.operations.launch import LaunchError
from sesh.operations.start import restart
from sesh.operations.stop import Ending, ask
from sesh.places import launch_files, registry
from sesh.state import ages, breakers, clocks, ends, events, lookup, observe, records, settings
from sesh.state.breakers import Circle
from sesh.state.lookup import Seen
from sesh.supervision import health_checks
from sesh.supervision.health_checks import Memory
from sesh.system import paths, processes
from sesh.system.processes import Usage
from sesh.system.tmux import Reply

T = TypeVar("T")
R = TypeVar("R")
QUICK = 1.0  # seconds that a pass gives health commands before it goes on
_POLL = 0.01
_EVENTS = {Health.OK: "healthy", Health.FAILING: "failing", Health.HUNG: "hung"}
AGAIN = 30.0  # seconds until what could not be done is tried again
LATE = 10.0  # seconds after which what is due is overdue: a pass takes its time
_DEEDS = (Kind.END, Kind.RETRY, Kind.GIVE_UP)
_WRITTEN = (*_DEEDS, Kind.NOTE)  # what is in the record when it has been done


class Patient(Value):
    """A session that is looked after."""

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


class Cared(Value):
    """What came of it."""

    found: Sequence[Seen]  # the sessions as they are then
    times: Mapping[str, float]  # when each needs another look, by its id
    asked: Sequence[Seen] = ()  # to stop; they have yet to be brought down
    troubles: Sequence[Exception] = ()  # what kept it from doing what is due for some


def care(found: Sequence[Seen], config: Config, *, patient: bool = True) -> Cared:
    """Do what is due; only those who have to end are but asked to. What is wrong with one session
    keeps no other waiting."""
    ward = _Ward(config, patient=patient)
    watched = [one for one in found if needs_care(one)]
    patients = ward.each(watched, lambda one: _patient(one, config))
    patients = _collect(ward.each(_measure(patients), _checked))
    health_checks.end_forsaken(processes.run_dir())
    as_measured = {id(one) for one in patients}
    heard = ward.each(patients, lambda one: _all_ears(one, config))
    unsure = {one.record.name for one in heard if id(one) not in as_measured}
    heard = ward.heed_breakers(heard)
    actions = [(one, action) for one in heard for action in one.due()]
    tried = unsure | {one.record.name for one, action in actions if action.kind in _WRITTEN}
    ward.put_off([one for one in heard if one.seen.state is State.RECOVERING])
    ward.each(actions, ward.act)
    changed = ward.changed
    left = [_by_now(one) for one in heard if one.record.name not in changed]
    left += ward.each(filter(needs_care, changed.values()), _as_remembered)
    times = [(one.record.id, _next_look(one, tried)) for one in ward.heed_breakers(left)]
    return Cared(
        [changed.get(one.name, one) for one in found],
        {record_id: at for record_id, at in times if at is not None},
        ward.asked,
        ward.troubles,
    )


class _Ward:
    """Those that are looked after in one pass: what became of them, and what went wrong."""

    def __init__(self, config: Config, *, patient: bool) -> None:
        self.config = config
        self.patient = patient
        self.changed: dict[str, Seen] = {}
        self.put_off_ones: set[str] = set()  # whose retry has to wait
        self.asked: list[Seen] = []
        self.troubles: list[Exception] = []

    def each(self, some: Iterable[T], work: Callable[[T], R]) -> list[R]:
        """Do it with each. Whatever goes wrong is told at the end of the pass."""
        done = []
        for one in some:
            try:
                done.append(work(one))
            except Exception as error:  # also a bug must not end the care for others
                self.troubles.append(error)
        return done

    def heed_breakers(self, patients: list[Patient]) -> list[Patient]:
        """Who is not well is not ended while a breaker is open, nor where that can't be told."""
        told = self.each([patients], lambda some: _heeding_breakers(some, self.config))
        return told[0] if told else [_closed_off(one) for one in patients]

    def put_off(self, waiting: Sequence[Patient]) -> None:
        """Those whose breaker is open for longer than they wait anyway; and, where that can't be
        told, all."""
        sessions = [one.record for one in waiting]
        self.put_off_ones = {record.name for record in sessions}
        told = self.each([sessions], lambda some: breakers.open_for(some, self.config))
        if not told:
            return
        closed_off = told[0]
        late = [one for one in waiting if _is_put_off(one, closed_off)]
        self.put_off_ones = {one.record.name for one in late}
        self.each(late, lambda one: self._postpone(one, *closed_off[one.record.id]))

    def _postpone(self, one: Patient, circle: Circle, until: datetime) -> None:
        self._became(one, _postpone(one, circle, until, self.config))

    def act(self, task: tuple[Patient, Action]) -> None:
        one, action = task
        if one.record.name in self.changed:
            return
        if action.kind is Kind.NOTE:
            self._became(one, _note(one, action))
        elif action.kind is Kind.END:
            asked = _ask_to_stop(one, _ending(action), self.config, mine=self.patient)
            self._became(one, asked)
            self.asked += [asked] if asked else []
        elif action.kind is Kind.RETRY and one.record.name not in self.put_off_ones:
            self._became(one, _launch(one, self.config))
        elif action.kind is Kind.GIVE_UP:
            self._became(one, _give_up(one, action.why))

    def _became(self, one: Patient, after: Seen | None) -> None:
        if after is not None:
            self.changed[one.record.name] = after


def _is_put_off(one: Patient, closed_off: Mapping[str, tuple[Circle, datetime]]) -> bool:
    _, until = closed_off.get(one.record.id, (None, None))
    at = one.record.status.retry_at
    return until is not None and (at is None or at < until)


def _heeding_breakers(patients: Sequence[Patient], config: Config) -> list[Patient]:
    """Of those that would be ended because they are not well, who could not be launched again."""
    unwell = [one for one in patients if any(task.cause is Cause.HEALTH for task in one.due())]
    opened = breakers.open_for([one.record for one in unwell], config) if unwell else {}
    return [_closed_off(one) if one.record.id in opened else one for one in patients]


def _closed_off(one: Patient) -> Patient:
    return Patient(one.seen, one.memory, replace(one.facts, closed_off=True))


def overdue(found: Sequence[Seen], config: Config) -> list[tuple[Seen, Action]]:
    """What `care` would end or launch again, as far as that is known without doing anything."""
    patients = [_as_remembered(one) for one in found if needs_care(one)]
    patients = _heeding_breakers(patients, config)
    return [(one.seen, action) for one in patients for action in one.due() if action.kind in _DEEDS]


def neglected(found: Sequence[Seen], config: Config) -> list[tuple[Seen, Action]]:
    """What somebody should have done a while ago: no timer calls a pass, or none comes to its
    end."""
    late = [_as_of(_as_remembered(one), LATE) for one in found if needs_care(one)]
    late = _heeding_breakers(late, config)
    return [(one.seen, action) for one in late for action in one.due() if _is_late(one, action)]


def _as_of(one: Patient, ago: float) -> Patient:
    """As it was so many seconds ago."""
    facts = one.facts
    ages = {name: getattr(facts, name) for name in ("age", "life", "silent", "unheard")}
    before = {name: max(0.0, age - ago) for name, age in ages.items() if age is not None}
    return Patient(one.seen, one.memory, replace(facts, **before))


def _is_late(one: Patient, action: Action) -> bool:
    at = one.record.status.retry_at
    if action.kind is Kind.RETRY and at is not None:
        return (datetime.now(UTC) - at).total_seconds() >= LATE
    return action.kind in (Kind.END, Kind.GIVE_UP)


def attended(found: Iterable[Seen], held: Iterable[Digest], config: Config) -> list[Seen]:
    """Of a look at everything, the sessions that are looked after."""
    names = {name_of(one.id) for one in held if one.mode != "ended" and digest.cared_for(one.view)}
    entries = [entry for name in sorted(names) if (entry := records.entry(name)) is not None]
    return [one for one in (*lookup.judge(entries, config), *found) if needs_care(one)]


def _by_now(one: Patient) -> Patient:
    """The facts as they are by now: a pass takes its time."""
    if one.seen.state is State.RECOVERING:
        return one
    return Patient(one.seen, one.memory, _facts(one.record, one.memory, processes.uptime()))


def _next_look(one: Patient, tried: Collection[str]) -> float | None:
    """When somebody has to look at it. What was `tried` and is still due could not be done: not at
    once again. What has become due meanwhile is done at once."""
    if one.record.name in tried and any(action.kind in _WRITTEN for action in one.due()):
        return time.time() + AGAIN
    return one.next_due()


def needs_care(one: Seen) -> bool:
    """Is there anything that may be due for it? What another machine has launched, that one
    launches again."""
    if one.session is None:
        return False
    record, here = one.session.record, processes.here()
    if one.state is State.RECOVERING:
        there = record.place.machine
        if there.id != here.id or there.boot == here.boot:
            return there == here
        return observe.twin_of(record) is None
    return one.state is State.RUNNING and record.spec.care.watched


# --- facts ---------------------------------------------------------------------------------------


def _patient(one: Seen, config: Config) -> Patient:
    """What is known of it now, the word of its health command included."""
    assert one.session is not None
    care = one.session.record.spec.care
    if one.state is State.RUNNING and (care.idle_timeout or care.max_silence):
        logs.fetch(one.session.record, config)
    known = _as_remembered(one)
    return _heard(known) if known.facts.checking else known


def _as_remembered(one: Seen) -> Patient:
    assert one.session is not None
    record = one.session.record
    if one.state is State.RECOVERING:
        return Patient(one, Memory(), Facts(life=ages.of_life(record)))
    memory = health_checks.read(record)
    now = processes.uptime()
    return Patient(one, memory, _facts(record, memory, now))


def _facts(record: Record, memory: Memory, now: float) -> Facts:
    age = ages.of_launch(record, now)
    printed = _time_of(paths.transcript(record.id))
    spoken = None if printed is None else max(printed, launch_files.last_beat(record))
    return Facts(
        clock=now,
        age=max(0.0, age - record.status.held),
        life=ages.of_life(record, now),
        silent=_silence(record, age, printed),
        unheard=_silence(record, age, spoken),
        since_measure=age if memory.measured is None else now - memory.measured,
        since_check=age if memory.begun is None else now - memory.begun,
        checking=memory.process is not None,
        checks=memory.checks,
        failures=memory.failures,
        last_failure=memory.last_failure,
    )


def _silence(record: Record, age: float, last: float | None) -> float | None:
    if last is None:
        return None
    status = record.status
    started = status.started.timestamp() if status.started else 0.0
    resumed = status.resumed.timestamp() if status.resumed else 0.0
    return due.silence(time.time(), age, started, max(last, resumed), clocks.naps())


def silent_for(record: Record) -> float | None:
    """Seconds since it printed something, or began; what it was paused for does not count. None:
    its transcript is gone."""
    return _silence(record, ages.of_launch(record), _time_of(paths.transcript(record.id)))


def _time_of(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


def _all_ears(one: Patient, config: Config) -> Patient:
    """Before it is called silent: is what it prints written down at all? A pipe that has died (of a
    full disk, say) is laid anew, and silence counts from then on."""
    care, facts, record = one.record.spec.care, one.facts, one.record
    silent = care.idle_timeout and (facts.silent or 0.0) >= care.idle_timeout
    hung = care.max_silence and (facts.unheard or 0.0) >= care.max_silence
    pane = record.place.pane
    if one.seen.state is not State.RUNNING or pane is None or not (silent or hung):
        return one
    unheard = Patient(one.seen, one.memory, replace(facts, silent=None, unheard=None))
    try:
        server = registry.of(record).tmux(record, config)
    except CannotTellError:
        return unheard
    listed = server.panes()
    if isinstance(listed, Reply):
        return unheard  # a server that hangs reads nothing of what its panes print
    if not any(found.id == pane and not found.piped for found in listed):
        return one
    launch_files.make_transcript(record.id)
    server.pipe(pane)
    os.utime(paths.transcript(record.id))
    return unheard


# --- what is done --------------------------------------------------------------------------------


def _wanting(patients: Iterable[Patient], kind: Kind) -> list[Patient]:
    return [one for one in patients if any(action.kind is kind for action in one.due())]


def _measure(patients: Sequence[Patient]) -> list[Patient]:
    """Look at the memory and processor time of all for which that is due, in one table."""
    wanting = {one.record.id for one in _wanting(patients, Kind.MEASURE)}
    if not wanting:
        return list(patients)
    measured = [one for one in patients if one.record.id in wanting]
    limits = {one.record.id: one.record.spec.care.max_memory or float("inf") for one in measured}
    used = processes.usage(processes.table(), _agents(measured), _checking(measured), limits)
    return [
        _measured(one, used.get(one.record.id)) if one.record.id in wanting else one
        for one in patients
    ]


def _agents(patients: Iterable[Patient]) -> dict[str, Process]:
    """Those whose processes can be seen from here."""
    places = {one.record.id: one.record.place for one in patients}
    return {
        key: place.agent.process for key, place in places.items() if place.agent and place.pids_here
    }


def _checking(patients: Iterable[Patient]) -> set[int]:
    """The health commands that are under way: they carry the marker, but are not the session's."""
    return {one.memory.process.pid for one in patients if one.memory.process}


def _measured(one: Patient, used: Usage | None) -> Patient:
    now = processes.uptime()
    memory = replace(one.memory, measured=now)
    facts = replace(one.facts, clock=now, since_measure=0.0)
    if used is not None:
        memory = replace(memory, peak=max(memory.peak, used.memory_bytes))
        facts = replace(facts, memory=used.memory_bytes, cpu=used.cpu_seconds)
    health_checks.write(one.record, memory)
    return Patient(one.seen, memory, facts)


def _checked(one: Patient) -> Patient:
    """Begin its health command, if that is due; what it says is heard later, of all together."""
    if not _wanting([one], Kind.CHECK):
        return one
    now = processes.uptime()
    memory = health_checks.begin(one.record, one.memory, now)
    if memory.process is None:  # else what it has said of itself tells when it was begun
        health_checks.write(one.record, memory)
    checking = memory.process is not None
    facts = replace(one.facts, clock=now, since_check=0.0, checking=checking)
    return Patient(one.seen, memory, facts)


def _collect(patients: Sequence[Patient]) -> list[Patient]:
    """Hear those that answer quickly; the others are for a later pass."""
    deadline = time.monotonic() + QUICK
    found = list(patients)
    while any(one.facts.checking for one in found) and time.monotonic() < deadline:
        time.sleep(_POLL)
        found = [_heard(one) if one.facts.checking else one for one in found]
    return found


def _heard(one: Patient) -> Patient:
    now = processes.uptime()
    age = ages.of_launch(one.record, now) - one.record.status.held
    memory = health_checks.collect(one.record, one.memory, now, age)
    if memory == one.memory:
        return one
    health_checks.write(one.record, memory)
    facts = _facts(one.record, memory, now)
    return Patient(one.seen, memory, replace(facts, memory=one.facts.memory, cpu=one.facts.cpu))


def _note(patient: Patient, action: Action) -> Seen | None:
    """Write down how it is."""
    health, why = action.health, action.why or None
    assert health is not None
    before = patient.record.status
    record = replace(patient.record, status=replace(before, health=health, health_reason=why))
    written = lookup.write(patient.seen, record)
    if written and not (health is Health.OK and before.health is None):
        events.append(_EVENTS[health], record, reason=why)
    return written


def _ending(action: Action) -> Ending:
    return Ending(action.why, action.cause or Cause.LIMIT, action.ran_well)


def _ask_to_stop(one: Patient, ending: Ending, config: Config, *, mine: bool) -> Seen | None:
    stays = _comes_back(one.seen, ending)
    try:
        return ask(one.seen, config.stop.grace, ending, keep=stays, mine=mine)
    except (CannotTellError, ConflictError, NoSessionError):
        return None  # it has changed since it was looked at


def _comes_back(seen: Seen, ending: Ending) -> bool:
    """Will it be launched again, so that its place is kept?"""
    assert seen.session is not None
    how = Verdict(ended_by(ending.cause), cause=ending.cause)
    record = seen.session.record
    record = replace(
        record, status=replace(record.status, retries=ending.retries_used(record.status))
    )
    now = datetime.now(UTC)
    return retry.after_end(record, how, now, now, ages.left(record)).retry_at is not None


# --- retries -------------------------------------------------------------------------------------


def _postpone(one: Patient, circle: Circle, until: datetime, config: Config) -> Seen | None:
    record = one.record
    why = breakers.sentence(circle, until)
    breakers.note_open(record, circle, until, config)
    if ages.left(record) <= (until - datetime.now(UTC)).total_seconds():
        return _give_up(one, f"{why}, and {retry.no_time(record.spec.care)}")
    record = replace(record, status=replace(record.status, retry_at=until, waits_for=why))
    return lookup.write(one.seen, record)


def _launch(one: Patient, config: Config) -> Seen | None:
    """The next generation. What can't be told now is tried again; what can't be done is told."""
    attempt = one.record.status.retries + 1
    try:
        return restart(one.seen, config, attempt)
    except TwinError as error:
        return _hold_up(one, str(error))
    except ConflictError:
        return None  # another sesh was faster
    except LaunchError:
        return lookup.one(one.record.name)
    except CannotTellError:
        return None
    except StateError as error:  # a full disk, say: that may pass
        return _hold_up(one, str(error))
    except SeshError as error:
        if settings.trouble():  # it may be the fault of a setting that could not be read
            return None
        return _give_up(one, str(error))


def _hold_up(one: Patient, why: str) -> Seen | None:
    """Somebody is in its conversation, say. It is tried again, and a person told meanwhile."""
    record = one.record
    until = datetime.now(UTC) + timedelta(seconds=AGAIN)
    told = why.removeprefix(f"{record.name}: ")
    status = replace(record.status, retry_at=until, waits_for=told)
    return lookup.write(one.seen, replace(record, status=status))


def _give_up(one: Patient, why: str) -> Seen | None:
    session = one.seen.session
    assert session is not None
    record, status = session.record, session.record.status
    told = f"not launched again: {why.removeprefix(f'{record.name}: ')}"
    status = replace(status, retry_at=None, waits_for=None, gave_up=told, keep=False)
    last = replace(record, status=status)
    # Its end is told once more: what was said of it before is not the last word.
    verdict = reconcile(last, session.seen, datetime.now(UTC))
    entry = ends.write(one.seen.entry, last, verdict)
    return Seen(entry, Session(last, session.seen, verdict)) if entry else None
