"""Checks of what sessions left behind: agents, tmux sessions and processes without a record."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sesh.doctor.context import FIX, Check, Context, Finding, Level, Step, few, number
from sesh.model.observation import Session
from sesh.model.text import formatting
from sesh.operations import adopt
from sesh.places import unclaimed
from sesh.places.unclaimed import Leftover, Orphan, Unclaimed
from sesh.state import records
from sesh.state.judge import Seen
from sesh.state.orphans import Stray


def orphan_tmux(context: Context) -> list[Finding]:
    groups: dict[str, list[Stray]] = {}
    for stray in context.census.strays:
        if _unclaimed(stray):
            groups.setdefault(stray.remedy, []).append(stray)
    return [
        finding
        for remedy, group in sorted(groups.items())
        for finding in without_record(group, remedy, alive=any(one.alive for one in group))
    ]


def without_record(
    found: Sequence[Unclaimed], remedy: str | None, *, alive: bool = True
) -> list[Finding]:
    """One finding for all. Without another remedy, `doctor --fix` rebuilds their records."""
    if not found:
        return []
    note = None
    if remedy is None:
        several = len(found) > 1
        remedy = FIX if several else found[0].remedy
        note = "rebuilds their records" if several else "rebuilds its record"
    text = f"{number(found, found[0].noun)} of sesh without a record: {listed(found)}"
    names = tuple(one.name for one in found)
    return [Finding(Level.FAIL if alive else Level.WARN, text, remedy, note, names)]


def listed(found: Sequence[Unclaimed]) -> str:
    now = time.time()
    return few([f"{one.name}: {unclaimed.brief(one, now)}" for one in found])


def _unclaimed(found: Stray | Orphan) -> bool:
    """Still? A start may have written its record since the records were read."""
    record = records.of_id(found.session_id)
    if record is None:
        return True
    return isinstance(found, Orphan) and record.place.generation != found.generation


def orphan_agent(context: Context) -> list[Finding]:
    found = _unclaimed_agents(context)
    taken = [orphan for orphan in found if records.entry(orphan.name)]
    sessions = [one for one in context.census.orphan_sessions if not _says_ended(one.intact)]
    return [
        *without_record([orphan for orphan in found if orphan not in taken], None),
        *without_record(taken, "sesh stop --orphans"),
        *(_to_adopt(one, "is alive, but its terminal is gone") for one in sessions),
    ]


def record_disagrees(context: Context) -> list[Finding]:
    sessions = [one for one in context.census.orphan_sessions if _says_ended(one.intact)]
    return [_to_adopt(one, f"is {one.intact.verdict.reason}") for one in sessions]


def _to_adopt(one: Seen, problem: str) -> Finding:
    text, remedy = f"{one.name} {problem}", f"sesh adopt {one.name}"
    return Finding(Level.FAIL, text, remedy, subjects=(one.name,))


def _says_ended(session: Session) -> bool:
    return session.record.status.outcome is not None or session.seen.exit is not None


def rebuild_all(context: Context) -> list[Step]:
    lost = (one for one in _unclaimed_agents(context) if records.entry(one.name) is None)
    return [rebuild(context, one) for one in lost]


def rebuild(context: Context, orphan: Orphan) -> Step:
    what = f"rebuilt the record of {orphan.name}, which is alive (pid {orphan.pid})"
    return Step(what, lambda: adopt.rebuild(orphan, context.settings))


def _unclaimed_agents(context: Context) -> list[Orphan]:
    """Living agents without a record. `record-damaged` reports those with a damaged record."""
    damaged = {one.name for one in context.census.found if one.damaged}
    return [one for one in context.census.agents if one.name not in damaged and _unclaimed(one)]


def orphan_process(context: Context) -> list[Finding]:
    groups: dict[str, list[Leftover]] = {}
    for leftover in context.census.leftovers:
        groups.setdefault(leftover.session_id, []).append(leftover)
    return [_outliving(group) for group in groups.values()]


def _outliving(group: list[Leftover]) -> Finding:
    """The processes that outlive one session."""
    memory, now = formatting.size(sum(one.size for one in group)), time.time()
    verb = "processes outlive" if len(group) > 1 else "process outlives"
    which = few([unclaimed.brief(one, now) for one in group], 6)
    kept = sorted({one.keep for one in group if one.keep})
    able = any(not one.keep for one in group)
    text = f"{len(group)} {verb} session {group[0].name} ({memory}): {which}"
    return Finding(
        Level.FAIL if able else Level.WARN,
        text if able else f"{text}; left alone: {', '.join(kept)}",
        "sesh stop --orphans" if able else None,
        subjects=tuple(str(one.process.pid) for one in group),
    )


CHECKS = (
    Check("orphan-agent", "every agent has a record and a terminal", orphan_agent, rebuild_all),
    Check("orphan-tmux", "every tmux session of sesh has a record", orphan_tmux),
    Check("orphan-process", "no process outlives its session", orphan_process),
    Check("record-disagrees", "no agent of an ended session is alive", record_disagrees),
)
