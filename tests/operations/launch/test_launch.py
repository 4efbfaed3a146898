"""Launching in all weathers: which server is used, and what a launch that fails leaves behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from sesh.model.place import Process
from sesh.places.host import tmux_server
from sesh.state import settings
from sesh.system import processes
from tests import pace
from tests.surroundings import as_stranger, fake_tmux, give_to_stranger, run
from tests.world import SESH, Done, World, count, eventually


def live_servers(world: World) -> int:
    """tmux servers of this world."""
    found = 0
    for pid in world.processes():
        comm = Path(f"/proc/{pid}/comm")
        found += comm.exists() and comm.read_text().startswith("tmux: server")
    return found


def test_a_socket_swept_away_is_restored(world: World) -> None:
    """A second server must never hide the first."""
    world.start("one")
    server = world.server_pid()
    os.unlink(world.socket)
    assert world.state_of("one") == "running"
    world.start("two")
    assert world.server_pid() == server
    assert live_servers(world) == 1


def test_a_socket_that_answers_is_not_made_again(here: World) -> None:
    """Many starts at once may all miss the socket. The first restores it; were it made once more,
    a start in between would find none, and begin a second server that hides the first."""
    here.start("one")
    server = tmux_server.server(here.socket, processes.run_dir(), settings.load())
    process = Process(here.server_pid(), processes.look(here.server_pid()).start)  # type: ignore[union-attr]
    made = os.stat(here.socket).st_ino
    tmux_server.restore_socket(server, process)
    assert os.stat(here.socket).st_ino == made


def limited(limits: str, *argv: str) -> list[str]:
    return ["prlimit", *limits.split(), "--", *argv]


def check_refused(world: World, done: Done, name: str) -> None:
    """It ran, or was refused in one line that names the reason; in any case that is settled."""
    assert done.code in (0, 1), done
    if done.code:
        assert re.search("Too many open files|open files|Resource temporarily|process", done.err)
    assert "Traceback" not in done.err
    states = {one["name"]: one["state"] for one in world.ls()}
    assert states.get(name, "failed") in ("running", "failed"), states


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_too_few_open_files(world: World, warm: bool) -> None:
    if warm:
        world.start("one")
    for number in (6, 8, 10, 12, 14, 20):
        argv = limited(f"--nofile={number}:{number}", SESH, "start", f"x{number}", "--", "cat")
        check_refused(world, run(world, *argv), f"x{number}")
    assert live_servers(world) == warm
    world.start("another")  # no server that was started without room is in the way


def test_the_server_gets_more_open_files_than_the_agent(world: World) -> None:
    """Hundreds of sessions may be in it, whatever the limit of whoever starts the first."""
    done = run(world, *limited("--nofile=40:5000", SESH, "start", "a", "--json", "--", "cat"))
    assert done.code == 0, done
    files = "Max open files            {:<20} 5000 "
    assert files.format(40) in Path(f"/proc/{done.json['pid']}/limits").read_text()
    assert files.format(5000) in Path(f"/proc/{world.server_pid()}/limits").read_text()


def test_too_few_processes(world: World) -> None:
    world.root.chmod(0o755)
    give_to_stranger(world)
    sesh = as_stranger(SESH)
    for number in range(2, 9):
        command = ("start", f"x{number}", "--launch-timeout", "1h", "--", "cat")
        done = run(world, *limited(f"--nproc={number}:{number}", *sesh, *command))
        assert done.code in (0, 1) or "failed to execute" in done.err, (number, done)
        listed = json.loads(run(world, *sesh, "ls", "--json").out)
        states = {one["name"]: one["state"] for one in listed}
        assert states.get(f"x{number}", "failed") in ("running", "failed"), (number, done, listed)
        run(world, *sesh, "stop", "--all", "-y")


def test_an_end_behind_a_deleted_socket_is_unknown_until_it_is_restored(world: World) -> None:
    """Nobody can ask the server how the agent's pane is: no end is made up."""
    one = world.start("one")
    keeper = int(Path(f"/proc/{one['pid']}/stat").read_text().rpartition(")")[2].split()[1])
    os.unlink(world.socket)
    os.kill(keeper, signal.SIGKILL)
    with suppress(ProcessLookupError):  # the hangup may have ended it
        os.kill(one["pid"], signal.SIGKILL)
    assert eventually(lambda: not Path(f"/proc/{one['pid']}").exists())
    seen = world.session("one")
    assert seen["state"] == "unknown"
    assert "socket is gone" in seen["reason"]
    world.start("two")
    assert world.state_of("one") == "lost"


def test_a_foreign_tmux_session_of_that_name_is_left_alone(world: World) -> None:
    world.start("one")
    world.tmux("new-session", "-d", "-s", "two", "sleep", "99")
    done = world.sesh("start", "two", "--", "sleep", "99")
    assert done.code == 8
    assert "did not start" in done.err
    assert [one["name"] for one in world.ls()] == ["one"]
    assert "two" in world.tmux("list-sessions")


def test_the_users_own_server(world: World) -> None:
    """`socket = "default"`: sessions live in the user's server, whose options stay theirs."""
    world.env["TMUX_TMPDIR"] = str(world.root)
    world.configure('[tmux]\nsocket = "default"\n')
    socket = world.root / f"tmux-{os.getuid()}" / "default"
    tmux = ["tmux", "-S", str(socket)]
    socket.parent.mkdir(mode=0o700)
    subprocess.run([*tmux, "-f", os.devnull, "new-session", "-d", "-s", "mine"], env=world.env)
    one = world.start("one", "sh", "-c", "sleep 0.5; exit 3")
    assert one["socket"] == str(socket)
    assert eventually(lambda: world.state_of("one") == "failed")
    show = subprocess.run([*tmux, "show-options", "-sv", "exit-empty"], capture_output=True)
    assert show.stdout == b"on\n"
    world.ok("restart", "one")
    world.ok("rm", "--force", "one")
    listed = subprocess.run([*tmux, "list-sessions"], capture_output=True, text=True).stdout
    assert listed.startswith("mine:")
    assert "one" not in listed


def test_the_users_tmux_settings_are_included(world: World) -> None:
    mine = world.root / "mine.conf"
    mine.write_text("set-option -g prefix C-a\n")
    world.configure(f'[tmux]\ninclude = "{mine}"\n')
    world.start("one")
    assert world.tmux("show-options", "-gv", "prefix") == "C-a"
    assert world.tmux("show-options", "-gv", "history-limit") == "50000"


def test_the_users_tmux_conf_is_not_read(world: World) -> None:
    (world.root / "home" / ".tmux.conf").write_text("set-option -g prefix C-a\n")
    world.start("one")
    assert world.tmux("show-options", "-gv", "prefix") == "C-b"


@pytest.mark.parametrize("answers", [True, False])
def test_a_systemd_scope_where_a_user_manager_answers(world: World, answers: bool) -> None:
    """The server starts through systemd-run; when that fails, plainly."""
    (world.root / "run" / "systemd").mkdir()
    manager = socket.socket(socket.AF_UNIX)
    manager.bind(str(world.root / "run" / "systemd" / "private"))
    manager.listen()
    tools = world.root / "tools"
    tools.mkdir()
    called = world.root / "called"
    rest = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
    fail = "echo Failed to connect to bus >&2; exit 1"
    (tools / "systemd-run").write_text(
        f'#!/bin/sh\necho "$@" >>{called}\n{rest if answers else fail}\n'
    )
    (tools / "systemd-run").chmod(0o755)
    world.env["PATH"] = f"{tools}:{world.env['PATH']}"
    with manager:
        world.start("one")
        world.start("two")
    assert world.state_of("one") == "running"
    lines = called.read_text().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("--user --scope --quiet --collect -- ")


def test_one_of_two_restarts_at_once_wins(world: World) -> None:
    one = world.start("one", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("one") == "failed")
    world.start("two")  # keeps the server
    for generation in range(2, 6):
        crowd = [world.popen("restart", "one") for _ in range(4)]
        codes = sorted(process.wait() for process in crowd)
        assert codes[0] == 0
        assert set(codes) <= {0, 8}
        assert eventually(lambda: world.state_of("one") == "failed")
        seen = world.session("one")
        assert seen["id"] == one["id"]
        assert seen["generation"] >= generation
    assert len(world.tmux("list-panes", "-t", "=one:").splitlines()) == 1


def test_a_command_that_vanishes_before_exec_is_a_failed_launch(world: World) -> None:
    script = world.root / "agent"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    for _ in range(count(10, 100)):  # an exiting process looks much like one that has begun
        done = world.sesh("start", "one", "--", str(script))
        assert done.code == 1
        assert len(done.err.splitlines()) == 1
        assert "could not be launched" in done.err
    seen = world.session("one")
    assert (seen["state"], seen["cause"]) == ("failed", "launch")


def test_the_agents_own_127_is_no_failed_launch(world: World) -> None:
    world.start("one", "sh", "-c", "exit 127")
    assert eventually(lambda: world.state_of("one") == "failed")
    assert world.session("one")["cause"] == "exit"


# --- the event of a launch ---------------------------------------------------------------------

# A sesh that records its launch only when a pass has recorded the end of it.
_SLOW = """
import sys, time
sys.argv[0] = {sesh!r}
from sesh.operations.launch import launch
from sesh.state import records
real = launch.judge_launch
def slow(entry, *given):
    deadline = time.monotonic() + {patience}
    while records.of_id(entry.record.id).status.outcome is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return real(entry, *given)
launch.judge_launch = slow
from sesh.__main__ import script
script()
"""


def slowly(world: World, *args: str) -> Done:
    code = _SLOW.format(sesh=SESH, patience=pace.seconds(20))
    return run(world, sys.executable, "-c", code, *args)


def test_the_event_of_a_launch_comes_before_that_of_its_end(world: World) -> None:
    """Also if the keeper's pass is faster than the sesh that launched it."""
    done = slowly(world, "start", "one", "--", "sh", "-c", "exit 3")
    assert (done.code, done.out) == (0, "one\n"), done
    assert slowly(world, "restart", "one").code == 0
    told = [(e["kind"], e["generation"]) for e in world.events()]
    assert told == [("started", 1), ("ended", 1), ("restarted", 2), ("ended", 2)]
    commands = [e["command"] for e in world.events() if e["kind"].endswith("started")]
    assert commands == [["sh", "-c", "exit 3"]] * 2


def test_a_launch_that_will_fail_has_failed_before_its_end(world: World) -> None:
    script = world.root / "agent"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    done = slowly(world, "start", "one", "--", str(script))
    assert done.code == 1
    assert "could not be launched" in done.err
    assert [e["kind"] for e in world.events()] == ["start-failed", "ended"]


@pytest.mark.parametrize("step", ["events.write", "records.swap"])
def test_a_start_that_is_killed_before_its_record_has_one_event(world: World, step: str) -> None:
    code = f"""
import os, signal, sys
sys.argv[0] = {SESH!r}
from sesh.state import events, records
{step} = lambda *_, **options: os.kill(os.getpid(), signal.SIGKILL)
from sesh.__main__ import script
script()
"""
    argv = (sys.executable, "-c", code, "start", "one", "--", "sleep", "99")
    assert run(world, *argv).code == -signal.SIGKILL
    assert eventually(lambda: world.state_of("one") == "running")
    assert [e["kind"] for e in world.events()] == ["started"]


# --- slow machines -----------------------------------------------------------------------------


@pytest.mark.long
def test_a_slow_tmux_is_not_a_dead_one(world: World) -> None:
    """Each answer takes longer than `[tmux] timeout`, and than the launch timeout."""
    limit = pace.seconds(2.5)
    world.configure(f"[start]\nlaunch_timeout = {limit}\n")
    real = shutil.which("tmux", path=world.env["PATH"])
    env = fake_tmux(world, f'sleep 3; exec {real} "$@"')
    assert world.ok("start", "a", "--", "sleep", "1000", env=env, timeout=120).err == ""
    assert world.state_of("a") == "running"
    assert world.ok("restart", "a", env=env, timeout=120).err == ""
    assert (world.session("a")["state"], world.session("a")["generation"]) == ("running", 2)
    assert world.ok("stop", "a", env=env, timeout=120).err == ""
    assert world.state_of("a") == "stopped"


def test_a_hanging_tmux_is_unknown_soon(world: World) -> None:
    world.start("a")
    env = fake_tmux(world, "exec sleep 1000")
    os.kill(world.session("a")["pid"], signal.SIGKILL)
    for word in world.state.glob("run/*/*.exit"):
        word.unlink()
    begin = time.monotonic()
    world.sesh("ls", "--all", env=env)
    assert time.monotonic() - begin < pace.seconds(8)
