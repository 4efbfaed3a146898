"""End processes: TERM, wait for the grace, KILL. `end_all` is the only loop of this kind.

A process is identified again just before each signal. Keepers, tmux servers, our own ancestors and
other users' processes never get one. No record is written here: a `Journal` does that.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf

from sesh.model.place import Agent, Process
from sesh.places import launch_files
from sesh.system import process_marks, processes
from sesh.system.process_marks import Mark
from sesh.system.processes import Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, TypeVar
else:
    Protocol = object

KILL_PATIENCE = 3.0  # how long a killed process may take to vanish (disk sleep)
CLEAN_LOOKS = 2  # in a row, until a session is known to have no process
_KILL_LOOKS = 10  # at most, of `kill_all`: what it kills may start others meanwhile
_LONGEST_PAUSE = 0.1
Progress = Callable[[list[str], int, float], None]  # names left, number of all, seconds to KILL


class Target:
    """Something to end. The times are monotonic: `until` is when KILL follows TERM."""

    def __init__(self, name: str, until: float, give_up: float | None = None) -> None:
        self.name = name
        self.until = until
        self.done = False
        self._give_up = give_up
        self._asked = False

    @property
    def give_up(self) -> float:
        return self.until + KILL_PATIENCE if self._give_up is None else self._give_up

    def due(self, now: float) -> int:
        """The signal to send now: TERM at first, 0 (none) while the grace runs, then KILL."""
        first, self._asked = not self._asked, True
        return signal.SIGTERM if first else signal.SIGKILL if now >= self.until else 0


if TYPE_CHECKING:
    T = TypeVar("T", bound=Target)


def end_all(
    targets: Sequence[T],
    look: Callable[[list[T], float], None],
    progress: Progress | None = None,
    pause: float = 0.01,
) -> list[T]:
    """Look at all that is left, until all are done or given up. `look` signals what is due and sets
    `done`. Returns what is left."""
    while waiting := [target for target in targets if not target.done]:
        now = time.monotonic()
        look(waiting, now)
        if all(now > target.give_up for target in waiting):
            break
        if progress:
            left = max(0.0, min(target.until for target in waiting) - now)
            progress([target.name for target in waiting], len(targets), left)
        if not all(target.done for target in waiting):
            time.sleep(pause)
            pause = min(pause * 1.3, _LONGEST_PAUSE)
    return [target for target in targets if not target.done]


def end_each(
    found: Iterable[Process],
    grace: float,
    still: Callable[[Process], bool] = processes.alive,
    *,
    kill: bool = True,
) -> set[Process]:
    """End single processes. `still` proves before each signal that a process is what was meant.
    Returns those that are left; unless `kill`, after TERM and the grace alone."""
    end = time.monotonic() + grace
    times = (end, None) if kill else (inf, end)
    targets = {Target(str(process.pid), *times): process for process in found}

    def look(waiting: list[Target], now: float) -> None:
        for target in waiting:
            process, number = targets[target], target.due(now)
            target.done = not still(process)
            if number and not target.done:
                processes.send(process, number, signal.SIGCONT)

    return {targets[target] for target in end_all([*targets], look)}


def kill_all(
    find: Callable[[Table], Iterable[Process]], clean_looks: int = 1, pause: float = 0.0
) -> None:
    """KILL what `find` finds in the process table, until some looks in a row have found nothing."""
    clean = 0
    for _ in range(_KILL_LOOKS):
        members = [*find(processes.table())]
        for process in members:
            processes.send(process, signal.SIGKILL)
        clean = 0 if members else clean + 1
        if clean >= clean_looks:
            return
        time.sleep(pause)


# --- sessions ------------------------------------------------------------------------------------


class SessionTarget(Target):
    """A session whose processes are to end."""

    def __init__(
        self,
        name: str,
        mark: Mark,
        generation: int,
        agent: Agent | None,
        until: float,
        *,
        remains: Iterable[Process] = (),
        launch_until: float = 0.0,
    ) -> None:
        super().__init__(name, until)
        self.mark = mark
        self.generation = generation
        self.agent = agent
        self.signalled = {process.pid: process.start for process in remains}
        self.recorded = dict(self.signalled)  # processes that its record names
        self.launch_until = launch_until  # until when a launch under way may still show its agent
        self.foreign: set[Process] = set()  # of its tree, but another user's: not ours to signal
        self.clean = 0
        self.inside = False  # we run in it: its tmux server has to end it

    @property
    def ended(self) -> bool:
        return self.clean >= CLEAN_LOOKS

    def fresh(self, members: Table) -> set[int]:
        """Those that got no signal yet."""
        return {pid for pid, stat in members.items() if self.signalled.get(pid) != stat.start}

    def learn(self, agent: Agent, uid: int | None = None) -> None:
        """Note its agent, and another user than ours that the agent was seen with."""
        old, own = self.mark, os.getuid()
        if agent is not self.agent or uid not in (None, own, *old.uids):
            uids = old.uids if uid in (None, own) else (*old.uids, uid)
            self.agent, self.mark = agent, Mark(old.id, old.run, old.since, agent.process, uids)

    @property
    def give_up(self) -> float:
        return max(self.until, 0.0 if self.agent else self.launch_until) + KILL_PATIENCE


class Journal(Protocol):
    """What must be read from, or written to, the record of a session while it is ended."""

    def launched_again(self, session: SessionTarget) -> bool:
        """Does the record show a later generation?"""

    def remember(self, session: SessionTarget, found: Collection[Process]) -> None:
        """Record processes before they are signalled: no marker finds them once their parent is
        gone, and the stop must not be confirmed while one of them lives."""


def look(journal: Journal, sessions: Sequence[SessionTarget], now: float) -> None:
    """Find the processes of all sessions in one process table, and signal them."""
    table = processes.table()
    _learn_agents(sessions, table)
    marked = process_marks.marked(table, [session.mark for session in sessions])
    family = processes.children(table)
    living = processes.living(table)
    above = processes.ancestors(table)
    found = [
        living.keys() & _pids(session, table, family, marked[session.mark.id])
        for session in sessions
    ]
    every: set[int] = set().union(*found)
    foreign = {pid for pid in every if processes.foreign(pid)}
    sure = _sure(sessions, marked) if every else set()
    for session, pids in zip(sessions, found, strict=True):
        session.foreign |= {living[pid].process for pid in pids & foreign}
        members = {pid: living[pid] for pid in pids - foreign}
        session.inside = not above.isdisjoint(members)
        if not session.inside:
            _end(session, members, family, sure, journal, now)
        session.done = session.inside or session.ended


def _sure(sessions: Iterable[SessionTarget], marked: Mapping[str, Iterable[int]]) -> set[int]:
    """The processes that their marker will identify at any time: the owner of the sessions runs
    them."""
    by_run: dict[str, set[int]] = {}
    for session in sessions:
        by_run.setdefault(session.mark.run, set()).update(marked[session.mark.id])
    return set().union(*(process_marks.ours(pids, run) for run, pids in by_run.items()))


def _learn_agents(sessions: Iterable[SessionTarget], table: Table) -> None:
    for session in sessions:
        if session.agent is None:
            mark = session.mark
            word = launch_files.read_launch(mark.run, mark.id, session.generation)
            if word is not None:
                session.learn(word.agent)
    known = [(one, one.agent, one.agent.process) for one in sessions if one.agent]
    alive = [process.pid for _, _, process in known if _is_in(table, process.pid, process.start)]
    uids = processes.uids(alive) if alive else {}
    for session, agent, process in known:
        session.learn(agent, uids.get(process.pid))


def _is_in(table: Table, pid: int, start: int) -> bool:
    stat = table.get(pid)
    return stat is not None and stat.start == start


def _pids(
    session: SessionTarget, table: Table, family: dict[int, list[int]], marked: Collection[int]
) -> set[int]:
    """The processes of a session, without its keeper: the agent's tree, whatever carries its
    marker, and whatever was found and signalled before."""
    before = (pid for pid, start in session.signalled.items() if _is_in(table, pid, start))
    pids = {*marked, *before}
    agent = session.agent
    if agent is None:
        return pids
    pid, start = agent.process.pid, agent.process.start
    # With all pids used up within a tick, another process may have the agent's pid and start.
    if _is_in(table, pid, start) and (pid in marked or processes.belongs(table[pid], agent)):
        pids.update(processes.tree(family, pid))
    return pids - {agent.keeper, agent.leader}


def _end(
    session: SessionTarget,
    members: Table,
    family: dict[int, list[int]],
    sure: set[int],
    journal: Journal,
    now: float,
) -> None:
    """Signal the members of a session, or count a look that found none."""
    if session.fresh(members) and journal.launched_again(session):
        members = _of_this_launch(session, members, family)
        if not members:
            session.clean = CLEAN_LOOKS  # what was to be ended is gone: this is the next launch
            return
    _remember(session, members, session.fresh(members) - sure, journal)
    _signal(session, members, now)
    starting = session.agent is None and now < session.launch_until
    session.clean = 0 if members or starting else session.clean + 1


def _of_this_launch(session: SessionTarget, members: Table, family: dict[int, list[int]]) -> Table:
    """The members that are known not to be of a later launch: the agent's tree, and what was
    signalled before."""
    agent = session.agent.process if session.agent else None
    known = members.keys() - session.fresh(members)
    if agent and _is_in(members, agent.pid, agent.start):
        known.update(processes.tree(family, agent.pid))
    return {pid: stat for pid, stat in members.items() if pid in known}


def _remember(session: SessionTarget, members: Table, unsure: set[int], journal: Journal) -> None:
    """Record the processes that their marker does not identify. The agent is in the record."""
    agent = session.agent.process.pid if session.agent else 0
    new = {pid for pid in unsure if session.recorded.get(pid) != members[pid].start}
    if new - {agent}:
        journal.remember(session, [members[pid].process for pid in new])
        session.recorded |= {pid: members[pid].start for pid in new}


def _signal(session: SessionTarget, members: Table, now: float) -> None:
    """TERM at first, and KILL after the grace. HUP too for an interactive shell, which ignores
    TERM. CONT, so that a stopped process gets them. What the agent starts while it cleans up gets
    no signal until the agent is gone or the grace is over."""
    agent = session.agent.process.pid if session.agent else 0
    cleaning_up = bool(session.signalled) and agent in members
    fresh = session.fresh(members)
    for pid, stat in members.items():
        if now >= session.until:
            numbers = [signal.SIGKILL]
        elif pid in fresh and not cleaning_up:
            hangup = [signal.SIGHUP] if processes.interactive_shell(pid) else []
            numbers = [signal.SIGTERM, *hangup, signal.SIGCONT]
        else:
            continue
        session.signalled[pid] = stat.start
        processes.send(stat.process, *numbers)
