"""Checks of what sesh writes down: records, their digest lines, transcripts."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import partial

from sesh.doctor import orphans
from sesh.doctor.context import FIX, Check, Context, Finding, Level, Step, few, shown
from sesh.model.digest import parse
from sesh.model.errors import SeshError, StateError
from sesh.model.observation import Observation, absent, seen
from sesh.model.reconcile import reconcile
from sesh.model.record import Damaged, Record
from sesh.model.session_json import View
from sesh.model.states import ENDED
from sesh.places import launch_files
from sesh.places.host import tmux_server
from sesh.state import lookup, records
from sesh.state.records import Entry
from sesh.system import paths
from sesh.system.tmux import Pane


def record_damaged(context: Context) -> list[Finding]:
    found = [one.damaged for one in context.census.found if one.damaged]
    if not found:
        return []
    note = "moves it to quarantine" if len(found) == 1 else "moves them to quarantine"
    names = tuple(one.name for one in found)
    return [Finding(Level.FAIL, _damages(found), FIX, note, names)]


def replace_damaged(context: Context) -> list[Step]:
    """Move damaged records away, and rebuild those of living agents."""
    steps = []
    for one in context.census.found:
        if one.damaged:
            steps.append(_quarantine(one.entry))
            agents = [agent for agent in context.census.agents if agent.name == one.name]
            steps += [orphans.rebuild(context, agent) for agent in agents]
    return steps


def _quarantine(entry: Entry) -> Step:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")

    def move() -> None:
        if records.quarantine(entry, stamp) is None:
            raise StateError(f"{shown(entry.path)} changed meanwhile; not moved")

    return Step(f"moved {shown(entry.path)} to quarantine", move)


def _damages(found: list[Damaged]) -> str:
    if len(found) == 1:
        return f"sessions/{found[0].name}.toml: {found[0].reason}"
    which = few([f"{one.name} ({one.reason})" for one in found])
    return f"{len(found)} records can't be read: {which}"


def digest(context: Context) -> list[Finding]:
    """Judging a session rewrites its digest line. Reported here: records that could not be written,
    and wrong digest lines that pass as valid, so that their session is never judged."""
    unwritten = [one for one in context.census.found if one.trouble]
    lying = _lying_digests(context)
    findings = []
    if unwritten:
        text = f"cannot save observed state of {few([one.name for one in unwritten])}"
        names = tuple(one.name for one in unwritten)
        reason = f"{text}: {unwritten[0].trouble}"
        findings.append(Finding(Level.FAIL, reason, FIX, subjects=names))
    if lying:
        text = f"the digest line does not match the record: {few(lying)}"
        findings.append(Finding(Level.FAIL, text, FIX, "rewrites it", subjects=tuple(lying)))
    return findings


def rewrite_digests(context: Context) -> list[Step]:
    """Judging a session rewrites a wrong digest line."""

    def rewrite(name: str) -> None:
        found = lookup.one(name)
        if found.trouble:
            raise StateError(found.trouble)

    names = [one.name for one in context.census.found if one.trouble]
    return [
        Step(f"rewrote the digest line of {name}", partial(rewrite, name))
        for name in [*names, *_lying_digests(context)]
    ]


def _lying_digests(context: Context) -> list[str]:
    return [one.record.name for one in context.held_entries if _lies(one)]


def _lies(entry: Entry) -> bool:
    """Does a digest line that passes as valid differ from the one we would write?"""
    record = entry.record
    assert isinstance(record, Record)
    line = parse(entry.raw)
    if line is None or line.mode == "look":  # it has changed since, and passes no longer
        return False
    ended = record.status.outcome in ENDED
    sight = absent("as recorded") if ended else seen("as recorded")
    up = seen("its container") if line.mode == "up" else absent("as recorded")
    verdict = reconcile(record, Observation(sight, sight, up), datetime.now(UTC))
    return not records.up_to_date(entry, record, verdict)


# --- transcripts ---------------------------------------------------------------------------------


def log_pipe(context: Context) -> list[Finding]:
    found = _unlogged(context)
    if not found:
        return []
    names = tuple(str(view["name"]) for view in found)
    text = f"the output of {names[0]} is no longer logged"
    if len(found) > 1:
        text = f"the output of {len(found)} sessions is no longer logged: {few(names)}"
    return [Finding(Level.FAIL, text, FIX, "logs it again", names)]


def restore_logs(context: Context) -> list[Step]:
    def pipe(view: View) -> None:
        launch_files.make_transcript(view["id"])
        server = tmux_server.server(view["socket"], context.run, context.settings)
        reply = server.pipe(view["pane"])
        if not reply.ok:
            raise SeshError(f"tmux: {reply.text}")

    return [
        Step(f"the output of {view['name']} is logged again", partial(pipe, view))
        for view in _unlogged(context)
    ]


def _unlogged(context: Context) -> list[View]:
    """Living sessions whose log pipe is down, or writes to a file that was deleted."""
    panes = {
        (socket, pane.sesh_id, pane.id): pane
        for socket, answer in context.answers.items()
        if isinstance(answer, list)
        for pane in answer
    }
    return [view for view in context.living if not _logged(view, panes)]


def _logged(view: View, panes: dict[tuple[str, str, str], Pane]) -> bool:
    pane = panes.get((view["socket"], view["id"], view["pane"]))
    if pane is None or pane.dead:
        return True  # no pane, nothing to log; or its server is silent
    return pane.piped and os.path.exists(paths.transcript(view["id"]))


CHECKS = (
    Check("record-damaged", "every record can be read", record_damaged, replace_damaged),
    Check("digest", "every digest line matches its record", digest, rewrite_digests),
    Check("log-pipe", "the output of living sessions is logged", log_pipe, restore_logs),
)
