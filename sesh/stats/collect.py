"""The input of `stats`: all sessions as they are now, the history, and the events.

The history is read by its digest lines, which is 40 times faster than by its TOML; a record without
an intact line is read as TOML.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from sesh.agents.usage import session
from sesh.model import digest
from sesh.model.errors import StateError
from sesh.model.observation import Verdict
from sesh.model.place import Process
from sesh.model.reconcile import recorded_end
from sesh.model.record import Damaged, Record
from sesh.model.session_json import View, damaged_view, view
from sesh.model.states import ALIVE, State
from sesh.places import unclaimed
from sesh.state import events, freshness, history, judge, lookup, orphans
from sesh.state.judge import Seen
from sesh.stats import measures
from sesh.stats.measures import Report
from sesh.supervision import health_checks
from sesh.system import files, paths, process_usage, processes, quick_read

_LIMITS = {"max_memory", "max_cpu_time"}  # with one of these, passes measure


def count(since: datetime | None) -> tuple[Report, list[str]]:
    """The figures, and the errors of writing verdicts back to records."""
    listed, troubles = _sessions()
    moment = since.timestamp() if since else None
    return measures.report(listed, _archived(), events.read(), moment), troubles


def publish(path: str, text: str) -> None:
    """Write a file that others may read, atomically. A device, a pipe or a directory is never
    replaced, nor the target of one of our streams: /dev/stdout may be a log."""
    if any(map(_of_a_process, _led_by(path))):
        raise StateError(f"cannot write {path}: not a regular file location")
    target = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(target)):
        raise StateError(f"cannot write {path}: no such directory")
    if os.path.lexists(target) and not os.path.isfile(target):
        raise StateError(f"cannot write {path}: not a regular file")
    with files.temp_file(target, text.encode("utf-8", "backslashreplace")) as temp:
        os.chmod(temp, 0o644)
        os.replace(temp, target)


def _led_by(path: str) -> list[str]:
    """The path and what each link in its place leads to, in directories as they really are."""
    found: list[str] = []
    while True:
        directory, name = os.path.split(os.path.abspath(path))
        path = os.path.join(os.path.realpath(directory), name)
        if path in found or not os.path.islink(path):
            return [*found, path]
        found.append(path)
        path = os.path.join(os.path.dirname(path), os.readlink(path))


def _of_a_process(path: str) -> bool:
    """Is it a device or a stream? Files in shared memory are files."""
    return path.startswith(("/dev/", "/proc/")) and not path.startswith("/dev/shm/")


# --- sessions ----------------------------------------------------------------------------------


def _sessions() -> tuple[list[View], list[str]]:
    """All that `ls` shows or has shown until gc moves it to the history."""
    census = orphans.quick()
    views = [_view(one) for one in census.found]
    damaged = {shown["name"] for shown in views if shown["state"] == State.DAMAGED}
    lost = [one for one in census.agents if one.name not in damaged]
    views += [json.loads(one.view) for one in census.held]
    views += map(unclaimed.view, lost)
    living = [one for one in census.found if one.state in ALIVE | {State.ORPHAN}]
    session.add_to(views, judge.readable(census.found))
    agents = lookup.agent_processes(living, census.held)
    _measure(views, {**agents, **{one.id: one.agent.process for one in lost}})
    return views, [one.trouble for one in census.found if one.trouble]


def _view(found: Seen) -> View:
    if found.session is None:
        assert found.damaged is not None
        return damaged_view(found.damaged)
    return view(found.session.record, found.session.verdict)


def _measure(views: Sequence[View], agents: Mapping[str, Process]) -> None:
    """Add the memory of living sessions, from one process table; and the peak that passes have seen
    of sessions with a limit, which may have ended by it."""
    used = process_usage.usage(processes.table(), agents) if agents else {}
    run = processes.run_dir()
    for shown in views:
        usage = used.get(shown.get("id", ""))
        if usage is not None:
            shown["memory_bytes"] = usage.memory_bytes
        if _LIMITS & (shown.get("care") or {}).keys():
            stem = f"{run}/{shown['id']}.{shown['generation']}"
            shown["memory_peak_bytes"] = health_checks.peak(stem)


# --- the history -------------------------------------------------------------------------------


def _archived() -> list[View]:
    whole = _by_digests()
    rest = [_by_record(entry.record) for entry in history.entries(leaving_out=whole)]
    return [*whole.values(), *rest]


def _by_digests() -> dict[str, View]:
    """Session id → its view, where its digest line is intact and says that it has ended."""
    try:
        names = freshness.names(paths.history_dir())
        directory = quick_read.directory(paths.history_dir())
    except OSError:
        return {}
    found = {}
    try:
        for name in names:
            with suppress(OSError):
                line = digest.parse(quick_read.read(f"{name}.toml", directory))
                if line is not None and line.id == name and line.mode == "ended":
                    found[name] = json.loads(line.view)
    finally:
        os.close(directory)
    return found


def _by_record(record: Record | Damaged) -> View:
    if isinstance(record, Damaged):
        return damaged_view(record)
    ended = record.status.outcome is not None
    return view(record, recorded_end(record) if ended else Verdict(State.UNKNOWN))
