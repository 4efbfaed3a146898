"""Looking after sessions: the facts that `duties` decides upon, and what it decides, carried out.

Level-triggered: whoever runs a pass, and however late, what is due is done, once. A launch is
ended or tried again only if it is still the one that was looked at; the generation proves it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from sesh import (
    breakers,
    checkups,
    digest,
    duties,
    events,
    launchfiles,
    look,
    paths,
    processes,
    store,
    transcripts,
)
from sesh import config as settings
from sesh.breakers import Circle
from sesh.checkups import Memory
from sesh.config import Config
from sesh.digest import Digest
from sesh.duties import Action, Facts, Kind
from sesh.errors import CannotTellError, ConflictError, SeshError, TwinError
from sesh.lifecycle.launch import LaunchError
from sesh.lifecycle.start import restart
from sesh.lifecycle.stop import Ending, stop
from sesh.look import Seen
from sesh.model import Cause, Health, Process, Record, Session, State, Verdict, name_of
from sesh.processes import Usage
from sesh.reconcile import ended_by, reconcile
from sesh.values import Value, replace

QUICK = 1.0  # seconds that a pass gives health commands before it goes on
_POLL = 0.01
_EVENTS = {Health.OK: "healthy", Health.FAILING: "failing", Health.HUNG: "hung"}
AGAIN = 30.0  # seconds until what could not be done is tried again
LATE = 10.0  # seconds after which what is due is overdue: a pass takes its time
_DEEDS = (Kind.END, Kind.RETRY)


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
        return duties.due(self.record, self.seen.session.verdict, self.facts, datetime.now(UTC))

    def next_due(self) -> float | None:
        """When something is due again, in seconds of the epoch."""
        assert self.seen.session is not None
        verdict = self.seen.session.verdict
        left = duties.next_due(self.record, verdict, self.facts, datetime.now(UTC))
        return None if left is None else time.time() + left


def care(found: Sequence[Seen], config: Config) -> tuple[list[Seen], dict[str, float]]:
    """Do what is due. Returns the sessions as they are then, and when each needs another look, by
    its id."""
    patients = [_patient(one, config) for one in found if needs_care(one)]
    patients = _measure(patients)
    patients = _collect(_check(patients))
    changed: dict[str, Seen] = {}
    for patient in patients:
        for action in patient.due():
            if action.kind is Kind.NOTE:
                changed |= _note(patient, action)
    changed |= _end(patients, config)
    changed |= _retry(patients, config)
    left = [one for one in patients if one.record.name not in changed]
    left += [_patient(one, config) for one in changed.values() if needs_care(one)]
    times = {one.record.id: at for one in left if (at := _next_look(one)) is not None}
    return [changed.get(one.name, one) for one in found], times


def overdue(found: Sequence[Seen]) -> list[tuple[Seen, Action]]:
    """What `care` would end or launch again, as far as that is known without doing anything."""
    patients = [_as_remembered(one) for one in found if needs_care(one)]
    return [(one.seen, action) for one in patients for action in one.due() if action.kind in _DEEDS]


def neglected(found: Sequence[Seen]) -> list[tuple[Seen, Action]]:
    """What somebody should have done a while ago: no timer calls a pass, or none comes to its
    end."""
    late = [_as_of(_as_remembered(one), LATE) for one in found if needs_care(one)]
    return [(one.seen, action) for one in late for action in one.due() if _is_late(one, action)]


def _as_of(one: Patient, ago: float) -> Patient:
    """As it was so many seconds ago."""
    facts = one.facts
    ages = {name: getattr(facts, name) for name in ("age", "silent", "unheard")}
    before = {name: max(0.0, age - ago) for name, age in ages.items() if age is not None}
    return Patient(one.seen, one.memory, replace(facts, **before))


def _is_late(one: Patient, action: Action) -> bool:
    at = one.record.status.retry_at
    if action.kind is Kind.RETRY and at is not None:
        return (datetime.now(UTC) - at).total_seconds() >= LATE
    return action.kind is Kind.END


def attended(found: Iterable[Seen], held: Iterable[Digest], config: Config) -> list[Seen]:
    """Of a look at everything, the sessions that are looked after."""
    names = {name_of(one.id) for one in held if one.mode != "ended" and digest.cared_for(one.view)}
    entries = [entry for name in sorted(names) if (entry := store.entry(name)) is not None]
    return [one for one in (*look.judge(entries, config), *found) if needs_care(one)]


def _next_look(one: Patient) -> float | None:
    """When somebody has to look at it. What is still due could not be done: not at once again."""
    at = one.next_due()
    if any(action.kind in _DEEDS for action in one.due()):
        return time.time() + AGAIN
    return at


def needs_care(one: Seen) -> bool:
    """Is there anything that may be due for it?"""
    if one.session is None:
        return False
    watched = one.state is State.RUNNING and one.session.record.spec.care.watched
    return watched or one.state is State.RECOVERING


# --- facts ---------------------------------------------------------------------------------------


def _patient(one: Seen, config: Config) -> Patient:
    """What is known of it now, the word of its health command included."""
    assert one.session is not None
    if one.state is State.RUNNING:
        transcripts.fetch(one.session.record, config)
    known = _as_remembered(one)
    return _heard(known) if known.facts.checking else known


def _as_remembered(one: Seen) -> Patient:
    assert one.session is not None
    record = one.session.record
    if one.state is State.RECOVERING:
        return Patient(one, Memory(), Facts())
    memory = checkups.read(record)
    now = processes.uptime()
    return Patient(one, memory, _facts(record, memory, now, _age(record, now)))


def _facts(record: Record, memory: Memory, now: float, age: float) -> Facts:
    printed = _time_of(paths.transcript(record.id))
    spoken = max(printed, launchfiles.last_beat(record))
    return Facts(
        clock=now,
        age=max(0.0, age - record.status.held),
        silent=_silence(record, age, printed),
        unheard=_silence(record, age, spoken),
        since_measure=age if memory.measured is None else now - memory.measured,
        since_check=age if memory.begun is None else now - memory.begun,
        checking=memory.process is not None,
        checks=memory.checks,
        failures=memory.failures,
        last_failure=memory.last_failure,
    )


def _age(record: Record, now: float) -> float:
    """How long this launch has run, by the kernel's clock; on a far engine, by that on the wall."""
    agent, started = record.place.agent, record.status.started
    if agent is not None and not record.place.far:
        return max(0.0, processes.age(agent.process, now))
    return max(0.0, time.time() - started.timestamp()) if started else 0.0


def _silence(record: Record, age: float, last: float) -> float:
    status = record.status
    started = status.started.timestamp() if status.started else 0.0
    resumed = status.resumed.timestamp() if status.resumed else 0.0
    return duties.silence(time.time(), age, started, max(last, resumed))


def silent_for(record: Record) -> float:
    """Seconds since it printed something, or began; what it was paused for does not count."""
    age = _age(record, processes.uptime())
    return _silence(record, age, _time_of(paths.transcript(record.id)))


def _time_of(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


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
        key: place.agent.process for key, place in places.items() if place.agent and not place.far
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
    checkups.write(one.record, memory)
    return Patient(one.seen, memory, facts)


def _check(patients: Sequence[Patient]) -> list[Patient]:
    """Begin the health commands that are due, all at once."""
    wanting = {one.record.id for one in _wanting(patients, Kind.CHECK)}
    return [_checked(one) if one.record.id in wanting else one for one in patients]


def _checked(one: Patient) -> Patient:
    now = processes.uptime()
    memory = checkups.begin(one.record, one.memory, now)
    checkups.write(one.record, memory)
    return Patient(one.seen, memory, replace(one.facts, clock=now, since_check=0.0, checking=True))


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
    age = _age(one.record, now)
    memory = checkups.collect(one.record, one.memory, now, age)
    if memory == one.memory:
        return one
    checkups.write(one.record, memory)
    facts = _facts(one.record, memory, now, age)
    return Patient(one.seen, memory, replace(facts, memory=one.facts.memory, cpu=one.facts.cpu))


def _note(patient: Patient, action: Action) -> dict[str, Seen]:
    """Write down how it is."""
    session = patient.seen.session
    assert session is not None
    assert action.health is not None
    status = replace(session.record.status, health=action.health, health_reason=action.why or None)
    record = replace(session.record, status=status)
    verdict = reconcile(record, session.seen, datetime.now(UTC))
    entry = store.swap(patient.seen.entry, record, verdict)
    if entry is None:
        return {}
    first_time_well = action.health is Health.OK and session.record.status.health is None
    if not first_time_well:
        with suppress(OSError):
            events.append(_EVENTS[action.health], record, reason=action.why or None)
    return {record.name: Seen(entry, Session(record, session.seen, verdict))}


def _end(patients: Iterable[Patient], config: Config) -> dict[str, Seen]:
    """Bring down, together, what is over a limit."""
    endings = {
        one.record.name: (one.seen, _ending(action))
        for one in patients
        for action in one.due()
        if action.kind is Kind.END
    }
    if not endings:
        return {}
    why = {name: ending for name, (_, ending) in endings.items()}
    after = []
    for stays in (True, False):
        some = [seen for seen, ending in endings.values() if _comes_back(seen, ending) is stays]
        if some:
            after += _stopped(some, config, why, stays=stays)
    return {one.name: one for one in after}


def _ending(action: Action) -> Ending:
    return Ending(action.why, action.cause or Cause.LIMIT, action.ran_well)


def _stopped(
    found: Sequence[Seen], config: Config, why: Mapping[str, Ending], *, stays: bool
) -> list[Seen]:
    grace = config.stop.grace
    try:
        return stop(found, config, grace, close_panes=not stays, keep=stays, endings=why)
    except (CannotTellError, ConflictError):  # one of them has changed: it keeps none waiting
        if len(found) == 1:
            return []
    return [seen for one in found for seen in _stopped([one], config, why, stays=stays)]


def _comes_back(seen: Seen, ending: Ending) -> bool:
    """Will it be launched again, so that its place is kept?"""
    assert seen.session is not None
    how = Verdict(ended_by(ending.cause), cause=ending.cause)
    record = seen.session.record
    record = replace(
        record, status=replace(record.status, retries=ending.retries_used(record.status))
    )
    return duties.after_end(record, how, datetime.now(UTC)).retry_at is not None


# --- retries -------------------------------------------------------------------------------------


def _retry(patients: Iterable[Patient], config: Config) -> dict[str, Seen]:
    """Launch again what is due, unless the breaker of its group or template is open."""
    wanting = _wanting(patients, Kind.RETRY)
    closed_off = breakers.open_for([one.record for one in wanting], config)
    changed = {}
    for one in wanting:
        breaker = closed_off.get(one.record.id)
        after = _postpone(one, *breaker, config) if breaker else _launch(one, config)
        if after is not None:
            changed[one.record.name] = after
    return changed


def _postpone(one: Patient, circle: Circle, until: datetime, config: Config) -> Seen | None:
    session = one.seen.session
    assert session is not None
    record = session.record
    why = breakers.sentence(circle, until)
    record = replace(record, status=replace(record.status, retry_at=until, waits_for=why))
    breakers.note_open(record, circle, until, config)
    return _write(one.seen, session, record)


def _write(found: Seen, session: Session, record: Record) -> Seen | None:
    verdict = reconcile(record, session.seen, datetime.now(UTC))
    entry = store.swap(found.entry, record, verdict)
    return Seen(entry, Session(record, session.seen, verdict)) if entry else None


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
        return look.one(one.record.name)
    except CannotTellError:
        return None
    except SeshError as error:
        if settings.trouble():  # it may be the fault of a setting that could not be read
            return None
        return _give_up(one, str(error))


def _hold_up(one: Patient, why: str) -> Seen | None:
    """Somebody is in its conversation. It is tried again, and a person told meanwhile."""
    session = one.seen.session
    assert session is not None
    record = session.record
    until = datetime.now(UTC) + timedelta(seconds=AGAIN)
    told = why.removeprefix(f"{record.name}: ")
    status = replace(record.status, retry_at=until, waits_for=told)
    return _write(one.seen, session, replace(record, status=status))


def _give_up(one: Patient, why: str) -> Seen | None:
    session = one.seen.session
    assert session is not None
    record, status = session.record, session.record.status
    told = f"not launched again: {why.removeprefix(f'{record.name}: ')}"
    status = replace(status, retry_at=None, waits_for=None, gave_up=told)
    last = replace(record, status=status)
    after = _write(one.seen, session, last)
    if after is not None:
        with suppress(OSError):
            look.note_end(last)  # once more: what was said of it before is not the last word
    return after
