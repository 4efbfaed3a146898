"""What psutil tells about processes: memory, processor time, command lines and open files.

The import of psutil takes longer than two bare interpreters. So only paths without a budget come
here: `ls --wide`, `stats`, a restart of an agent, and listings of what was left behind. A pass
measures through /proc, and comes here only for a session that seems to be over its memory limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sesh.model.place import Process
from sesh.model.value_object import Value
from sesh.system import process_marks, processes
from sesh.system.process_marks import Mark
from sesh.system.processes import Table


class Usage(Value):
    memory_bytes: int
    cpu_seconds: float  # includes children that have ended


class Details(Value):
    """What a list shows of one process."""

    command: tuple[str, ...]  # empty when it is hidden from us, or gone
    memory_bytes: int


def usage(table: Table, agents: Mapping[str, Process]) -> dict[str, Usage]:
    """Memory and processor time of sessions, by their ids. Shared pages are counted once."""
    found = {}
    for key, members in _members(table, agents).items():
        if len(members) == 1:  # without psutil: `show` has a budget
            [alone] = members
            found[key] = Usage(table[alone].memory_bytes, table[alone].cpu_seconds)
            continue
        memory = _shared(members)
        each = [one for pid in members if (one := _measured(pid)) is not None]
        plain = sum(one.memory_bytes for one in each)
        found[key] = Usage(
            plain if memory is None else memory, sum(one.cpu_seconds for one in each)
        )
    return found


def quick_usage(
    table: Table,
    agents: Mapping[str, Process],
    without: Collection[int],
    limits: Mapping[str, float],
) -> dict[str, Usage]:
    """The same for a pass, by the process table alone, which counts shared pages for each process.
    Only sessions over their limit by that count are measured exactly. `without` names process
    sessions that do not count."""
    found = {}
    for key, pids in _members(table, agents).items():
        members = [table[pid] for pid in pids if table[pid].session not in without]
        memory = sum(member.memory_bytes for member in members)
        if memory > limits[key] and len(members) > 1:
            exact = _shared(member.pid for member in members)
            memory = memory if exact is None else exact
        found[key] = Usage(memory, sum(member.cpu_seconds for member in members))
    return found


def _members(table: Table, agents: Mapping[str, Process]) -> dict[str, set[int]]:
    """The agent's tree and the processes with its marker, because a process whose parent has ended
    is in no tree. (Processes of an earlier launch are older than the agent.)"""
    known = {
        key: root
        for key, root in agents.items()
        if root.pid in table and table[root.pid].start == root.start
    }
    if not known:
        return {}
    family, run = processes.children(table), processes.run_dir()
    marks = [Mark(key, run, root.start, root) for key, root in known.items()]
    carrying = process_marks.marked(table, marks)
    return {
        key: {pid for top in (root.pid, *carrying[key]) for pid in processes.tree(family, top)}
        for key, root in known.items()
    }


def _measured(pid: int) -> Usage | None:
    """One process; None when it has ended."""
    import psutil

    try:
        process = psutil.Process(pid)
        return Usage(process.memory_info().rss, sum(process.cpu_times()[:4]))
    except (psutil.Error, OSError):
        return None


def _shared(pids: Iterable[int]) -> int | None:
    """The memory of some processes together, with shared pages counted once; None where the kernel
    does not tell us."""
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


def details(pid: int) -> Details:
    import psutil

    try:
        process = psutil.Process(pid)
        return Details(tuple(process.cmdline()), process.memory_info().rss)
    except (psutil.Error, OSError):
        return Details((), 0)


def written_by(pid: int) -> set[str]:
    """The regular files that a process holds open for writing, as far as we may know."""
    import psutil

    try:
        return {one.path for one in psutil.Process(pid).open_files() if one.mode != "r"}
    except (psutil.Error, OSError):
        return set()


def boot_time() -> float:
    """When this boot began, in seconds of the epoch."""
    import psutil

    return psutil.boot_time()
