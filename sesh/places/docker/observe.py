"""Sessions in containers → observations. Looks; never decides, never changes anything.

With an engine of this machine, /proc shows the agent, as on the host, and the shared files show how
it ended; the engine is asked only about sessions that have ended or are being ended. An engine of
another machine is asked once about all containers; its health checks report the agents. All engines
are asked at the same time.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from sesh.model.configuration import Config
from sesh.model.observation import (
    ExitReport,
    LaunchReport,
    Observation,
    Sight,
    absent,
    seen,
    unknown,
)
from sesh.model.place import Agent, Container, Engine, Process
from sesh.model.record import Record
from sesh.model.states import Desired, State
from sesh.model.text.parse import STATUS, number
from sesh.model.text.pattern import lazy
from sesh.model.value_object import replace
from sesh.places import launch_files, remote
from sesh.places.docker import ownership, session_files
from sesh.places.interface import Look, guarded
from sesh.system import container_engine, processes, quick_read
from sesh.system.container_engine import Facts
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Tmux, Trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

_PLAIN = lazy(r"[A-Za-z0-9_./:@-]+")
Answer = dict[str, Facts] | Reply  # of one engine: its containers, or why that is not known


def server(record: Record, config: Config, *options: str) -> Tmux:
    """The tmux server inside."""
    place, container = session_files.place(record), session_files.container_of(record)
    user = session_files.as_user(record)
    prefix = container_engine.argv(place.engine, "exec", "-i", *options, *user, container.id)
    return Tmux(
        "tmux",
        place.socket,
        session_files.inside(record),
        timeout=config.docker.timeout,
        prefix=tuple(prefix),
    )


# --- what this machine knows ---------------------------------------------------------------------


def near(facts: Facts) -> Process | None:
    """The container's first process, if it is proven to be one of this machine."""
    stat = processes.look(facts.pid) if facts.pid else None
    return stat.process if stat and _is_of(stat.pid, facts.id) else None


def _is_of(pid: int, container_id: str) -> bool:
    """Is it in this container, by its control group? (All users can read that.)"""
    return container_id.encode() in _read(f"/proc/{pid}/cgroup")


def _read(path: str) -> bytes:
    try:
        return quick_read.read(path)
    except OSError:
        return b""


def host_agent(container: Container, inner: Agent) -> Agent | None:
    """An agent as this machine counts processes: the descendant of the container's first process
    that has this pid inside."""
    assert container.init is not None
    table = processes.table()
    for pid in processes.tree(processes.children(table), container.init.pid):
        stat = table.get(pid)
        if (
            stat is not None
            and stat.start == inner.process.start
            and inner_pid(pid) == inner.process.pid
            and _is_of(pid, container.id)
        ):
            return Agent(stat.process, keeper=stat.ppid, leader=stat.session, tty=stat.tty)
    return None


def inner_pid(pid: int) -> int:
    found = re.search(rb"^NSpid:.*\t(\d+)$", _read(f"/proc/{pid}/status"), re.M)
    return int(found[1]) if found else 0


def freezer(pid: int) -> str | None:
    """The file in which the kernel reports whether a process's control group is paused."""
    return _control_file(pid, "freezer", "freezer.state", "cgroup.events")


def ooms(pid: int) -> int:
    """The number of out-of-memory kills in a process's control group."""
    path = _control_file(pid, "memory", "memory.oom_control", "memory.events")
    found = re.search(rb"^oom_kill (\d+)$", _read(path) if path else b"", re.M)
    return int(found[1]) if found else 0


def _control_file(pid: int, controller: str, old: str, new: str) -> str | None:
    """A file of a process's control group, of version 1 or 2."""
    root = "/sys/fs/cgroup"
    for line in os.fsdecode(_read(f"/proc/{pid}/cgroup")).splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            file = f"{root}/{controller}{path}/{old}"
        elif names == "":
            file = f"{root}{path}/{new}"
        else:
            continue
        if _PLAIN.fullmatch(file) and os.path.exists(file):
            return file
    return None


def is_paused(container: Container | None) -> bool:
    return container is not None and quick_read.frozen(container.freezer or "")


def words(record: Record) -> tuple[LaunchReport | None, ExitReport | None]:
    """The reports of this generation, with the agent as this machine counts processes."""
    launch, exit_word = launch_files.words(record, record.status.launched)
    container = session_files.place(record).container
    if launch is not None and container is not None and container.init is not None:
        agent = record.place.agent or host_agent(container, launch.agent)
        launch = replace(launch, agent=agent) if agent else None
    return launch, exit_word


# --- what engines know ---------------------------------------------------------------------------


def needs_engine(record: Record, sight: Observation) -> bool:
    """Can only the engine answer?"""
    place, status = session_files.place(record), record.status
    if place.container is None or sight.rebooted or (sight.agent.unknown and place.pids_here):
        return False
    if _stopping(record):
        return True
    if not place.pids_here:
        return status.outcome is not State.STOPPED
    undecided = status.outcome is None and sight.exit is None
    return sight.agent.absent and undecided


def ask_engines(records: Sequence[Record], config: Config) -> dict[str, Answer]:
    """Session id → the answer of its engine. One question to each engine about all of its
    containers, all at the same time."""
    wanted: dict[Engine, list[str]] = {}
    for record in records:
        place = session_files.place(record)
        if place.container is not None:
            wanted.setdefault(place.engine, []).append(place.container.id)
    answers = at_once(
        lambda engine: container_engine.inspect(
            engine, sorted(set(wanted[engine])), config.docker.timeout
        ),
        list(wanted),
    )
    engines = {record.id: session_files.place(record).engine for record in records}
    return {key: answers[engine] for key, engine in engines.items() if engine in answers}


def at_once(question: Callable[[Engine], T], asked: Sequence[Engine]) -> dict[Engine, T]:
    """Ask several engines the same question: one that hangs does not delay the others."""
    if len(asked) < 2:
        return {engine: question(engine) for engine in asked}
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(asked)) as pool:
        return dict(zip(asked, pool.map(question, asked), strict=True))


def complete(looks: Sequence[Look], config: Config) -> list[Observation]:
    """Add what engines know. A problem with one container does not affect the others."""
    found = ask_engines([record for record, sight in looks if needs_engine(record, sight)], config)
    return [
        guarded(_complete, record, sight, found.get(record.id), config) for record, sight in looks
    ]


def _complete(
    record: Record, sight: Observation, answer: Answer | None, config: Config
) -> Observation:
    """Add the engine's answer, or what /proc shows of the container itself."""
    container = session_files.place(record).container
    if container is None:
        return _without_knowledge(record, sight, config)
    if answer is None:
        return by_init(record, sight)
    if isinstance(answer, Reply):
        return _without_engine(record, sight, answer)
    facts = answer.get(container.id)
    if facts is None:
        return _without_container(sight, absent("its container is gone"))
    if not facts.running:
        return _without_container(sight, absent(how_it_stopped(facts)), facts)
    if facts.started != container.started:
        gone = absent("its container was restarted")
        return replace(_without_container(sight, gone, facts), others=seen("its container"))
    return _in_running(record, sight, facts, config)


def _stopping(record: Record) -> bool:
    return record.status.desired is Desired.STOPPED and record.status.outcome is None


def _without_knowledge(record: Record, sight: Observation, config: Config) -> Observation:
    """Its record knows no container. There may be one: of a start that was killed, or that got no
    answer from its engine."""
    if record.status.outcome is not None or sight.agent.unknown or sight.rebooted:
        return sight
    stopping = _stopping(record)
    if not stopping and not _abandoned(record):
        return sight
    left = _unmade(record, config)
    if left.unknown:
        why = unknown(f"{left.what}; whether its container was created is not known")
        return replace(sight, agent=sight.agent if stopping else why, remains=left)
    what = "no agent was launched in it" if left.present else "its container was not created"
    gone = absent(f"{left.what}, {what}" if left.present else what)
    return replace(sight, remains=left, container=sight.container if stopping else gone)


def _abandoned(record: Record) -> bool:
    """Is the process that starts its container gone or late, without having launched an agent?"""
    starter, status = record.status.starter, record.status
    if starter is None or record.spec.box is None or record.spec.box.image is None:
        return False
    late = time.time() > status.launched.timestamp() + record.spec.launch_timeout
    return late or starter == processes.myself() or not processes.alive(starter)


def _unmade(record: Record, config: Config) -> Sight:
    """The container that its record does not know."""
    label = f"{ownership.LABEL}={record.id}"
    found = container_engine.labelled(
        session_files.place(record).engine, label, config.docker.timeout
    )
    if isinstance(found, Reply):
        return unknown(f"container engine: {found.text}")
    own = [facts for facts in found if ownership.made_for(record, facts)]
    return seen(f"its container {own[0].name} is there") if own else absent("nothing of it")


def by_init(record: Record, sight: Observation) -> Observation:
    """By /proc alone. An ended session is stale while its container exists."""
    container = session_files.place(record).container
    if sight.agent.present:
        return replace(sight, paused=is_paused(container))
    if container is None or container.init is None or sight.rebooted:
        return sight
    up = processes.alive(container.init)
    return replace(
        sight,
        others=seen("its container") if up else absent("its container does not run"),
        container=seen("it runs") if up else absent("its container does not run"),
        oom=up and ooms(container.init.pid) > container.ooms,
    )


def _without_engine(record: Record, sight: Observation, said: Reply) -> Observation:
    why = unknown(f"container engine: {said.text}")
    undecided = sight.exit is None and record.status.outcome is None
    agent = why if undecided and not sight.agent.present else sight.agent
    return replace(sight, agent=agent, container=why, others=why, remains=why)


def _without_container(sight: Observation, gone: Sight, facts: Facts | None = None) -> Observation:
    """The container is gone, or has no process."""
    return replace(
        sight,
        agent=gone if not sight.agent.present else sight.agent,
        terminal=gone,
        container=gone,
        others=absent("its container does not run"),
        remains=seen(f"its container {facts.name} is there") if facts else absent("nothing of it"),
        oom=facts is not None and facts.oom,
    )


def how_it_stopped(facts: Facts) -> str:
    if facts.status == "created":
        return "its container was never started"
    how = "out of memory" if facts.oom else f"exit {facts.exit_code}"
    return f"its container has stopped ({how})"


def _in_running(record: Record, sight: Observation, facts: Facts, config: Config) -> Observation:
    container = session_files.container_of(record)
    sight = replace(
        sight, container=seen("it runs"), others=seen("its container"), paused=facts.paused
    )
    undecided = record.status.outcome is None and sight.exit is None
    if undecided and not sight.agent.present and not facts.paused:
        sight = _by_words(record, sight, facts, config)
    elif undecided and not record.place.pids_here:
        sight = replace(sight, agent=seen("its container is paused"))
    if container.init is not None:
        sight = replace(sight, oom=ooms(container.init.pid) > container.ooms)
    return replace(sight, remains=_remains(record, container, sight, config))


def _by_words(record: Record, sight: Observation, facts: Facts, config: Config) -> Observation:
    """By what its health check printed or, without one, by a command inside."""
    container = session_files.container_of(record)
    if not container.mounted or not record.place.pids_here:
        said: str | Reply = facts.word
        if not remote.keep_words(record, facts.word):
            base = session_files.base(record)
            said = remote.look(session_files.run_inside, record, base, config.docker.timeout)
        if isinstance(said, Reply):
            return replace(sight, agent=unknown(f"container engine: {said.text}"))
        remote.keep_words(record, said)
        launch, exit_word = words(record)
        sight = replace(sight, launch=launch or sight.launch, exit=exit_word)
        if not record.place.pids_here:
            agent = absent("it is gone" if launch else "it has not started yet")
            if remote.says_alive(record, said):
                agent = seen("alive in its container")
            sight = replace(sight, agent=agent)
    return sight if sight.exit or not sight.agent.absent else _by_pane(record, sight, config)


def _by_pane(record: Record, sight: Observation, config: Config) -> Observation:
    """Its report is lost, perhaps with its files: a dead pane still shows how its keeper ended."""
    if record.place.pane is None:
        return sight
    form = "#{pane_dead} #{pane_dead_status}|#{@sesh_exit}"
    reply = server(record, config).ask("display-message", "-p", "-t", record.place.pane, form)
    if reply.trouble in (Trouble.NO_SERVER, Trouble.NO_TARGET, Trouble.NO_SESSIONS):
        return replace(sight, terminal=absent("its terminal was closed"))
    if not reply.ok:
        return replace(sight, agent=unknown(f"tmux in its container: {reply.text}"))
    dead, _, said = reply.out.strip().partition(" ")
    status = pane_status(record.place.generation, *said.split("|")[:2])
    if dead != "1" or status is None:
        return sight
    word = ExitReport(record.place.generation, status, True, datetime.now(UTC))
    return replace(sight, exit=word, terminal=seen("its pane exists"))


def pane_status(generation: int, dead_status: str, kept: str = "") -> int | None:
    """How a launch ended, by its dead pane: the status that the keeper left there or, if that is
    of another launch, the one that tmux saw. None: unknown."""
    launch, _, status = kept.partition(" ")
    code = number(status, STATUS) if launch == str(generation) else None
    return number(dead_status, STATUS) if code is None else code


def _remains(record: Record, container: Container, sight: Observation, config: Config) -> Sight:
    """What must be gone before a stop is confirmed: a container that sesh made, or every process
    that carries the marker."""
    if not _stopping(record):
        return sight.remains
    if container.made and not record.status.keep:
        return seen(f"its container {container.name} is there")
    found = remote.reap(session_files.run_inside, record, 0, config.docker.timeout)
    if isinstance(found, Reply):
        return unknown(f"container engine: {found.text}")
    if found:
        return seen(f"{len(found)} of its processes are left in {container.name}")
    return absent("no process of it is left")
