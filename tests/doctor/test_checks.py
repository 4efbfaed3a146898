"""Every check of doctor: silent when all is well, loud when it is not, and mended by --fix."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sesh import doctor
from sesh.doctor import files as file_checks
from sesh.doctor.context import Context
from sesh.model import digest
from sesh.model.configuration import Config
from sesh.model.observation import Verdict
from sesh.model.states import Desired, State
from sesh.model.value_object import replace
from sesh.state import records
from tests.surroundings import (
    empty_server,
    fake_tmux,
    mounted,
    read_only,
    read_record,
    silence_timers,
    write_record,
)
from tests.world import SESH, World, count, eventually

Found = list[dict[str, Any]]
LONG_AGO = datetime.now(UTC) - timedelta(hours=2)


def found(world: World, check: str, *options: str, env: Mapping[str, str] | None = None) -> Found:
    """What one check has to complain about."""
    done = world.sesh("doctor", "--json", "--only", check, *options, env=env)
    assert done.code in (0, 10), done
    assert all(one["id"] == check for one in done.json)
    bad = [one for one in done.json if one["level"] != "ok"]
    assert (done.code == 10) == any(one["level"] == "fail" for one in bad)
    assert bad or len(done.json) == 1
    return bad


def the(world: World, check: str, **options: Any) -> dict[str, Any]:
    """The one thing that a check complains about."""
    (one,) = found(world, check, **options)
    return one


def fixed(world: World, check: str, *options: str) -> str:
    """--fix mends it; what it says meanwhile."""
    done = world.ok("doctor", "--fix", "--only", check, *options)
    assert "no problems" in done.out
    return done.err


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    os.kill(pid, number)


# --- tmux --------------------------------------------------------------------------------------


def test_tmux_is_there(world: World) -> None:
    assert found(world, "tmux") == []


@pytest.mark.parametrize(
    ("says", "word"),
    [("echo tmux 2.9a", "too old"), ("echo nonsense", "is that tmux"), ("exit 3", "failed")],
)
def test_tmux_is_too_old_or_no_tmux(world: World, says: str, word: str) -> None:
    one = the(world, "tmux", env=fake_tmux(world, says))
    assert one["level"] == "fail"
    assert word in one["text"]


def test_a_tmux_server_that_is_stopped(world: World) -> None:
    world.start("one")
    assert found(world, "tmux-server") == []
    pid = world.server_pid()
    kill(pid, signal.SIGSTOP)
    try:
        one = the(world, "tmux-server")
        assert "stopped by a signal" in one["text"]
        assert one["mend"] == f"kill -CONT {pid}"
        everything = world.sesh("doctor", "--json")
        assert {e["id"] for e in everything.json if e["level"] == "fail"} == {"tmux-server"}
    finally:
        kill(pid, signal.SIGCONT)
    assert found(world, "tmux-server") == []


@pytest.mark.parametrize(
    "script",
    ["exec sleep 60", "echo nonsense", "echo kein Server >&2; exit 1", "exit 1"],
    ids=["hangs", "nonsense", "another language", "without a word"],
)
def test_a_tmux_that_gives_no_usable_answer_is_asked_once(world: World, script: str) -> None:
    """Also when there are sessions whose state hangs on its answer; and none of them is dead."""
    pid = world.start("one")["pid"]
    world.start("two", "sh", "-c", "exit 0")
    kill(world.server_pid(), signal.SIGSTOP)  # no call back writes the end down
    kill(pid)
    asked = world.root / "asked"
    env = fake_tmux(world, f'echo "$@" >>{asked}\n{script}')
    done = world.sesh("doctor", "--json", env=env)
    assert done.code == 10
    bad = {one["id"]: one for one in done.json if one["level"] == "fail"}
    assert "no usable answer" in bad["tmux-server"]["text"] or "stopped" in str(bad)
    lines = asked.read_text().splitlines()
    assert sum("list-panes" in line for line in lines) == 1
    if "sleep" in script:
        assert len(lines) == 1


def test_a_wedged_tmux_server_is_ended_after_a_yes(world: World) -> None:
    pid = empty_server(world)
    says = 'echo "server exited unexpectedly" >&2; exit 1'
    env = fake_tmux(world, f'case "$*" in *list-panes*) {says};; esac; exec {tmux()} "$@"')
    one = the(world, "tmux-server", env=env)
    assert f"{pid} is wedged" in one["text"]
    done = world.sesh("doctor", "--fix", "--only", "tmux-server", env=env)
    assert "left" in done.err
    assert "-y" in done.err
    assert alive(pid)
    done = world.sesh("doctor", "--fix", "-y", "--only", "tmux-server", env=env)
    assert f"ended the wedged tmux server {pid}" in done.err
    assert not alive(pid)


def test_a_server_with_living_sessions_is_never_ended(world: World) -> None:
    world.start("one")
    pid = world.server_pid()
    says = 'echo "server exited unexpectedly" >&2; exit 1'
    env = fake_tmux(world, f'case "$*" in *list-panes*) {says};; esac; exec {tmux()} "$@"')
    assert "exited unexpectedly" in the(world, "tmux-server", env=env)["text"]
    world.sesh("doctor", "--fix", "-y", env=env)
    assert alive(pid)
    assert world.state_of("one") == "running"


def tmux() -> str:
    return shutil.which("tmux") or "tmux"


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_a_deleted_socket_is_restored(world: World) -> None:
    world.start("one")
    assert found(world, "tmux-socket") == []
    socket, pid = world.socket, world.server_pid()
    os.unlink(socket)
    one = the(world, "tmux-socket")
    assert "was deleted" in one["text"]
    assert one["mend"] == "sesh doctor --fix"
    assert "restored" in fixed(world, "tmux-socket")
    assert world.socket == socket
    assert world.server_pid() == pid


def test_no_server_and_no_socket_is_fine(world: World) -> None:
    world.start("one")
    pid = world.server_pid()
    world.ok("stop", "one")
    with suppress(ProcessLookupError):  # its last session has gone: it may end by itself
        kill(pid, signal.SIGTERM)
    assert eventually(lambda: found(world, "tmux-socket") == [])


def second_server(world: World) -> tuple[int, int]:
    """A server that hides the world's own; both pids."""
    socket, first = world.socket, world.server_pid()
    os.unlink(socket)
    command = [tmux(), "-S", socket, "-f", "/dev/null", "new-session", "-d", "-s", "mine"]
    subprocess.run([*command, "sleep", "1000"], check=True, env=world.env)
    second = world.server_pid()
    assert second != first
    return first, second


def test_a_second_server_with_sessions_is_reported(world: World) -> None:
    world.start("one")
    first, second = second_server(world)
    one = the(world, "tmux-socket")
    assert f"{second} hides another" in one["text"]
    assert one["mend"] == f"kill -USR1 {first}"
    assert found(world, "tmux-socket", "--fix", "-y")
    assert alive(first)
    assert alive(second)


def test_a_second_server_without_sessions_makes_room(world: World) -> None:
    world.start("one")
    first, second = second_server(world)
    world.tmux("set-option", "-s", "exit-empty", "off", ";", "kill-session", "-t", "=mine")
    assert the(world, "tmux-socket")["mend"] == "sesh doctor --fix"
    assert found(world, "tmux-socket", "--fix")
    assert alive(second)
    fixed(world, "tmux-socket", "-y")
    assert not alive(second)
    assert world.server_pid() == first
    assert world.state_of("one") == "running"


def test_an_empty_hidden_server_is_ended(world: World) -> None:
    """And not the one that answers, though both remove the socket when they end."""
    world.start("one")
    first, second = second_server(world)
    os.kill(world.session("one")["pid"], signal.SIGKILL)
    assert eventually(lambda: the(world, "tmux-socket")["mend"] == "sesh doctor --fix")
    assert found(world, "tmux-socket", "--fix")
    assert alive(first)
    fixed(world, "tmux-socket", "-y")
    assert not alive(first)
    assert world.server_pid() == second


# --- how sessions fare -------------------------------------------------------------------------


def test_a_stale_session(world: World) -> None:
    world.start("one", "sh", "-c", "until [ -e go ]; do sleep 0.05; done")
    assert found(world, "stale") == []
    world.tmux("new-window", "-d", "-t", "=one:", "sleep 1000")
    (world.cwd / "go").touch()
    assert eventually(lambda: world.state_of("one") == "stale")
    one = the(world, "stale")
    assert one["subjects"] == ["one"]
    assert one["mend"] == "sesh restart one"


def test_failed_sessions(world: World) -> None:
    world.start("good")
    assert found(world, "failed") == []
    for name in ("one", "two"):
        world.start(name, "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("one") == world.state_of("two") == "failed")
    one = the(world, "failed")
    assert one["text"] == "2 sessions failed: one (exit 3), two (exit 3)"
    assert one["mend"] == "sesh restart --failed"
    world.ok("stop", "one")  # a person has seen it
    assert the(world, "failed")["subjects"] == ["two"]


def test_only_running_sessions_are_unhealthy(world: World) -> None:
    """Of one that is paused nobody expects anything."""
    world.start("one", "cat", options=("--max-silence", "1s"))
    assert eventually(lambda: world.session("one")["health"] == "hung")
    assert the(world, "unwell")["subjects"] == ["one"]
    world.ok("pause", "one")
    assert world.session("one")["health"] == "hung"
    assert found(world, "unwell") == []


@pytest.mark.long
def test_work_that_no_pass_has_done(world: World) -> None:
    """Ten seconds are given to whoever is about to."""
    silence_timers(world)
    world.start("one", "sleep", "99", options=("--timeout", "4s"))
    world.start("two", "false", options=("--retries", "1", "--retry-delay", "4s"))
    world.start("three", "sleep", "99", options=("--timeout", "1h"))
    assert world.state_of("two") == "recovering"
    time.sleep(5)
    assert found(world, "overdue") == []
    time.sleep(10)
    one = the(world, "overdue")
    assert (one["level"], one["mend"], one["subjects"]) == ("fail", "sesh pass", ["one", "two"])
    assert "one (ran for its timeout (4s)), two (its retry is due)" in one["text"]
    world.ok("pass")
    assert found(world, "overdue") == []


def test_lost_sessions(world: World) -> None:
    world.start("one")
    assert found(world, "lost") == []
    world.tmux("kill-session", "-t", "=one")
    assert eventually(lambda: world.state_of("one") == "lost")
    assert the(world, "lost")["mend"] == "sesh restart one"


def test_a_session_that_never_began(world: World) -> None:
    world.start("one")
    world.ok("stop", "one")
    assert found(world, "stuck-starting") == []
    record = read_record(world, "one")
    place = replace(record.place, agent=None, pane=None, generation=2)
    status = replace(
        record.status, desired=Desired.RUNNING, launched=LONG_AGO, started=None, outcome=None
    )
    write_record(world, replace(record, place=place, status=status), State.STARTING)
    assert the(world, "stuck-starting")["subjects"] == ["one"]
    assert found(world, "failed") == []


def test_an_unfinished_stop_is_finished(world: World) -> None:
    pid = world.start("one")["pid"]
    assert found(world, "stuck-stopping") == []
    record = read_record(world, "one")
    asked = replace(
        record.status, desired=Desired.STOPPED, stop_asked=LONG_AGO, stop_grace=1.0, outcome=None
    )
    write_record(world, replace(record, status=asked), State.STOPPING)
    assert the(world, "stuck-stopping")["mend"] == "sesh doctor --fix"
    assert "finished the stop of one" in fixed(world, "stuck-stopping")
    assert not alive(pid)
    assert world.state_of("one") == "stopped"


# --- what was left behind ----------------------------------------------------------------------


def test_a_tmux_session_of_ours_without_a_record(world: World) -> None:
    world.start("one")
    world.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    assert found(world, "orphan-tmux") == []
    world.tmux("set-option", "-t", "=mine:", "@sesh_id", "mine-20260101-000000-0123abcd")
    one = the(world, "orphan-tmux")
    assert one["subjects"] == ["mine"]
    assert one["mend"] == "sesh stop --orphans"


def test_an_agent_whose_record_is_lost_gets_it_back(world: World) -> None:
    before = world.start("one", options=("--group", "web"))
    assert found(world, "orphan-agent") == []
    world.record("one").unlink()
    one = the(world, "orphan-agent")
    assert one["mend"] == "sesh adopt one"
    assert str(before["pid"]) in one["text"]
    assert "rebuilt the record of one" in fixed(world, "orphan-agent")
    after = world.session("one")
    for field in ("id", "pid", "state", "group", "command", "cwd", "started"):
        assert after[field] == before[field]


@pytest.mark.parametrize("also_run", [False, True], ids=["but run/", "with run/"])
def test_the_whole_state_directory_is_lost(world: World, also_run: bool) -> None:
    """All are back with name, command, directory and start time."""
    names = [f"s{number}" for number in range(count(3, 20))]
    before = {name: world.start(name) for name in names}
    for path in world.state.iterdir():
        if path.name == "run" and not also_run:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    world.sesh("doctor", "--fix", "-y")
    after = {one["name"]: one for one in world.ls()}
    assert set(after) == set(names)
    for name in names:
        for field in ("id", "pid", "command", "cwd", "socket", "pane"):
            assert after[name][field] == before[name][field]
        assert after[name]["state"] == "running"
        assert started_alike(after[name], before[name])
    assert found(world, "log-pipe") == []
    world.ok("stop", "--all", "-y")


def started_alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """A process table counts in ticks, a file's time in nanoseconds."""
    first, second = (datetime.fromisoformat(each["started"]) for each in (one, other))
    return abs(first - second) <= timedelta(seconds=2)


def test_many_agents_without_a_record_are_one_finding(world: World) -> None:
    for name in ("one", "two"):
        world.start(name)
        world.record(name).unlink()
    one = the(world, "orphan-agent")
    assert one["subjects"] == ["one", "two"]
    assert one["mend"] == "sesh doctor --fix"
    fixed(world, "orphan-agent")


def test_an_agent_without_a_record_whose_name_is_taken(world: World) -> None:
    session_id = world.start("one")["id"]
    another = session_id[:-8] + "00000000"
    text = world.record("one").read_text().partition("\n")[2]
    world.record("one").write_text(text.replace(session_id, another))
    assert the(world, "orphan-agent")["mend"] == "sesh stop --orphans"
    assert found(world, "orphan-agent", "--fix", "-y")


def test_sessions_in_a_server_of_the_users_own_are_looked_at(world: World) -> None:
    world.configure(f'[tmux]\nsocket = "{world.root}/mine"\n')
    session = world.start("one")
    assert found(world, "log-pipe") == []
    subprocess.run([tmux(), "-S", f"{world.root}/mine", "pipe-pane", "-t", session["pane"]])
    assert the(world, "log-pipe")["subjects"] == ["one"]
    fixed(world, "log-pipe")


def test_an_agent_whose_terminal_is_gone(world: World) -> None:
    pid = world.start("one", "sh", "-c", "trap '' HUP; while :; do sleep 0.1; done")["pid"]
    time.sleep(0.3)
    world.tmux("kill-session", "-t", "=one")
    assert eventually(lambda: found(world, "orphan-agent"))
    assert alive(pid)
    assert the(world, "orphan-agent")["mend"] == "sesh adopt one"


def test_processes_that_outlive_their_session(world: World) -> None:
    script = "setsid sleep 1001 & setsid sleep 1002 & until [ -e go ]; do sleep 0.05; done"
    world.start("payments", "sh", "-c", script)
    assert found(world, "orphan-process") == []
    (world.cwd / "go").touch()
    assert eventually(lambda: world.state_of("payments") == "completed")
    one = the(world, "orphan-process")
    assert len(one["subjects"]) == 2
    assert re.match(
        r"2 processes outlive session payments \(.* [KM]B\): process \d+ sleep \(", one["text"]
    )
    assert one["mend"] == "sesh stop --orphans"


# --- records -----------------------------------------------------------------------------------


def test_a_record_that_says_ended_of_a_living_agent(world: World) -> None:
    world.start("one")
    assert found(world, "record-disagrees") == []
    record = read_record(world, "one")
    ended = replace(record.status, outcome=State.COMPLETED, ended=LONG_AGO)
    write_record(world, replace(record, status=ended), State.COMPLETED)
    one = the(world, "record-disagrees")
    assert one["text"] == "one is alive, but its record says completed"
    assert one["mend"] == "sesh adopt one"


def test_a_damaged_record_is_moved_and_rebuilt(world: World) -> None:
    before = world.start("one")
    world.start("two")
    assert found(world, "record-damaged") == []
    world.record("one").write_bytes(b"not a record\n")
    assert the(world, "record-damaged")["subjects"] == ["one"]
    assert found(world, "orphan-agent") == []
    said = fixed(world, "record-damaged")
    assert "moved sessions/one.toml to quarantine" in said
    assert "rebuilt the record of one" in said
    (moved,) = (world.state / "quarantine").iterdir()
    assert moved.read_bytes() == b"not a record\n"
    assert re.fullmatch(r"one\.\d{8}-\d{6}\.toml", moved.name)
    assert moved.stat().st_mode & 0o777 == 0o600
    assert world.session("one")["id"] == before["id"]


def test_quarantine_never_overwrites(world: World) -> None:
    world.start("one")
    world.ok("stop", "one")
    for number in range(3):
        world.record("one").write_bytes(b"damage %d" % number)
        fixed(world, "record-damaged")
    kept = sorted(path.read_bytes() for path in (world.state / "quarantine").iterdir())
    assert kept == [b"damage 0", b"damage 1", b"damage 2"]


def test_a_wrong_digest_line_is_written_again(world: World) -> None:
    """One that nobody would look behind: its checksum is right, its process lives."""
    world.start("one")
    world.start("two", "sh", "-c", "exit 0")
    assert eventually(lambda: world.state_of("two") == "completed")
    assert found(world, "digest") == []
    record = read_record(world, "one")
    lie = Verdict(State.RUNNING, reason="a lie")
    world.record("one").write_bytes(records.render(record, lie))
    assert world.session("one")["reason"] == "a lie"
    assert the(world, "digest")["subjects"] == ["one"]
    fixed(world, "digest")
    assert world.session("one")["reason"] is None


def test_a_digest_line_with_other_content(world: World) -> None:
    """Intact by its checksum, but not what any sesh would write: no check falls over it."""
    world.start("one")
    world.start("two")
    raw = world.record("one").read_bytes()
    guard = digest.parse(raw)
    assert guard is not None
    fields = ("id", "generation", "machine", "mode", "pid", "start", "tty", "hide")
    words = tuple(getattr(guard, field) for field in fields)
    body = raw.partition(b"\n")[2]
    world.record("one").write_bytes(digest.encode(words, '{"name":"one","odd":[]}', body))
    done = world.sesh("doctor", "--json")
    assert [one["id"] for one in done.json if one["level"] == "fail"] == ["digest"]
    fixed(world, "digest")
    assert world.session("one")["state"] == "running"


def test_an_end_that_could_not_be_recorded(world: World) -> None:
    pid = world.start("one")["pid"]
    with read_only(world.state):
        kill(pid)
        assert eventually(lambda: found(world, "digest"))
        one = the(world, "digest")
        assert "cannot save observed state" in one["text"]
        assert "failed" in world.sesh("doctor", "--fix", "--only", "digest").err


# --- logs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["pipe closed", "transcript deleted"])
def test_output_that_is_not_logged_any_more(world: World, how: str) -> None:
    session = world.start("one", "sh", "-c", "while read line; do echo got $line; done")
    assert found(world, "log-pipe") == []
    log = world.state / "transcripts" / f"{session['id']}.log"
    if how == "pipe closed":
        world.tmux("pipe-pane", "-t", session["pane"])
    else:
        log.unlink()
    assert the(world, "log-pipe")["subjects"] == ["one"]
    fixed(world, "log-pipe")
    world.tmux("send-keys", "-t", session["pane"], "this", "Enter")
    assert eventually(lambda: "got this" in log.read_text())


def test_a_window_of_the_user_need_not_be_logged(world: World) -> None:
    world.start("one")
    world.tmux("new-window", "-t", "=one:", "sleep 1000")
    assert found(world, "log-pipe") == []


# --- files -------------------------------------------------------------------------------------


def test_settings_that_can_not_be_read(world: World) -> None:
    world.configure("[stop]\ngrace = 5\n")
    assert found(world, "config") == []
    world.configure("[stop]\ngrace = 'soon'\n")
    one = the(world, "config")
    assert "grace" in one["text"]
    done = world.sesh("doctor", "--json")
    assert [e["id"] for e in done.json if e["level"] == "fail"] == ["config"]


def test_permissions(world: World) -> None:
    world.start("one")
    assert found(world, "permissions") == []
    world.record("one").chmod(0o644)
    (world.state / "history").chmod(0o755)
    (snapshot,) = world.runtime.glob("*.env")
    snapshot.chmod(0o400)
    one = the(world, "permissions")
    assert set(one["subjects"]) == {
        str(world.record("one")),
        str(world.state / "history"),
        str(snapshot),
    }
    fixed(world, "permissions")
    assert world.record("one").stat().st_mode & 0o777 == 0o600
    assert (world.state / "history").stat().st_mode & 0o777 == 0o700


def test_temporary_files(world: World) -> None:
    world.start("one")
    (run,) = (world.state / "run").iterdir()
    left = [
        world.state / "sessions" / ".one.toml.4194303.tmp",
        run / "one-20260101-000000-0123abcd.1.exit.tmp.4194303",
    ]
    kept = [
        world.state / "sessions" / f".one.toml.{os.getpid()}.tmp",
        run / "one-20260101-000000-0123abcd.1.exit.tmp",
        world.state / "sessions" / ".new.toml.4194303.tmp",
    ]
    for path in (*left, *kept):
        path.write_bytes(b"")
        path.chmod(0o600)
        if path != kept[-1]:
            os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    one = the(world, "temp-files")
    assert one["level"] == "warn"
    assert set(one["subjects"]) == {str(path) for path in left}
    fixed(world, "temp-files")
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in kept)


@pytest.mark.parametrize(("size", "level"), [("30m", "warn"), ("512k", "fail")])
def test_a_disk_that_is_nearly_full(world: World, size: str, level: str) -> None:
    with mounted(world.root / "state", f"size={size}"):
        assert the(world, "disk")["level"] == level


def test_a_disk_with_room(world: World) -> None:
    with mounted(world.root / "state", "size=200m"):
        assert found(world, "disk") == []


def test_a_disk_that_is_read_only(world: World) -> None:
    with mounted(world.root / "state", "ro"):
        one = the(world, "disk")
        assert "read-only" in one["text"]
        assert one["mend"] == f"sudo mount -o remount,rw {world.root}/state"


def test_a_large_state_directory(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", world.env["XDG_STATE_HOME"])
    monkeypatch.setenv("XDG_RUNTIME_DIR", world.env["XDG_RUNTIME_DIR"])
    world.start("one")
    (check,) = doctor.choose(["state-size"])
    assert check.find(Context(Config())) == []
    with (world.state / "transcripts" / "x.log").open("wb") as file:
        file.truncate(1 << 40)  # a hole takes no room
    assert check.find(Context(Config())) == []
    monkeypatch.setattr(file_checks, "LARGE", 4096)
    (one,) = check.find(Context(Config()))
    assert one.remedy == "sesh gc"


# --- the machine -------------------------------------------------------------------------------


def program(world: World, name: str, script: str) -> dict[str, str]:
    """An environment with a program of this name first in PATH."""
    directory = world.root / "programs"
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)
    return {**world.env, "PATH": f"{directory}:{world.env['PATH']}"}


def test_another_program_named_sesh(world: World) -> None:
    env = program(world, "sesh", "exit 0")
    one = the(world, "other-sesh", env=env)
    assert one["level"] == "warn"
    assert one["subjects"] == [str(world.root / "programs" / "sesh")]
    assert one["mend"].startswith("export PATH=")


def test_our_own_sesh_on_path(world: World) -> None:
    env = {**world.env, "PATH": f"{os.path.dirname(SESH)}:{world.env['PATH']}"}
    assert found(world, "other-sesh", env=env) == []


def test_gc_that_does_not_run(world: World) -> None:
    assert found(world, "timer") == []
    world.start("one")
    assert the(world, "timer")["mend"] == "sesh timer install"
    (run,) = (world.state / "run").iterdir()
    (run / "gc.last").touch()
    assert found(world, "timer") == []
    told = world.sesh("doctor", "--json", "--only", "timer").json
    assert re.fullmatch(r"gc runs regularly; it last ran \d+ seconds? ago", told[0]["text"])
    os.utime(run / "gc.last", (time.time() - 3 * 86400,) * 2)
    assert the(world, "timer")["text"] == "gc is not scheduled; it last ran 3 days ago"
