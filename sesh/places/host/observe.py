"""Sessions on this machine: add what tmux and the process table tell. Looks; changes nothing.

tmux is asked once a server, and only about sessions whose agent is not seen alive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError
from sesh.model.observation import Observation, Sight, absent, seen, unknown
from sesh.model.place import Process
from sesh.model.record import Record
from sesh.model.states import Desired, State
from sesh.model.value_object import replace
from sesh.places.host.tmux_server import server
from sesh.places.interface import Answers, Look
from sesh.system import process_marks, processes, tmux
from sesh.system.tmux import Pane, Tmux, Trouble

Panes = list[Pane] | str  # all panes of a server, or why they are not known

_NO_PROCESS = absent("no process of it is left")
_CLOSED = absent("its terminal was closed")
_NO_SESSION = absent("no tmux session of it")
_NO_OTHERS = absent("no other live pane")


def complete(looks: Sequence[Look], config: Config, answers: Answers) -> list[Observation]:
    """Add what tmux says, and which processes are left of sessions that are being stopped."""
    doubtful = [record for record, sight in looks if _needs_tmux(record, sight)]
    panes = _ask_servers(doubtful, [record for record, _ in looks], config, answers)
    stopping = [record for record, sight in looks if _being_stopped(record, sight)]
    left = _remains(stopping) if stopping else {}
    return [
        _complete(record, sight, panes.get(record.place.socket), left.get(record.id))
        for record, sight in looks
    ]


def _needs_tmux(record: Record, sight: Observation) -> bool:
    settled = record.status.outcome in (State.STOPPED, State.FAILED, State.TIMEOUT)
    return sight.agent.absent and not sight.rebooted and not settled


def _being_stopped(record: Record, sight: Observation) -> bool:
    asked = record.status.desired is Desired.STOPPED and record.status.outcome is None
    return asked and not sight.agent.unknown and not sight.rebooted


def _ask_servers(
    doubtful: Iterable[Record], records: Iterable[Record], config: Config, answers: Answers
) -> dict[str, Panes]:
    """One list-panes a server."""
    servers = {record.place.socket: record for record in doubtful}
    if not servers:
        return {}
    try:
        tmux.find_binary()
    except CannotTellError as error:  # no tmux: nothing can be proven absent
        return {socket: str(error) for socket in servers}
    return {
        socket: _panes(server(record.place.socket, record.place.run, config), records, answers)
        for socket, record in servers.items()
    }


def _panes(host: Tmux, records: Iterable[Record], answers: Answers) -> Panes:
    answer = answers.get(host.socket)
    if answer is None or not tmux.silent(answer):  # one that says nothing is not waited for again
        answer = answers[host.socket] = host.panes()
    if isinstance(answer, list):
        return answer
    if answer.trouble is not Trouble.NO_SERVER:
        return f"tmux: {answer.text}"
    hidden = hidden_server(host.socket, records)
    if hidden:
        return f"tmux server {hidden.pid} is alive, but its socket is gone (kill -USR1 restores it)"
    return []


def hidden_server(socket: str, records: Iterable[Record]) -> Process | None:
    """A recorded server that is alive although it does not answer at its socket."""
    here = processes.here()
    servers = {
        record.place.server
        for record in records
        if record.place.server and record.place.socket == socket and record.place.machine == here
    }
    return next((process for process in servers if processes.alive(process)), None)


def _remains(records: Collection[Record]) -> dict[str, Sight]:
    """What is left of sessions that are being stopped: by marker, and as remembered by `stop`. Not
    what has become another user's: nothing that we do would end it."""
    table = processes.table()
    marked = process_marks.marked(table, map(process_marks.mark, records))
    sights = {}
    for record in records:
        left = {pid for pid in marked[record.id] if table[pid].alive}
        left |= {process.pid for process in record.status.remains if processes.alive(process)}
        sights[record.id] = _remains_sight(sorted(p for p in left if not processes.foreign(p)))
    return sights


def _remains_sight(pids: list[int]) -> Sight:
    if not pids:
        return _NO_PROCESS
    count = "1 process is" if len(pids) == 1 else f"{len(pids)} processes are"
    return seen(f"{count} left: {', '.join(map(str, pids[:5]))}")


def _complete(
    record: Record, sight: Observation, panes: Panes | None, remains: Sight | None
) -> Observation:
    """Add what tmux said to what the files said."""
    if remains is not None:
        sight = replace(sight, remains=remains)
    if panes is None or sight.agent.present:
        return sight
    if isinstance(panes, str):
        return _without_panes(record, sight, panes)
    mine = [pane for pane in panes if pane.sesh_id == record.id]
    own = record.place.pane
    others = [pane for pane in mine if not pane.dead and pane.id != own]
    terminal = seen(f"pane {own} exists") if any(p.id == own for p in mine) else None
    if terminal is None and own is not None:
        terminal = _CLOSED
    if terminal is None:
        terminal = seen("its tmux session exists") if mine else _NO_SESSION
    if own is None:
        others = []
    return replace(
        sight,
        terminal=terminal,
        others=(
            seen(f"{len(others)} other pane{'s' if len(others) > 1 else ''} of its tmux session")
            if others
            else _NO_OTHERS
        ),
    )


def _without_panes(record: Record, sight: Observation, why: str) -> Observation:
    """tmux could not be asked: what hangs on its answer is unknown."""
    undecided = sight.exit is None and record.status.outcome is None and not sight.rebooted
    agent = unknown(why) if undecided else sight.agent
    return replace(sight, agent=agent, terminal=unknown(why), others=unknown(why))
