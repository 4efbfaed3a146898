"""Agents by their keepers: the shells that wait for an agent show which launch it is of, also where
the launch's files are lost."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from sesh.model.observation import LaunchReport
from sesh.model.place import Agent, Process
from sesh.model.record import ID_PATTERN
from sesh.model.text.pattern import lazy
from sesh.system import process_marks, processes
from sesh.system.processes import Stat, Table

_ID = lazy(ID_PATTERN)
_KEEPER = "/keeper.sh"
_LAUNCH = lazy(r"(.+)\.([0-9]{1,9})")


def by_keepers(run: str, among: Iterable[int] | None = None) -> list[tuple[str, LaunchReport]]:
    """Every agent that a keeper of ours waits for, as its launch file would report it. Among these
    processes, or all."""
    among = processes.pids() if among is None else among
    lines = processes.commands(among, _KEEPER)
    keepers = {pid: launch for pid, argv in lines.items() if (launch := _launch_of(pid, argv, run))}
    if not keepers:
        return []
    table = processes.table()
    family = processes.children(table)
    return [
        (session_id, word)
        for pid, (session_id, generation) in keepers.items()
        if (word := _word(pid, table, family, generation))
    ]


def hidden_server(socket: str, run: str) -> Process | None:
    """The living server behind a socket that is gone, by the keepers in it: no record may be left
    to name it."""
    servers = (word.server for _, word in by_keepers(run) if socket_of(word) == socket)
    return next(servers, None)


def socket_of(word: LaunchReport) -> str:
    """The socket of an agent's server, by what tmux told its keeper; empty when that is unknown."""
    return processes.environment(word.agent.leader).get("TMUX", "").split(",")[0]


def _launch_of(pid: int, argv: list[str], run: str) -> tuple[str, int] | None:
    """The launch (id, generation) that a keeper is of; None when it is no keeper of ours."""
    if len(argv) != 7 or not argv[1].endswith(_KEEPER) or not argv[2].startswith(run + "/"):
        return None
    found = _LAUNCH.fullmatch(argv[2].removeprefix(run + "/"))
    if found is None or found[1] != argv[3] or not _ID.fullmatch(found[1]):
        return None
    if not process_marks.ours([pid], run):
        return None
    return found[1], int(found[2])


def _word(
    keeper: int, table: Table, family: dict[int, list[int]], generation: int
) -> LaunchReport | None:
    """What the outer shell of a keeper, which its server has started, shows of its agent."""
    outer = table.get(keeper)
    server = table.get(outer.ppid) if outer else None
    if outer is None or server is None or not processes.is_tmux(server):
        return None
    pane = processes.environment(keeper).get("TMUX_PANE", "")
    agent = agent_below(outer, table, family)
    if agent is None or not re.fullmatch(r"%\d+", pane):
        return None
    began = datetime.fromtimestamp(processes.started_at(table[agent.process.pid]), UTC)
    return LaunchReport(generation, agent, pane, server.process, began)


def agent_below(outer: Stat, table: Table, family: dict[int, list[int]]) -> Agent | None:
    """The agent is the only child of the keeper's inner shell."""
    command = processes.command(outer.pid)
    inner = [pid for pid in family.get(outer.pid, ()) if processes.command(pid) == command]
    children = family.get(inner[0], ()) if len(inner) == 1 else ()
    agents = [table[pid] for pid in children if table[pid].alive]
    if len(agents) != 1:
        return None
    return Agent(agents[0].process, inner[0], outer.pid, agents[0].tty)
