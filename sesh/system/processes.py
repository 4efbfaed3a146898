"""Processes: their identity, which of them belong to a session, and signals that hit no other.

psutil reads what no budgeted command needs: open files and shared memory. This module reads /proc
itself for the rest, for three reasons. Identity needs start ticks, which no clock change moves, and
psutil tells a start in seconds of a clock that can be set. A tree whose members get a signal must
come from the same reading as their identity, else a pid that is used again in between would pass
for a member. And `stop`, `show`, `doctor`, the pass and gc have a budget: the import of psutil
takes longer than two bare interpreters, and a table by psutil takes four times as long as ours. On
systems without /proc psutil reads everything. Nothing here decides what to end.
"""

from __future__ import annotations

import os
import signal as signals
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import MappingProxyType

from sesh.model.place import Agent, Machine, Process
from sesh.model.record import Record
from sesh.model.value_object import Value
from sesh.system import paths, quick_read

LINUX = sys.platform.startswith("linux")
_DEAD_STATES = "ZXx"
_STOPPED_STATES = "Tt"
_MARKER = b"SESH_ID="
_HOME = b"SESH_RUN="
_PANE = b"TMUX_PANE="
_FIRST_WORDS = 3  # of a command line, among which the program is
_UNSEEN = (FileNotFoundError, ProcessLookupError, PermissionError)


class Stat(Value):
    """One line of the process table."""

    pid: int
    comm: str
    state: str
    ppid: int
    session: int
    tty: int
    start: int
    cpu_seconds: float  # includes children that it has waited for
    memory_bytes: int

    @property
    def process(self) -> Process:
        return Process(self.pid, self.start)

    @property
    def alive(self) -> bool:
        return self.state not in _DEAD_STATES

    @property
    def stopped(self) -> bool:
        return self.state in _STOPPED_STATES


Table = dict[int, Stat]


class Usage(Value):
    memory_bytes: int
    cpu_seconds: float


@cache
def here() -> Machine:
    """The machine, boot and pid namespace in which our pids mean something."""
    return Machine(
        quick_read.machine_id(),
        _first_line("/proc/sys/kernel/random/boot_id") or _boot_by_psutil(),
        _link("/proc/self/ns/pid") or "none",
    )


def myself() -> Process:
    """The process that runs this code."""
    stat = look(os.getpid())
    assert stat is not None
    return stat.process


def run_dir() -> str:
    """The directory of this machine's launches."""
    machine = here()
    return paths.run_dir(machine.id, machine.pidns)


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _boot_by_psutil() -> str:
    return f"boot-{_boot_time_by_psutil():.0f}"


# --- looking -----------------------------------------------------------------------------------


def look(pid: int) -> Stat | None:
    """One process, or None when no process has that pid or we may not see it. Where /proc has the
    option hidepid, other users' processes are hidden; ours never are."""
    if not LINUX:
        return next(iter(_by_psutil([pid])), None)
    try:
        return _parse_stat(quick_read.read(f"/proc/{pid}/stat"))
    except _UNSEEN:
        return None


def foreign(pid: int) -> bool:
    """Does this pid belong to a process of another user, which we may not signal? The kernel is
    asked, because /proc may hide the process."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return False


def alive(process: Process) -> bool:
    """Is exactly this process alive: not gone, not a zombie, not another process with its pid?"""
    stat = look(process.pid)
    return stat is not None and stat.start == process.start and stat.alive


def table() -> Table:
    """Every process that can be seen, in one pass."""
    if not LINUX:
        return {stat.pid: stat for stat in _by_psutil()}
    lines = quick_read.of_processes(pids(), "stat", passing=_UNSEEN)
    return {pid: _parse_stat(line) for pid, line in lines.items()}


def pids() -> list[int]:
    """The pid of every process that can be seen."""
    if LINUX:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    import psutil

    return psutil.pids()


@cache
def _ticks_per_second() -> int:
    return os.sysconf("SC_CLK_TCK")


@cache
def _page_size() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def _parse_stat(line: bytes) -> Stat:
    """A line of /proc/PID/stat; the name in parentheses may hold anything, `)` and spaces too. Sets
    the fields without the checks of `Value`: this runs for each process of the machine."""
    head, _, tail = line.rpartition(b") ")
    pid, _, comm = head.partition(b" (")
    field = tail.split()
    stat = object.__new__(Stat)
    stat.__dict__.update(
        pid=int(pid),
        comm=comm.decode(errors="replace"),
        state=field[0].decode(),
        ppid=int(field[1]),
        session=int(field[3]),
        tty=int(field[4]),
        start=int(field[19]),
        cpu_seconds=sum(map(int, field[11:15])) / _ticks_per_second(),
        memory_bytes=int(field[21]) * _page_size(),
    )
    return stat


def _by_psutil(among: Iterable[int] | None = None) -> Iterator[Stat]:
    """The portable way. Start ticks are replaced by centiseconds since boot."""
    import psutil

    states = {psutil.STATUS_ZOMBIE: "Z", psutil.STATUS_STOPPED: "T", psutil.STATUS_DEAD: "X"}
    for pid in psutil.pids() if among is None else among:
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                cpu = process.cpu_times()
                yield Stat(
                    pid=pid,
                    comm=process.name(),
                    state=states.get(process.status(), "S"),
                    ppid=process.ppid(),
                    session=os.getsid(pid),
                    tty=1 if process.terminal() else 0,
                    start=round((process.create_time() - psutil.boot_time()) * 100),
                    cpu_seconds=cpu.user + cpu.system,
                    memory_bytes=process.memory_info().rss,
                )
        except (psutil.Error, OSError):
            continue


# --- belonging ---------------------------------------------------------------------------------


def open_in_family(pid: int) -> set[str]:
    """The files that a process and its direct children hold open, as far as we may see them. Not by
    psutil: `ls` asks this for an agent that waits."""
    family = [str(pid)]
    with suppress(OSError):
        family += quick_read.read(f"/proc/{pid}/task/{pid}/children").decode().split()
    found = set()
    for one in family:
        with suppress(OSError):
            for name in os.listdir(f"/proc/{one}/fd"):
                with suppress(OSError):
                    found.add(os.readlink(f"/proc/{one}/fd/{name}"))
    return found


def written_by(pid: int) -> set[str]:
    """The regular files that a process holds open for writing, as far as we may know."""
    import psutil

    try:
        return {one.path for one in psutil.Process(pid).open_files() if one.mode != "r"}
    except (psutil.Error, OSError):
        return set()


def children(processes: Table) -> dict[int, list[int]]:
    """Parent → its children."""
    found: dict[int, list[int]] = {}
    for stat in processes.values():
        found.setdefault(stat.ppid, []).append(stat.pid)
    return found


def tree(family: dict[int, list[int]], root: int) -> list[int]:
    """`root` and all its descendants, parents first."""
    found = [root]
    for pid in found:
        found.extend(family.get(pid, ()))
    return found


def usage(
    processes: Table,
    agents: Mapping[str, Process],
    without: Collection[int] = (),
    enough: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, Usage]:
    """Memory and CPU of some sessions, by their ids. Counts the agent's tree and the processes with
    its marker, because a process whose parent has ended is in no tree. (Processes of an earlier
    launch are older than the agent.) `without` names process sessions that do not count. Up to
    `enough` bytes, shared pages may be counted for each process, which is a hundred times cheaper.
    """
    family = children(processes)
    known = {key: root for key, root in agents.items() if _there(processes, root)}
    marks = [Mark(key, run_dir(), root.start, root) for key, root in known.items()]
    carrying = marked(processes, marks) if known else {}
    found = {}
    for key, root in known.items():
        pids = {pid for top in (root.pid, *carrying[key]) for pid in tree(family, top)}
        members = [processes[pid] for pid in pids if processes[pid].session not in without]
        cpu = sum(member.cpu_seconds for member in members)
        found[key] = Usage(_memory_of(members, enough.get(key, 0.0)), cpu)
    return found


def _there(processes: Table, root: Process) -> bool:
    stat = processes.get(root.pid)
    return stat is not None and stat.start == root.start


def _memory_of(members: Collection[Stat], enough: float) -> int:
    """Shared pages are counted once where the kernel tells."""
    plain = sum(member.memory_bytes for member in members)
    if len(members) < 2 or plain <= enough:
        return plain
    together = shared_memory(member.pid for member in members)
    return plain if together is None else together


def shared_memory(pids: Iterable[int]) -> int | None:
    """The memory of some processes together, with shared pages counted once; None where the kernel
    does not say, or not to us."""
    import psutil

    total = 0
    for pid in pids:
        try:
            total += psutil.Process(pid).memory_full_info().pss
        except psutil.NoSuchProcess:
            continue  # it has ended meanwhile
        except (psutil.AccessDenied, OSError, AttributeError):
            return None
    return total


class Mark(Value):
    """What a process must show to belong to a session. Any process can have a session's id in its
    environment: the id is a claim, the other fields prove it."""

    id: str
    run: str  # the directory of its launches, as SESH_RUN names it
    since: int = 0  # start ticks of its first launch: older processes are not part of it
    agent: Process | None = None
    uids: tuple[int, ...] = ()  # users that its agent is known to have had, besides ours


def mark(record: Record) -> Mark:
    """The mark of a session's processes on this machine."""
    place = record.place
    agent = place.agent.process if place.agent else None
    first = agent.start if agent and place.generation == 1 else 0
    return Mark(record.id, place.run, place.since or first, agent)


def marked(processes: Table, marks: Iterable[Mark]) -> dict[str, list[int]]:
    """Session id → the processes that carry it in their environment and belong to it.

    Not seen: processes that cleared their environment, and other users' processes. Not counted: a
    tmux server that was started inside the session, and everything in it. It may hold a user's own
    work by now, which inherited the id from that server.
    """
    wanted = {_MARKER + one.id.encode(): one for one in marks}
    found: dict[str, list[int]] = {one.id: [] for one in wanted.values()}
    for pid, environ in _environs(processes, (_MARKER,)).items():
        entries = environ.split(b"\0")
        for entry in entries:
            if entry in wanted and _proven(processes[pid], entries, wanted[entry]):
                found[wanted[entry].id].append(pid)
    return {key: _outside_tmux(processes, pids) for key, pids in found.items()}


def _proven(stat: Stat, entries: Collection[bytes], one: Mark) -> bool:
    """Does the process belong to the session that its marker names? In a container its pid
    namespace proves that, because directory and users are the container's own."""
    if stat.process == one.agent:
        return True
    if stat.start < one.since:
        return False
    living = one.agent if one.agent and alive(one.agent) else None
    namespace = _link(f"/proc/{living.pid}/ns/pid") if living else ""
    if namespace not in ("", here().pidns):
        return _link(f"/proc/{stat.pid}/ns/pid") == namespace
    if _HOME + os.fsencode(one.run) not in entries:
        return False
    became = {uid(living.pid)} if living else set()
    return uid(stat.pid) in _own_uids(one.run) | became | {*one.uids}


def _own_uids(run: str) -> set[int | None]:
    """Our user, and the owner of the sessions: root may look at another user's sessions."""
    with suppress(OSError):
        return {os.getuid(), os.stat(run).st_uid}
    return {os.getuid()}


def uid(pid: int) -> int | None:
    """The real user of a process; None when it is gone or we may not see it."""
    if not LINUX:
        return _uid_by_psutil(pid)
    try:
        status = quick_read.read(f"/proc/{pid}/status")
    except OSError:
        return None
    return int(status.partition(b"\nUid:")[2].split(None, 1)[0])


def _uid_by_psutil(pid: int) -> int | None:
    import psutil

    try:
        return psutil.Process(pid).uids().real
    except psutil.Error:
        return None


def ours(pid: int, run: str) -> bool:
    """Does the owner of the sessions in `run` run this process, so that its marker counts?"""
    return uid(pid) in _own_uids(run)


def now() -> int:
    """The start ticks of a process that starts now."""
    return int(uptime() * (_ticks_per_second() if LINUX else 100))


def _outside_tmux(processes: Table, pids: list[int]) -> list[int]:
    servers = {pid for pid in pids if is_tmux(processes[pid])}
    return [pid for pid in pids if not servers & ancestors(processes, pid)] if servers else pids


def is_tmux(stat: Stat) -> bool:
    return stat.comm.startswith("tmux: server")


def tmux_servers(processes: Table) -> list[Stat]:
    """The living tmux servers."""
    return [stat for stat in processes.values() if is_tmux(stat) and stat.alive]


def belongs(stat: Stat, agent: Agent) -> bool:
    """Is the process where its launch put it: on its terminal, below its keeper or in its session?
    An adopted process has no keeper, and always belongs."""
    in_place = stat.tty == agent.tty or stat.ppid == agent.keeper or stat.session == agent.leader
    return agent.keeper == 0 or in_place


def carriers(among: Iterable[int], run: str) -> tuple[dict[int, str], list[int]]:
    """Every process with the marker of one of our sessions, and the session's id; and the processes
    that tmux started in a pane, which include keepers. `run` is our directory of launches: sessions
    of another state directory are not ours."""
    home = _HOME + os.fsencode(run)
    found, in_panes = {}, []
    for pid, environ in _environs(among, (_MARKER, _PANE)).items():
        if _PANE in environ:
            in_panes.append(pid)
        if _MARKER not in environ:
            continue
        entries = environ.split(b"\0")
        ids = [entry[len(_MARKER) :] for entry in entries if entry.startswith(_MARKER)]
        if home in entries and len(ids) == 1 and ours(pid, run):
            found[pid] = ids[0].decode("ascii", errors="replace")
    return found, in_panes


def environment(pid: int) -> dict[str, str]:
    """The variables that a process was started with, as far as we may see them."""
    entries = _environs([pid]).get(pid, b"").decode(errors="surrogateescape").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def _environs(among: Iterable[int], words: Collection[bytes] = (b"",)) -> dict[int, bytes]:
    """The environments that contain one of `words`, of those that we may see."""
    if LINUX:
        return quick_read.of_processes(among, "environ", words)
    import psutil

    found = {}
    for pid in among:
        with suppress(psutil.Error):
            pairs = psutil.Process(pid).environ().items()
            environ = b"\0".join(f"{key}={value}".encode() for key, value in pairs)
            if any(word in environ for word in words):
                found[pid] = environ
    return found


def ancestors(processes: Table, pid: int | None = None) -> set[int]:
    """A process and all its ancestors. Our own must never get a signal."""
    found: set[int] = set()
    pid = os.getpid() if pid is None else pid
    while pid and pid not in found:
        found.add(pid)
        stat = processes.get(pid)
        pid = stat.ppid if stat else 0
    return found


def interactive_shell(pid: int) -> bool:
    """Does it ignore the stop signals of job control, as interactive shells do? They ignore TERM
    too; HUP ends them."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            line = next((line for line in file if line.startswith("SigIgn:")), "")
    except OSError:
        return False
    ignored = int(line.split()[1], 16) if line else 0
    return all(ignored >> (number - 1) & 1 for number in (signals.SIGTSTP, signals.SIGTTOU))


def runs(pid: int, script: str) -> bool:
    """Does the process run this script?"""
    return script in command(pid)


def command(pid: int) -> list[str]:
    """Its command line; empty when it has none (any more), or we may not see it."""
    return commands([pid]).get(pid, [])


def commands(among: Iterable[int], part: str = "") -> dict[int, list[str]]:
    """The command lines that contain `part` anywhere, of those processes that we may see."""
    if LINUX:
        lines = quick_read.of_processes(among, "cmdline", (os.fsencode(part),))
        return {pid: os.fsdecode(line).split("\0")[:-1] for pid, line in lines.items()}
    import psutil

    found = {}
    for pid in among:
        with suppress(psutil.Error):
            words = psutil.Process(pid).cmdline()
            if part in "\0".join(words):
                found[pid] = words
    return found


def of_program(processes: Table, program: str) -> dict[int, list[str]]:
    """The living processes of a program, without ours, and their command lines. An interpreter and
    its options may come before the program's name."""
    living = [pid for pid, stat in processes.items() if stat.alive and pid != os.getpid()]
    return {
        pid: words
        for pid, words in commands(living, program).items()
        if program in map(os.path.basename, words[:_FIRST_WORDS])
    }


def directory(pid: int) -> str | None:
    """Its current directory."""
    return _link(f"/proc/{pid}/cwd") or None


def same_namespace(pid: int) -> bool:
    """Is it proven to be in our pid namespace, so that pids mean the same to both of us?"""
    return not LINUX or _link(f"/proc/{pid}/ns/pid") == here().pidns


def started_at(stat: Stat) -> float:
    """When it started, in seconds of the epoch by the clock as it is set now."""
    if not LINUX:
        return _boot_time_by_psutil() + stat.start / 100
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + stat.start / _ticks_per_second()


def age(process: Process, now: float) -> float:
    """How long ago it started, if `now` is the uptime."""
    return now - process.start / (_ticks_per_second() if LINUX else 100)


def uptime() -> float:
    """Seconds since this machine booted, including suspends, by a clock that cannot be set."""
    if LINUX:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.time() - _boot_time_by_psutil()


def asleep() -> float:
    """Seconds of the uptime during which this machine was suspended."""
    if not LINUX:
        return 0.0
    return max(
        0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    )


def booted_at() -> float:
    """When this boot began, in seconds of the epoch by the clock as it is set now. Taken from the
    first process if we may see it: in a container that booted, the kernel's boot is older."""
    try:
        first = look(1)
    except OSError:
        first = None
    return time.time() - uptime() if first is None else started_at(first)


def _boot_time_by_psutil() -> float:
    import psutil

    return psutil.boot_time()


def became(pid: int, launch_file: str) -> bool:
    """Has the shell of the launch file become the agent, or ended? An exiting process has no
    command line any more; the keeper will soon record how it ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            line = file.read()
    except OSError:
        return True
    return bool(line) and launch_file.encode() not in line.split(b"\0")


# --- signals -----------------------------------------------------------------------------------


def send(process: Process, number: int) -> bool:
    """Signal exactly this process; False when it is gone or we may not signal it.

    The pidfd is opened before the identity is checked, so a pid that is reused in between never
    gets the signal.
    """
    if process.pid <= 1 or process.pid == os.getpid():
        raise ValueError(f"refusing to signal pid {process.pid}")
    try:
        if not hasattr(os, "pidfd_open"):
            return alive(process) and _kill(process.pid, number)
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not alive(process):
            return False
        signals.pidfd_send_signal(fd, number)
        return True
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(fd)


def _kill(pid: int, number: int) -> bool:
    os.kill(pid, number)
    return True
