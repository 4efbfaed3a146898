"""What passes remember, and health commands: real files, real processes, no sesh around them."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sesh.model.place import Agent, Process
from sesh.model.record import Record, Supervision
from sesh.model.value_object import replace
from sesh.supervision import health_checks
from sesh.supervision.health_checks import Memory
from sesh.system import processes
from tests import samples
from tests.world import eventually

LONG_AGO = 1000.0  # seconds that the agent has run


@pytest.fixture
def agent() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "999"]) as process:
        yield process
        process.kill()


@pytest.fixture
def record(tmp_path: Path, agent: subprocess.Popen[bytes]) -> Iterator[Record]:
    """A session on this machine whose agent lives."""
    plain = samples.record()
    (tmp_path / "env").touch()
    stat = processes.look(agent.pid)
    assert stat
    place = replace(
        plain.place,
        run=str(tmp_path),
        snapshot=str(tmp_path / "env"),
        agent=Agent(stat.process, 0, 0, 0),
    )
    made = replace(plain, place=place, spec=replace(plain.spec, cwd=str(tmp_path)))
    yield made
    check = health_checks._under_way(stem(made))
    if check and check.process:
        health_checks._end([(check.process, stem(made))])
        assert eventually(lambda: not lives(check.process)), "a health command is left over"


def stem(record: Record) -> str:
    return f"{record.place.run}/{record.launch}"


def checked_by(record: Record, command: str, timeout: float = 30.0) -> Record:
    """The same session with a health command."""
    wanted = Supervision(health_cmd=command, health_interval=1.0, health_timeout=timeout)
    return replace(record, spec=replace(record.spec, supervision=wanted))


def answer(record: Record, memory: Memory) -> Memory:
    """What is known when the command has been heard."""

    def heard() -> Memory | None:
        (after,) = health_checks.collect([(record, memory, LONG_AGO)], processes.uptime())
        return None if after.process else after

    found = eventually(heard, 10)
    assert isinstance(found, Memory)
    return found


def begin(record: Record) -> Memory:
    return health_checks.begin(record, Memory(), processes.uptime())


def lives(process: Process | None) -> bool:
    return process is not None and processes.alive(process)


def is_ended(record: Record, process: Process | None) -> bool:
    """Has a pass ended what nobody will hear?"""
    health_checks.end_abandoned(record.place.run)
    return not lives(process)


# --- what is remembered --------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "measured": 1.5,
    "begun": 2,
    "checks": 3,
    "failures": 1,
    "last_failure": "x",
    "peak": 9,
}


def with_begun(text: str) -> str:
    return json.dumps(GOOD).replace('"begun": 2', f'"begun": {text}')


def with_checks(text: str) -> str:
    return json.dumps(GOOD).replace('"checks": 3', f'"checks": {text}')


def test_written_values_are_read_back(record: Record) -> None:
    memory = Memory(measured=1.0, begun=2.5, checks=3, failures=2, last_failure="exit 1", peak=7)
    health_checks.write(record, memory)
    assert health_checks.read(record) == memory
    assert health_checks.peak(stem(record)) == 7


def test_files_of_an_earlier_version_are_read(record: Record) -> None:
    Path(f"{stem(record)}.care").write_text(json.dumps({**GOOD, "process": [4711, 99]}))
    assert health_checks.read(record) == Memory(**GOOD)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "1", "null", "[" * 60_000, "\xff"),
        *(with_begun(bad) for bad in ('"1"', "true", "[1]", "NaN", "Infinity", "-1", "1" * 400)),
        *(with_checks(bad) for bad in ("null", "1.5", '"1"', "-1", "true", "1" * 400)),
        json.dumps({**GOOD, "last_failure": 7}),
        json.dumps({"begun": 1}),
    ],
)
def test_other_bytes_are_not_a_check(record: Record, text: str) -> None:
    Path(f"{stem(record)}.care").write_text(text)
    assert health_checks.read(record) == Memory()


@pytest.mark.parametrize("kind", [".care", ".health", ".check"])
def test_a_directory_in_its_place_is_no_trouble(record: Record, kind: str) -> None:
    Path(f"{stem(record)}{kind}/x").mkdir(parents=True)
    record = checked_by(record, "exit 3")
    after = answer(record, begin(record))
    health_checks.write(record, after)
    assert after.failures == (1 if kind == ".care" else 0)
    assert health_checks.read(record).process is None
    health_checks.end_abandoned(record.place.run)


def test_on_a_full_disk_only_the_memory_of_checks_is_lost(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr("sesh.system.files.jot", full)
    health_checks.write(record, Memory(peak=7))
    memory = begin(checked_by(record, "sleep 87653"))
    assert (memory.process, memory.begun is not None) == (None, True)  # nobody would end it


# --- what a health command says ------------------------------------------------------------------


@pytest.mark.parametrize(("command", "why"), [("true", ""), ("exit 7", "exit 7")])
def test_its_exit_status(record: Record, command: str, why: str) -> None:
    record = checked_by(record, command)
    after = answer(record, begin(record))
    assert (after.checks, after.failures, after.last_failure) == (1, int(bool(why)), why)


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        ("directory", "its directory is gone or can't be entered"),
        ("environment", "its saved environment is gone or can't be read"),
    ],
)
def test_a_check_that_cannot_run_has_failed(record: Record, missing: str, why: str) -> None:
    record = checked_by(record, "true")
    if missing == "directory":
        record = replace(record, spec=replace(record.spec, cwd=f"{record.place.run}/none"))
    else:
        os.unlink(record.place.snapshot)
    after = answer(record, begin(record))
    assert (after.checks, after.failures, after.last_failure) == (1, 1, why)


def test_output_between_two_looks_counts(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one for it, and the one for its process."""
    record = checked_by(record, "sleep 0.2; exit 7")
    memory = begin(record)

    def alive(process: Process) -> bool:
        assert eventually(lambda: os.path.exists(f"{stem(record)}.health"))
        return False

    monkeypatch.setattr(processes, "alive", alive)
    (after,) = health_checks.collect([(record, memory, LONG_AGO)], processes.uptime())
    assert (after.process, after.failures) == (None, 1)


@pytest.mark.parametrize("how", ["paused", "resumed meanwhile", "resumed before"])
def test_sessions_paused_meanwhile_are_not_checked(record: Record, how: str) -> None:
    record = checked_by(record, "exit 7")
    memory = begin(record)
    now = datetime.now(UTC)
    times = {
        "paused": {"paused": now},
        "resumed meanwhile": {"resumed": now + timedelta(seconds=1)},  # its start is in ticks
        "resumed before": {"resumed": now - timedelta(minutes=1)},
    }
    after = answer(replace(record, status=replace(record.status, **times[how])), memory)
    assert (after.checks, after.failures) == ((1, 1) if how == "resumed before" else (0, 0))


def test_a_check_that_takes_too_long_is_ended(record: Record) -> None:
    record = checked_by(record, "sleep 87652; true", timeout=0.5)
    memory = begin(record)
    after = answer(record, memory)
    assert after.last_failure == "took longer than 0.5s"
    assert eventually(lambda: not lives(memory.process))


def test_processes_started_during_the_end_are_ended_too(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look at the processes came before its child."""
    process = begin(checked_by(record, "sleep 87646; true")).process
    assert process
    assert eventually(lambda: of_session(process.pid) > 1)
    looks = iter([{process.pid: processes.table()[process.pid]}])
    whole = processes.table
    monkeypatch.setattr(processes, "table", lambda: next(looks, None) or whole())
    health_checks._end([(process, stem(record))])
    assert eventually(lambda: of_session(process.pid) == 0)


def of_session(pid: int) -> int:
    return sum(stat.session == pid and stat.alive for stat in processes.table().values())


# --- none is left behind -------------------------------------------------------------------------


def noted(record: Record) -> Process | None:
    """Who it says that it is."""
    return health_checks.read(record).process


def test_one_that_only_itself_has_noted_is_known(record: Record) -> None:
    """Whoever began it was killed before it could remember that."""
    record = checked_by(record, "sleep 87651", timeout=0.5)
    began = begin(record)
    assert eventually(lambda: noted(record) == began.process)
    found = health_checks.read(record)
    assert abs((found.begun or 0.0) - (began.begun or 0.0)) < 1
    assert answer(record, found).last_failure == "took longer than 0.5s"
    assert eventually(lambda: not lives(began.process))


def test_the_check_of_a_living_agent_is_left_alone(record: Record) -> None:
    record = checked_by(record, "sleep 87650")
    memory = begin(record)
    assert eventually(lambda: noted(record))
    health_checks.end_abandoned(record.place.run)
    assert lives(memory.process)
    assert noted(record) == memory.process


def test_the_check_of_an_ended_agent_is_ended(
    record: Record, agent: subprocess.Popen[bytes]
) -> None:
    record = checked_by(record, "sleep 87649; true")
    memory = begin(record)
    assert eventually(lambda: noted(record))
    agent.kill()
    agent.wait()
    assert eventually(lambda: is_ended(record, memory.process))
    assert os.listdir(record.place.run) == ["env"]


def test_one_that_is_not_yet_known_by_its_command_line_is_not_forgotten(
    record: Record, agent: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel lets go of who starts a program before it shows what that is: for moments only, so
    here it is said."""
    process = begin(checked_by(record, "sleep 87647; true")).process
    agent.kill()
    agent.wait()
    with monkeypatch.context() as moment:
        moment.setattr(processes, "command", lambda pid: [])
        health_checks.end_abandoned(record.place.run)
    assert lives(process)
    assert noted(record) == process
    assert eventually(lambda: is_ended(record, process))


def test_one_that_is_about_to_say_who_it_is_is_waited_for(record: Record) -> None:
    check = Path(f"{stem(record)}.check")
    check.write_text(f"{' ' * 47}\n9999999 1 {processes.uptime() + 60:.0f}\n")
    health_checks.end_abandoned(record.place.run)
    assert check.exists()
    check.write_text(f"{' ' * 47}\n9999999 1 1\n")
    health_checks.end_abandoned(record.place.run)
    assert not check.exists()


def test_an_abandoned_check_is_ended(record: Record) -> None:
    """Its session is paused, for example."""
    record = checked_by(record, "sleep 87648")
    memory = health_checks.begin(record, Memory(), processes.uptime() - 60)
    assert eventually(lambda: noted(record))
    health_checks.end_abandoned(record.place.run)
    assert eventually(lambda: not lives(memory.process))


def test_nothing_is_ended_that_is_not_proven_to_be_ours(record: Record) -> None:
    """Whatever a file says."""
    with subprocess.Popen(["sleep", "999"], start_new_session=True) as victim:
        stat = processes.look(victim.pid)
        assert stat
        Path(f"{stem(record)}.check").write_text(f"{stat.pid} {stat.start} \n0 0 1\n")
        assert noted(record) == stat.process
        hung = checked_by(record, "true", timeout=0.1)
        time.sleep(0.2)
        health_checks.collect([(hung, health_checks.read(hung), LONG_AGO)], processes.uptime())
        Path(f"{stem(record)}.check").write_text(f"{stat.pid} {stat.start} \n0 0 1\n")
        health_checks.end_abandoned(record.place.run)
        time.sleep(0.1)
        assert victim.poll() is None
        victim.kill()
    assert not os.path.exists(f"{stem(record)}.check")


@pytest.mark.parametrize("text", ["", "x\n", "1 1\n0 0 1\n", "-5 1\n0 0 1\n", "9 9\n", "\n\n"])
def test_a_forged_check_file_names_no_process(record: Record, text: str) -> None:
    Path(f"{stem(record)}.check").write_text(text)
    assert noted(record) is None
    health_checks.end_abandoned(record.place.run)


@pytest.mark.parametrize(
    ("command", "failure"),
    [
        ("true", ""),
        ("false", "exit 1"),
        ("exit 3", "exit 3"),
        ("exit 0; false", ""),
        ("set -e; false; true", "exit 1"),
        ("exec sh -c 'exit 4'", "exit 4"),
        ("trap 'exit 5' EXIT; true", "exit 5"),
        ("if", "exit 2"),
        (". /no/such/file", "exit 2"),
        ("no-such-command", "exit 127"),
        ("true | false", "exit 1"),
        ("(exit 6)", "exit 6"),
        ("echo $1$SESH_WORD; unset SESH_WORD SESH_STEP; exit 7", "exit 7"),
        ("cd /; SESH_STEP=0; false", "exit 1"),
    ],
)
def test_the_status_of_every_end_of_a_command_is_recorded(
    record: Record, command: str, failure: str
) -> None:
    record = checked_by(record, command)
    found = answer(record, begin(record))
    assert (found.checks, found.last_failure) == (1, failure)


def test_one_whose_beginner_was_killed_is_found_by_its_command_line(record: Record) -> None:
    record = checked_by(record, "sleep 87652")
    process = begin(record).process
    assert process is not None
    assert eventually(lambda: processes.runs(process.pid, stem(record)))
    check = Path(f"{stem(record)}.check")
    lines = check.read_text().splitlines()
    check.write_text(f"{' ' * 40}\n0 0 1\n")  # who it is was not written down; its time is over
    assert len(lines) == 2
    assert eventually(lambda: is_ended(record, process))
    assert not check.exists()
