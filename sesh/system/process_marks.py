"""Which processes belong to a session: the marker in their environment, and the proof of it.

Any process can have a session's id in its environment: the id is a claim. The user, the start time
and the directory of launches must agree with it. Nothing here decides what to end.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from sesh.model.place import Process
from sesh.model.record import Record
from sesh.model.value_object import Value
from sesh.system import processes
from sesh.system.processes import Stat, Table

_MARKER = b"SESH_ID="
_HOME = b"SESH_RUN="
_PANE = b"TMUX_PANE="


class Mark(Value):
    """What a process must show to belong to a session."""

    id: str
    run: str  # the directory of its launches, as SESH_RUN names it
    since: int = 0  # start ticks of its first launch: older processes are not part of it
    agent: Process | None = None
    uids: tuple[int, ...] = ()  # users that its agent is known to have had, besides ours


_Claim = tuple[Stat, list[bytes], Mark]  # a process, its environment, the session that it names


def mark(record: Record) -> Mark:
    """The mark of a session's processes on this machine."""
    place = record.place
    agent = place.agent.process if place.agent else None
    first = agent.start if agent and place.generation == 1 else 0
    return Mark(record.id, place.run, place.since or first, agent)


def marked(table: Table, marks: Iterable[Mark]) -> dict[str, list[int]]:
    """Session id → the processes that carry it in their environment and belong to it.

    Not seen: processes that cleared their environment, and other users' processes. Not counted: a
    tmux server that was started inside the session, and everything in it. It may hold a user's own
    work by now, which inherited the id from that server. Not read: what is older than all sessions.
    """
    wanted = {_MARKER + one.id.encode(): one for one in marks}
    found: dict[str, list[int]] = {one.id: [] for one in wanted.values()}
    claims: list[_Claim] = []
    since = min((one.since for one in wanted.values()), default=0)
    agents = {one.agent.pid for one in wanted.values() if one.agent}
    young = [pid for pid, stat in table.items() if stat.start >= since or pid in agents]
    for pid, environ in processes.environs(young, (_MARKER,)).items():
        entries = environ.split(b"\0")
        for named in wanted.keys() & set(entries):
            claims.append((table[pid], entries, wanted[named]))
    proven = _proven(claims, table)
    for stat, _, one in claims:
        if (stat.pid, one.id) in proven:
            found[one.id].append(stat.pid)
    return _outside_tmux(table, found) if claims else found


def _proven(claims: Iterable[_Claim], table: Table) -> set[tuple[int, str]]:
    """The claims that hold. In a container the pid namespace proves a claim, because directory and
    users are the container's own."""
    found = {(stat.pid, one.id) for stat, _, one in claims if _is(stat, one.agent)}
    others = [
        (stat, entries, one)
        for stat, entries, one in claims
        if not _is(stat, one.agent) and stat.start >= one.since
    ]
    if not others:
        return found
    agents = {one.id: _living(one.agent, table) for _, _, one in others}
    uids = processes.uids({*agents.values(), *(stat.pid for stat, _, _ in others)} - {0})
    spaces = {key: processes.namespace(pid) if pid else "" for key, pid in agents.items()}
    owners = {one.run: own_uids(one.run) for _, _, one in others}
    here = processes.here().pidns
    for stat, entries, one in others:
        if spaces[one.id] not in ("", here):
            holds = processes.namespace(stat.pid) == spaces[one.id]
        else:
            allowed = owners[one.run] | {uids.get(agents[one.id]), *one.uids}
            holds = _HOME + os.fsencode(one.run) in entries and uids.get(stat.pid, -1) in allowed
        if holds:
            found.add((stat.pid, one.id))
    return found


def _is(stat: Stat, process: Process | None) -> bool:
    return process is not None and (stat.pid, stat.start) == (process.pid, process.start)


def _living(agent: Process | None, table: Table) -> int:
    """The pid of an agent that is alive, or 0."""
    stat = table.get(agent.pid) if agent else None
    return stat.pid if stat and _is(stat, agent) and stat.alive else 0


def _outside_tmux(table: Table, found: dict[str, list[int]]) -> dict[str, list[int]]:
    """Without tmux servers and what runs in them."""
    servers = {stat.pid for stat in processes.tmux_servers(table)}
    return {
        key: [pid for pid in pids if not inside & processes.ancestors(table, pid)]
        if (inside := servers & {*pids})
        else pids
        for key, pids in found.items()
    }


def own_uids(run: str) -> set[int | None]:
    """Our user, and the owner of the sessions in `run`: root may look at another user's."""
    with suppress(OSError):
        return {os.getuid(), os.stat(run).st_uid}
    return {os.getuid()}


def ours(pids: Iterable[int], run: str) -> set[int]:
    """The processes that the owner of the sessions in `run` runs, so that their marker counts."""
    owners = own_uids(run)
    return {pid for pid, uid in processes.uids(pids).items() if uid in owners}


def carriers(among: Iterable[int], run: str) -> tuple[dict[int, str], list[int]]:
    """Every process with the marker of one of our sessions, and the session's id; and the processes
    that tmux started in a pane, which include keepers. `run` is our directory of launches: sessions
    of another state directory are not ours."""
    home = _HOME + os.fsencode(run)
    found, in_panes = {}, []
    for pid, environ in processes.environs(among, (_MARKER, _PANE)).items():
        if _PANE in environ:
            in_panes.append(pid)
        if _MARKER not in environ:
            continue
        entries = environ.split(b"\0")
        ids = [entry[len(_MARKER) :] for entry in entries if entry.startswith(_MARKER)]
        if home in entries and len(ids) == 1:
            found[pid] = ids[0].decode("ascii", errors="replace")
    allowed = ours(found, run) if found else set()
    return {pid: key for pid, key in found.items() if pid in allowed}, in_panes
