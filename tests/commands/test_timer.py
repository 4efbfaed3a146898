"""sesh timer: real crontabs and a real cron. With a real systemd: tests/systemd/test_timer.py."""

from __future__ import annotations

import os
import time
from copy import copy

import pytest

from sesh.supervision.timer import schedules, timers
from tests.conftest import need
from tests.emulator import Terminal
from tests.schedulers import (
    Cron,
    cron,
    daemon,
    install,
    no_manager,
    put_first,
)
from tests.surroundings import complains
from tests.world import SESH, World, eventually

__all__ = ["cron"]  # a fixture

RUNS = timers.COMMAND  # the command in the tests to the end
MINE = b'# m\xfcll\nMAILTO=""\n\n*/7 1-5 * * 1 echo 50\\% \t \n@reboot true\n'


def line_of(crontab: bytes) -> str:
    (line,) = [line for line in crontab.decode().splitlines() if "--auto" in line]
    return line


def stamp(world: World, age: float) -> None:
    """Leave word of a gc that ran `age` seconds ago."""
    world.start("any")
    (run_dir,) = (world.state / "run").iterdir()
    (run_dir / "gc.last").touch()
    os.utime(run_dir / "gc.last", (time.time() - age,) * 2)


# --- cron --------------------------------------------------------------------------------------


def test_install_status_remove_by_cron(world: World, cron: Cron) -> None:
    done = world.ok("timer", "install")
    assert (done.out, done.err) == ("", "")
    line = line_of(cron.list())
    assert line.startswith("*/5 * * * * /usr/bin/env PATH=")
    assert line.endswith(f" {SESH} gc --auto")
    assert f" XDG_STATE_HOME={world.env['XDG_STATE_HOME']} " in line
    done = world.ok("timer", "status")
    assert (done.out, done.err) == ("gc runs every 5m, by cron\n  last run   never yet\n", "")
    assert world.ok("timer", "remove").err == ""
    assert not cron.exists
    assert world.sesh("timer", "status").code == 1


def test_a_line_without_what_is_not_set(world: World, cron: Cron) -> None:
    del world.env["XDG_STATE_HOME"], world.env["XDG_CONFIG_HOME"]
    world.env["SECRET"] = "do not tell"
    world.ok("timer", "install", "--scheduler", "cron")
    assert b"XDG_" not in cron.list()
    assert b"tell" not in cron.list()
    assert f" HOME={world.env['HOME']} " in line_of(cron.list())


def test_install_again_changes_only_what_changed(world: World, cron: Cron) -> None:
    cron.set(MINE)
    world.ok("timer", "install")
    first = cron.list()
    cron.set(first + MINE)
    world.ok("timer", "install")
    assert cron.list() == first + MINE
    world.ok("timer", "install", "--every", "1h")
    assert cron.list() == first.replace(b"*/5 * * * * /usr", b"0 * * * * /usr") + MINE
    world.ok("timer", "remove")
    assert cron.list() == MINE + MINE
    world.ok("timer", "remove")
    assert cron.list() == MINE + MINE


def test_a_block_edited_by_hand(world: World, cron: Cron) -> None:
    world.ok("timer", "install")
    ours = cron.list()
    cron.set(MINE + ours.replace(b"*/5 * * * * /", b"3 4 * * 1-5  nice /"))
    done = world.ok("timer", "status")
    assert done.out.startswith("gc runs by cron, as edited by hand: 3 4 * * 1-5\n")
    assert world.ok("timer", "status", "--json").json["every"] is None
    world.ok("timer", "install")
    assert cron.list() == MINE + ours
    begin, end = schedules.marks(world.key)
    cron.set(MINE + begin + b"\n# nothing left\n" + end + b"\n")
    assert "the crontab's block is empty" in world.sesh("timer", "status").out
    assert world.sesh("timer", "status").code == 1
    world.ok("timer", "remove")
    assert cron.list() == MINE


def test_half_a_block_is_not_touched(world: World, cron: Cron) -> None:
    crontab = b"# sesh begin\n" + MINE
    cron.set(crontab)
    complains(world.sesh("timer", "install"), 6, "# sesh begin", "crontab -e")
    complains(world.sesh("timer", "remove"), 6, "# sesh begin", "crontab -e")
    done = world.sesh("timer", "status")
    assert (done.code, "cannot tell" in done.out) == (5, True)
    assert cron.list() == crontab


def test_a_line_that_cron_refuses_changes_nothing(world: World, cron: Cron) -> None:
    cron.set(MINE)
    world.env["XDG_STATE_HOME"] = "/" + "long" * 500
    complains(world.sesh("timer", "install"), 1, "cannot write the crontab", "too long")
    assert cron.list() == MINE


def test_carriage_returns_that_would_be_lost_are_not(world: World, cron: Cron) -> None:
    """Debian's `crontab -l` shows them as two characters."""
    cron.set(b"@reboot true\r\n")
    shown = cron.list()
    done = world.sesh("timer", "install")
    if shown == b"@reboot true\r\n":
        assert cron.list().startswith(shown)
    else:
        complains(done, 6, "carriage returns", "crontab -e")
        assert cron.list() == shown


def test_debians_header_does_not_pile_up(world: World, cron: Cron) -> None:
    world.env["CRONTAB_NOHEADER"] = "N"
    world.ok("timer", "install")
    world.ok("timer", "install", "--every", "10m")
    del world.env["CRONTAB_NOHEADER"]
    assert cron.list().startswith(b"# sesh begin " + world.key.encode())


def test_a_crontab_that_cannot_be_read_is_left_alone(world: World) -> None:
    no_manager(world)
    note = world.root / "written"
    refusal = "You (me) are not allowed to use this program (crontab)"
    put_first(world, "crontab", f"[ $1 = -l ] || touch {note}; echo '{refusal}' >&2; exit 1")
    complains(world.sesh("timer", "install"), 5, "cannot read the crontab", "not allowed")
    complains(world.sesh("timer", "remove"), 5, "cannot read the crontab", "not allowed")
    done = world.sesh("timer", "status", "--json")
    assert (done.code, done.json["installed"]) == (5, None)
    assert "not allowed" in done.json["problem"]
    assert not note.exists()


def test_busyboxs_words_for_no_crontab(world: World) -> None:
    no_manager(world)
    kept = world.root / "kept"
    script = f"""case $1 in
        -l) echo "crontab: can't open 'me': No such file or directory" >&2; exit 1 ;;
        -) cat >{kept} ;;
    esac"""
    put_first(world, "crontab", script)
    world.ok("timer", "install")
    assert b"--auto" in kept.read_bytes()


# --- one of them -------------------------------------------------------------------------------


@pytest.mark.parametrize("script", ["exec sleep 1000", "exit 1", "echo offline", "kill -9 $$"])
def test_cron_where_systemd_does_not_answer(world: World, cron: Cron, script: str) -> None:
    no_manager(world, script)
    assert world.ok("timer", "install").err == ""
    assert world.ok("timer", "status").out.startswith("gc runs every 5m, by cron\n")
    complains(
        world.sesh("timer", "install", "--scheduler", "systemd"),
        *(5, "does not answer", "--scheduler cron"),
    )
    assert b"--auto" in cron.list()


def test_no_scheduler_at_all(world: World) -> None:
    world.env["PATH"] = str(world.root / "nowhere")
    complains(world.sesh("timer", "install"), 5, "install cron", "sesh gc --auto")
    complains(world.sesh("timer", "install", "--scheduler", "cron"), 5, "no crontab command")
    complains(world.sesh("timer", "install", "--scheduler", "systemd"), 5, "not found")
    assert world.sesh("timer", "status").code == 1
    assert world.ok("timer", "remove").err == "no timer was installed\n"


# --- settings that cannot be read ----------------------------------------------------------------


def test_install_refuses_settings_with_an_error(world: World, cron: Cron) -> None:
    world.configure("[gc]\nmax_aeg = 1\n")
    for options in ((), ("--every", "1h", "--scheduler", "cron"), ("--watch",)):
        complains(
            world.sesh("timer", "install", *options),
            *(6, "config.toml:2: unknown key gc.max_aeg; did you mean gc.max_age?"),
        )
    assert not cron.exists


def test_status_and_remove_only_warn_of_it(world: World, cron: Cron) -> None:
    world.ok("timer", "install")
    world.configure("[gc]\nmax_aeg = 1\n")
    for words in (["status"], ["status", "--json"], []):
        done = world.ok("timer", *words)
        assert ("5m" in done.out or "300" in done.out, done.err.count("\n")) == (True, 1)
        assert "config.toml:2: unknown key gc.max_aeg" in done.err
    assert "config.toml:2: unknown key gc.max_aeg" in world.ok("timer", "remove").err
    assert not cron.exists


# --- two state directories ---------------------------------------------------------------------


def other_directory(world: World) -> World:
    """The same user with another state directory."""
    other = copy(world)
    other.env = {**world.env, "XDG_STATE_HOME": f"{world.root}/other 100%"}
    return other


def test_each_state_directory_has_its_own_timer(world: World, cron: Cron) -> None:
    other = other_directory(world)
    world.ok("timer", "install", "--scheduler", "cron")
    assert other.sesh("timer", "status").code == 1
    other.ok("timer", "install", "--scheduler", "cron", "--every", "1h")
    assert world.ok("timer", "status", "--json").json["every"] == 300
    assert other.ok("timer", "status", "--json").json["every"] == 3600
    world.ok("timer", "remove")
    assert world.sesh("timer", "status").code == 1
    assert world.sesh("timer").err == world.sesh("timer", "status").err
    assert other.ok("timer").out.startswith("gc runs every 1h, by cron\n")
    assert other.ok("timer", "status", "--json").json["every"] == 3600
    other.ok("timer", "remove")
    assert not cron.exists


def test_a_block_without_a_key_is_of_the_state_directory_that_it_names(
    world: World, cron: Cron
) -> None:
    """Versions before the key wrote such blocks."""
    other = other_directory(world)
    other.ok("timer", "install", "--scheduler", "cron")
    key = b" " + other.key.encode()
    old = MINE + cron.list().replace(key, b"") + MINE
    cron.set(old)
    assert world.sesh("timer", "status").code == 1
    assert world.ok("timer", "remove").err == "no timer was installed\n"
    assert cron.list() == old
    assert other.ok("timer", "status", "--json").json["every"] == 300
    other.ok("timer", "install", "--scheduler", "cron")
    assert cron.list().replace(key, b"") == old
    cron.set(old)
    other.ok("timer", "remove")
    assert cron.list() == MINE + MINE


# --- options -----------------------------------------------------------------------------------


def test_times_that_cannot_be(world: World, cron: Cron) -> None:
    refused = [
        (("--every", "59s"), "1m at least"),
        (("--every", "7m", "--scheduler", "cron"), "the nearest is 6m or 10m"),
        (("--every", "often"), "is not a time"),
    ]
    for options, word in refused:
        complains(world.sesh("timer", "install", *options), 2, word)
    assert not cron.exists


def test_options_go_with_their_actions(world: World) -> None:
    complains(world.sesh("timer", "remove", "--every", "5m"), 2, "sesh timer install")
    complains(world.sesh("timer", "status", "--scheduler", "cron"), 2, "sesh timer install")
    complains(world.sesh("timer", "install", "--json"), 2, "sesh timer status")
    complains(world.sesh("timer", "start"), 2, "install")


def test_a_watch_needs_systemd(world: World) -> None:
    complains(world.sesh("timer", "install", "--watch", "--every", "5m"), 2, "cannot be combined")
    complains(world.sesh("timer", "install", "--watch", "--scheduler", "cron"), 2, "cron")
    complains(world.sesh("timer", "status", "--watch"), 2, "sesh timer install")
    no_manager(world)
    complains(world.sesh("timer", "install", "--watch"), 5, "without --watch")


def test_when_it_last_ran(world: World, cron: Cron) -> None:
    world.ok("timer", "install")
    stamp(world, age=180)
    assert "  last run   3m ago\n" in world.ok("timer", "status").out
    stamp_age = 3600 * 5
    (last,) = world.state.glob("run/*/gc.last")
    os.utime(last, (time.time() - stamp_age,) * 2)
    assert "  last run   5h ago   late: " in world.ok("timer", "status").out


def test_on_a_terminal(world: World, cron: Cron) -> None:
    terminal = Terminal(
        world, env={"PATH": f"{world.root}/bin:{os.path.dirname(SESH)}:/usr/bin:/bin"}
    )
    terminal.run("sesh timer status; sesh timer install --every 10m; sesh timer status")
    terminal.see_screen(
        """
        $ sesh timer status; sesh timer install --every 10m; sesh timer status
        gc is not scheduled; next: sesh timer install
        gc runs every 10m, by cron
        gc runs every 10m, by cron
          last run   never yet
        $
        """
    )


# --- to the end --------------------------------------------------------------------------------


def an_end_that_nobody_called_about(world: World) -> None:
    """A session whose keeper's call back is lost: only a timer can tell of its end."""
    shown = world.start("a", "sh", "-c", "sleep 0.5; exit 3")
    (callback,) = world.state.glob("run/*/callback")
    callback.write_text("exit 0\n")
    assert eventually(lambda: list(world.state.glob(f"run/*/{shown['id']}.1.exit")), 20)
    assert not noticed(world)


def noticed(world: World) -> bool:
    return [e["exit_code"] for e in world.events() if e["kind"] == "ended"] == [3]


@pytest.mark.timeout(300)
def test_a_real_cron_runs_the_line_in_its_own_environment(world: World, cron: Cron) -> None:
    """Takes up to a minute: cron looks at the clock."""
    need("unshare")
    world.env["XDG_STATE_HOME"] = f"{world.root}/100% o'd\\%"
    (world.root / "state").symlink_to(world.env["XDG_STATE_HOME"])
    (world.root / world.env["XDG_STATE_HOME"]).mkdir()
    cron.set(b'SHELL=/bin/sh\nPATH=/nowhere\nMAILTO=""\n')
    an_end_that_nobody_called_about(world)
    install(world, "cron", RUNS)
    with daemon(world):
        assert eventually(lambda: noticed(world), 150)
