"""Judge records: observe them, decide their states and write down what was learned.

Only proven facts are written: an agent that began, an end, a digest line that is out of date. A
session in state `unknown` changes no record. A write that fails is reported (`Seen.trouble`), and
the state is shown nevertheless.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from sesh.model import retry
from sesh.model.configuration import Config
from sesh.model.errors import SeshError, StateError
from sesh.model.observation import Observation, Session, Verdict
from sesh.model.reconcile import how_it_ended, reconcile, recorded_end
from sesh.model.record import AgentReport, Damaged, Record
from sesh.model.states import ENDED, Cause, Desired, State
from sesh.model.value_object import Value, replace
from sesh.places import launch_files
from sesh.places.interface import Answers
from sesh.state import breakers, clocks, ends, observe, records, settings
from sesh.state.records import Entry

_LOOKS = 3  # at most, at a record that other processes keep changing


class Seen(Value):
    """A record file and the session that was found by it."""

    entry: Entry
    session: Session | None  # None: the record is damaged
    trouble: str | None = None  # why the record could not be updated
    overtaken: bool = False  # another process changed the record, or the agent began, meanwhile
    has_ended: bool = False  # this look has found, and recorded, its end

    @property
    def name(self) -> str:
        return self.entry.record.name

    @property
    def record(self) -> Record | None:
        """The record; None: it is damaged."""
        return self.entry.readable

    @property
    def state(self) -> State:
        return self.session.verdict.state if self.session else State.DAMAGED

    @property
    def intact(self) -> Session:
        """The session. Raises when the record is damaged."""
        if self.session is None:
            raise StateError(
                f"{self.name}: its record is damaged ({self.reason}); next: sesh show {self.name}"
            )
        return self.session

    @property
    def reason(self) -> str | None:
        """Why it is in its state, or why its record is damaged."""
        if self.session:
            return self.session.verdict.reason
        return self.damaged.reason if self.damaged else None

    @property
    def has_process(self) -> bool:
        """Does sesh run a process for it? A damaged record may have one."""
        return self.session is None or self.session.record.place.has_process

    @property
    def damaged(self) -> Damaged | None:
        record = self.entry.record
        return record if isinstance(record, Damaged) else None


def readable(found: Iterable[Seen]) -> list[Record]:
    """The records among these that are not damaged."""
    return [one.record for one in found if one.record]


def seen_as(entry: Entry, record: Record, sight: Observation) -> Seen:
    """A session, judged by a given observation."""
    return Seen(entry, Session(record, sight, reconcile(record, sight, datetime.now(UTC))))


def judge(
    entries: Sequence[Entry], config: Config | None = None, answers: Answers | None = None
) -> list[Seen]:
    """Observe records, decide their states and write what is new. A record that another process has
    changed meanwhile is judged again: that process may have recorded an end and removed the exit
    file, so that the end looked unexplained here."""
    config = config or settings.load()
    ends.append_missing()
    found = _judge(entries, config, answers)
    for _ in range(_LOOKS - 1):
        fresh = {at: records.again(one.entry) for at, one in enumerate(found) if one.overtaken}
        changed = {at: entry for at, entry in fresh.items() if entry is not None}
        if not changed:
            break
        for at, one in zip(changed, _judge([*changed.values()], config), strict=True):
            found[at] = one
    sessions = [one.session for one in found if one.has_ended and one.session]
    breakers.note_ended([s.record for s in sessions], config)
    return found


def _judge(entries: Sequence[Entry], config: Config, answers: Answers | None = None) -> list[Seen]:
    recorded = [entry.readable for entry in entries]
    sights = iter(observe.observe([one for one in recorded if one], config, answers))
    found = []
    for entry, record in zip(entries, recorded, strict=True):
        if record is None:
            found.append(Seen(entry, None))
            continue
        sight = next(sights)
        now = datetime.now(UTC)
        found.append(_settle(entry, record, sight, reconcile(record, sight, now), now))
    return found


def _settle(
    entry: Entry, record: Record, sight: Observation, verdict: Verdict, now: datetime
) -> Seen:
    """Write what was learned, unless another process has changed the record meanwhile."""
    if verdict.state is State.UNKNOWN:
        return Seen(entry, Session(record, sight, verdict))
    learned = learn(record, sight, verdict, now)
    verdict = with_retry(learned, sight, verdict, now)
    if (learned is record or learned == record) and records.up_to_date(entry, record, verdict):
        return Seen(entry, Session(record, sight, verdict))
    _announce_launch(entry, record, learned)
    has_ended = learned.status.outcome is not record.status.outcome
    given_up = has_ended and verdict.state is State.TIMEOUT and verdict.cause is Cause.LAUNCH
    if given_up and not _withdraw(record):
        return Seen(entry, Session(record, sight, verdict), overtaken=True)
    try:
        written = (ends.write if has_ended else records.swap)(entry, learned, verdict)
    except (SeshError, OSError) as error:
        return Seen(entry, Session(record, sight, verdict), trouble=str(error))
    seen = Session(learned, sight, verdict)
    if written is None:
        return Seen(entry, seen, overtaken=True)
    return Seen(written, seen, has_ended=has_ended)


def _announce_launch(entry: Entry, record: Record, learned: Record) -> None:
    """Write the event of a launch whose agent is found to have begun, or to have failed."""
    known = record.place.agent is not None or record.status.started is not None
    if known or learned.status.started is None:
        return
    refused = learned.status.cause is Cause.LAUNCH
    ends.announce_launch(entry, record, recorded_end(learned) if refused else None)


def _withdraw(record: Record) -> bool:
    """Keep a slow tmux from starting the agent now. False: the agent was faster, and lives."""
    which = (record.place.run, record.id, record.place.generation)
    return launch_files.withdraw(record) or launch_files.read_launch(*which) is None


def learn(record: Record, sight: Observation, verdict: Verdict, now: datetime) -> Record:
    """The record with what was proven: the agent's identity, its end and how it ended."""
    word = sight.launch
    if word and word.generation == record.place.generation and record.place.agent is None:
        record = replace(
            record,
            place=replace(record.place, agent=word.agent, pane=word.pane, server=word.server),
            status=replace(record.status, started=word.at),
        )
    if record.status.started is None and sight.began is not None:
        record = replace(record, status=replace(record.status, started=sight.began))
    if sight.conversation not in (None, record.agent.conversation):
        record = replace(record, agent=_in_conversation(record.agent, sight.conversation))
    if record.status.outcome is not None or verdict.state not in ENDED:
        return record
    how = how_it_ended(record, sight) if verdict.state is State.STALE else verdict
    return ended(record, how, now)


def _in_conversation(word: AgentReport, conversation: str | None) -> AgentReport:
    """Whether a conversation other than the one before has a prompt is not known, and it is not the
    one that began as a copy."""
    first = word.conversation is None
    origin = word.forked_from if first else None
    still = word.prompted and first
    return replace(word.talking(conversation, prompted=still), forked_from=origin)


def ended(record: Record, how: Verdict, now: datetime) -> Record:
    """The record of a session that has ended like this, for good or until its retry."""
    moment = how.ended or now
    after = retry.after_end(record, how, moment, now, clocks.time_left(record))
    status = record.status
    status = replace(
        status,
        desired=Desired.RUNNING if after.retry_at else status.desired,
        outcome=how.state,
        cause=how.cause,
        exit_code=how.exit_code,
        signal=how.signal,
        reason=how.reason,
        ended=moment,
        retry_at=after.retry_at,
        retries=after.retries,
        gave_up=after.gave_up,
        stopper=None,
        keep=status.keep and (after.retry_at is not None or status.stop_reason is None),
        health=None,
        health_reason=None,
    )
    return replace(record, status=status)


def with_retry(record: Record, sight: Observation, verdict: Verdict, now: datetime) -> Verdict:
    """The verdict once it is known whether the session will be retried."""
    if verdict.state in ENDED and record.spec.supervision.retries:
        return reconcile(record, sight, now)
    return verdict
