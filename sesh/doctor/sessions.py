"""Checks of sessions: how they fare, and whether records and what runs agree."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from shlex import quote

from sesh.doctor.scene import FIX, Finding, Level, Scene, few, number
from sesh.model import formatting
from sesh.model.digest import parse
from sesh.model.observation import Observation, Session, absent, seen
from sesh.model.reconcile import off_branch, reconcile
from sesh.model.record import Damaged, Record, name_of
from sesh.model.session_json import View
from sesh.model.states import ALIVE, ENDED, Cause, Health, State
from sesh.state import breakers, records
from sesh.state.breakers import Circle, Opened
from sesh.state.lookup import Orphan, Seen
from sesh.state.orphans import Leftover, Stray
from sesh.state.records import Entry
from sesh.supervision import supervise
from sesh.system import paths
from sesh.system.tmux import Pane

_DOWN = (State.RECOVERING, State.FAILED, State.TIMEOUT, State.LOST)
STOP_PATIENCE = 10.0  # seconds after its grace that a stop may take to be confirmed


# --- how they fare -------------------------------------------------------------------------------


def stale(scene: Scene) -> list[Finding]:
    found = _needy(scene, State.STALE)
    return _sessions("stale", found, "{} ended and left something up", "restart --stale")


def failed(scene: Scene) -> list[Finding]:
    found = [v for v in _needy(scene, State.FAILED, State.TIMEOUT) if not _never_began(v)]
    all_failed = all(view["state"] == State.FAILED for view in found)
    return _sessions("failed", found, "{} failed", "restart --failed" if all_failed else None)


def lost(scene: Scene) -> list[Finding]:
    found = [v for v in _needy(scene, State.LOST) if v["cause"] != Cause.CONTAINER_GONE]
    return _sessions("lost", found, "{} lost", "restart --lost")


def unwell(scene: Scene) -> list[Finding]:
    running = [view for view in scene.views if view["state"] == State.RUNNING]
    found = [view for view in running if view["health"] in (Health.HUNG, Health.FAILING)]
    return _sessions("unwell", found, "{} alive but not well", None)


def overdue(scene: Scene) -> list[Finding]:
    """Deadlines and retries that no pass has seen to."""
    readable = {view["id"] for view in scene.views}  # of others `digest` tells
    held = [one for one in scene.census.held if one.id in readable]
    cared = supervise.attended(scene.census.found, held, scene.config)
    late = {one.name: action for one, action in supervise.neglected(cared, scene.config)}
    if not late:
        return []
    names = tuple(sorted(late))
    which = [f"{name} ({late[name].why or 'its retry is due'})" for name in names]
    head = "1 session waits" if len(names) == 1 else f"{len(names)} sessions wait"
    text = f"{head} for a pass: {few(which)}"
    note = "does what is due; sesh timer install has it done without tmux"
    return [Finding("overdue", Level.FAIL, text, "sesh pass", note, names)]


def branch(scene: Scene) -> list[Finding]:
    """Living sessions whose directory is not on the branch that it should be on."""
    return [_astray(one.session) for one in scene.judged(_off_branch) if one.session]


def _off_branch(one: Seen) -> bool:
    return one.state in ALIVE and one.session is not None and bool(_where(one.session))


def _where(session: Session) -> str | None:
    return off_branch(session.record, session.seen)


def _astray(session: Session) -> Finding:
    spec = session.record.spec
    mend = f"git -C {quote(spec.cwd)} switch {quote(spec.branch or '')}"
    text = f"{session.name}: {_where(session)}"
    return Finding("branch", Level.FAIL, text, mend, subjects=(session.name,))


def breaker(scene: Scene) -> list[Finding]:
    """Groups that fail too often: who is left alone, and how not to wait."""
    down = _needy(scene, *_DOWN)
    found = breakers.open_among(scene.views, scene.config)
    return [
        _closed_off(circle, opened, [view for view in down if view["id"] in opened.ids])
        for circle, opened in sorted(found.items())
    ]


def _closed_off(circle: Circle, opened: Opened, down: Sequence[View]) -> Finding:
    why = breakers.sentence(circle, opened.until)
    waiting = tuple(sorted(str(view["name"]) for view in down))
    if not waiting:
        kind, name = circle
        text = f"{why}: automatic retries are paused"
        mend = f"sesh ls --all --filter {quote(f'{kind}={name}')}"
        return Finding("breaker", Level.WARN, text, mend, "shows them")
    waits = "waits" if len(waiting) == 1 else "wait"
    mend = f"sesh restart {' '.join(waiting[:20])}"
    text = f"{why}: {few(waiting)} {waits} for it"
    return Finding("breaker", Level.WARN, text, mend, subjects=waiting)


def stuck_starting(scene: Scene) -> list[Finding]:
    found = [view for view in _needy(scene, State.FAILED, State.TIMEOUT) if _never_began(view)]
    waiting = {one.name for one in scene.judged(_starts_too_long)}
    found += [view for view in scene.views if view["name"] in waiting]
    return _sessions("stuck-starting", found, "{} never said that it began", None)


def _needy(scene: Scene, *states: State) -> list[View]:
    """Those in one of these states that a person has not seen to yet."""
    return [view for view in scene.views if view["state"] in states and view["attention"]]


def _never_began(view: View) -> bool:
    return view["cause"] == Cause.LAUNCH and view["exit_code"] is None


def _starts_too_long(one: Seen) -> bool:
    """Only where nobody could be asked, or where the clock was moved; else it has failed by now."""
    assert one.session is not None
    record, verdict = one.session.record, one.session.verdict
    if State.STARTING not in (verdict.state, verdict.last_known):
        return False
    away = abs(datetime.now(UTC) - record.status.launched)
    return away > timedelta(seconds=record.spec.launch_timeout)


def _sessions(id_: str, found: Sequence[View], text: str, selection: str | None) -> list[Finding]:
    """One finding for all sessions of a kind."""
    if not found:
        return []
    found = sorted(found, key=lambda view: str(view["name"]))
    names = tuple(str(view["name"]) for view in found)
    head = text.format("1 session" if len(found) == 1 else f"{len(found)} sessions")
    which = few([_with_reason(view) for view in found])
    many = selection if len(found) > 1 and selection else f"restart {' '.join(names[:20])}"
    return [Finding(id_, Level.FAIL, f"{head}: {which}", f"sesh {many}", subjects=names)]


def _with_reason(view: View) -> str:
    return f"{view['name']} ({view['reason']})" if view["reason"] else str(view["name"])


def stuck_stopping(scene: Scene) -> list[Finding]:
    found = scene.judged(stops_too_long)
    if not found:
        return []
    names = tuple(one.name for one in found)
    reasons = [f"{one.name} ({one.session.verdict.reason})" for one in found if one.session]
    text = f"{number(names, 'stop')} not confirmed: {few(reasons)}"
    return [Finding("stuck-stopping", Level.FAIL, text, FIX, "goes on with it", names)]


def stops_too_long(one: Seen) -> bool:
    if one.state is not State.STOPPING or one.session is None:
        return False
    status = one.session.record.status
    grace = timedelta(seconds=(status.stop_grace or 0.0) + STOP_PATIENCE)
    return status.stop_asked is None or abs(datetime.now(UTC) - status.stop_asked) > grace


# --- what was left behind ------------------------------------------------------------------------


def orphan_tmux(scene: Scene) -> list[Finding]:
    found = [stray for stray in scene.census.strays if _unclaimed(stray)]
    if not found:
        return []
    return [
        _forgotten([one for one in found if one.mend == mend], mend)
        for mend in sorted({one.mend for one in found})
    ]


def _forgotten(found: list[Stray], mend: str) -> Finding:
    which = few([f"{one.name} ({number(one.panes, 'pane')})" for one in found])
    text = f"{number(found, 'tmux session')} of ours without a record: {which}"
    names = tuple(one.name for one in found)
    level = Level.FAIL if any(one.alive for one in found) else Level.WARN
    return Finding("orphan-tmux", level, text, mend, subjects=names)


def _unclaimed(found: Stray | Orphan) -> bool:
    """Still? A start may have written its record since the records were read."""
    session_id = found.session_id if isinstance(found, Stray) else found.id
    entry = records.entry(name_of(session_id))
    record = entry.record if entry else None
    if not isinstance(record, Record) or record.id != session_id:
        return True
    return isinstance(found, Orphan) and record.place.generation != found.generation


def orphan_agent(scene: Scene) -> list[Finding]:
    found = unclaimed_agents(scene)
    taken = [orphan for orphan in found if records.entry(orphan.name)]
    return [
        *_unclaimed_agents([orphan for orphan in found if orphan not in taken], None),
        *_unclaimed_agents(taken, "sesh stop --orphans"),
        *map(_without_terminal, filter(_terminal_gone, scene.census.orphan_sessions)),
    ]


def unclaimed_agents(scene: Scene) -> list[Orphan]:
    """Living agents without a record. Those whose record is damaged are the business of that."""
    damaged = {one.name for one in scene.census.found if one.damaged}
    return [one for one in scene.census.agents if one.name not in damaged and _unclaimed(one)]


def _unclaimed_agents(found: list[Orphan], mend: str | None) -> list[Finding]:
    """Many at once have lost their records together: `doctor --fix` brings them all back."""
    if not found:
        return []
    names = tuple(orphan.name for orphan in found)
    if len(found) > 1:
        which = few([f"{one.name} ({_who(one)})" for one in found])
        text = f"{len(found)} agents are alive, but no record claims them: {which}"
        mend, note = mend or FIX, None if mend else "rebuilds their records"
        return [Finding("orphan-agent", Level.FAIL, text, mend, note, names)]
    text = f"{names[0]} is alive ({_who(found[0])}), but no record claims it"
    mend = mend or f"sesh adopt {names[0]}"
    return [Finding("orphan-agent", Level.FAIL, text, mend, subjects=names)]


def _who(orphan: Orphan) -> str:
    age = formatting.long_time(time.time() - orphan.since.timestamp())
    return f"pid {orphan.agent.process.pid}, for {age}"


def _terminal_gone(one: Seen) -> bool:
    return one.session is not None and not _says_ended(one)


def _without_terminal(one: Seen) -> Finding:
    text = f"{one.name} is alive, but its terminal is gone"
    return Finding("orphan-agent", Level.FAIL, text, f"sesh adopt {one.name}", subjects=(one.name,))


def record_disagrees(scene: Scene) -> list[Finding]:
    found = [one for one in scene.census.orphan_sessions if _says_ended(one)]
    return [
        Finding(
            "record-disagrees",
            Level.FAIL,
            f"{one.name} is {one.session.verdict.reason}",
            f"sesh adopt {one.name}",
            subjects=(one.name,),
        )
        for one in found
        if one.session
    ]


def _says_ended(one: Seen) -> bool:
    if one.session is None:
        return False
    return one.session.record.status.outcome is not None or one.session.seen.exit is not None


def orphan_process(scene: Scene) -> list[Finding]:
    groups: dict[str, list[Leftover]] = {}
    for leftover in scene.census.leftovers:
        groups.setdefault(leftover.session_id, []).append(leftover)
    return [_outliving(group) for group in groups.values()]


def _outliving(group: list[Leftover]) -> Finding:
    """The processes that outlive one session."""
    memory = formatting.size(sum(one.memory_bytes for one in group))
    verb = "processes outlive" if len(group) > 1 else "process outlives"
    which = few([_process(one) for one in group], 6)
    kept = sorted({one.keep for one in group if one.keep})
    able = any(not one.keep for one in group)
    text = f"{len(group)} {verb} session {group[0].name} ({memory}): {which}"
    return Finding(
        "orphan-process",
        Level.FAIL if able else Level.WARN,
        text if able else f"{text}; left alone: {', '.join(kept)}",
        "sesh stop --orphans" if able else None,
        subjects=tuple(str(one.process.pid) for one in group),
    )


def _process(one: Leftover) -> str:
    name = os.path.basename(one.command[0]) if one.command else "?"
    age = formatting.short_time(time.time() - one.started)
    return f"{one.process.pid} {name} ({age}, {formatting.size(one.memory_bytes)})"


# --- records -------------------------------------------------------------------------------------


def record_damaged(scene: Scene) -> list[Finding]:
    found = [one.damaged for one in scene.census.found if one.damaged]
    if not found:
        return []
    note = "moves it to quarantine" if len(found) == 1 else "moves them to quarantine"
    names = tuple(one.name for one in found)
    return [Finding("record-damaged", Level.FAIL, _damages(found), FIX, note, names)]


def _damages(found: list[Damaged]) -> str:
    if len(found) == 1:
        return f"sessions/{found[0].name}.toml: {found[0].reason}"
    which = few([f"{one.name} ({one.reason})" for one in found])
    return f"{len(found)} records can't be read: {which}"


def digest(scene: Scene) -> list[Finding]:
    """A look writes digest lines anew. What is left: records that could not be written, and digest
    lines that pass for good, so that nobody looks."""
    unwritten = [one for one in scene.census.found if one.trouble]
    lying = lying_digests(scene)
    findings = []
    if unwritten:
        text = f"what was seen of {few([one.name for one in unwritten])} could not be written down"
        names = tuple(one.name for one in unwritten)
        reason = f"{text}: {unwritten[0].trouble}"
        findings.append(Finding("digest", Level.FAIL, reason, FIX, subjects=names))
    if lying:
        text = f"the digest line says something else than the record: {few(lying)}"
        findings.append(
            Finding("digest", Level.FAIL, text, FIX, "writes it anew", subjects=tuple(lying))
        )
    return findings


def lying_digests(scene: Scene) -> list[str]:
    return [one.record.name for one in scene.held_entries if _lies(one)]


def _lies(entry: Entry) -> bool:
    """Is the digest line of a record that need not be looked at another than we would write?"""
    record = entry.record
    assert isinstance(record, Record)
    line = parse(entry.raw)
    if line is None or line.mode == "look":  # it has changed since: nobody would believe it now
        return False
    ended = record.status.outcome in ENDED
    sight = absent("as recorded") if ended else seen("as recorded")
    up = seen("its container") if line.mode == "up" else absent("as recorded")
    verdict = reconcile(record, Observation(sight, sight, up), datetime.now(UTC))
    return not records.up_to_date(entry, record, verdict)


# --- logs ----------------------------------------------------------------------------------------


def log_pipe(scene: Scene) -> list[Finding]:
    found = unlogged(scene)
    if not found:
        return []
    names = tuple(str(view["name"]) for view in found)
    text = f"what {names[0]} prints is not logged any more"
    if len(found) > 1:
        text = f"the output of {len(found)} sessions is not logged any more: {few(names)}"
    return [Finding("log-pipe", Level.FAIL, text, FIX, "logs it from now on", names)]


def unlogged(scene: Scene) -> list[View]:
    """Living sessions whose log pipe is down, or writes to a file that was deleted."""
    panes = {
        (socket, pane.sesh_id, pane.id): pane
        for socket, answer in scene.answers.items()
        if isinstance(answer, list)
        for pane in answer
    }
    return [view for view in scene.living if not _logged(view, panes)]


def _logged(view: View, panes: dict[tuple[str, str, str], Pane]) -> bool:
    pane = panes.get((view["socket"], view["id"], view["pane"]))
    if pane is None or pane.dead:
        return True  # no pane, nothing to log; or its server is silent
    return pane.piped and os.path.exists(paths.transcript(view["id"]))
