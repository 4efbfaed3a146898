"""Many records → observations, in few calls. Looks; never decides, never changes anything.

A live agent is known from /proc alone: its pid and start ticks say who it is, its terminal's number
says that its pane stands (a hangup clears it). tmux is asked once a server, and only about sessions
whose agent is not seen alive.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, SeshError
from sesh.model.observation import ExitWord, LaunchWord, Observation, Sight, absent, seen, unknown
from sesh.model.place import Agent, InContainer, Process
from sesh.model.record import Record
from sesh.model.states import Desired, State
from sesh.model.value import replace
from sesh.places import launch_files
from sesh.places.docker import observe as docker
from sesh.state import clocks
from sesh.system import git, processes, tmux
from sesh.system.tmux import Pane, Reply, Tmux, Trouble

_SKEW = 2.0  # seconds that the clock of a machine may be off when it has just been started
_TWIN = (
    "it runs on another machine{} with the same machine id; "
    "systemd-machine-id-setup gives each its own"
)
KEEPER_PATIENCE = 1.0  # how long a keeper may take from its agent's end to its word
Panes = list[Pane] | str  # all panes of a server, or why they are not known
Answers = dict[str, list[Pane] | Reply]  # socket → what its server said, to ask each one once


def server(socket: str, run: str, config: Config) -> Tmux:
    return Tmux(
        tmux.find_binary(),
        socket,
        run,
        own=socket == f"{run}/tmux.sock",
        include=config.tmux.include,
        timeout=config.tmux.timeout,
    )


def chosen_socket(config: Config, run: str) -> str:
    """Where new sessions go."""
    if not config.tmux.socket:
        return f"{run}/tmux.sock"
    if config.tmux.socket == "default":
        base = os.environ.get("TMUX_TMPDIR") or "/tmp"
        return f"{base}/tmux-{os.getuid()}/default"
    return config.tmux.socket


def server_of(record: Record, config: Config) -> Tmux:
    """The server that a session is in, on this machine or in its container."""
    if isinstance(record.place, InContainer) and record.place.container:
        return docker.server(record, config)
    return server(record.place.socket, record.place.run, config)


def by_server(records: Iterable[Record], config: Config) -> Iterator[tuple[Tmux, list[Record]]]:
    """Sessions, by the server that they are in. Those whose server cannot be asked are left out."""
    places: dict[str, list[Record]] = {}
    for record in records:
        places.setdefault(record.place.socket, []).append(record)
    for some in places.values():
        with suppress(SeshError):
            yield server_of(some[0], config), some


def observe(
    records: Sequence[Record], config: Config, answers: Answers | None = None
) -> list[Observation]:
    """Look at all of them. The order is kept. What servers say is kept in `answers`."""
    answers = {} if answers is None else answers
    first = [_unbroken(record, lambda one: heard(one, by_files(one))) for record in records]
    doubtful = [r for r, sight in zip(records, first, strict=True) if _needs_tmux(r, sight)]
    panes = _ask_servers(doubtful, records, config, answers)
    stopping = [r for r, sight in zip(records, first, strict=True) if _being_stopped(r, sight)]
    left = _remains(stopping) if stopping else {}
    asked = [r for r, sight in zip(records, first, strict=True) if _needs_engine(r, sight)]
    told = docker.ask_engines(asked, config)
    return [
        _in_container(record, sight, told.get(record.id), config)
        if isinstance(record.place, InContainer)
        else _complete(record, sight, panes.get(record.place.socket), left.get(record.id))
        for record, sight in zip(records, first, strict=True)
    ]


def _in_container(
    record: Record, sight: Observation, answer: docker.Answer | None, config: Config
) -> Observation:
    return _unbroken(record, lambda one: docker.complete(one, sight, answer, config))


def _unbroken(record: Record, look: Callable[[Record], Observation]) -> Observation:
    """One look at one session. What its container says may be anything: a trouble with it is its
    own, and never that of another session."""
    if record.place.calls_back:
        return look(record)
    try:
        return look(record)
    except (SeshError, OSError, ValueError, ArithmeticError, RecursionError) as error:
        return Observation(unknown(f"cannot be looked at: {str(error) or type(error).__name__}"))


# --- files and /proc ---------------------------------------------------------------------------


def by_files(record: Record) -> Observation:
    """What the per-launch files and the process table say; and git's, if a branch was asked for."""
    sight = _by_files(record)
    return replace(sight, branch=git.head(record.spec.cwd)) if _has_branch(record) else sight


def _has_branch(record: Record) -> bool:
    """Should its directory be on a certain branch while it lives, and is it on this machine?"""
    if record.spec.branch is None or record.status.outcome is not None:
        return False
    return record.directory_here and record.place.machine.id == processes.here().id


def _by_files(record: Record) -> Observation:
    if not record.place.has_process:
        return Observation(absent("no process of sesh's runs it"))
    elsewhere = _elsewhere(record)
    if elsewhere:
        return Observation(unknown(elsewhere))
    place = record.place
    launch, exit_word = _words(record) if record.status.outcome is None else (None, None)
    agent = place.agent or (launch.agent if launch else None)
    if not place.pids_here:
        over = record.status.outcome is not None or exit_word is not None
        far = absent("it has ended") if over else unknown("its engine was not asked")
        return Observation(far, exit=exit_word, launch=launch)
    if place.machine.boot != processes.here().boot and not _still_carries(record, agent):
        twin = twin_of(record)
        if twin is not None:
            return Observation(unknown(twin))
        gone = absent("this machine was restarted")
        return Observation(gone, gone, gone, gone, exit=exit_word, launch=launch, rebooted=True)
    if agent is None:
        return _unseen(record, exit_word)
    return _by_process(record, agent, launch, exit_word)


def _unseen(record: Record, exit_word: ExitWord | None) -> Observation:
    """Nobody knows its process: it has not begun or, in a container, has ended before anybody could
    find it among the processes of this machine."""
    place = record.place
    since = record.status.launched
    word = exit_word and launch_files.read_launch(place.run, record.id, place.generation, since)
    gone = word is not None or record.status.started is not None
    agent = absent("it is gone" if gone else "it has not said that it began")
    return Observation(agent, exit=exit_word, began=word.at if word else None)


def heard(record: Record, sight: Observation) -> Observation:
    """Add the conversation that an agent's hooks have named."""
    if not record.heard or record.status.outcome is not None:
        return sight
    from sesh.agents import hearing

    conversation = hearing.conversation(record)
    return replace(sight, conversation=conversation) if conversation else sight


def _words(record: Record) -> tuple[LaunchWord | None, ExitWord | None]:
    place = record.place
    if isinstance(record.place, InContainer):
        return docker.words(record)
    return (
        launch_files.read_launch(place.run, record.id, place.generation),
        launch_files.read_exit(place.run, record.id, place.generation),
    )


def _still_carries(record: Record, agent: Agent | None) -> bool:
    """Does the very agent live, whatever boot the record (edited by hand?) names?"""
    if agent is None or not processes.alive(agent.process):
        return False
    stat = processes.look(agent.process.pid)
    return stat is not None and _carries(record, agent, stat)


def _elsewhere(record: Record) -> str | None:
    """Why its pids mean nothing here, if they don't."""
    there, here = record.place.machine, processes.here()
    if there.id != here.id:
        return "it runs on another machine"
    if record.place.pids_here and there.boot == here.boot and there.pidns != here.pidns:
        return "it runs in another pid namespace (a container, or its host)"
    return None


def twin_of(record: Record) -> str | None:
    """Why another boot of our machine id is not an earlier one of this machine: clones share that
    id. Who has shown a sign of life since we were started is another machine; who has another name
    is, until we have been up for so long that its passes would have left one."""
    place, status = record.place, record.status
    boot = clocks.boot_of(place.private_run, place.machine.boot)
    signs = [at.timestamp() for at in (status.launched, status.started, status.resumed) if at]
    if boot is not None:
        signs.append(boot.last.wall)
    began = processes.booted_at()
    renamed = boot is not None and boot.host != os.uname().nodename
    if max(signs) <= began + _SKEW and not (renamed and time.time() - began < clocks.HOUR):
        return None
    return _TWIN.format(f" ({boot.host})" if boot is not None and renamed else "")


def _by_process(
    record: Record, agent: Agent, launch: LaunchWord | None, exit_word: ExitWord | None
) -> Observation:
    stat = processes.look(agent.process.pid)
    who = f"process {agent.process.pid}"
    if stat is None and exit_word is None and processes.foreign(agent.process.pid):
        return Observation(unknown(f"{who} is another user's, and hidden"), launch=launch)
    if stat is None or stat.start != agent.process.start or not _itself(record, agent, stat):
        if exit_word is None and record.status.outcome is None:
            exit_word = _await_exit(record, agent)
            if exit_word is None and _keeper_alive(agent):
                waiting = unknown("it has ended, but its keeper has not said how yet")
                return Observation(waiting, launch=launch)
        return Observation(absent(f"{who} is gone"), exit=exit_word, launch=launch)
    terminal = seen("its terminal stands" if agent.tty else "it was adopted without a terminal")
    if agent.tty and stat.tty != agent.tty:
        terminal = absent("its terminal was closed")
    return Observation(
        seen(f"{who} is alive"),
        terminal,
        exit=exit_word,
        launch=launch,
        frozen=stat.stopped,
    )


def _itself(record: Record, agent: Agent, stat: processes.Stat) -> bool:
    """Is it alive, and not another process of the same pid and tick? Where its place does not show
    that, its marker must."""
    if not stat.alive:
        return False
    return processes.belongs(stat, agent) or _carries(record, agent, stat)


def _carries(record: Record, agent: Agent, stat: processes.Stat) -> bool:
    mark = processes.Mark(record.id, record.place.run, agent=agent.process)
    return bool(processes.marked({stat.pid: stat}, [mark])[record.id])


def _await_exit(record: Record, agent: Agent) -> ExitWord | None:
    """The agent has just ended: give its keeper a moment to say how."""
    place, since = record.place, None if record.place.calls_back else record.status.launched
    read = partial(launch_files.read_exit, place.run, record.id, place.generation, since)
    deadline = time.monotonic() + KEEPER_PATIENCE
    while time.monotonic() < deadline and _keeper_alive(agent):
        word = read()
        if word is not None:
            return word
        time.sleep(0.005)
    return read()


def _keeper_alive(agent: Agent) -> bool:
    """Is the shell that waits for the agent still there? (Its own start is not known: it is the
    parent, or has the same session, so another process of that pid passes for dead.)"""
    stat = processes.look(agent.keeper)
    return stat is not None and stat.alive and stat.session == agent.leader


# --- tmux --------------------------------------------------------------------------------------


def _needs_tmux(record: Record, sight: Observation) -> bool:
    settled = record.status.outcome in (State.STOPPED, State.FAILED, State.TIMEOUT)
    return record.place.calls_back and sight.agent.absent and not sight.rebooted and not settled


def _being_stopped(record: Record, sight: Observation) -> bool:
    asked = record.status.desired is Desired.STOPPED and record.status.outcome is None
    return record.place.calls_back and asked and not sight.agent.unknown and not sight.rebooted


def _needs_engine(record: Record, sight: Observation) -> bool:
    return isinstance(record.place, InContainer) and docker.needs_engine(record, sight)


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
        socket: _panes(server_of(record, config), records, answers)
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
        return f"tmux server {hidden.pid} lives, but its socket is gone (kill -USR1 restores it)"
    return []


def hidden_server(socket: str, records: Iterable[Record]) -> Process | None:
    """A recorded server that is alive although nobody answers at its socket."""
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
    marked = processes.marked(table, map(processes.mark, records))
    sights = {}
    for record in records:
        left = {pid for pid in marked[record.id] if table[pid].alive}
        left |= {process.pid for process in record.status.remains if processes.alive(process)}
        sights[record.id] = _remains_sight(sorted(p for p in left if not processes.foreign(p)))
    return sights


def _remains_sight(pids: list[int]) -> Sight:
    if not pids:
        return absent("no process of it is left")
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
    terminal = seen(f"pane {own} stands") if any(p.id == own for p in mine) else None
    if terminal is None and own is not None:
        terminal = absent("its terminal was closed")
    if terminal is None:
        terminal = seen("its tmux session stands") if mine else absent("no tmux session of it")
    if own is None:
        others = []
    return replace(
        sight,
        terminal=terminal,
        others=(
            seen(f"{len(others)} other pane{'s' if len(others) > 1 else ''} of its tmux session")
            if others
            else absent("no other live pane")
        ),
    )


def _without_panes(record: Record, sight: Observation, why: str) -> Observation:
    """tmux could not be asked: what hangs on its answer is unknown."""
    undecided = sight.exit is None and record.status.outcome is None and not sight.rebooted
    agent = unknown(why) if undecided else sight.agent
    return replace(sight, agent=agent, terminal=unknown(why), others=unknown(why))
