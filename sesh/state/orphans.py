"""What was left behind: agents that no record claims, processes that outlive their session, tmux
sessions and places of ours without a record. Found here; ended elsewhere, and only on request.

Neither parent nor terminal finds a detached child: the marker in its environment does. Processes
that cleared their environment, of other users or on other machines are not found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType

from sesh.model import digest
from sesh.model.configuration import Config
from sesh.model.digest import Digest
from sesh.model.errors import CannotTellError
from sesh.model.observation import LaunchReport
from sesh.model.record import ID_PATTERN, Record
from sesh.model.session_json import View
from sesh.model.states import ENDED, State
from sesh.model.text import formatting
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Value, replace
from sesh.places import keepers, launch_files, registry
from sesh.places.host import tmux_server
from sesh.places.interface import Answers
from sesh.places.unclaimed import Leftover, Orphan, Unclaimed, UnclaimedPlace
from sesh.state import lookup, records, unclaimed
from sesh.state.judge import Seen, readable
from sesh.state.unclaimed import Inventories
from sesh.system import paths, process_marks, processes, tmux
from sesh.system.processes import Stat, Table
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Pane

_ID = lazy(ID_PATTERN)


class Stray(Unclaimed):
    """A tmux session of ours that no record claims and in which no agent lives."""

    tmux_name: str
    socket: str
    panes: tuple[Pane, ...]
    commands: tuple[tuple[str, ...], ...] = ()  # of its living panes
    own: bool = True  # is it in sesh's own server, where users make no sessions?

    noun = "tmux session"
    reason = "a tmux session without a record"

    @property
    def name(self) -> str:
        return self.tmux_name

    @property
    def what(self) -> str:
        return f"{self.noun}, {formatting.number(len(self.panes), 'pane')}"

    @property
    def runs(self) -> str:
        return ", ".join(formatting.command_line(one) for one in self.commands)

    @property
    def pid(self) -> int | None:
        return next((pane.pid for pane in self.panes if not pane.dead), None)

    @property
    def key(self) -> Hashable:
        return self.socket, self.session_id

    @property
    def alive(self) -> bool:
        return any(not pane.dead for pane in self.panes)

    @property
    def keep(self) -> str | None:
        return "it is in your own tmux" if self.alive and not self.own else None

    @property
    def remedy(self) -> str:
        return f"sesh adopt --tmux {self.name}" if self.keep else "sesh stop --orphans"

    @property
    def refusal(self) -> str:
        what = "a tmux session without an agent of sesh"
        return f"{self.name} is {what}; next: {self.remedy}"

    @property
    def extra(self) -> View:
        return {"socket": self.socket}


class Census(Value):
    """One look at everything: sessions, and what was left behind."""

    found: tuple[Seen, ...]  # sessions that were judged
    held: tuple[Digest, ...]  # sessions that are as recorded
    agents: tuple[Orphan, ...]
    leftovers: tuple[Leftover, ...] = ()
    strays: tuple[Stray, ...] = ()
    silent: bool = False  # is there a server that gave no usable answer, or no tmux to ask?
    answers: Mapping[str, list[Pane] | Reply] = MappingProxyType({})  # by socket
    inventories: Inventories = MappingProxyType({})  # kind of place → what is there
    places: tuple[UnclaimedPlace, ...] = ()

    @property
    def panes(self) -> dict[str, list[Pane]]:
        """The panes of each server that answered, by its socket."""
        return {key: panes for key, panes in self.answers.items() if isinstance(panes, list)}

    @property
    def unclaimed(self) -> list[Unclaimed]:
        """What was left behind and has no record."""
        leftovers = sorted(self.leftovers, key=lambda one: one.name)
        return [*self.agents, *leftovers, *self.strays, *self.places]

    @property
    def orphan_sessions(self) -> list[Seen]:
        """Sessions whose record is there, but whose agent lives beside it."""
        return [one for one in self.found if one.state is State.ORPHAN]


def still(before: Census, now: Census) -> Census:
    """What was left behind before and still is: the user was asked in between."""
    keys = {one.key for one in before.unclaimed}
    sessions = before.orphan_sessions
    return replace(
        now,
        found=tuple(o for o in now.orphan_sessions if any(lookup.same(b, o) for b in sessions)),
        agents=tuple(one for one in now.agents if one.key in keys),
        leftovers=tuple(one for one in now.leftovers if one.key in keys),
        strays=tuple(one for one in now.strays if one.key in keys),
        places=tuple(one for one in now.places if one.key in keys),
    )


def quick() -> Census:
    """The sessions and the agents whose launch left its files, without a look at every process."""
    held = lookup.held()
    found, known = lookup.everything(leaving_out=held), held.values()
    return Census(tuple(found), tuple(known), tuple(lookup.orphans(found, known)))


def census(config: Config, *, thorough: bool = True) -> Census:
    """Look at all records, all processes and all servers, once each. If `thorough`, also ask the
    place that a start would use, even when no record names it."""
    run = processes.run_dir()
    answered = _ask_own_server(config, run)  # which works on its answer while we read
    # With many sessions, nearly all processes are agents that are as recorded, and their keepers.
    as_recorded, explained = lookup.held_and_explained()
    others = [pid for pid in processes.pids() if pid not in explained]
    carriers, in_panes = process_marks.carriers(others, run)
    marked = set(carriers.values())
    # The digest line of an ended session holds, unless a process of it lives.
    held = {
        name: one
        for name, one in as_recorded.items()
        if one.mode != "ended" or one.id not in marked
    }
    answers = answered()
    found = lookup.everything(held, config, answers)
    sessions = readable(found)
    agents = _agents(found, held.values(), in_panes, run)
    panes, silent = _panes(_sockets(sessions, held.values(), config, run), config, run, answers)
    claimed = {one.id for one in sessions} | {one.id for one in held.values()}
    claimed |= {one.id for one in agents}
    damaged = {one.name for one in found if one.damaged}  # whose ids are not known
    living = {one.record.id for one in found if one.record and one.state not in ENDED}
    living |= {one.id for one in held.values() if one.mode != "ended"} | {one.id for one in agents}
    living |= {one for one in marked if damaged & {*records.names_of(one)}}
    far = records_elsewhere(found, held.values())
    inventories = unclaimed.inventories(far, config, thorough=thorough)
    return Census(
        found=tuple(found),
        held=tuple(held.values()),
        agents=tuple(agents),
        leftovers=tuple(_leftovers(carriers, living, sessions)),
        strays=tuple(_strays(panes, claimed, f"{run}/tmux.sock")),
        silent=silent,
        answers=answers,
        inventories=inventories,
        places=tuple(unclaimed.find(inventories, damaged, config)),
    )


def _ask_own_server(config: Config, run: str) -> Callable[[], Answers]:
    """Ask now; the returned function waits for the answer."""
    socket = f"{run}/tmux.sock"
    try:
        answered = tmux_server.server(socket, run, config).panes_later()
    except CannotTellError:
        return dict
    return lambda: {socket: answered()}


def records_elsewhere(found: Iterable[Seen], held: Iterable[Digest]) -> list[Record]:
    """The records of this machine's sessions that are not in a tmux of this host, also of those
    that were not judged."""
    far = [one.id for one in held if digest.text(one.view, "place") in registry.ELSEWHERE]
    sessions = [*readable(found), *filter(None, map(records.of_id, far))]
    here = processes.here().id
    return [
        r for r in sessions if r.place.kind in registry.ELSEWHERE and r.place.machine.id == here
    ]


# --- agents --------------------------------------------------------------------------------------


def _agents(
    found: Sequence[Seen], held: Collection[Digest], in_panes: Iterable[int], run: str
) -> list[Orphan]:
    """Living agents that no record claims: by their launch's files and, where those are gone too,
    by their keepers, which tmux has started in panes."""
    agents = lookup.orphans(found, held)
    known = {(r.id, r.place.generation) for r in readable(found)}
    known |= {(one.id, int(one.generation)) for one in held}
    known |= {(one.id, one.generation) for one in agents}
    for session_id, word in keepers.by_keepers(run, in_panes):
        if (session_id, word.generation) not in known:
            agents.append(Orphan(session_id, word.at, (), word.generation, word.agent))
    return agents


# --- processes -----------------------------------------------------------------------------------


def _leftovers(
    carriers: dict[int, str], living: Collection[str], sessions: Iterable[Record]
) -> list[Leftover]:
    """The processes of sessions that have ended, or that no record names."""
    suspects = {
        pid: session_id
        for pid, session_id in sorted(carriers.items())
        if _ID.fullmatch(session_id) and session_id not in living
    }
    if not suspects:
        return []
    here = processes.here()
    # Processes that began before the first launch of their session do not belong to it.
    since = {r.id: process_marks.mark(r).since for r in sessions if r.place.machine == here}
    table = processes.table()  # all of it: an ancestor may be a reason to keep a process
    return [
        _leftover(table[pid], session_id, table)
        for pid, session_id in suspects.items()
        if pid in table and table[pid].alive and table[pid].start >= since.get(session_id, 0)
    ]


def _leftover(stat: Stat, session_id: str, table: Table) -> Leftover:
    from sesh.system import process_usage

    details = process_usage.details(stat.pid)
    return Leftover(
        session_id=session_id,
        since=datetime.fromtimestamp(processes.started_at(stat), UTC),
        command=tuple(processes.command(stat.pid)) or (stat.comm,),
        process=stat.process,
        memory_bytes=details.memory_bytes,
        keep=_why_keep(stat, table),
    )


def _why_keep(stat: Stat, table: Table) -> str | None:
    """Why a process that carries a marker must not be ended; None: it may."""
    above = processes.ancestors(table, stat.pid)
    if stat.pid in processes.ancestors(table):
        return "this very command runs in it"
    if any(processes.is_tmux(table[pid]) for pid in above if pid in table):
        return "it runs in a tmux of its own"
    if processes.namespace(stat.pid) != processes.here().pidns:
        return "it runs in another pid namespace"
    return None


def still_left(leftover: Leftover) -> bool:
    """Just before a signal: is it still this very process, with this marker, of this machine?"""
    stat = processes.look(leftover.process.pid)
    if stat is None or stat.process != leftover.process or not stat.alive:
        return False
    carried, _ = process_marks.carriers([stat.pid], processes.run_dir())
    return carried.get(stat.pid) == leftover.session_id


# --- tmux ----------------------------------------------------------------------------------------


def _sockets(
    sessions: Iterable[Record], held: Iterable[Digest], config: Config, run: str
) -> set[str]:
    """Every server that we know of: sesh's own, those of sessions, and the one that the settings
    name, in which all sessions may be forgotten."""
    here = processes.here()
    sockets = {r.place.socket for r in sessions if r.place.machine == here and r.place.calls_back}
    sockets |= lookup.sockets(held)
    chosen = tmux_server.chosen_socket(config, run)
    return {f"{run}/tmux.sock", *sockets, *([chosen] if os.path.exists(chosen) else [])}


def _panes(
    sockets: Iterable[str], config: Config, run: str, answers: Answers
) -> tuple[dict[str, list[Pane]], bool]:
    """The panes of these servers; and whether one gave no usable answer."""
    listed: dict[str, list[Pane]] = {}
    silent = False
    try:
        tmux.find_binary()
    except CannotTellError:
        return {}, True
    for socket in sorted(sockets):
        if socket not in answers:
            answers[socket] = tmux_server.server(socket, run, config).panes()
        answer = answers[socket]
        if isinstance(answer, list):
            listed[socket] = answer
        elif answer.trouble is not tmux.Trouble.NO_SERVER:
            silent = True
    return listed, silent


def _strays(listed: dict[str, list[Pane]], known: Collection[str], own: str) -> list[Stray]:
    """A server that is not only ours may also hold sessions of another state directory."""
    strays = []
    for socket, panes in listed.items():
        for session_id in sorted({pane.sesh_id for pane in panes}):
            ours = socket == own or os.path.exists(paths.transcript(session_id))
            if _ID.fullmatch(session_id) and session_id not in known and ours:
                mine = tuple(pane for pane in panes if pane.sesh_id == session_id)
                pids = [pane.pid for pane in mine if not pane.dead]
                runs = tuple(tuple(processes.command(pid)) or (str(pid),) for pid in pids)
                stray = Stray(session_id, None, (), mine[0].name, socket, mine, runs, socket == own)
                strays.append(stray)
    return strays


def launch_report(orphan: Orphan, run: str) -> LaunchReport | None:
    """The identity of an orphaned agent: by its launch's file or, where that is gone, by its
    keeper."""
    word = launch_files.read_launch(run, orphan.id, orphan.generation)
    if word is not None:
        return word
    launches = keepers.by_keepers(run)
    matching = (w for i, w in launches if i == orphan.id and w.generation == orphan.generation)
    return next(matching, None)
