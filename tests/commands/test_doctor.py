"""sesh doctor: the report, its exit codes, and what --fix asks before it acts."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from sesh.doctor import CHECKS, IDS
from sesh.model.errors import OK, PROBLEMS
from sesh.terminal import command_table
from tests.surroundings import (
    STRANGER,
    Terminal,
    complains,
    empty_server,
    fake_tmux,
    files,
    need_root,
)
from tests.world import SESH, World, eventually


@pytest.fixture
def healthy(world: World) -> World:
    """Two sessions, and nothing to complain about but what the machine may bring along."""
    world.env["PATH"] = f"{os.path.dirname(SESH)}:{world.env['PATH']}"
    for name in ("one", "two"):
        world.start(name)
    called(world)
    return world


def called(world: World) -> None:
    """As if gc had run."""
    (run,) = (world.state / "run").iterdir()
    (run / "gc.last").touch(mode=0o600)


def without_disk() -> list[str]:
    """All checks but the one that depends on whose machine this is."""
    return [word for check in IDS if check != "disk" for word in ("--only", check)]


def test_healthy_is_one_line(healthy: World) -> None:
    done = healthy.ok("doctor", *without_disk())
    checks = len(IDS) - 1
    assert re.fullmatch(
        rf"sesh doctor: no problems \({checks} checks, 2 sessions, \d+ ms\)\n", done.out
    )
    assert done.err == ""


def test_without_a_state_directory_all_is_well_and_none_is_made(world: World) -> None:
    world.env["PATH"] = f"{os.path.dirname(SESH)}:{world.env['PATH']}"
    for options in ((), ("--fix", "-y")):
        done = world.ok("doctor", *without_disk(), *options)
        assert "no problems" in done.out
        assert "0 sessions" in done.out
    assert not world.state.exists()


def test_a_look_changes_nothing(healthy: World) -> None:
    before = files(healthy.state, without=(".lock",))
    healthy.ok("doctor")
    assert files(healthy.state, without=(".lock",)) == before


def test_the_report(world: World) -> None:
    world.env["PATH"] = f"{os.path.dirname(SESH)}:{world.env['PATH']}"
    world.start("pay", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("pay") == "failed")
    world.record("old").touch(mode=0o600)
    done = world.sesh("doctor", *without_disk())
    assert done.code == 10
    assert done.err == ""
    assert re.fullmatch(
        r"sesh doctor: 2 problems, 1 warning \(\d+ checks, \d+ ms\)\n"
        r"\n"
        r"fail  failed             1 session failed: pay \(exit 3\)\n"
        r" {25}fix: sesh restart pay\n"
        r"fail  record-damaged     sessions/old\.toml: empty file\n"
        r" {25}fix: sesh doctor --fix   \(moves it to quarantine\)\n"
        r"warn  timer              gc is not scheduled\n"
        r" {25}fix: sesh timer install\n",
        done.out,
    ), done.out


def test_the_report_on_a_narrow_terminal(world: World) -> None:
    world.start("pay", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("pay") == "failed")
    world.record("old").write_bytes(b"x")
    terminal = Terminal(world, SESH, "doctor", columns=44)
    code, screen = terminal.finish()
    assert code == 10
    lines = screen.splitlines()
    assert "fail  failed" in lines
    assert "      fix: sesh restart pay" in lines
    assert "      fix: sesh doctor --fix" in lines
    assert all(len(line) <= 44 for line in lines)


def test_only_the_level_is_coloured(world: World) -> None:
    world.start("pay", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("pay") == "failed")
    done = world.sesh("doctor", "--color", "always")
    assert "\033[31mfail\033[0m  failed " in done.out
    assert "\033[33mwarn\033[0m  timer " in done.out
    assert all(line.count("\033") in (0, 2) for line in done.out.splitlines())
    assert "\033" not in world.sesh("doctor").out


def test_hostile_names_are_escaped(world: World) -> None:
    world.start("one")
    (world.state / "sessions" / "\033[31mred\n.toml").write_bytes(b"")
    done = world.sesh("doctor")
    assert "\033" not in done.out
    assert r"\x1b[31mred\n" in done.out
    done = world.sesh("doctor", "--fix")
    assert "\033" not in done.err
    assert not any(path.name.endswith("red\n.toml") for path in world.record("x").parent.iterdir())


def test_json(healthy: World) -> None:
    done = healthy.sesh("doctor", "--json")
    assert [one["id"] for one in done.json] == list(IDS)
    for one in done.json:
        assert list(one) == ["id", "level", "text", "mend", "subjects"]
        assert one["level"] in ("ok", "warn", "fail")
    healthy.record("old").touch(mode=0o600)
    (bad,) = healthy.sesh("doctor", "--json", "--only", "record-damaged").json
    assert (bad["level"], bad["subjects"]) == ("fail", ["old"])


def test_list_of_checks(world: World) -> None:
    done = world.ok("doctor", "--list-checks")
    assert [line.split()[0] for line in done.out.splitlines()] == list(IDS)
    listed = world.ok("doctor", "--list-checks", "--json").json
    assert listed == [{"id": check.id, "text": check.what} for check in CHECKS]


def test_only_some_checks(healthy: World) -> None:
    healthy.record("old").touch(mode=0o600)
    assert "(2 checks, " in healthy.ok("doctor", "--only", "lost", "--only", "stale").out
    assert healthy.sesh("doctor", "--only", "record-damaged").code == 10
    complains(healthy.sesh("doctor", "--only", "stael"), 2, "stael", "did you mean stale?")
    complains(healthy.sesh("doctor", "--only", "x"), 2, "--list-checks")


def test_from_which_level_on_it_counts(healthy: World) -> None:
    assert healthy.sesh("doctor", "--fail-on", "warn", *without_disk()).code == 0
    next(healthy.state.glob("run/*/gc.last")).unlink()
    assert healthy.sesh("doctor", "--only", "timer").code == 0
    assert healthy.sesh("doctor", "--only", "timer", "--fail-on", "warn").code == 10


def test_every_mend_is_a_command_that_exists(world: World) -> None:
    """One world with much that is wrong."""
    world.start("alive")
    world.start("pay", "sh", "-c", "setsid sleep 1000 & sleep 1; exit 3")
    world.start("gone")
    world.start("away")
    world.tmux("kill-session", "-t", "=away")
    assert eventually(lambda: world.state_of("pay") == "failed")
    assert eventually(lambda: world.state_of("away") == "lost")
    world.record("gone").unlink()
    world.record("old").write_bytes(b"")
    world.tmux("pipe-pane", "-t", "=alive:")
    bad = [one for one in world.sesh("doctor", "--json").json if one["level"] != "ok"]
    found = {one["id"] for one in bad}
    assert found >= {"failed", "lost", "orphan-agent", "orphan-process", "log-pipe", "timer"}
    for one in bad:
        words = one["mend"].split()
        if words[0] == "sesh":
            assert words[1] in command_table.COMMANDS


# --- --fix -------------------------------------------------------------------------------------


def test_fix_tells_each_step_and_checks_again(healthy: World) -> None:
    healthy.record("old").write_bytes(b"")
    healthy.record("one").chmod(0o644)
    os.unlink(healthy.socket)
    done = healthy.ok("doctor", "--fix", *without_disk())
    steps = [line.split()[:2] for line in done.err.splitlines() if line]
    assert steps == [
        ["fixed", "permissions"],
        ["fixed", "tmux-socket"],
        ["fixed", "record-damaged"],
    ]
    assert "no problems" in done.out
    again = healthy.ok("doctor", "--fix", *without_disk())
    assert again.err == ""


def test_fix_leaves_what_it_may_not_mend(healthy: World) -> None:
    healthy.start("pay", "sh", "-c", "exit 3")
    assert eventually(lambda: healthy.state_of("pay") == "failed")
    done = healthy.sesh("doctor", "--fix", *without_disk())
    assert done.code == 10
    assert done.err == ""
    assert healthy.session("pay")["generation"] == 1


def test_fix_with_json_says_its_steps_elsewhere(healthy: World) -> None:
    healthy.record("old").write_bytes(b"")
    done = healthy.sesh("doctor", "--fix", "--json")
    assert [one["id"] for one in done.json] == list(IDS)
    assert "record-damaged" in done.err


@pytest.mark.parametrize(("answer", "ended"), [("n", False), ("y", True)])
def test_fix_asks_before_it_ends_a_server(world: World, answer: str, ended: bool) -> None:
    pid = empty_server(world)
    real = shutil.which("tmux")
    says = 'echo "server exited unexpectedly" >&2; exit 1'
    env = fake_tmux(world, f'case "$*" in *list-panes*) {says};; esac; exec {real} "$@"')
    options = ("doctor", "--fix", "--only", "tmux-server")
    terminal = Terminal(world, SESH, *options, env=env)
    assert terminal.shows("end the wedged tmux server")
    assert running(pid)
    terminal.type(answer, "Enter")
    terminal.finish()
    assert bool(eventually(lambda: not running(pid), 10 if ended else 0.2)) is ended


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# --- when checks themselves fail ---------------------------------------------------------------


def test_a_foreign_state_directory_is_one_block(healthy: World) -> None:
    need_root()
    os.chown(healthy.state, STRANGER, STRANGER)
    done = healthy.sesh("doctor", *without_disk())
    assert done.code == 10
    assert done.out.count("cannot be checked") == 1
    assert f"belongs to uid {STRANGER}" in done.out
    assert "fail  permissions" in done.out


def test_a_hung_server_leaves_the_rest_to_be_checked(healthy: World) -> None:
    healthy.record("old").write_bytes(b"")
    pid = healthy.server_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        done = healthy.sesh("doctor", "--fix", "-y", "--json")
    finally:
        os.kill(pid, signal.SIGCONT)
    bad = {one["id"] for one in done.json if one["level"] == "fail"}
    assert bad - {"disk"} == {"tmux-server"}
    assert {one["name"]: one["state"] for one in healthy.ls()} == {
        "one": "running",
        "two": "running",
    }


def test_no_tmux_at_all(world: World) -> None:
    """Only where none is installed beside PATH, too."""
    if any(os.path.exists(f"{place}/tmux") for place in ("/usr/local/bin", "/opt/homebrew/bin")):
        pytest.skip("there is a tmux where sesh looks beside PATH")
    env = {**world.env, "PATH": str(world.root / "empty")}
    done = world.sesh("doctor", "--json", env=env)
    assert done.code == 10
    (bad,) = (one for one in done.json if one["level"] == "fail" and one["id"] != "disk")
    assert bad["id"] == "tmux"
    assert "not installed" in bad["text"]


# --- for prompts: tests/terminal/test_prompt.py has what the line says -----------------------


def test_the_line_and_its_exit_code(world: World) -> None:
    world.start("one", "false")
    eventually(lambda: world.state_of("one") == "failed")
    assert world.ok("doctor", "--prompt").out == "1 failed\n"
    for other in (["--json"], ["--fix"], ["--only", "failed"], ["--list-checks"]):
        complains(world.sesh("doctor", "--prompt", *other), 2, "--exit-code")
    with open("/dev/full", "w") as full:
        told = subprocess.run([SESH, "doctor", "--prompt"], env=world.env, stdout=full, stderr=-1)
    assert (told.returncode, told.stderr) == (0, b"")
    done = world.sesh("doctor", "--prompt", "--exit-code")
    assert (done.code, done.out, done.err) == (PROBLEMS, "1 failed\n", "")
    world.ok("stop", "one")
    done = world.sesh("doctor", "--prompt", "--exit-code")
    assert (done.code, done.out, done.err) == (OK, "", "")


@pytest.mark.parametrize("well", [True, False])
def test_the_full_path_says_the_same(world: World, well: bool) -> None:
    """Options in another order are for click."""
    world.start("one", "true" if well else "false")
    eventually(lambda: world.state_of("one") == ("completed" if well else "failed"))
    done = world.sesh("doctor", "--exit-code", "--prompt")
    fast = world.sesh("doctor", "--prompt", "--exit-code")
    assert done == fast
