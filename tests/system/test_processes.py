"""Who is who: identity, trees, markers, and signals that hit nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator

import psutil
import pytest

from sesh.model.place import Process
from sesh.model.value_object import replace
from sesh.system import process_marks, process_usage, processes
from sesh.system.process_marks import Mark
from tests import pace
from tests.surroundings import STRANGER, as_stranger, need_root
from tests.world import eventually

ID, RUN = "test-20261115-000000-00000001", f"/run/of-test-{os.getpid()}"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, "SESH_ID": ID, "SESH_RUN": RUN}
    made = subprocess.Popen(["sleep", "99"], env=env)
    assert eventually(lambda: processes.became(made.pid, "nothing"))
    yield made
    made.kill()
    made.wait()


def identity(pid: int) -> Process:
    stat = processes.look(pid)
    assert stat is not None
    return stat.process


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen(["true"])
    process = identity(child.pid)
    assert eventually(lambda: not processes.alive(process))
    assert processes.look(child.pid) is not None
    child.wait()


def test_another_process_of_the_same_pid_is_not_it(sleeper: subprocess.Popen[bytes]) -> None:
    process = identity(sleeper.pid)
    assert processes.alive(process)
    assert not processes.alive(replace(process, start=process.start - 1))


def test_a_signal_goes_to_just_that_process(sleeper: subprocess.Popen[bytes]) -> None:
    process = identity(sleeper.pid)
    assert not processes.send(replace(process, start=process.start + 1), signal.SIGKILL)
    time.sleep(0.05)
    assert sleeper.poll() is None
    assert processes.send(process, signal.SIGKILL)
    assert sleeper.wait(pace.seconds(5)) == -signal.SIGKILL
    assert not processes.send(process, signal.SIGKILL)


@pytest.mark.parametrize("which", ["-1", "0", "1", "ourselves"])
def test_some_pids_are_never_signalled(which: str) -> None:
    pid = os.getpid() if which == "ourselves" else int(which)
    with pytest.raises(ValueError, match="refusing"):
        processes.send(Process(pid, 0), 0)


def test_the_marker_finds_a_detached_child(sleeper: subprocess.Popen[bytes]) -> None:
    marks = [Mark(ID, RUN), Mark("other", RUN)]
    assert process_marks.marked(processes.table(), marks) == {ID: [sleeper.pid], "other": []}


def test_a_marker_is_a_claim_and_no_proof(sleeper: subprocess.Popen[bytes]) -> None:
    """Another directory of launches, or a start before the session's first launch."""
    table = processes.table()
    born = identity(sleeper.pid).start
    assert process_marks.marked(table, [Mark(ID, RUN, since=born)]) == {ID: [sleeper.pid]}
    assert process_marks.marked(table, [Mark(ID, RUN, since=born + 1)]) == {ID: []}
    assert process_marks.marked(table, [Mark(ID, f"{RUN}2")]) == {ID: []}


def test_no_environment_is_read_of_what_is_older_than_all_sessions(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is an agent: an adopted one is older than its session."""
    read: list[int] = []

    def environs(among: Iterable[int], words: Collection[bytes]) -> dict[int, bytes]:
        read.extend(among)
        return {}

    monkeypatch.setattr(processes, "environs", environs)
    table, sought = processes.table(), identity(sleeper.pid)
    younger = {pid for pid, stat in table.items() if stat.start > sought.start}
    process_marks.marked(table, [Mark(ID, RUN, since=sought.start + 1)])
    assert {*read} == younger
    process_marks.marked(table, [Mark(ID, RUN, since=sought.start + 1, agent=sought)])
    assert {*read} == {*younger, sleeper.pid}


def test_another_users_process_counts_only_if_the_agent_is_that_user() -> None:
    need_root()
    claims = {**os.environ, "SESH_ID": ID, "SESH_RUN": RUN}
    others = [subprocess.Popen(as_stranger("sleep", "99"), env=claims) for _ in range(2)]
    try:
        for one in others:
            assert eventually(lambda pid=one.pid: processes.uid(pid) == STRANGER)  # type: ignore[misc]
        table = processes.table()
        assert process_marks.marked(table, [Mark(ID, RUN)]) == {ID: []}
        assert process_marks.carriers(table, RUN)[0] == {}
        agent = Mark(ID, RUN, agent=identity(others[0].pid))
        assert process_marks.marked(table, [agent])[ID] == sorted(one.pid for one in others)
        assert process_marks.marked(table, [Mark(ID, RUN, uids=(STRANGER,))])[ID]
    finally:
        for one in others:
            one.kill()
            one.wait()


def test_memory_and_cpu_are_of_the_whole_tree() -> None:
    burn = "import os; x=bytearray(30<<20); os.fork()\nwhile True: pass"
    child = subprocess.Popen([sys.executable, "-c", burn])
    try:
        process = identity(child.pid)
        assert eventually(lambda: cpu_seconds(process) > 0.1)
        table = processes.table()
        family = processes.tree(processes.children(table), child.pid)
        assert len(family) == 2
        used = process_usage.usage(table, {"one": process})["one"]
        once = 30 << 20
        assert once < used.memory_bytes < sum(table[pid].memory_bytes for pid in family)
        assert used.memory_bytes < 2 * once
    finally:
        for pid in processes.tree(processes.children(processes.table()), child.pid)[::-1]:
            os.kill(pid, signal.SIGKILL)
        child.wait()


def cpu_seconds(process: Process) -> float:
    """Of a process that has forked, and of its child."""
    table = processes.table()
    if len(processes.tree(processes.children(table), process.pid)) < 2:
        return 0.0
    return process_usage.usage(table, {"one": process})["one"].cpu_seconds


def test_psutil_reads_the_same(sleeper: subprocess.Popen[bytes]) -> None:
    ours, theirs = processes.look(sleeper.pid), psutil.Process(sleeper.pid)
    assert ours is not None
    assert (ours.pid, ours.comm, ours.ppid, ours.session) == (
        theirs.pid,
        theirs.name(),
        theirs.ppid(),
        os.getsid(sleeper.pid),
    )
    assert processes.started_at(ours) == pytest.approx(theirs.create_time(), abs=1)
    assert eventually(lambda: memory_agrees(theirs))  # once it has been loaded


def memory_agrees(theirs: psutil.Process) -> bool:
    ours, size = processes.look(theirs.pid), theirs.memory_info().rss
    return ours is not None and ours.memory_bytes == pytest.approx(size, rel=0.5)


def test_a_name_with_parentheses_and_spaces_is_read() -> None:
    line = b"42 (a) b) S 7 1 42 34816 0 0 0 0 0 0 50 25 0 0 20 0 1 0 12345 0 3 0"
    stat = processes._parse_stat(line)
    assert (stat.pid, stat.comm, stat.state, stat.ppid, stat.start) == (42, "a) b", "S", 7, 12345)


def test_shells_with_a_person_in_front_are_known() -> None:
    ignoring = (
        "import signal,time\nfor s in (20,22): signal.signal(s, 1)\nprint(flush=1)\ntime.sleep(99)"
    )
    plain = subprocess.Popen(["sleep", "99"])
    shell = subprocess.Popen([sys.executable, "-c", ignoring], stdout=subprocess.PIPE)
    assert shell.stdout is not None
    shell.stdout.readline()
    assert processes.interactive_shell(shell.pid)
    assert not processes.interactive_shell(plain.pid)
    for child in (plain, shell):
        child.kill()
        child.communicate()
