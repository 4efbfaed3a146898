"""Processes: their identity, the process table, and signals that hit no other process.

This module reads /proc itself, because identity needs start ticks, which no clock change moves, and
a tree whose members get a signal must come from the same reading as their identity. Fast lanes, the
pass, an idle gc, `stop` and `show` have a budget that the import of psutil alone would exceed.
Everything without a budget (memory, CPU, command lines and open files for `ls --wide`, `stats` and
lists of what was left behind) goes through psutil, in `process_usage`.
"""

from __future__ import annotations

import os
import signal as signals
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cache

from sesh.model.place import Agent, Machine, Process
from sesh.model.value_object import Value
from sesh.system import paths, quick_read

_TICKS = os.sysconf("SC_CLK_TCK")  # a second
_PAGE = os.sysconf("SC_PAGE_SIZE")  # bytes
_DEAD_STATES = "ZXx"
_STOPPED_STATES = "Tt"
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


@cache
def here() -> Machine:
    """The machine, boot and pid namespace in which our pids mean something."""
    return Machine(
        quick_read.machine_id(),
        _boot(),
        _link("/proc/self/ns/pid") or "none",
    )


def _boot() -> str:
    """The id of this boot; where the kernel hides it, the time of the boot."""
    with suppress(OSError):
        if found := quick_read.read("/proc/sys/kernel/random/boot_id").decode().strip():
            return found
    from sesh.system import process_usage

    return f"boot-{process_usage.boot_time():.0f}"


def myself() -> Process:
    """The process that runs this code."""
    return _identity(os.getpid())


@cache
def _identity(own_pid: int) -> Process:
    stat = look(own_pid)
    assert stat is not None
    return stat.process


def run_dir() -> str:
    """The directory of this machine's launches."""
    machine = here()
    return paths.run_dir(machine.id, machine.pidns)


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


# --- looking -----------------------------------------------------------------------------------


def look(pid: int) -> Stat | None:
    """One process, or None when no process has that pid or we may not see it. Where /proc has the
    option hidepid, other users' processes are hidden; ours never are."""
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
    lines = quick_read.of_processes(pids(), "stat", passing=_UNSEEN)
    return {pid: _parse_stat(line) for pid, line in lines.items()}


def pids() -> list[int]:
    """The pid of every process that can be seen."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parse_stat(line: bytes) -> Stat:
    """A line of /proc/PID/stat; the name in parentheses may hold anything, `)` and spaces too. Sets
    the fields without the checks of `Value`: this runs for each process of the machine."""
    head, _, tail = line.rpartition(b") ")
    pid, _, comm = head.partition(b" (")
    field = tail.split(None, 22)
    stat = object.__new__(Stat)
    stat.__dict__.update(
        pid=int(pid),
        comm=comm.decode(errors="replace"),
        state=field[0].decode(),
        ppid=int(field[1]),
        session=int(field[3]),
        tty=int(field[4]),
        start=int(field[19]),
        cpu_seconds=sum(map(int, field[11:15])) / _TICKS,
        memory_bytes=int(field[21]) * _PAGE,
    )
    return stat


# --- facts of one process, and of many ---------------------------------------------------------


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


def uid(pid: int) -> int | None:
    """The real user of a process; None when it is gone or we may not see it."""
    return uids([pid]).get(pid)


def uids(pids: Iterable[int]) -> dict[int, int]:
    """The real users of those processes that we may see."""
    found = quick_read.of_processes(pids, "status", (b"\nUid:",))
    return {
        pid: int(status.partition(b"\nUid:")[2].split(None, 1)[0]) for pid, status in found.items()
    }


def now() -> int:
    """The start ticks of a process that starts now."""
    return int(uptime() * _TICKS)


def is_tmux(stat: Stat) -> bool:
    return stat.comm.startswith("tmux: server")


def tmux_servers(processes: Table) -> list[Stat]:
    """The living tmux servers."""
    return [stat for stat in processes.values() if is_tmux(stat) and stat.alive]


def living(processes: Table) -> Table:
    """The living processes that are not tmux servers."""
    return {pid: stat for pid, stat in processes.items() if stat.alive and not is_tmux(stat)}


def belongs(stat: Stat, agent: Agent) -> bool:
    """Is the process where its launch put it: on its terminal, below its keeper or in its session?
    An adopted process has no keeper, and always belongs."""
    in_place = stat.tty == agent.tty or stat.ppid == agent.keeper or stat.session == agent.leader
    return agent.keeper == 0 or in_place


def environment(pid: int) -> dict[str, str]:
    """The variables that a process was started with, as far as we may see them."""
    entries = environs([pid]).get(pid, b"").decode(errors="surrogateescape").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def environs(among: Iterable[int], words: Collection[bytes] = (b"",)) -> dict[int, bytes]:
    """The environments that contain one of `words`, of those that we may see."""
    return quick_read.of_processes(among, "environ", words)


def ancestors(processes: Table | None = None, pid: int | None = None) -> set[int]:
    """A process (by default ours) and all its ancestors, which never get a signal from us. Without
    a table, only these processes are read."""
    found: set[int] = set()
    pid = os.getpid() if pid is None else pid
    while pid and pid not in found:
        found.add(pid)
        stat = look(pid) if processes is None else processes.get(pid)
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
    lines = quick_read.of_processes(among, "cmdline", (os.fsencode(part),))
    return {pid: os.fsdecode(line).split("\0")[:-1] for pid, line in lines.items()}


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


def namespace(pid: int) -> str:
    """Its pid namespace; empty when it is gone or we may not see it."""
    return _link(f"/proc/{pid}/ns/pid")


def started_at(stat: Stat) -> float:
    """When it started, in seconds of the epoch by the clock as it is set now."""
    return time.time() - uptime() + stat.start / _TICKS


def age(process: Process, now: float) -> float:
    """How long ago it started, if `now` is the uptime."""
    return now - process.start / _TICKS


def uptime() -> float:
    """Seconds since this machine booted, including suspends, by a clock that cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def asleep() -> float:
    """Seconds of the uptime during which this machine was suspended."""
    return max(0.0, uptime() - time.clock_gettime(time.CLOCK_MONOTONIC))


def booted_at() -> float:
    """When this boot began, in seconds of the epoch by the clock as it is set now. Taken from the
    first process if we may see it: in a container that booted, the kernel's boot is older."""
    try:
        first = look(1)
    except OSError:
        first = None
    return time.time() - uptime() if first is None else started_at(first)


def became(pid: int, launch_file: str) -> bool:
    """Has the shell of the launch file become the agent, or ended? An exiting process has no
    command line any more; the keeper will soon record how it ended."""
    try:
        line = quick_read.read(f"/proc/{pid}/cmdline")
    except OSError:
        return True
    return bool(line) and launch_file.encode() not in line.split(b"\0")


# --- signals -----------------------------------------------------------------------------------


def send(process: Process, *numbers: int) -> bool:
    """Send signals to exactly this process; False when it is gone or we may not signal it.

    The pidfd is opened before the identity is checked, so a pid that is reused in between never
    gets a signal.
    """
    if process.pid <= 1 or process.pid == os.getpid():
        raise ValueError(f"refusing to signal pid {process.pid}")
    try:
        fd = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return False
    try:
        if not alive(process):
            return False
        for number in numbers:
            if fd is None:
                os.kill(process.pid, number)
            else:
                signals.pidfd_send_signal(fd, number)
        return True
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if fd is not None:
            os.close(fd)
