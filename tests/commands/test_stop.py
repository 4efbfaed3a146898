"""sesh stop: ask, wait, kill, confirm; `stopped` only once everything is gone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sesh.commands import stop
from tests import pace
from tests.surroundings import (
    Terminal,
    as_stranger,
    complains,
    give_to_stranger,
    need_root,
    run,
    start_stubborn,
)
from tests.world import SESH, World, eventually

STUBBORN = 'trap "" TERM HUP; echo $$ >kid; while :; do sleep 0.1; done'


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def number_in(path: Path) -> int:
    """The pid that an agent wrote down."""
    assert eventually(lambda: path.exists() and path.read_text().strip()), path
    return int(path.read_text())


def test_is_quiet_and_says_stopped(world: World) -> None:
    pid = world.start("a")["pid"]
    done = world.ok("stop", "a")
    assert (done.out, done.err) == ("", "")
    shown = world.session("a")
    assert (shown["state"], shown["cause"], shown["desired"]) == ("stopped", "stopped", "stopped")
    assert shown["reason"] == "stopped on request"
    assert shown["pid"] is None
    assert not alive(pid)
    assert [e["kind"] for e in world.events()] == ["started", "stopping", "stopped"]


def test_a_term_is_enough_and_its_signal_is_kept(world: World) -> None:
    world.start("a")
    begin = time.monotonic()
    world.ok("stop", "--grace", "20", "a")
    assert time.monotonic() - begin < pace.seconds(9)
    assert (world.session("a")["exit_code"], world.session("a")["signal"]) == (143, 15)


def test_an_agent_that_ignores_term_is_killed_after_the_grace(world: World) -> None:
    pid = start_stubborn(world, "a")
    begin = time.monotonic()
    world.ok("stop", "--grace", "1", "a")
    took = time.monotonic() - begin
    assert 1 <= took < pace.seconds(4)
    assert not alive(pid)
    shown = world.session("a")
    assert (shown["state"], shown["exit_code"], shown["signal"]) == ("stopped", 137, 9)


def test_grace_comes_from_the_config_too(world: World) -> None:
    world.configure("[stop]\ngrace = 0.3\n")
    start_stubborn(world, "a")
    begin = time.monotonic()
    world.ok("stop", "a")
    assert time.monotonic() - begin < pace.seconds(9)


def test_an_interactive_shell_is_ended_quickly(world: World) -> None:
    """It ignores TERM; HUP ends it."""
    world.start("a", "bash", "--norc", "-i")
    assert eventually(lambda: "bash" in world.tmux("capture-pane", "-p", "-t", "=a:"))
    begin = time.monotonic()
    world.ok("stop", "--grace", "20", "a")
    assert time.monotonic() - begin < pace.seconds(9)
    assert world.state_of("a") == "stopped"


@pytest.mark.parametrize("cleanup", ["sleep", "builtin"])
def test_a_graceful_agent_may_clean_up_and_its_exit_code_is_kept(
    world: World, cleanup: str
) -> None:
    """Whatever it runs for that is not to be cut short either."""
    if cleanup == "sleep":
        clean = "sleep 1; echo yes >clean; exit 7"
        world.start("a", "sh", "-c", f"trap '{clean}' TERM; echo >up; while :; do sleep 0.1; done")
    else:
        code = (
            "import signal, sys, time\n"
            "def end(*_):\n time.sleep(1); open('clean', 'w').write('yes\\n'); sys.exit(7)\n"
            "signal.signal(signal.SIGTERM, end)\nopen('up', 'w')\nwhile True: time.sleep(1)\n"
        )
        world.start("a", sys.executable, "-c", code)
    assert eventually((world.cwd / "up").exists)
    begin = time.monotonic()
    world.ok("stop", "--grace", "20", "a")
    assert 1 <= time.monotonic() - begin < pace.seconds(10)
    assert (world.cwd / "clean").read_text() == "yes\n"
    shown = world.session("a")
    assert (shown["state"], shown["exit_code"]) == ("stopped", 7)


def test_the_whole_tree_goes(world: World) -> None:
    script = "sleep 1000 & echo $! >kid; (sh -c 'sleep 1000 & echo $! >grandkid; wait') & wait"
    world.start("a", "sh", "-c", script)
    kids = [number_in(world.cwd / "kid"), number_in(world.cwd / "grandkid")]
    world.ok("stop", "a")
    assert not any(map(alive, kids))


def test_a_detached_child_with_the_marker_goes(world: World) -> None:
    """A daemon: neither in the tree nor in the terminal, but it carries the marker."""
    script = "setsid sh -c 'echo $$ >kid; exec sleep 1000' & sleep 0.3; exec sleep 1000"
    world.start("a", "sh", "-c", f"({script}) & echo up; sleep 1000")
    kid = number_in(world.cwd / "kid")
    world.ok("stop", "a")
    assert not alive(kid)
    assert world.state_of("a") == "stopped"


def test_a_detached_child_that_ignores_term_is_killed_after_the_grace(world: World) -> None:
    world.start("a", "sh", "-c", f"setsid sh -c '{STUBBORN}' & sleep 1000")
    kid = number_in(world.cwd / "kid")
    begin = time.monotonic()
    world.ok("stop", "--grace", "1", "a")
    assert time.monotonic() - begin >= 1
    assert not alive(kid)
    assert world.state_of("a") == "stopped"


def test_a_child_that_hides_is_not_forgotten(world: World) -> None:
    """Without the marker it is known only as the agent's child, and the agent goes first."""
    world.start("a", "sh", "-c", f"env -i setsid sh -c '{STUBBORN}' & exec sleep 1000")
    kid = number_in(world.cwd / "kid")
    try:
        world.ok("stop", "--grace", "1", "a")
        assert not alive(kid)
        assert world.state_of("a") == "stopped"
    finally:
        if alive(kid):
            os.kill(kid, signal.SIGKILL)


def test_a_stopped_process_is_continued_to_hear_it(world: World) -> None:
    pid = world.start("a")["pid"]
    os.kill(pid, signal.SIGSTOP)
    begin = time.monotonic()
    world.ok("stop", "--grace", "20", "a")
    assert time.monotonic() - begin < pace.seconds(9)
    assert not alive(pid)


def test_a_second_window_of_the_user_stays(world: World) -> None:
    world.start("a")
    world.tmux("new-window", "-d", "-t", "=a:", "-n", "mine", "sleep", "1000")
    own = int(world.tmux("display-message", "-p", "-t", "=a:mine", "#{pane_pid}"))
    world.ok("stop", "a")
    assert alive(own)
    assert world.tmux("list-windows", "-t", "=a", "-F", "#{window_name}") == "mine"
    assert world.state_of("a") == "stopped"


def test_other_sessions_stay(world: World) -> None:
    world.start("a")
    other = world.start("ab")
    world.ok("stop", "a")
    assert alive(other["pid"])
    assert world.state_of("ab") == "running"


def test_the_pane_is_closed_and_its_last_screen_kept(world: World) -> None:
    shown = world.start("a", "sh", "-c", "echo the last words; exec sleep 1000")
    world.start("b")
    assert eventually(lambda: "last words" in world.tmux("capture-pane", "-p", "-t", "=a:"))
    world.ok("stop", "a")
    assert world.tmux("list-panes", "-a", "-F", "#{session_name}") == "b"
    screen = world.state / "transcripts" / f"{shown['id']}.screen"
    assert "the last words" in screen.read_text()


def test_what_had_ended_already_is_told(world: World) -> None:
    world.start("a", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("a") == "failed")
    done = world.ok("stop", "a")
    assert done.err == "sesh: a had already ended (failed)\n"
    shown = world.session("a")
    # How it ended stays; that a person has seen it is known.
    assert (shown["state"], shown["exit_code"], shown["attention"]) == ("failed", 3, None)


def test_a_stale_session_loses_what_is_still_up(world: World) -> None:
    world.start("a", "sh", "-c", "until [ -e go ]; do sleep 0.05; done")
    world.tmux("new-window", "-d", "-t", "=a:", "sleep", "1000")
    (world.cwd / "go").touch()
    assert eventually(lambda: world.state_of("a") == "stale")
    world.sesh("stop", "a")
    assert world.state_of("a") == "completed"
    assert world.tmux("list-panes", "-a") == ""


# --- several -----------------------------------------------------------------------------------


def test_several_need_a_yes(world: World) -> None:
    for name in "abc":
        world.start(name)
    complains(world.sesh("stop", "a", "b"), 2, "stop a and b?", "-y")
    complains(world.sesh("stop", "--all"), 2, "stop a, b and c?", "-y")
    assert {one["state"] for one in world.ls()} == {"running"}
    world.ok("stop", "-y", "a", "b")
    assert {one["name"]: one["state"] for one in world.ls()} == {
        "a": "stopped",
        "b": "stopped",
        "c": "running",
    }


def test_all_means_every_living_one(world: World) -> None:
    world.start("a")
    world.start("b")
    world.start("dead", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("dead") == "failed")
    world.ok("stop", "--all", "-y")
    assert [one["state"] for one in world.ls()] == ["stopped", "stopped", "failed"]
    done = world.ok("stop", "--all")
    assert done.err == "sesh: nothing to stop\n"


def test_a_group(world: World) -> None:
    for name, group in (("a", "web"), ("b", "web"), ("c", "db")):
        world.start(name, options=["--group", group])
    world.ok("stop", "--group", "web", "-y")
    assert [one["state"] for one in world.ls()] == ["stopped", "stopped", "running"]
    world.ok("stop", "--group", "db")  # one needs no yes
    assert world.state_of("c") == "stopped"


def test_many_are_stopped_together(world: World) -> None:
    """Each takes its whole grace; all together take it once."""
    for name in "abc":
        start_stubborn(world, name)
    begin = time.monotonic()
    world.ok("stop", "--all", "-y", "--grace", "4")
    assert time.monotonic() - begin < pace.seconds(11.5)
    assert {one["state"] for one in world.ls()} == {"stopped"}


def test_a_question_on_a_terminal(world: World) -> None:
    world.start("a")
    world.start("b")
    asked = Terminal(world, SESH, "stop", "--all")
    assert asked.shows("stop a and b? [y/N]")
    asked.type("n", "Enter")
    assert asked.finish()[0] == 1
    assert {one["state"] for one in world.ls()} == {"running"}
    asked = Terminal(world, SESH, "stop", "--all")
    assert asked.shows("[y/N]")
    asked.type("y", "Enter")
    assert asked.finish()[0] == 0
    assert {one["state"] for one in world.ls()} == {"stopped"}


def test_progress_on_a_terminal_after_a_second(world: World) -> None:
    start_stubborn(world, "slow")
    seen = Terminal(world, SESH, "stop", "--grace", "2", "slow")
    assert seen.shows("0/1  waiting for slow (")
    code, screen = seen.finish()
    assert code == 0
    assert screen.strip() == "stopped slow"  # the line is gone again


@pytest.mark.parametrize(
    ("room", "line"),
    [
        (99, "stopping  ██████████████████░░░░░░  3/4  waiting for migrate (8s left before kill)"),
        (66, "stopping  ██████░░  3/4  waiting for migrate (8s left before kill)"),
        (60, "stopping 3/4  migrate (8s left before kill)"),
        (40, "3/4  migrate (8s left before kill)"),
        (30, "3/4  migrate (8s)"),
        (15, "migrate (8s)"),
        (10, "migr… (8s)"),
    ],
)
def test_progress_always_shows_the_name_and_the_time(room: int, line: str) -> None:
    assert stop.progress_line(["migrate"], 4, 8.2, room) == line


@pytest.mark.parametrize("columns", [40, 100])
def test_ctrl_c_leaves_the_stop_to_finish_alone(world: World, columns: int) -> None:
    start_stubborn(world, "web")
    seen = Terminal(world, SESH, "stop", "--grace", "6", "web", columns=columns)
    assert seen.shows("web (")
    assert re.search(r"web \(\ds", seen.screen()), seen.screen()
    seen.type("C-c")
    code, screen = seen.finish()
    text = " ".join(screen.split())  # in two lines, where one is too narrow
    assert (code, text) == (130, "sesh: web keeps stopping; next: sesh wait web")
    assert eventually(lambda: world.state_of("web") == "stopped", within=60)


def test_names_or_a_selection(world: World) -> None:
    world.start("a")
    complains(world.sesh("stop"), 2, "--all")
    complains(world.sesh("stop", "a", "--all"), 2, "not both")
    complains(world.sesh("stop", "a", "nope"), 4, "nope")
    assert world.state_of("a") == "running"


@pytest.mark.parametrize("selection", [("--all",), ("--group", "web"), ("--idle", "1h")])
def test_a_selection_beside_an_agent_that_no_record_claims_ends_nothing(
    world: World, selection: tuple[str, ...]
) -> None:
    pid = world.start("lost", options=["--group", "web"])["pid"]
    world.record("lost").unlink()
    complains(world.sesh("stop", "lost", *selection, "--yes"), 2, "not both")
    assert alive(pid)


@pytest.mark.parametrize("grace", ["-1", "soon", "1e3", "nan", "99999999999999d", ""])
def test_a_grace_that_is_no_time_is_refused(world: World, grace: str) -> None:
    world.start("a")
    complains(world.sesh("stop", f"--grace={grace}", "a"), 2, "grace")
    assert world.state_of("a") == "running"


# --- what can't be confirmed -------------------------------------------------------------------


def way_to_root(world: World) -> str:
    """What makes a command that a stranger runs root's."""
    world.root.chmod(0o755)
    give_to_stranger(world)
    become_root = world.root / "setpriv"
    done = run(world, "cp", "/usr/bin/setpriv", str(become_root))
    assert done.code == 0, done
    become_root.chmod(0o4755)
    return f"{become_root} --reuid 0 --regid 0 --clear-groups"


def test_an_agent_that_became_another_user_runs_on(world: World) -> None:
    """Nothing that we may send would reach it: no session is `stopping` for ever."""
    script = f"exec {way_to_root(world)} sh -c 'echo $$ >kid; exec sleep 1000'"
    start = run(world, *as_stranger(SESH, "start", "a", "--", "sh", "-c", script))
    assert start.code == 0, start
    kid = number_in(world.cwd / "kid")
    try:
        refused = f"not permitted to signal process {kid} (uid 0)"
        for command in (["stop", "a"], ["stop", "--all"], ["restart", "a"], ["rm", "-f", "a"]):
            complains(run(world, *as_stranger(SESH, *command)), 1, refused)
            assert run(world, *as_stranger(SESH, "status", "a")).out.startswith("a running")
        assert alive(kid)
    finally:
        os.kill(kid, signal.SIGKILL)


def test_a_child_that_may_not_be_signalled_is_left_and_told(world: World) -> None:
    """An ordinary user's agent has a child that became root: not ours to kill."""
    script = f"{way_to_root(world)} setsid sh -c 'echo $$ >kid; exec sleep 1000' & wait"
    start = run(world, *as_stranger(SESH, "start", "a", "--", "sh", "-c", script))
    assert start.code == 0, start
    kid = number_in(world.cwd / "kid")
    assert os.stat(f"/proc/{kid}").st_uid == 0
    try:
        stop = run(world, *as_stranger(SESH, "stop", "--grace", "0.5", "a"))
        assert alive(kid)
        complains(stop, 1, f"not permitted to signal process {kid} (uid 0)")
        assert run(world, *as_stranger(SESH, "status", "a")).out.startswith("a stopped")
    finally:
        os.kill(kid, signal.SIGKILL)


def test_another_users_process_with_our_marker_is_nobody_of_ours(world: World) -> None:
    """It made an agent reach its memory limit, and was ended by a stop."""
    need_root()
    limits = ("--max-memory", "60M", "--check-interval", "200ms")
    one = world.start("a", options=limits)
    claims = {"SESH_ID": one["id"], "SESH_RUN": os.path.dirname(world.socket)}
    hog = "x = bytearray(200 << 20); print('up', flush=True); import time; time.sleep(1000)"
    argv = as_stranger("/usr/bin/python3", "-c", hog)
    with subprocess.Popen(argv, env={**world.env, **claims}, stdout=-1, cwd="/") as stranger:
        try:
            assert stranger.stdout
            assert stranger.stdout.readline() == b"up\n"
            world.ok("pass")
            assert world.state_of("a") == "running"
            assert world.ok("show", "--json", "a").json["memory_bytes"] < 60 << 20
            world.ok("stop", "a")
            assert str(stranger.pid) not in world.ok("ls", "--all").out
            complains(world.sesh("stop", "--orphans", "-y"), 0, "no orphans")
            assert world.sesh("doctor", "--json").code == 0
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_an_agent_of_root_that_became_another_user_is_ended_with_its_children(world: World) -> None:
    """Its user counts as the session's, also for what is in no tree."""
    need_root()
    world.root.chmod(0o755)
    world.cwd.chmod(0o777)
    script = "(setsid sh -c 'echo $$ >kid; exec sleep 1000' &); exec sleep 1000"
    pid = world.start("a", *as_stranger("sh", "-c", script))["pid"]
    kid = number_in(world.cwd / "kid")
    world.ok("stop", "a")
    assert not alive(pid)
    assert not alive(kid)


def test_from_inside_the_session_the_server_finishes_it(world: World) -> None:
    """An agent that stops itself ends the very sesh that it called."""
    script = f"echo up; sleep 0.2; {SESH} stop a; sleep 1000"
    pid = world.start("a", "sh", "-c", script)["pid"]
    assert eventually(lambda: world.state_of("a") == "stopped", 10), world.session("a")
    assert not alive(pid)


def test_with_tmux_gone_the_agent_is_ended_all_the_same(world: World) -> None:
    """The server was killed with -9; an agent that ignores HUP lives on as an orphan."""
    pid = world.start("a", "sh", "-c", "trap '' HUP; echo >up; exec sleep 1000")["pid"]
    assert eventually((world.cwd / "up").exists)
    os.kill(world.server_pid(), signal.SIGKILL)
    assert eventually(lambda: world.state_of("a") == "orphan"), world.session("a")
    world.ok("stop", "a")
    assert not alive(pid)
    assert world.state_of("a") == "stopped"
