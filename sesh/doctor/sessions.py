"""Checks of sessions: which have failed, wait for something, or are stuck."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from sesh.doctor.context import FIX, Check, Context, Finding, Level, Step, few, number
from sesh.model.errors import SeshError
from sesh.model.observation import Session
from sesh.model.reconcile import off_branch
from sesh.model.session_json import View
from sesh.model.states import ALIVE, Cause, Health, State
from sesh.model.text import formatting
from sesh.model.text.shell_words import quote
from sesh.operations.stop.stop import continue_stops
from sesh.state import breakers
from sesh.state.breakers import Circuit, Opened
from sesh.state.judge import Seen
from sesh.supervision import supervise

STOP_PATIENCE = 10.0  # seconds after its grace that a stop may take to be confirmed


def stale(context: Context) -> list[Finding]:
    found = _needy(context, State.STALE)
    return _sessions(found, "{} ended and left something running", "restart --stale")


def failed(context: Context) -> list[Finding]:
    found = [v for v in _needy(context, State.FAILED, State.TIMEOUT) if not _never_began(v)]
    all_failed = all(view["state"] == State.FAILED for view in found)
    return _sessions(found, "{} failed", "restart --failed" if all_failed else None)


def lost(context: Context) -> list[Finding]:
    found = [v for v in _needy(context, State.LOST) if v["cause"] != Cause.CONTAINER_GONE]
    return _sessions(found, "{} lost", "restart --lost")


def unwell(context: Context) -> list[Finding]:
    running = [view for view in context.views if view["state"] == State.RUNNING]
    found = [view for view in running if view["health"] in (Health.HUNG, Health.FAILING)]
    return _sessions(found, "{} unhealthy", None)


def overdue(context: Context) -> list[Finding]:
    """Deadlines and retries that no pass has handled."""
    readable = {view["id"] for view in context.views}  # of others `digest` tells
    held = [one for one in context.census.held if one.id in readable]
    supervised = supervise.supervised(context.census.found, held, context.config)
    late = {one.name: action for one, action in supervise.neglected(supervised, context.config)}
    if not late:
        return []
    names = tuple(sorted(late))
    which = [f"{name} ({late[name].why or 'its retry is due'})" for name in names]
    head = "1 session waits" if len(names) == 1 else f"{len(names)} sessions wait"
    text = f"{head} for a supervision pass: {few(which)}"
    note = "runs it now; a timer runs it regularly (sesh timer install)"
    return [Finding(Level.FAIL, text, "sesh pass", note, names)]


def branch(context: Context) -> list[Finding]:
    """Living sessions whose directory is not on the branch that it should be on."""
    sessions = [one.intact for one in context.judged(lambda one: one.state in ALIVE)]
    found = [(one, off_branch(one.record, one.seen)) for one in sessions]
    return [_off_branch(session, where) for session, where in found if where]


def _off_branch(session: Session, where: str) -> Finding:
    spec = session.record.spec
    remedy = f"git -C {quote(spec.cwd)} switch {quote(spec.branch or '')}"
    return Finding(Level.FAIL, f"{session.name}: {where}", remedy, subjects=(session.name,))


def breaker(context: Context) -> list[Finding]:
    """Groups that fail too often: which sessions wait, and how to restart them at once."""
    found = breakers.open_among(context.views, context.config)
    return [
        _closed_off(circuit, opened, [view for view in context.views if _waits(view, opened)])
        for circuit, opened in sorted(found.items())
    ]


def _waits(view: View, opened: Opened) -> bool:
    """Does an open breaker put off its retry?"""
    at = formatting.epoch(view["retry_at"])
    if view["state"] != State.RECOVERING or view["id"] not in opened.ids or at is None:
        return False
    return at <= opened.until.timestamp()


def _closed_off(circuit: Circuit, opened: Opened, down: Sequence[View]) -> Finding:
    why = breakers.sentence(circuit, opened.until)
    waiting = tuple(sorted(str(view["name"]) for view in down))
    if not waiting:
        kind, name = circuit
        remedy = f"sesh ls --all --filter {quote(f'{kind}={name}')}"
        return Finding(Level.WARN, why, remedy, "lists its sessions")
    remedy = f"sesh restart {' '.join(waiting[:20])}"
    text = f"{why}; waiting: {few(waiting)}"
    return Finding(Level.WARN, text, remedy, subjects=waiting)


def stuck_starting(context: Context) -> list[Finding]:
    found = [view for view in _needy(context, State.FAILED, State.TIMEOUT) if _never_began(view)]
    waiting = {one.name for one in context.judged(_starts_too_long)}
    found += [view for view in context.views if view["name"] in waiting]
    return _sessions(found, "{} never started", None)


def _needy(context: Context, *states: State) -> list[View]:
    """The sessions in one of these states that need attention."""
    return [view for view in context.views if view["state"] in states and view["attention"]]


def _never_began(view: View) -> bool:
    return view["cause"] == Cause.LAUNCH and view["exit_code"] is None


def _starts_too_long(one: Seen) -> bool:
    """Only where tmux gave no answer, or the clock was moved; else it has failed by now."""
    record, verdict = one.intact.record, one.intact.verdict
    if State.STARTING not in (verdict.state, verdict.last_known):
        return False
    away = abs(datetime.now(UTC) - record.status.launched)
    return away > timedelta(seconds=record.spec.launch_timeout)


def _sessions(found: Sequence[View], text: str, selection: str | None) -> list[Finding]:
    """One finding for all sessions of a kind."""
    if not found:
        return []
    found = sorted(found, key=lambda view: str(view["name"]))
    names = tuple(str(view["name"]) for view in found)
    head = text.format(number(found, "session"))
    which = few([f"{v['name']} ({v['reason']})" if v["reason"] else v["name"] for v in found])
    many = selection if len(found) > 1 and selection else f"restart {' '.join(names[:20])}"
    return [Finding(Level.FAIL, f"{head}: {which}", f"sesh {many}", subjects=names)]


def stuck_stopping(context: Context) -> list[Finding]:
    found = context.judged(_stops_too_long)
    if not found:
        return []
    names = tuple(one.name for one in found)
    reasons = [f"{one.name} ({one.intact.verdict.reason})" for one in found]
    text = f"{number(names, 'stop')} not confirmed: {few(reasons)}"
    return [Finding(Level.FAIL, text, FIX, "continues it", names)]


def finish_stops(context: Context) -> list[Step]:
    def finish(found: Seen) -> None:
        after = continue_stops([found], context.settings)[0]
        if after.state is State.STOPPING:
            raise SeshError(after.intact.verdict.reason or "not confirmed")

    found = context.judged(_stops_too_long)
    return [Step(f"finished the stop of {one.name}", partial(finish, one)) for one in found]


def _stops_too_long(one: Seen) -> bool:
    if one.state is not State.STOPPING:
        return False
    status = one.intact.record.status
    grace = timedelta(seconds=(status.stop_grace or 0.0) + STOP_PATIENCE)
    return status.stop_asked is None or abs(datetime.now(UTC) - status.stop_asked) > grace


CHECKS = (
    Check("stale", "no ended session left something running", stale),
    Check("failed", "no session has failed", failed),
    Check("lost", "no session is lost", lost),
    Check("unwell", "every running session is healthy", unwell),
    Check("overdue", "no deadline or retry is overdue", overdue),
    Check("branch", "every living session is on its branch", branch),
    Check("breaker", "no breaker is open", breaker),
    Check("stuck-starting", "no session is stuck while starting", stuck_starting),
    Check("stuck-stopping", "every stop is confirmed", stuck_stopping, finish_stops),
)
