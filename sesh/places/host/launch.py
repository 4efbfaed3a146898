"""Launch claimed generations in a tmux server and wait for their agents. Writes no record.

All launches of a server go to tmux in one call. A launch in a container takes the same ways.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from enum import Enum

from sesh.model import due
from sesh.model.configuration import Config
from sesh.model.place import Host, Process
from sesh.model.record import Record
from sesh.model.value_object import Value
from sesh.places import environment, launch_files, panes
from sesh.places.host import terminate, tmux_server
from sesh.system import git, paths, process_marks, processes, tmux
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Keeper, Launched, Pane, Step, Tmux, Trouble, Words

LIVES = "the tmux session of that name runs an agent without a record"
_ROUNDS = tmux.EXITING_TRIES + 2
_CLEAN_LOOKS = 3
_POLL = 0.02
_LATE = 0.5  # seconds until tmux in a container has noticed that a keeper has ended
_GONE = (Trouble.NO_TARGET, Trouble.NO_SESSIONS, Trouble.NO_SERVER, Trouble.EXITING)


class Launch(Value):
    """One launch, as tmux needs it."""

    record: Record
    keeper: Keeper


class How(Enum):
    """The ways to launch in tmux."""

    RESPAWN = "in the old pane"
    FORCE = "in the old pane, which tmux still calls active"
    SESSION = "in a new session"
    WINDOW = "in a new window beside one that a person opened"

    @classmethod
    def first(cls, record: Record) -> How:
        return cls.SESSION if record.place.pane is None else cls.RESPAWN


# --- the place -----------------------------------------------------------------------------------


def first_place(identity: str, cwd: str, server: Tmux) -> Host:
    """The place of a first launch."""
    return Host(
        generation=1,
        machine=processes.here(),
        run=server.run,
        snapshot=environment.snapshot_path(identity, server.run),
        socket=server.socket,
        branch=git.branch(cwd),
        since=processes.now(),
    )


def next_place(old: Record, server: Tmux, snapshot: str, pane: str | None) -> Host:
    """The place of the next launch."""
    machine = processes.here()
    return Host(
        generation=old.place.generation + 1,
        machine=machine,
        run=server.run,
        snapshot=snapshot,
        socket=server.socket,
        branch=git.branch(old.spec.cwd),
        pane=pane,
        since=old.place.since if old.place.machine == machine else processes.now(),
    )


def next_socket(old: Record, config: Config) -> str:
    """The server of the next launch: the last one, unless the machine was restarted."""
    if old.place.machine == processes.here():
        return old.place.socket
    return tmux_server.chosen_socket(config, processes.run_dir())


# --- tmux ----------------------------------------------------------------------------------------


def keeper(record: Record, server: Tmux) -> Keeper:
    callback = launch_files.write_callback(record.place.run, paths.own_command())
    stem = launch_files.base(record)
    script = paths.package_file("places/keeper.sh")
    return Keeper(
        argv=("/bin/sh", script, stem, record.id, record.name, server.binary, callback),
        session_id=record.id,
        log=paths.transcript(record.id),
        callback=callback,
        look_after=min(tmux.LOOK_EVERY, due.first_due(record, processes.uptime())),
    )


def into_tmux(launches: Sequence[Launch], server: Tmux, wrap: Words) -> list[Launched | Reply]:
    """Launch all in one call. What tmux refuses is tried in another way where there is one, again
    in one call for all. `wrap` starts a server that is not there."""
    replies: dict[int, Launched | Reply] = {}
    hows = {at: How.first(one.record) for at, one in enumerate(launches)}
    size = _terminal_size()
    for _ in range(_ROUNDS):
        if not hows:
            break
        steps = [_step(launches[at], how, server, size) for at, how in hows.items()]
        answers = dict(zip(hows, server.launch(steps, wrap), strict=True))
        replies |= answers
        refused = {at: reply for at, reply in answers.items() if isinstance(reply, Reply)}
        ways = _other_ways(launches, hows, refused, server, wrapped=bool(wrap))
        replies |= {at: way for at, way in ways.items() if not isinstance(way, How)}
        hows = {at: way for at, way in ways.items() if isinstance(way, How)}
        wrap = _before_the_next({refused[at].trouble for at in hows}, server)
    return [replies[at] for at in range(len(launches))]


def _step(one: Launch, how: How, server: Tmux, size: tuple[int, int]) -> Step:
    record = one.record
    if how is How.SESSION:
        return server.new_session(record.name, one.keeper, record.spec.cwd, size)
    if how is How.WINDOW:
        return server.new_window(record.name, one.keeper)
    assert record.place.pane is not None
    return server.respawn(record.place.pane, one.keeper, force=how is How.FORCE)


def _terminal_size() -> tuple[int, int]:
    for fd in (0, 1, 2):
        with suppress(OSError):
            size = os.get_terminal_size(fd)
            if size.columns and size.lines:
                return (size.columns, size.lines)
    return tmux.DEFAULT_SIZE


def _other_ways(
    launches: Sequence[Launch],
    hows: Mapping[int, How],
    refused: Mapping[int, Reply],
    server: Tmux,
    *,
    wrapped: bool,
) -> dict[int, How | Launched | Reply]:
    """How to try what was refused; or what is known of it by now. Not in it: what stays refused."""
    ways: dict[int, How | Launched | Reply] = {}
    active = {launches[at].record.place.pane: at for at in _with(Trouble.ACTIVE, refused)}
    for pane in panes.keepers_gone({pane for pane in active if pane}, server) if active else ():
        ways[active[pane]] = How.FORCE  # tmux is late to notice that the keeper has ended
    if server.prefix:
        ways |= dict.fromkeys(active.values(), How.RESPAWN)
    duplicate = [launches[at].record for at in _with(Trouble.DUPLICATE, refused)]
    beside = _beside(duplicate, server) if duplicate else {}
    for at, reply in refused.items():
        lost = reply.trouble in _GONE and hows[at] is not How.SESSION
        plainly = reply.trouble is Trouble.OTHER and wrapped  # a systemd that does not answer
        if lost or plainly or reply.trouble is Trouble.EXITING:
            ways[at] = How.SESSION
        elif launches[at].record.name in beside:
            ways[at] = beside[launches[at].record.name]
    return ways


def _with(trouble: Trouble, refused: Mapping[int, Reply]) -> list[int]:
    return [at for at, reply in refused.items() if reply.trouble is trouble]


def _beside(records: Sequence[Record], server: Tmux) -> dict[str, How | Launched | Reply]:
    """How to launch sessions whose names tmux sessions have already. Not in it: those whose tmux
    session is not of a sesh session of that name."""
    found = panes.by_name([record.name for record in records], server)
    ids = {record.name: record.id for record in records}
    ours = {
        name
        for name, some in found.items()
        if some and all(panes.is_of(pane, name, ids[name]) for pane in some)
    }
    ways: dict[str, How | Launched | Reply] = {}
    for record in records:
        own = [pane for pane in found[record.name] if _runs(pane, record)]
        if own:  # an earlier call has launched it, and its answer was lost
            ways[record.name] = Launched(own[0].id, own[0].pid, own[0].server)
    left = ours - ways.keys()
    if left:
        panes.close_dead(
            {name: ids[name] for name in left}, server
        )  # what a killed start has left there
    for name, some in panes.by_name(left, server).items() if left else ():
        alive = any(not pane.dead and panes.is_keeper(pane.pid) for pane in some)
        way = How.WINDOW if some else How.SESSION
        ways[name] = Reply("", Trouble.DUPLICATE, LIVES) if alive else way
    return ways


def _runs(pane: Pane, record: Record) -> bool:
    """Is it the pane of this very launch, and not a window that a person opened beside it?"""
    return pane.sesh_id == record.id and processes.runs(pane.pid, launch_files.base(record))


def _before_the_next(troubles: Collection[Enum | None], server: Tmux) -> Words:
    """Wait until another try makes sense; returns what starts a server that is not there."""
    exiting, unsure = Trouble.EXITING in troubles, Trouble.OTHER in troubles
    if server.prefix and Trouble.ACTIVE in troubles:
        time.sleep(_LATE)
    if exiting or unsure:
        time.sleep(tmux.EXITING_PAUSE)
    if not (exiting or unsure or Trouble.NO_SERVER in troubles):
        return ()
    server.write_config()
    return () if unsure else tmux_server.cold(server)


def settled(replies: Sequence[Launched | Reply], server: Tmux) -> list[Launched | Reply]:
    """A tmux that cannot fork its server ends without a word: then nothing was launched."""
    refusals = [one for one in replies if isinstance(one, Reply) and one.trouble is Trouble.OTHER]
    wordless = [one for one in refusals if one.text.endswith(tmux.WORDLESS)]
    listed = server.panes() if wordless else []
    if not isinstance(listed, Reply) or listed.trouble is not Trouble.NO_SERVER:
        return [*replies]
    refused = Reply("", Trouble.REFUSED, "no server could be started (too many processes?)")
    return [refused if one in wordless else one for one in replies]


# --- the agent -----------------------------------------------------------------------------------


class _Waiting:
    """An agent that is waited for."""

    def __init__(self, record: Record, keeper: int) -> None:
        self.id = record.id
        self.keeper = keeper
        self.timeout = record.spec.launch_timeout
        self._which = (record.place.run, record.id, record.place.generation)
        self._script = launch_files.base(record) + ".launch"
        self._agent: Process | None = None

    def over(self) -> bool:
        """Has it become its command, or ended? Its launch file's word is read until it is there."""
        if self._agent is None:
            word = launch_files.read_launch(*self._which)
            self._agent = word.agent.process if word else None
        if self._agent and processes.became(self._agent.pid, self._script):
            return True
        return launch_files.read_exit(*self._which) is not None


def wait(launched: Sequence[tuple[Record, Launched]]) -> dict[str, bool]:
    """Wait until each agent has become its command or has ended, or its launch timeout is over: all
    of them in one loop. Returns those that have done neither: id → has their keeper ended?"""
    begin, pause = time.monotonic(), 0.001
    waiting = [_Waiting(record, pane.pane_pid) for record, pane in launched]
    left: dict[str, bool] = {}
    while waiting := [one for one in waiting if not one.over()]:
        taken = time.monotonic() - begin
        gone = {one.id: panes.gone(one.keeper) for one in waiting}
        given_up = [one.id for one in waiting if gone[one.id] or taken >= one.timeout]
        left |= {id_: gone[id_] for id_ in given_up}
        waiting = [one for one in waiting if one.id not in left]
        if waiting:
            time.sleep(pause)
            pause = min(pause * 1.2, 0.02)
    return left


def spoke(record: Record) -> bool:
    """Has its launch file or its keeper said anything?"""
    return any(launch_files.words(record))


def last_lines(ids: Sequence[str], server: Tmux) -> dict[str, str]:
    """The last line of each pane: what a shell says that could not run an agent."""
    found = {}
    for pane, text in server.capture_all(ids).items():
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        told = [line for line in lines if not line.startswith("Pane is dead")]
        found[pane] = told[-1] if told else ""
    return found


# --- taking back ---------------------------------------------------------------------------------


def take_back(given_up: Sequence[Record], server: Tmux, since: float) -> None:
    """End what is left of launches that were given up or refused: they may have got as far as their
    panes. `since` is the uptime before the launch."""
    for record in given_up:
        launch_files.withdraw(record)
    by_id = {record.id: record for record in given_up}
    server.kill_panes(
        pane.id
        for pane in server.known_panes()
        if pane.sesh_id in by_id and (pane.dead or _runs(pane, by_id[pane.sesh_id]))
    )
    if server.own:
        server.may_exit()  # a server that was started without room has the same limits for ever
    _end_marked(given_up, since)


def _end_marked(given_up: Sequence[Record], since: float) -> None:
    """Kill what has begun and does not heed that its terminal is gone. Not what an earlier launch
    has left, nor ourselves."""
    marks = [process_marks.mark(record) for record in given_up]

    def begun(table: processes.Table) -> list[Process]:
        marked = {pid for pids in process_marks.marked(table, marks).values() for pid in pids}
        found = [table[pid].process for pid in marked - processes.ancestors(table)]
        now = processes.uptime()
        return [process for process in found if now - processes.age(process, now) >= since]

    terminate.kill_all(begun, _CLEAN_LOOKS, _POLL)
