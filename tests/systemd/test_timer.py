"""sesh timer with a real systemd: what is installed, what it runs, and that nothing is left."""

from __future__ import annotations

import re
from binascii import crc32

from tests.surroundings import complains
from tests.systemd.machine import UNITS, Machine, User
from tests.systemd.test_scopes import server, start
from tests.world import Done, eventually

MINE = "# mine\n@reboot true\n"
NO_BUS = ("XDG_RUNTIME_DIR=/nowhere", "DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere")
FAILING = """#!/bin/sh
[ "$2" != "{verb}" ] || {{ echo "Failed to $2: it is tired" >&2; exit 1; }}
exec /usr/bin/systemctl "$@"
"""
OLD = """#!/bin/sh
[ "$2" != list-timers ] || set -- "$1" "$2" "$4" # it prints a table
exec /usr/bin/systemctl "$@"
"""


def names(user: User, home: str = "") -> tuple[str, str, str]:
    """The units of a state directory: service and timer of gc, and the watch."""
    key = f"{crc32((home or f'{user.home}/.local/state').encode() + b'/sesh'):08x}"
    return f"sesh-gc-{key}.service", f"sesh-gc-{key}.timer", f"sesh-watch-{key}.service"


def status(user: User) -> Done:
    return user.sesh("timer", "status")


def shown(user: User) -> dict[str, object]:
    found: dict[str, object] = user.ok("sesh", "timer", "status", "--json").json
    return found


def with_env(user: User, *words: str) -> Done:
    """Variables, and then a command."""
    return user.run("env", *words)


def crontab(user: User) -> str:
    return user.run("crontab", "-l").out


# --- its life ------------------------------------------------------------------------------------


def test_install_list_status_remove(user: User) -> None:
    service, timer, _ = names(user)
    done = user.ok("sh", "-c", "umask 077; sesh timer install")
    assert (done.out, done.err) == ("", "")
    listing = user.ok("ls", "-l", f"{UNITS}/{service}", f"{UNITS}/{timer}").out
    assert listing.count("-rw-r--r--") == 2
    (listed,) = user.timers()
    assert (listed["unit"], listed["activates"], listed["last"]) == (timer, service, 0)
    lines = status(user).out.splitlines()
    assert lines[:2] == ["gc runs every 5m, by systemd", "  last run   never yet"]
    assert re.fullmatch(r"  next run   in [1-5]?\dm?s?( \d+s)?", lines[2])
    object_ = shown(user)
    assert str(object_.pop("next_run")).startswith("20")
    assert object_ == {
        "installed": True,
        "scheduler": "systemd",
        "every": 300,
        "schedule": "*-*-* *:0/5:00",
        "last_run": None,
        "lingering": True,
        "problem": None,
        "watch": False,
    }
    assert user.ok("sesh", "timer", "remove").err == ""
    assert user.timers() == []
    assert not user.exists(".config/systemd")
    assert status(user).code == 1


def test_gc_is_run_by_its_timer(user: User) -> None:
    """It writes down an end that nobody called about, and takes its memory along at last."""
    user.ok("sesh", "start", "a", "--", "sh", "-c", "read line; exit 3")
    (callback,) = [f for f in user.files(".local/state/sesh/run") if f.endswith("/callback")]
    user.write(f".local/state/sesh/run/{callback}", "exit 0\n")
    user.ok("sesh", "send", "a", "go")
    events = ".local/state/sesh/events.jsonl"
    assert '"ended"' not in user.read(events)
    user.ok("sesh", "timer", "install", "--every", "1m")
    user.often()
    assert eventually(lambda: '"exit_code":3' in user.read(events)), user.read(events)
    service, timer, _ = names(user)
    succeeded(user, service)
    assert shown(user)["last_run"] is not None
    user.ok("rm", "-r", f"{UNITS}/{timer}.d")
    stamps = ".local/share/systemd/timers"
    assert user.files(stamps) == [f"stamp-{timer}"]
    user.ok("sesh", "timer", "remove")
    assert user.files(stamps) == []


def succeeded(user: User, service: str) -> None:
    result = user.systemctl("show", "--property=Result,ExecMainStatus", service)
    assert result == "Result=success\nExecMainStatus=0\n"


def test_the_server_that_a_gc_starts_outlives_it(user: User) -> None:
    """A retry after its server was killed: by the timer, and in a scope of its own."""
    options = ("--retries", "3", "--retry-delay", "1s", "--retry-on", "lost")
    start(user, "a", *options)
    user.machine.ok("kill", "-KILL", str(server(user)))
    user.ok("sesh", "timer", "install", "--every", "1m")
    user.often()
    assert eventually(lambda: user.ls()["a"]["generation"] == 2), user.ls()
    assert eventually(lambda: user.ls()["a"]["state"] == "running")
    assert "/run-" in user.cgroup(server(user))
    user.ok("sesh", "timer", "remove")
    assert user.ls()["a"]["state"] == "running"


def test_every_word_and_variable_reaches_the_command(user: User) -> None:
    """By real units, in an odd place, with odd words."""
    odd = "a b%c$d ünï \" ' \\ \\\\ \\n ${HOME} $HOME %h ; #"
    program = f"{user.home}/a b%c$d/program"
    dump = 'import os, sys; print(ascii((sys.argv[1:], os.environ["XDG_STATE_HOME"])))'
    script = f"#!/bin/sh\nexec python3 -c '{dump}' \"$@\" >~/seen\n"
    user.write(program, script, "755")
    user.ok("/opt/sesh/bin/python3", "-c", INSTALL, program, odd, "gc")
    service = names(user)[0]
    kinds = user.systemctl("show", "--property=Type,KillMode", service)
    assert sorted(kinds.split()) == ["KillMode=process", "Type=oneshot"]
    user.systemctl("start", service)
    assert user.read("seen") == ascii(([odd, "gc"], f"/{odd}")) + "\n"
    files = [f"{UNITS}/{name}" for name in names(user)[:2]]
    done = user.run("systemd-analyze", "verify", "--user", "--man=no", *files)
    assert (done.code, done.out, done.err) == (0, "", "")


INSTALL = """
import sys
from sesh.supervision.timer import schedules, timers
env = {"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": f"/{sys.argv[2]}"}
timers.install(420, schedules.Scheduler.SYSTEMD, schedules.Job(tuple(sys.argv[1:]), env))
"""


def test_each_state_directory_has_its_own_timer_and_watch(user: User) -> None:
    odd = f'{user.home}/100% "odd" $HOME'
    other = (f"XDG_STATE_HOME={odd}", "sesh", "timer")
    user.ok("sesh", "timer", "install")
    assert with_env(user, *other, "status").code == 1
    assert with_env(user, *other, "install", "--every", "1h").code == 0
    assert with_env(user, *other, "install", "--watch").code == 0
    assert {one["unit"] for one in user.timers()} == {names(user)[1], names(user, odd)[1]}
    user.systemctl("start", names(user, odd)[0])
    succeeded(user, names(user, odd)[0])
    assert (shown(user)["every"], shown(user)["watch"]) == (300, False)
    user.ok("sesh", "timer", "remove")
    assert with_env(user, *other, "status", "--json").json["every"] == 3600
    assert user.systemctl("is-active", names(user, odd)[2]) == "active\n"
    assert with_env(user, *other, "remove").code == 0
    assert not user.exists(".config/systemd")


def test_units_without_a_key_are_of_the_state_directory_that_they_name(user: User) -> None:
    """Versions before the key wrote such units."""
    other = (f"XDG_STATE_HOME={user.home}/other", "sesh", "timer")
    user.ok("env", *other, "install")
    user.ok("env", *other, "install", "--watch")
    older(user, f"{user.home}/other")
    assert status(user).code == 1
    assert user.ok("sesh", "timer", "remove").err == "no timer was installed\n"
    told = with_env(user, *other, "status", "--json").json
    assert (told["every"], told["watch"], told["problem"]) == (300, True, None)
    user.ok("env", *other, "install")
    assert {one["unit"] for one in user.timers()} == {names(user, f"{user.home}/other")[1]}
    user.ok("env", *other, "remove")
    assert not user.exists(".config/systemd")


def older(user: User, home: str) -> None:
    """Install the units under the names that versions before the key gave them."""
    found = names(user, home)
    for name in found:
        new = re.sub(r"-[0-9a-f]{8}\b", "", name)
        user.run("systemctl", "--user", "disable", "--now", name)
        user.ok("mv", f"{UNITS}/{name}", f"{UNITS}/{new}")
    user.systemctl("daemon-reload")
    user.systemctl("enable", "--now", "sesh-gc.timer", "sesh-watch.service")


# --- what others do to it ------------------------------------------------------------------------


def test_a_timer_that_is_stopped_disabled_or_masked(user: User) -> None:
    user.ok("sesh", "timer", "install")
    timer = names(user)[1]
    user.systemctl("stop", timer)
    assert "systemd has not started the timer" in status(user).out
    user.systemctl("disable", timer)
    done = status(user)
    assert (done.code, "next: sesh timer install" in done.out) == (1, True)
    user.ok("sesh", "timer", "install")
    assert shown(user)["problem"] is None
    user.ok("ln", "-sf", "/dev/null", f"{UNITS}/{timer}")
    user.systemctl("daemon-reload")
    user.ok("sesh", "timer", "remove")
    assert user.files(UNITS) == []


def test_units_edited_by_hand_and_units_of_others(user: User) -> None:
    user.ok("sesh", "timer", "install")
    timer = f"{UNITS}/{names(user)[1]}"
    ours = user.read(timer)
    user.write(timer, ours.replace("*:0/5:00", "03:00"))
    user.write(f"{UNITS}/timers.target.wants/other.timer", "mine")
    assert "as edited by hand: *-*-* 03:00" in status(user).out
    user.ok("sesh", "timer", "install")
    assert user.read(timer) == ours
    user.ok("sesh", "timer", "remove")
    assert user.files(UNITS) == ["timers.target.wants/other.timer"]


def test_what_systemd_refuses_is_taken_away_again(user: User) -> None:
    for verb in ("daemon-reload", "enable", "restart"):
        user.write("bin/systemctl", FAILING.format(verb=verb), "755")
        done = with_env(user, f"PATH={user.home}/bin:/usr/bin:/bin", *SESH, "timer", "install")
        complains(done, 1, verb, "it is tired")
        assert user.files(UNITS) == []
    assert user.timers() == []


SESH = ("/usr/local/bin/sesh",)


def test_an_old_systemd_does_not_tell_when_it_runs_next(user: User) -> None:
    user.ok("sesh", "timer", "install")
    user.write("bin/systemctl", OLD, "755")
    told = with_env(user, f"PATH={user.home}/bin:/usr/bin:/bin", *SESH, "timer", "status", "--json")
    assert (told.json["installed"], told.json["next_run"]) == (True, None)


def test_without_a_way_to_the_manager(user: User) -> None:
    """From a place where systemd can't be asked: what is installed is shown and removed."""
    complains(
        with_env(user, *NO_BUS, "sesh", "timer", "install", "--scheduler", "systemd"),
        *(5, "does not answer", "--scheduler cron"),
    )
    complains(with_env(user, *NO_BUS, "sesh", "timer", "install", "--watch"), 5, "without --watch")
    user.ok("sesh", "timer", "install")
    user.ok("sesh", "timer", "install", "--watch")
    told = with_env(user, *NO_BUS, "sesh", "timer", "status", "--json").json
    assert (told["installed"], told["every"], told["watch"]) == (True, 300, True)
    assert "does not answer: Failed to connect to bus" in str(told["problem"])
    done = with_env(user, *NO_BUS, "sesh", "timer", "remove")
    assert (done.code, "systemd did not hear of it" in done.err) == (0, True)
    assert user.files(UNITS) == []
    user.systemctl("daemon-reload")


def test_a_unit_directory_that_cannot_be_written(user: User) -> None:
    user.write(".config/systemd", "a file")
    complains(user.sesh("timer", "install"), 6, "cannot write")


# --- beside cron ---------------------------------------------------------------------------------


def test_the_one_removes_the_other_and_both_are_seen(user: User) -> None:
    assert user.run("crontab", "-", stdin=MINE).code == 0
    user.ok("sesh", "timer", "install", "--scheduler", "cron")
    block = crontab(user)
    assert (user.files(UNITS), "--auto" in block) == ([], True)
    user.ok("sesh", "timer", "install")
    assert (len(user.files(UNITS)), crontab(user)) == (3, MINE)
    user.ok("sesh", "timer", "install", "--scheduler", "cron")
    assert (user.files(UNITS), crontab(user)) == ([], block)
    user.ok("sesh", "timer", "install")
    assert user.run("crontab", "-", stdin=block).code == 0
    assert "also in the crontab" in status(user).out
    user.ok("sesh", "timer", "remove")
    assert (user.files(UNITS), crontab(user)) == ([], MINE)


def test_a_crontab_that_cannot_be_read_is_left_alone(user: User) -> None:
    refusal = "You (me) are not allowed to use this program (crontab)"
    user.write("bin/crontab", f"#!/bin/sh\necho '{refusal}' >&2; exit 1\n", "755")
    done = with_env(user, f"PATH={user.home}/bin:/usr/bin:/bin", *SESH, "timer", "install")
    assert done.err.startswith("sesh: if the crontab has a block")


# --- the watch -----------------------------------------------------------------------------------


def test_a_watch_that_systemd_keeps_running(user: User) -> None:
    watch = names(user)[2]
    done = user.ok("sesh", "timer", "install", "--watch")
    assert (done.out, done.err) == ("", "")
    pid = main_pid(user, watch)
    assert user.machine.ok("cat", f"/proc/{pid}/cmdline").endswith("/sesh\0watch\0--quiet\0")
    assert status(user).out == "sesh watch supervises sessions, by systemd; gc is not scheduled\n"
    assert (shown(user)["watch"], shown(user)["installed"]) == (True, False)
    user.machine.ok("kill", "-KILL", pid)
    assert eventually(lambda: main_pid(user, watch) not in ("0", pid)), "systemd starts it again"
    start(user, "a")
    (told,) = user.sesh("doctor", "--json", "--only", "timer").json
    assert (told["level"], told["text"]) == ("ok", "a watch supervises sessions")
    user.systemctl("stop", watch)
    assert "systemd has not started the watch" in status(user).out
    (told,) = user.sesh("doctor", "--json", "--only", "timer").json
    assert "systemd has not started the watch" in told["text"]
    assert told["mend"] == "sesh timer install --watch"
    user.systemctl("disable", watch)
    done = status(user)
    assert (done.code, "next: sesh timer install --watch" in done.out) == (1, True)
    user.ok("sesh", "timer", "install", "--watch")
    user.ok("sesh", "timer", "install")
    lines = status(user).out.splitlines()
    assert (lines[0], lines[-1]) == (
        "gc runs every 5m, by systemd",
        "  watch      beside it, by systemd",
    )
    user.ok("sesh", "timer", "remove")
    assert user.run("systemctl", "--user", "is-active", watch).out == "inactive\n"
    assert not user.exists(".config/systemd")
    assert user.ls()["a"]["state"] == "running"


def main_pid(user: User, unit: str) -> str:
    return user.systemctl("show", "--property=MainPID", "--value", unit).strip()


# --- lingering -----------------------------------------------------------------------------------


def test_who_does_not_linger_is_told(machine: Machine) -> None:
    user = machine.user(linger=False)
    with user.logged_in():
        (said,) = user.ok("sesh", "timer", "install").err.splitlines()
        assert said.endswith("loginctl enable-linger")
        assert shown(user)["lingering"] is False
        assert "loginctl enable-linger" in status(user).out
        (told,) = user.sesh("doctor", "--json", "--only", "linger").json
        assert (told["level"], "enable-linger" in told["mend"]) == ("warn", True)
        start(user, "a")
    assert eventually(lambda: not user.has_manager()), "the last login has ended"
    user.linger()
    assert user.ls()["a"]["state"] in ("lost", "failed")
    (timer,) = user.timers()
    assert timer["next"] > 0
    assert status(user).out.splitlines()[-1].startswith("  next run")
    (told,) = user.sesh("doctor", "--json", "--only", "linger").json
    assert told["level"] == "ok"
    user.remove()
