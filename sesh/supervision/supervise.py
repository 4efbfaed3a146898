"""Run the due actions of sessions: end over a limit, retry, note their health.

Level-triggered: it does not matter which pass runs, or how late; what is due is done once. A launch
is ended or retried only if it is still the launch that was judged; the generation proves it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from sesh.model import digest, retry
from sesh.model.configuration import Config
from sesh.model.digest import Digest
from sesh.model.due import Action, Kind
from sesh.model.errors import (
    CannotTellError,
    ConflictError,
    ConversationInUseError,
    NoSessionError,
    SeshError,
    StateError,
)
from sesh.model.observation import Verdict
from sesh.model.reconcile import ended_by
from sesh.model.states import Cause, Health, State
from sesh.model.value_object import Value, replace
from sesh.operations.stop.request import Ending, ask
from sesh.state import breakers, clocks, events, judge, lookup, observe, records, settings
from sesh.state.breakers import Circuit
from sesh.state.judge import Seen
from sesh.supervision import facts, health_checks
from sesh.supervision.facts import Supervised
from sesh.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")
    R = TypeVar("R")

_EVENTS = {Health.OK: "healthy", Health.FAILING: "failing", Health.HUNG: "hung"}
AGAIN = 30.0  # seconds until a failed action is tried again
LATE = 10.0  # seconds after which a due action is overdue: a pass takes time
_LASTING = (Kind.END, Kind.RETRY, Kind.GIVE_UP)
_WRITTEN = (*_LASTING, Kind.NOTE)  # actions that the record shows once they are done


class Outcome(Value):
    """What the due actions have changed."""

    found: Sequence[Seen]  # the sessions afterwards
    times: Mapping[str, float]  # when each needs the next look, by id
    asked: Sequence[Seen] = ()  # sessions that were asked to stop and have to be brought down
    troubles: Sequence[Exception] = ()  # errors that kept an action from being done


def run_due(found: Sequence[Seen], config: Config, *, stopping_here: bool = True) -> Outcome:
    """Run all due actions. Sessions over a limit are only asked to stop here. An error with one
    session does not delay the others."""
    run = _Run(config, stopping_here=stopping_here)
    wanted = run.each(filter(is_supervised, found), lambda one: facts.fetch_output(one, config))
    now, listed = facts.now(), facts.Listed()
    sessions = run.each(wanted, lambda one: facts.remembered(one, now))
    sessions = run.together(sessions, facts.collect_checks)
    sessions = run.each(run.together(sessions, facts.measure), facts.begin_check)
    sessions = run.together(sessions, lambda some: facts.collect_checks(some, facts.QUICK))
    health_checks.end_abandoned(processes.run_dir())
    proven = run.each(sessions, lambda one: facts.with_proven_silence(one, config, listed))
    same = {id(one) for one in sessions}
    unsure = {one.record.name for one in proven if id(one) not in same}
    proven = run.apply_breakers(proven)
    actions = [(one, action) for one in proven for action in one.due]
    tried = unsure | {one.record.name for one, action in actions if action.kind in _WRITTEN}
    run.postpone_retries([one for one in proven if one.seen.state is State.RECOVERING])
    run.each(actions, run.act)
    changed = run.changed
    left = [one for one in proven if one.record.name not in changed]
    now = facts.now() if changed else now
    after = run.each(
        filter(is_supervised, changed.values()), lambda one: facts.remembered(one, now)
    )
    times = [(one.record.id, _next_look(one, tried, changed)) for one in (*left, *after)]
    return Outcome(
        [changed.get(one.name, one) for one in found],
        {record_id: at for record_id, at in times if at is not None},
        run.asked,
        run.troubles,
    )


class _Run:
    """One run over all supervised sessions: what has changed, and what went wrong."""

    def __init__(self, config: Config, *, stopping_here: bool) -> None:
        self.config = config
        self.stopping_here = stopping_here
        self.changed: dict[str, Seen] = {}
        self.postponed: set[str] = set()  # names of sessions whose retry has to wait
        self.asked: list[Seen] = []
        self.troubles: list[Exception] = []

    def each(self, some: Iterable[T], work: Callable[[T], R]) -> list[R]:
        """Do the same with each. Errors are reported at the end of the pass."""
        done = []
        for one in some:
            try:
                done.append(work(one))
            except Exception as error:  # a bug must not end the supervision of the others
                self.troubles.append(error)
        return done

    def together(
        self, some: list[Supervised], work: Callable[[list[Supervised]], list[Supervised]]
    ) -> list[Supervised]:
        """Do something with all of them at once. After an error they are as they were."""
        done = self.each([some], work)
        return done[0] if done else some

    def apply_breakers(self, sessions: list[Supervised]) -> list[Supervised]:
        """An unhealthy session is not ended while its breaker is open, or when that is unknown."""
        applied = self.each([sessions], lambda some: _with_breakers(some, self.config))
        return applied[0] if applied else [o.with_facts(breaker_open=True) for o in sessions]

    def postpone_retries(self, waiting: Sequence[Supervised]) -> None:
        """Postpone retries for which the breaker is open longer than they wait anyway. When that is
        unknown, no retry is made now."""
        sessions = [one.record for one in waiting]
        self.postponed = {record.name for record in sessions}
        opened = self.each([sessions], lambda some: breakers.open_for(some, self.config))
        if not opened:
            return
        late = [one for one in waiting if _opens_later(one, opened[0])]
        self.postponed = {one.record.name for one in late}
        self.each(late, lambda one: self._postpone(one, *opened[0][one.record.id]))

    def _postpone(self, one: Supervised, circuit: Circuit, until: datetime) -> None:
        self._became(one, _postpone(one, circuit, until, self.config))

    def act(self, task: tuple[Supervised, Action]) -> None:
        one, action = task
        if one.record.name in self.changed:
            return
        if action.kind is Kind.NOTE:
            self._became(one, _note(one, action))
        elif action.kind is Kind.END:
            ending = Ending(action.why, action.cause or Cause.LIMIT, action.ran_well)
            asked = _ask_to_stop(one, ending, self.config, mine=self.stopping_here)
            self._became(one, asked)
            self.asked += [asked] if asked else []
        elif action.kind is Kind.RETRY and one.record.name not in self.postponed:
            self._became(one, _launch(one, self.config))
        elif action.kind is Kind.GIVE_UP:
            self._became(one, _give_up(one, action.why))

    def _became(self, one: Supervised, after: Seen | None) -> None:
        if after is not None:
            self.changed[one.record.name] = after


def _opens_later(one: Supervised, opened: Mapping[str, tuple[Circuit, datetime]]) -> bool:
    _, until = opened.get(one.record.id, (None, None))
    at = one.record.status.retry_at
    return until is not None and (at is None or at < until)


def _with_breakers(sessions: Sequence[Supervised], config: Config) -> list[Supervised]:
    """Mark the unhealthy sessions that could not be retried, because their breaker is open."""
    unwell = [one for one in sessions if any(task.cause is Cause.HEALTH for task in one.due)]
    opened = breakers.open_for([one.record for one in unwell], config) if unwell else {}
    return [
        one.with_facts(breaker_open=True) if one.record.id in opened else one for one in sessions
    ]


def overdue(found: Sequence[Seen], config: Config) -> list[tuple[Seen, Action]]:
    """What `run_due` would end or retry, as far as that is known without doing anything."""
    now = facts.now()
    sessions = [facts.remembered(one, now) for one in found if is_supervised(one)]
    sessions = _with_breakers(sessions, config)
    return [(one.seen, action) for one in sessions for action in one.due if action.kind in _LASTING]


def neglected(found: Sequence[Seen], config: Config) -> list[tuple[Seen, Action]]:
    """Actions that are overdue: no timer runs a pass, or no pass completes."""
    now = facts.now()
    late = [_as_of(facts.remembered(one, now), LATE) for one in found if is_supervised(one)]
    late = _with_breakers(late, config)
    return [(one.seen, action) for one in late for action in one.due if _is_late(one, action)]


def _as_of(one: Supervised, ago: float) -> Supervised:
    """The facts of some seconds ago."""
    now = {name: getattr(one.facts, name) for name in ("age", "life", "silent", "unheard")}
    return one.with_facts(**{n: max(0.0, age - ago) for n, age in now.items() if age is not None})


def _is_late(one: Supervised, action: Action) -> bool:
    at = one.record.status.retry_at
    if action.kind is Kind.RETRY and at is not None:
        return (one.now.at - at).total_seconds() >= LATE
    return action.kind in (Kind.END, Kind.GIVE_UP)


def supervised(found: Iterable[Seen], held: Iterable[Digest], config: Config) -> list[Seen]:
    """Of a look at everything, the sessions under supervision."""
    names = {one.name for one in held if one.mode != "ended" and digest.supervised(one.view)}
    entries = [entry for name in sorted(names) if (entry := records.entry(name)) is not None]
    return [one for one in (*judge.judge(entries, config), *found) if is_supervised(one)]


def _next_look(one: Supervised, tried: Collection[str], changed: Collection[str]) -> float | None:
    """When the session needs the next look. An action that was `tried` and is not done, or is due
    again at once, is tried later."""
    at, name = one.next_due(), one.record.name
    if name not in tried or (at is None and name in changed):
        return at
    later = time.time() + AGAIN
    if at is None or at <= one.now.wall:
        return later
    return at if name in changed else min(at, later)


def is_supervised(one: Seen) -> bool:
    """May anything become due for this session? Only the machine that launched a session retries
    it."""
    if one.session is None:
        return False
    record, here = one.session.record, processes.here()
    if one.state is State.RECOVERING:
        there = record.place.machine
        if there.id != here.id or there.boot == here.boot:
            return there == here
        return observe.twin_of(record) is None
    return one.state is State.RUNNING and record.spec.supervision.watched


# --- what is done --------------------------------------------------------------------------------


def _note(one: Supervised, action: Action) -> Seen | None:
    """Write its health into the record."""
    health, why = action.health, action.why or None
    assert health is not None
    before = one.record.status
    record = replace(one.record, status=replace(before, health=health, health_reason=why))
    written = lookup.update(one.seen, record)
    if written and not (health is Health.OK and before.health is None):
        events.append(_EVENTS[health], record, reason=why)
    return written


def _ask_to_stop(one: Supervised, ending: Ending, config: Config, *, mine: bool) -> Seen | None:
    stays = _comes_back(one.seen, ending)
    try:
        return ask(one.seen, config.stop.grace, ending, keep=stays, mine=mine)
    except (CannotTellError, ConflictError, NoSessionError):
        return None  # it has changed since it was looked at


def _comes_back(seen: Seen, ending: Ending) -> bool:
    """Will it be retried, so that its place is kept?"""
    how = Verdict(ended_by(ending.cause), cause=ending.cause)
    record = seen.intact.record
    record = replace(
        record, status=replace(record.status, retries=ending.retries_used(record.status))
    )
    now = datetime.now(UTC)
    return retry.after_end(record, how, now, now, clocks.time_left(record)).retry_at is not None


# --- retries -------------------------------------------------------------------------------------


def _postpone(one: Supervised, circuit: Circuit, until: datetime, config: Config) -> Seen | None:
    record = one.record
    why = breakers.sentence(circuit, until)
    breakers.note_open(record, circuit, until, config)
    if clocks.time_left(record) <= (until - datetime.now(UTC)).total_seconds():
        return _give_up(one, f"{why}, and {retry.no_time(record.spec.supervision)}")
    record = replace(record, status=replace(record.status, retry_at=until, waits_for=why))
    return lookup.update(one.seen, record)


def _launch(one: Supervised, config: Config) -> Seen | None:
    """Launch the next generation. A retry that cannot be decided now is tried again; one that fails
    for good is reported."""
    from sesh.operations.launch.launch import LaunchError
    from sesh.operations.restart import restart

    attempt = one.record.status.retries + 1
    try:
        return restart(one.seen, config, attempt)
    except ConversationInUseError as error:
        return _hold_up(one, str(error))
    except LaunchError:
        return lookup.one(one.record.name)
    except (ConflictError, CannotTellError):
        return None  # another sesh was faster, or it cannot be decided now
    except StateError as error:  # a full disk, say: try again later
        return _hold_up(one, str(error))
    except SeshError as error:
        if settings.trouble():  # a setting that could not be read may be the cause
            return None
        return _give_up(one, str(error))


def _hold_up(one: Supervised, why: str) -> Seen | None:
    """Try again later (another process uses its conversation, say), and show why it waits."""
    record = one.record
    until = datetime.now(UTC) + timedelta(seconds=AGAIN)
    reason = why.removeprefix(f"{record.name}: ")
    status = replace(record.status, retry_at=until, waits_for=reason)
    return lookup.update(one.seen, replace(record, status=status))


def _give_up(one: Supervised, why: str) -> Seen | None:
    record = one.record
    reason = f"not retried: {why.removeprefix(f'{record.name}: ')}"
    status = replace(record.status, retry_at=None, waits_for=None, gave_up=reason, keep=False)
    return lookup.update(one.seen, replace(record, status=status))
