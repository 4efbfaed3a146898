"""Sessions that nobody watches: limits, retries, breakers, health. Real agents, real time."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sesh.model.due import Facts
from sesh.model.errors import StateError
from sesh.model.observation import Observation, Session, Verdict, seen
from sesh.model.record import Record, Supervision
from sesh.model.states import State
from sesh.model.value_object import replace
from sesh.state import settings
from sesh.state.judge import Seen
from sesh.state.records import Entry
from sesh.supervision import facts, run_pass, supervise
from sesh.supervision.facts import Supervised
from sesh.supervision.health_checks import Memory
from sesh.system import processes
from tests import pace, samples
from tests.emulator import Terminal, reading
from tests.faults.clock import after_sleep, after_standstill, moved
from tests.faults.living import command_line
from tests.schedulers import put_first
from tests.surroundings import mounted, move, read_record, silence_timers, write_record
from tests.world import SESH, Done, World, count, eventually

FAST = ("--retry-delay", "300ms", "--retry-max-delay", "2s")
HOG = "import time; b = bytearray({} << 20); time.sleep(99)"
# A parent and its children, who all have the same memory: once altogether.
SHARING = """
import os, time
b = bytearray({} << 20)
for _ in range(3):
    if not os.fork():
        break
time.sleep(99)
"""


def on_record(world: World, name: str, key: str) -> str | None:
    """What its record says, read without looking at the session."""
    found = re.search(rf'^{key} = "?([^"\n]*)"?$', world.record(name).read_text(), re.M)
    return found[1] if found else None


def kinds(world: World, name: str) -> list[str]:
    return [event["kind"] for event in world.events() if event["name"] == name]


def ends(world: World, name: str) -> int:
    return kinds(world, name).count("ended")


def settled(world: World, name: str, within: float = 20.0) -> dict[str, Any]:
    """The session once it has ended for good."""
    assert eventually(
        lambda: world.state_of(name) in ("failed", "completed", "timeout", "lost", "stopped"),
        within,
    ), world.session(name)
    return world.session(name)


def fails_on_go(world: World) -> tuple[str, ...]:
    """A command that fails once the file `go` exists."""
    return ("sh", "-c", f"until [ -e {world.root}/go ]; do sleep 0.05; done; exit 1")


# --- timeouts ------------------------------------------------------------------------------------


def test_a_deadline_passes_between_passes(world: World) -> None:
    """Only tmux's own timer is there. It ends it within two seconds of its time, if the machine is
    not busy with other tests."""
    world.start("one", "sleep", "99", options=("--timeout", "2s"))
    assert eventually(lambda: on_record(world, "one", "outcome"), within=15) == "timeout"
    lived = (moment(world, "ended") - moment(world, "started")).total_seconds()
    assert 2 <= lived <= 2 + count(12, 2)
    shown = world.session("one")
    assert (shown["cause"], shown["reason"]) == ("timeout", "ran for its timeout (2s)")
    assert shown["attention"]
    time.sleep(0.5)
    assert ends(world, "one") == 1


@pytest.mark.parametrize("how", [("gc",), ("gc", "--auto"), ("pass",)])
def test_the_same_without_timers(world: World, how: tuple[str, ...]) -> None:
    silence_timers(world)
    world.start("one", "sleep", "99", options=("--timeout", "2s"))
    world.start("two", "sleep", "99", options=("--timeout", "1h"))
    time.sleep(2.1)
    assert world.state_of("one") == "running"
    world.ok(*how)
    assert (world.state_of("one"), world.state_of("two")) == ("timeout", "running")
    assert ends(world, "one") == 1


def test_a_dry_run_of_gc_shows_what_is_overdue(world: World) -> None:
    silence_timers(world)
    world.start("one", "sleep", "99", options=("--timeout", "4s"))
    world.start("two", "false", options=("--retries", "1", "--retry-delay", "3s"))
    time.sleep(4.5)
    planned = world.ok("gc", "--dry-run", "--json").json
    assert [(step["verb"], step["subject"]) for step in planned] == [
        ("end", "one"),
        ("restart", "two"),
    ]
    assert world.state_of("one") == "running"
    done = world.ok("gc", "--json").json
    assert all(step["done"] for step in done)
    assert world.state_of("one") == "timeout"


def test_an_agent_that_prints_nothing_is_ended_and_one_that_does_is_not(world: World) -> None:
    options = ("--idle-timeout", pace.option(2))
    world.start("quiet", "sleep", "99", options=options)
    loud = ("sh", "-c", "while :; do echo x; sleep 0.2; done")
    world.start("loud", *loud, options=options)
    assert settled(world, "quiet")["reason"].startswith("printed nothing for its idle timeout (")
    assert world.state_of("loud") == "running"


def test_paused_sessions_have_no_deadline(world: World) -> None:
    limit = pace.seconds(4)
    world.start("one", options=("--timeout", f"{limit}s"))
    world.ok("pause", "--hold", "one")
    time.sleep(limit + 0.2)
    world.ok("pass")
    assert world.state_of("one") == "paused"
    world.ok("resume", "one")
    world.ok("pass")
    assert world.state_of("one") == "running"
    assert settled(world, "one", within=limit + 20)["state"] == "timeout"


def test_a_timeout_counts_all_launches(world: World) -> None:
    """Killed on the way and launched again, it has only the rest of its time, and no retry after
    that, whatever is to be retried."""
    begin, limit = time.monotonic(), round(pace.seconds(9))
    options = ("--timeout", f"{limit}s", "--retries", "9", "--retry-on", "always", *FAST)
    world.start("one", options=options)
    time.sleep(limit / 2)
    kill(world, 1)
    assert eventually(lambda: _running(world, 2), within=10)
    lived = world.session("one")["lived"]
    assert limit / 2 < lived < limit
    shown = settled(world, "one")
    assert limit <= time.monotonic() - begin < limit + lived
    assert (shown["state"], shown["generation"]) == ("timeout", 2)
    assert re.fullmatch(r"ran for its timeout \(.+\), earlier launches included", shown["reason"])
    time.sleep(0.5)
    assert ends(world, "one") == 2
    world.ok("restart", "one")  # a person begins a new life
    assert world.session("one")["lived"] == 0
    assert re.search(r"\(\d+s left\)", world.ok("show", "one").out) or limit > 60
    assert world.state_of("one") == "running"


def test_a_retry_for_which_the_timeout_leaves_no_time_is_none(world: World) -> None:
    options = ("--timeout", "20s", "--retries", "3", "--retry-delay", "30s")
    world.start("one", "false", options=options)
    shown = settled(world, "one", within=5)
    no_time = "its timeout (20s) leaves no time for it"
    assert shown["reason"] == f"exit 1; not retried: {no_time}"
    assert (shown["state"], shown["retry_at"]) == ("failed", None)
    assert kinds(world, "one") == ["started", "ended"]


def test_a_retry_that_a_breaker_delays_beyond_the_timeout_is_given_up(world: World) -> None:
    world.configure("[breaker]\nfailures = 1\nwithin = 60\ncooldown = 60\n")
    options = ("--group", "g", "--timeout", "30s", "--retries", "5", *FAST)
    world.start("one", "false", options=options)
    assert eventually(lambda: on_record(world, "one", "gave_up"), within=15)
    shown = world.session("one")
    assert (shown["state"], shown["generation"], shown["retry_at"]) == ("failed", 2, None)
    assert "retries of group g are paused until" in shown["reason"]
    assert shown["reason"].endswith("its timeout (30s) leaves no time for it")
    assert ends(world, "one") == 3  # the last word is told, too
    assert kinds(world, "one").count("breaker-opened") == 1


def test_a_retry_that_waits_beyond_the_timeout_is_given_up(world: World) -> None:
    """As when the machine was asleep. gc says so, and before it what it would do."""
    delay = ("--retry-delay", "2s", "--retry-max-delay", "2s")
    silence_timers(world)
    world.start("one", "false", options=("--timeout", "4s", "--retries", "5", *delay))
    assert eventually(lambda: world.state_of("one") == "recovering", within=2)
    time.sleep(4)
    (planned,) = world.ok("gc", "--dry-run", "--json").json
    assert (planned["verb"], planned["subject"], planned["done"]) == ("give up", "one", False)
    told = "gave up   1 session whose timeout is over before its retry   one\n"
    assert world.ok("gc").out == told
    shown = world.session("one")
    assert (shown["state"], shown["generation"]) == ("failed", 1)
    assert shown["reason"].endswith("its timeout (4s) leaves no time for it")


def test_a_graceful_end_comes_before_a_kill(world: World) -> None:
    word = world.root / "word"
    script = f'trap "echo bye >{word}; exit 3" TERM; while :; do sleep 0.1; done'
    world.start("one", "sh", "-c", script, options=("--timeout", "1s"))
    assert settled(world, "one")["state"] == "timeout"
    assert word.read_text() == "bye\n"
    assert world.session("one")["exit_code"] == 3


@pytest.mark.parametrize(
    "limit", [("--timeout", "1s"), ("--max-memory", "64K", "--check-interval", "500ms")]
)
def test_sessions_that_ignore_the_grace_are_killed(world: World, limit: tuple[str, ...]) -> None:
    world.configure('[stop]\ngrace = "1s"\n')
    pid = world.start("one", *STUBBORN, options=limit)["pid"]
    shown = settled(world, "one")
    assert (shown["state"], shown["signal"], shown["exit_code"]) == ("timeout", 9, 137)
    assert not Path(f"/proc/{pid}").exists()
    assert ends(world, "one") == 1


@pytest.mark.long
def test_a_graceful_end_comes_before_a_kill_while_tmux_hangs(world: World) -> None:
    world.configure('[stop]\ngrace = "2s"\n')
    word = world.root / "word"
    script = f'trap "echo bye >{word}; exit 3" TERM; while :; do sleep 0.1; done'
    silence_timers(world)
    world.start("one", "sh", "-c", script, options=("--timeout", "1s"))
    server = world.server_pid()
    os.kill(server, signal.SIGSTOP)
    try:
        time.sleep(1)
        world.ok("pass")
    finally:
        os.kill(server, signal.SIGCONT)
    assert word.exists()
    assert (world.session("one")["state"], world.session("one")["exit_code"]) == ("timeout", 3)


def test_the_launch_timeout_of_a_start(world: World) -> None:
    world.start("one", options=("--launch-timeout", "7s"))
    assert on_record(world, "one", "launch_timeout") == "7.0"
    done = world.sesh("start", "two", "--launch-timeout", "0", "--", "sleep", "9")
    assert (done.code, "above 0" in done.err) == (2, True)


def test_a_launch_timeout_has_the_cause_launch(world: World) -> None:
    """sesh's own kill must not be taken for a terminal that somebody has closed, and what does not
    heed the kill must not begin later."""
    late = "trap '' HUP; sleep 1; exec /usr/bin/env \"$@\""
    put_first(world, "env", late)
    begun = world.root / "begun"
    options = ("--launch-timeout", "300ms")
    done = world.sesh("start", "one", *options, "--", "sh", "-c", f"touch {begun}; sleep 500")
    assert (done.code, done.out) == (1, "")
    assert "0.3 s, its launch timeout" in done.err
    time.sleep(1.5)
    seen = world.session("one")
    assert (seen["state"], seen["cause"]) == ("timeout", "launch")
    assert "launch timeout" in seen["reason"]
    assert not begun.exists()
    assert kinds(world, "one") == ["start-failed"]
    assert "timeout: no sign of the agent" in world.ok("events").out
    assert "stuck-starting" in world.sesh("doctor").out
    assert world.sesh("status", "one").code == 3


@pytest.mark.parametrize("patience", ["1ms", "5ms", "20ms", "50ms"])
def test_a_launch_report_at_the_last_moment_counts(world: World, patience: str) -> None:
    """Whoever wins the race: what is said, what is on record and what runs are the same."""
    options = ("--launch-timeout", patience)
    done = world.sesh("start", "one", *options, "--", "nohup", "sleep", "500")
    seen = world.session("one")
    if done.code:
        assert (done.code, seen["state"], seen["cause"]) == (1, "timeout", "launch")
        assert not [pid for pid in world.processes() if "sleep" in command_line(pid)]
    else:
        assert seen["state"] == "running"
        assert "lost" not in world.ok("events").out


def test_a_launch_that_another_sesh_gives_up_first_does_not_begin_later(world: World) -> None:
    """Whoever looks at the moment at which its time is over: nothing of it is left."""
    put_first(world, "env", "trap '' HUP; sleep 4; exec /usr/bin/env \"$@\"")
    begun = world.root / "begun"
    argv = ("start", "one", "--launch-timeout", "1s", "--", "sh", "-c", f"touch {begun}; sleep 500")
    starting = world.popen(*argv)
    assert eventually(world.record("one").exists)
    os.kill(starting.pid, signal.SIGSTOP)
    time.sleep(1.1)
    assert world.state_of("one") == "timeout"
    assert not list(world.state.glob("run/*/*.launch"))  # what has not begun by now never will
    os.kill(starting.pid, signal.SIGCONT)
    assert starting.wait(pace.seconds(20)) == 1
    time.sleep(3.5)
    assert not begun.exists()
    shown = world.session("one")
    assert (shown["state"], shown["cause"]) == ("timeout", "launch")
    assert not [pid for pid in world.processes() if "sleep 500" in command_line(pid)]


def test_an_agent_of_an_earlier_launch_is_an_orphan_that_can_be_ended(world: World) -> None:
    """Its record speaks of another launch: `doctor` finds it, and `stop --orphans` ends it."""
    world.start("one", "nohup", "sleep", "500")
    record = read_record(world, "one")
    agent = record.place.agent
    assert agent is not None
    place = replace(record.place, generation=2, agent=None, pane=None)
    ended = replace(record.status, outcome=State.FAILED, reason="exit 1", ended=datetime.now(UTC))
    write_record(world, replace(record, place=place, status=ended))
    assert "orphan-agent" in world.sesh("doctor").out
    done = world.sesh("stop", "--orphans", "-y")
    assert (done.code, str(agent.process.pid) in done.out + done.err) == (0, True), done
    assert not processes.alive(agent.process)


# --- retries -------------------------------------------------------------------------------------


def test_a_failure_is_retried_with_growing_delays_until_they_are_used_up(world: World) -> None:
    options = ("--retries", "3", "--retry-delay", "1s", "--retry-max-delay", "1500ms")
    world.start("one", "sh", "-c", "exit 3", options=options)
    recovering = world.session("one")
    assert (recovering["state"], recovering["reason"]) == ("recovering", "exit 3; retry 1 of 3")
    assert recovering["retry_at"]
    shown = settled(world, "one")
    assert (shown["state"], shown["retries"], shown["generation"]) == ("failed", 3, 4)
    assert shown["reason"] == "exit 3; all 3 retries are used up"
    assert shown["attention"]
    ended = [e for e in world.events() if e["kind"] == "ended"]
    again = [e for e in world.events() if e["kind"] == "restarted"]
    assert [event["retry"] for event in again] == [1, 2, 3]
    assert (len(ended), len(again)) == (4, 3)


def test_a_session_whose_last_retry_succeeds_has_completed(world: World) -> None:
    script = 'n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n; [ "$n" = 2 ]'
    world.start("one", "sh", "-c", script, options=("--retries", "5", *FAST))
    shown = settled(world, "one")
    assert (shown["state"], shown["generation"], shown["attention"]) == ("completed", 3, None)


@pytest.mark.parametrize(
    ("status", "options"),
    [("125", ()), ("0", ()), ("3", ("--retry-on", "lost")), ("3", ("--retry-on", "timeout"))],
)
def test_ends_that_are_not_retried(world: World, status: str, options: tuple[str, ...]) -> None:
    options = ("--retries", "3", *FAST, *options)
    world.start("one", "sh", "-c", f"sleep 0.3; exit {status}", options=options)
    settled(world, "one")
    time.sleep(1)
    world.ok("pass")
    assert world.session("one")["generation"] == 1


def test_a_session_lost_with_its_server_is_retried_on_request(world: World) -> None:
    options = ("--retries", "3", "--retry-on", "lost", *FAST)
    world.start("one", "sleep", "99", options=options)
    os.kill(world.server_pid(), signal.SIGKILL)

    def is_back() -> dict[str, Any] | None:
        world.ok("gc")
        return _running(world, 2)

    assert eventually(is_back)["retries"] == 1
    assert "recovering" in kinds(world, "one")


def test_the_end_by_a_limit_is_retried_if_that_is_wanted(world: World) -> None:
    options = ("--idle-timeout", "1s", "--retries", "1", "--retry-on", "timeout", *FAST)
    world.start("one", "sleep", "99", options=options)
    shown = settled(world, "one")
    assert (shown["state"], shown["cause"], shown["generation"]) == ("failed", "timeout", 2)
    assert shown["reason"].endswith("its one retry is used up")


def test_a_limit_in_each_launch_uses_up_the_retries(world: World) -> None:
    """However short the time is after which others have all of theirs again."""
    options = ("--idle-timeout", "1s", "--retries", "1", "--retry-on", "timeout,failure", *FAST)
    world.start("one", "sleep", "99", options=(*options, "--retry-reset", "300ms"))
    shown = settled(world, "one")
    assert (shown["state"], shown["retries"], shown["generation"]) == ("failed", 1, 2)


def test_a_stop_by_a_person_is_never_retried(world: World) -> None:
    options = ("--retries", "3", "--retry-on", "always", *FAST)
    world.start("one", "sleep", "99", options=options)
    world.ok("stop", "one")
    world.start("two", "false", options=("--retries", "3", "--retry-delay", "9s"))
    assert world.state_of("two") == "recovering"
    world.ok("stop", "two")
    time.sleep(1)
    world.ok("pass")
    for name in ("one", "two"):
        shown = world.session(name)
        assert (shown["state"], shown["generation"], shown["retry_at"]) == ("stopped", 1, None)


def test_a_restart_by_hand_needs_no_waiting_and_gives_back_all_retries(world: World) -> None:
    gate = world.root / "gate"
    options = ("--retries", "2", "--retry-delay", "9s")
    world.start("one", "sh", "-c", f"[ -e {gate} ] && exec sleep 99", options=options)
    assert world.state_of("one") == "recovering"
    gate.touch()
    world.ok("restart", "one")
    shown = world.session("one")
    assert (shown["state"], shown["generation"], shown["retries"]) == ("running", 2, 0)


def test_all_retries_are_available_after_a_healthy_run(world: World) -> None:
    options = ("--retries", "1", "--retry-reset", "1s", *FAST)
    world.start("one", "sh", "-c", "sleep 1.3; exit 1", options=options)
    assert eventually(lambda: world.session("one")["generation"] >= 4, within=20)
    assert world.session("one")["retries"] <= 1


def test_a_retry_that_cannot_be_made_is_notified(world: World) -> None:
    """Its saved environment is gone, and nobody has the variable that it was given."""
    options = ("--retries", "3", "--retry-delay", "500ms", "-e", "TOKEN=secret")
    world.start("one", *fails_on_go(world), options=options)
    for file in world.root.rglob("one-*.env"):
        file.unlink()
    (world.root / "go").touch()
    shown = settled(world, "one")
    assert (shown["state"], shown["generation"]) == ("failed", 1)
    assert "not retried" in shown["reason"]
    assert "TOKEN" in shown["reason"]


# --- breakers ------------------------------------------------------------------------------------


@pytest.mark.timeout(900)
def test_many_kills_in_a_row_open_the_breaker_and_its_cool_down_closes_it(world: World) -> None:
    """The delays are those of the clock, from the end of one agent to the beginning of the next.
    How late a busy machine may be tells only where they are long."""
    kills, first, longest = count(4, 20), count(1, 12), count(2, 12)
    cooldown = 3 * longest  # beyond the next retry, else nothing is put off
    world.configure(f"[breaker]\nfailures = {kills - 1}\nwithin = 900\ncooldown = {cooldown}\n")
    delays = ("--retry-delay", f"{first}s", "--retry-max-delay", f"{longest}s")
    world.start("one", "sleep", "999", options=("--retries", "30", *delays, "--group", "crew"))
    for number in range(kills):
        running(world, number + 1)
        if number:
            wanted = first if number == 1 else longest
            ended, due = last_retry(world)
            assert (due - ended).total_seconds() <= wanted * 1.1
            late = (moment(world, "started") - due).total_seconds()
            assert -wanted * 0.1 <= late <= wanted * count(20, 1) / 10
        kill(world, number + 1)
    assert eventually(lambda: world.session("one")["attention"], within=20), world.events()[-3:]
    shown = world.session("one")
    assert shown["state"] == "recovering"
    assert "retries of group crew are paused until" in shown["attention"]
    assert kinds(world, "one").count("breaker-opened") == 1
    found = world.sesh("doctor", "--json", "--only", "breaker")
    (finding,) = found.json
    assert (finding["level"], finding["mend"]) == ("warn", "sesh restart one")
    assert eventually(lambda: _running(world, kills + 1), within=cooldown + 20)
    set_for = [e["retry"] for e in world.events() if e["kind"] == "recovering"]
    assert set_for == list(range(1, kills + 1))


def test_a_breaker_opens_once_however_many_fail(world: World) -> None:
    world.configure("[breaker]\nfailures = 2\nwithin = 300\ncooldown = 60\n")
    options = ("--retries", "3", "--retry-delay", "200ms", "--group", "g")
    names = [f"s{number}" for number in range(5)]
    for number, name in enumerate(names):
        world.start(name, "sh", "-c", f"sleep {1 + number / 2}; exit 1", options=options)
    assert eventually(lambda: all(world.session(name)["attention"] for name in names), within=20)
    opened = [event for event in world.events() if event["kind"] == "breaker-opened"]
    assert len(opened) == 1
    assert len({world.session(name)["attention"] for name in names}) == 1
    (finding,) = world.sesh("doctor", "--json", "--only", "breaker").json
    assert finding["subjects"] == names
    assert finding["mend"] == f"sesh restart {' '.join(names)}"


def test_a_breaker_is_shown_before_a_retry_is_due(world: World) -> None:
    world.configure("[breaker]\nfailures = 1\nwithin = 300\ncooldown = 300\n")
    world.start("one", "false", options=("--group", "g"))
    world.start("two", "false", options=("--group", "g", "--retries", "3", "--retry-delay", "60s"))
    assert eventually(lambda: "retries of group g are paused" in world.ok("ls").out)
    (finding,) = world.sesh("doctor", "--json", "--only", "breaker").json
    assert finding["subjects"] == ["two"]
    assert finding["text"].endswith("(breaker open); waiting: two")


def test_a_session_without_retries_left_waits_for_no_breaker(world: World) -> None:
    world.configure("[breaker]\nfailures = 1\nwithin = 300\ncooldown = 300\n")
    options = ("--group", "g", "--retries", "1", "--retry-delay", "100ms")
    world.start("one", "sh", "-c", "sleep 0.5; exit 1", options=options)
    assert eventually(lambda: world.state_of("one") == "failed")
    assert world.session("one")["reason"].endswith("its one retry is used up")
    (finding,) = world.sesh("doctor", "--json", "--only", "breaker").json
    assert finding["subjects"] == []
    assert finding["text"].endswith("(breaker open)")


@pytest.mark.parametrize("state", ["failed", "running"])
def test_an_open_breaker_is_shown_without_waiting_sessions(world: World, state: str) -> None:
    """Also when its sessions never are retried, and when all of them run by now."""
    world.configure("[breaker]\nfailures = 1\nwithin = 300\ncooldown = 300\n")
    gate = world.root / "gate"
    script = f"[ -e {gate} ] && exec sleep 99; exit 1"
    for name in ("one", "two"):
        world.start(name, "sh", "-c", script, options=("--group", "g"))
        assert settled(world, name)["state"] == "failed"
    world.start("other", options=("--group", "h"))
    if state == "running":
        gate.touch()
        world.ok("restart", "one", "two")
    terminal = Terminal(world, columns=120)
    terminal.run("sesh ls")
    terminal.see("retries of group g are paused until")
    assert "group h" not in terminal.screen()
    (finding,) = world.sesh("doctor", "--json", "--only", "breaker").json
    assert "retries of group g are paused until" in finding["text"]
    assert finding["mend"] == "sesh ls --all --filter group=g"


def test_a_breaker_that_has_closed_is_not_shown(world: World) -> None:
    """Whatever is left of it, and whatever somebody has written there."""
    world.configure("[breaker]\nfailures = 1\nwithin = 300\ncooldown = 2\n")
    for name in ("one", "two"):
        world.start(name, "false", options=("--group", "g"))
        assert settled(world, name)["state"] == "failed"
    word = world.state / "breakers"
    assert word.exists()
    time.sleep(2.1)
    for text in (word.read_text(), "99999999999\n", "?\n", ""):
        word.write_text(text)
        terminal = Terminal(world, columns=120)
        terminal.run("sesh ls; echo done")
        terminal.see("done")
        assert "breaker" not in terminal.screen()
        (found,) = world.ok("doctor", "--json", "--only", "breaker").json
        assert found["level"] == "ok"


def last_retry(world: World) -> tuple[datetime, datetime]:
    """When the last retry was set, which is when the end was noticed, and for when."""
    event = [event for event in world.events() if event["kind"] == "recovering"][-1]
    return datetime.fromisoformat(event["time"]), datetime.fromisoformat(event["retry_at"])


def kill(world: World, generation: int) -> None:
    shown = running(world, generation)
    assert shown["retries"] == generation - 1
    os.kill(shown["pid"], signal.SIGKILL)
    assert eventually(lambda: ends(world, "one") == generation, within=20)


def running(world: World, generation: int) -> dict[str, Any]:
    shown = eventually(lambda: _running(world, generation), within=30)
    assert shown, world.session("one")
    assert isinstance(shown, dict)
    return shown


def _running(world: World, generation: int) -> dict[str, Any] | None:
    shown = world.session("one")
    right = shown["state"] == "running" and shown["generation"] == generation
    return shown if right else None


def test_the_delays_of_retries(world: World) -> None:
    """From the end to the time that is set for the next launch; and nothing is launched before."""
    options = ("--retries", "9", "--retry-delay", "1s", "--retry-max-delay", "3s")
    silence_timers(world)
    world.start("one", "sleep", "99", options=options)
    for generation, wanted in enumerate([1.0, 2.0, 3.0, 3.0], 1):
        os.kill(world.session("one")["pid"], signal.SIGKILL)
        assert eventually(lambda: world.state_of("one") == "recovering")
        ended, due = (moment(world, key) for key in ("ended", "retry_at"))
        assert wanted * 0.9 <= (due - ended).total_seconds() <= wanted * 1.1
        world.ok("pass")
        early = datetime.now(UTC) < due
        assert not early or world.session("one")["generation"] == generation
        time.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds()) + 0.05)
        world.ok("pass")
        assert world.session("one")["generation"] == generation + 1
        silence_timers(world)


def moment(world: World, key: str) -> datetime:
    text = on_record(world, "one", key)
    assert text
    return datetime.fromisoformat(text)


def test_a_breaker_holds_back_automatic_retries_only(world: World) -> None:
    """A person's restart is never refused: neither of what has failed, nor of what was lost without
    any fault of its own. A note says that the breaker is open."""
    world.configure("[breaker]\nfailures = 1\nwithin = 600\ncooldown = 600\n")
    gate = world.root / "gate"
    script = f"[ -e {gate} ] && exec sleep 99; exit 1"
    world.start("calm", options=("--group", "g"))
    for name in ("one", "two"):
        options = ("--group", "g", "--retries", "5", *FAST)
        world.start(name, "sh", "-c", script, options=options)
    assert eventually(lambda: world.session("one")["attention"], within=20)
    gate.touch()
    os.kill(world.server_pid(), signal.SIGKILL)
    assert eventually(lambda: world.state_of("calm") == "lost")
    again = world.sesh("restart", "--lost")
    assert (again.code, again.out) == (0, "calm\n"), again
    assert "retries of group g are paused until" in again.err
    for force in ((), ("--force",)):  # which scripts of older versions say
        world.ok("restart", *force, "one")
        assert world.state_of("one") == "running"


# --- what is wrong with one, and the others ------------------------------------------------------

STUBBORN = ("sh", "-c", "trap : TERM; while :; do sleep 0.1; done")


def test_a_session_that_does_not_end_does_not_delay_others(world: World) -> None:
    world.configure("[stop]\ngrace = 15\n")
    begin = time.monotonic()
    world.start("one", *STUBBORN, options=("--timeout", "1s"))
    world.start("two", "sleep", "99", options=("--timeout", "3s"))
    world.start("three", "sh", "-c", "sleep 2; exit 1", options=("--retries", "1", *FAST))
    assert eventually(lambda: on_record(world, "two", "outcome"), within=20) == "timeout"
    assert eventually(lambda: on_record(world, "three", "generation") == "2", within=20)
    assert time.monotonic() - begin < pace.seconds(12)
    assert world.state_of("one") == "stopping"


def test_a_stop_by_a_user_overrides_a_limit(world: World) -> None:
    """Also while sesh waits for it to end: it does not come back."""
    world.configure("[stop]\ngrace = 30\n")
    options = ("--idle-timeout", "1s", "--retries", "3", "--retry-on", "always", *FAST)
    world.start("one", *STUBBORN, options=options)
    assert eventually(lambda: world.state_of("one") == "stopping")
    begin = time.monotonic()
    world.ok("stop", "one", "--grace", "1s")
    assert time.monotonic() - begin < pace.seconds(15)
    shown = world.session("one")
    assert (shown["state"], shown["cause"]) == ("stopped", "stopped")
    time.sleep(1)
    assert world.session("one")["generation"] == 1
    assert kinds(world, "one").count("stopping") == 1


AGAIN = """
[ -e "$1" ] && trap 'echo TERM >>"$1"; exit 7' TERM && while :; do echo x; sleep 0.05; done
: >"$1"; trap 'sleep 1.2; exit 0' TERM; while :; do sleep 0.05; done
"""


def stops(world: World, name: str) -> Callable[[], bool]:
    return lambda: "stopping" in kinds(world, name)


def test_a_session_launched_again_while_its_last_launch_is_ended_lives(world: World) -> None:
    """A person restarts it during the grace; the pass that ends the old one lets the new one be."""
    world.configure("[stop]\ngrace = 8\n")
    silence_timers(world)
    for number in range(count(2, 20)):
        name, flag = f"s{number}", world.root / f"flag{number}"
        world.start(name, "sh", "-c", AGAIN, "sh", str(flag), options=("--idle-timeout", "1s"))
        time.sleep(1.1)
        ending = world.popen("pass")
        assert eventually(stops(world, name), pause=0.01)
        time.sleep(0.02 * number)
        world.ok("restart", name)
        assert ending.wait(pace.seconds(60)) == 0
        assert (world.state_of(name), flag.read_text()) == ("running", "")
        world.ok("rm", "--force", name)


def judged(record: Record, state: State) -> Seen:
    return Seen(Entry("", b"", record), Session(record, Observation(seen("x")), Verdict(state)))


def test_what_is_due_by_the_end_of_a_pass_is_done_at_once_and_what_was_tried_later() -> None:
    record = samples.record()
    record = replace(record, spec=replace(record.spec, supervision=Supervision(timeout=60.0)))
    one = Supervised(judged(record, State.RUNNING), Memory(), Facts(life=61.0), facts.now())
    soon = supervise._next_look(one, (), ())
    late = supervise._next_look(one, {"demo"}, ())
    assert soon is not None
    assert late is not None
    assert abs(soon - time.time()) < 5
    assert late - soon == pytest.approx(supervise.AGAIN, abs=5)


@pytest.mark.parametrize(
    ("boot", "pidns", "ours"),
    [("same", "same", True), ("same", "other", False), ("other", "other", True)],
)
def test_only_retries_of_this_machine_are_ours(boot: str, pidns: str, ours: bool) -> None:
    """The number of a pid namespace means something in one boot only."""
    here = processes.here()
    there = replace(
        here,
        boot=here.boot if boot == "same" else "other",
        pidns=here.pidns if pidns == "same" else "pid:[9]",
    )
    record = samples.record()
    record = replace(record, place=replace(record.place, machine=there))
    assert supervise.is_supervised(judged(record, State.RECOVERING)) is ours


def test_a_stop_that_cannot_be_taken_over_does_not_delay_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full just then, say."""
    silence_timers(world)
    world.start("stuck", *STUBBORN)
    asking = world.popen("stop", "stuck", "--grace", "60s")
    assert eventually(stops(world, "stuck"))
    asking.kill()
    asking.wait()
    world.start("one", options=("--timeout", "1s"))
    time.sleep(1.1)
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)

    def full(found: object) -> None:
        raise StateError("no space left")

    monkeypatch.setattr(run_pass, "take_over", full)
    done = run_pass.run_pass(settings.load())
    assert {str(problem) for problem in done.troubles} == {"no space left"}
    assert world.state_of("one") == "timeout"


def test_odd_events_keep_no_retry_waiting(world: World) -> None:
    world.start("one", "false", options=("--retries", "1", "--group", "g", *FAST))
    odd = {"time": "2026-11-15T12:00:00Z", "kind": "ended", "state": ["failed"], "group": "g"}
    with (world.state / "events.jsonl").open("a") as log:
        log.write(json.dumps(odd) + "\n")
    assert settled(world, "one")["generation"] == 2


def test_a_session_removed_while_it_is_ended_does_not_break_the_pass(world: World) -> None:
    world.configure("[stop]\ngrace = 2\n")
    silence_timers(world)
    world.start("one", *STUBBORN, options=("--timeout", "1s"))
    time.sleep(1.1)
    ending = world.popen("pass")
    assert eventually(stops(world, "one"), pause=0.01)
    world.ok("rm", "--force", "one")
    assert ending.wait(pace.seconds(60)) == 0


def test_a_retry_that_fails_does_not_delay_others(world: World) -> None:
    """Its saved environment can't be read: that is told, by an exit code too, and tried again."""
    options = ("--retries", "3", "--retry-delay", "300ms")
    go = world.root / "go"
    silence_timers(world)
    for name in ("one", "two"):
        waiting = f"until [ -e {go} ]; do sleep 0.05; done; exit 1"
        world.start(name, "sh", "-c", waiting, options=options)
    for path in world.runtime.glob("**/one-*.env"):
        path.unlink()
        path.mkdir()
    go.touch()

    def two_again() -> bool:
        assert world.sesh("pass").code in (0, 6)
        return bool(world.session("two")["generation"] > 1)

    assert eventually(two_again)
    assert world.session("one")["generation"] == 1


def test_a_retry_is_made_by_the_machine_that_launched_it(world: World) -> None:
    silence_timers(world)
    world.start("one", "false", options=("--retries", "3", "--retry-delay", "1s"))
    assert eventually(lambda: world.state_of("one") == "recovering")
    path = world.record("one")
    text = path.read_text()
    machine = re.search(r'(?m)^machine = "([^"]+)"', text)
    assert machine
    path.write_text(text.replace(machine[1], "f" * 32))
    time.sleep(1.2)
    world.ok("pass")
    assert world.session("one")["generation"] == 1


@pytest.mark.parametrize("end", ["exit 125", "kill -9 $$"])
def test_paused_sessions_are_not_retried(world: World, end: str) -> None:
    gate = world.root / "gate"
    script = f"while [ ! -e {gate} ]; do sleep 0.05; done; {end}"
    world.start("one", "sh", "-c", script, options=("--retries", "3", *FAST))
    world.ok("pause", "--hold", "one")
    gate.touch()
    shown = settled(world, "one")
    assert (shown["state"], shown["generation"]) == ("failed", 1)
    assert ("not retried: it was paused" in shown["reason"]) == ("kill" in end)


def test_125_is_not_retried_also_when_a_limit_has_ended_it(world: World) -> None:
    options = ("--idle-timeout", "1s", "--retries", "3", "--retry-on", "timeout", *FAST)
    script = "trap 'exit 125' TERM; while :; do sleep 0.1; done"
    world.start("one", "sh", "-c", script, options=options)
    shown = settled(world, "one")
    assert (shown["state"], shown["exit_code"], shown["generation"]) == ("timeout", 125, 1)


def test_after_a_pause_its_limits_run_again(world: World) -> None:
    """Only tmux's own timer is there, and it went off during the pause."""
    limit = pace.seconds(3)
    world.start("one", options=("--timeout", f"{limit}s"))
    world.ok("pause", "--hold", "one")
    time.sleep(limit + 1)
    world.ok("resume", "one")
    assert eventually(lambda: on_record(world, "one", "outcome"), within=10) == "timeout"


PRINTS = ("sh", "-c", "while :; do echo x; sleep 0.1; done")


@pytest.mark.parametrize("how", [after_sleep, after_standstill])
def test_time_in_suspend_is_not_silence(world: World, how: Callable[..., Done]) -> None:
    """The first pass after waking ends nobody for it, and neither does gc; who was silent for long
    enough before and after that is ended."""
    silence_timers(world)
    world.start("idle", options=("--idle-timeout", "5m"))
    world.start("hung", options=("--max-silence", "5m", "--retries", "3", *FAST))
    world.start("gc", options=("--max-idle", "5m"))
    world.ok("pass")  # the last one before
    pids = {name: world.session(name)["pid"] for name in ("idle", "hung", "gc")}
    for command in (("gc",), ("pass",), ("gc",), ("stop", "--idle", "5m", "-y")):
        done = how(world, 10 * 3600, *command)
        assert done.code == 0, done
        assert {name: world.session(name)["pid"] for name in pids} == pids, done
    later = 10 * 3600 + 320
    done = moved(world, (later, later, 320 if how is after_sleep else later), "pass")
    assert done.code == 0, done
    assert world.session("idle")["reason"].startswith("printed nothing for its idle timeout")


def test_output_without_a_transcript_is_not_silence(world: World) -> None:
    """The log pipe dies: it is laid anew. The transcript is gone: nobody can tell."""
    silence_timers(world)
    for name in ("one", "two"):
        world.start(name, *PRINTS, options=("--idle-timeout", "2s", "--max-silence", "2s"))
    for pid in map(int, children(world.server_pid())):
        if command_line(pid).startswith("cat"):
            os.kill(pid, signal.SIGKILL)
    (world.state / "transcripts" / f"{world.session('two')['id']}.log").unlink()
    time.sleep(2.5)
    world.ok("pass")
    assert (world.state_of("one"), world.state_of("two")) == ("running", "running")
    time.sleep(2.5)
    world.ok("pass")
    assert world.session("one")["health"] in (None, "ok")
    assert world.state_of("one") == "running"


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "megabytes", "limit", "ended"),
    [
        (HOG, 120, "100M", True),
        (HOG, 20, "100M", False),
        (SHARING, 120, "100M", True),
        (SHARING, 60, "100M", False),
    ],
    ids=["hog", "modest", "family over", "family under"],
)
def test_memory(world: World, script: str, megabytes: int, limit: str, ended: bool) -> None:
    options = ("--max-memory", limit, "--check-interval", "500ms")
    world.start("one", sys.executable, "-c", script.format(megabytes), options=options)
    if not ended:
        time.sleep(3)
        assert world.state_of("one") == "running"
        return
    shown = settled(world, "one")
    assert (shown["state"], shown["cause"]) == ("timeout", "limit")
    assert re.fullmatch(r"used more memory than max-memory: \d+M of 100M", shown["reason"])


def test_processor_time_of_a_whole_tree(world: World) -> None:
    options = ("--max-cpu-time", "1s", "--check-interval", "500ms")
    busy = "(while :; do :; done) & (while :; do :; done) & wait"
    world.start("busy", "sh", "-c", busy, options=options)
    world.start("lazy", "sleep", "99", options=options)
    shown = settled(world, "busy")
    assert (shown["state"], shown["cause"]) == ("timeout", "limit")
    assert "max-cpu-time" in shown["reason"]
    assert world.state_of("lazy") == "running"


def detached(script: str) -> tuple[str, ...]:
    """A command that leaves a process which is in nobody's tree: its parent has gone."""
    return ("sh", "-c", f"(setsid {sys.executable} -c '{script}' &); sleep 1000")


def test_processes_in_the_background_count(world: World) -> None:
    burner = "while 1: pass"
    limits = ("--check-interval", "500ms", "--max-memory", "60M", "--max-cpu-time", "2s")
    for name, script in (("hog", HOG.format(150)), ("burner", burner), ("modest", HOG.format(5))):
        world.start(name, *detached(script), options=limits)
    assert "max-memory" in settled(world, "hog")["reason"]
    assert "max-cpu-time" in settled(world, "burner")["reason"]
    assert world.state_of("modest") == "running"
    memory = world.ok("show", "--json", "modest").json["memory_bytes"]
    assert 5 << 20 < memory < 60 << 20
    assert [one["memory_bytes"] > 5 << 20 for one in world.ls("--wide") if one["pid"]] == [True]
    # What has ended by its limit is in the peak, also when nothing runs any more.
    world.ok("stop", "modest")
    assert world.ok("stats", "--json").json["memory_peak_bytes"] > 150 << 20
    assert "at most 1" in world.ok("show", "hog").out


def test_a_health_command_is_not_counted(world: World) -> None:
    options = ("--max-memory", "60M", "--check-interval", "300ms", "--health-interval", "500ms")
    health = f"{sys.executable} -c '{HOG.format(150)}'"
    world.start("one", options=(*options, "--health-timeout", "60s", "--health-cmd", health))
    time.sleep(3)
    assert world.state_of("one") == "running"


def test_shared_memory_counts_once(world: World) -> None:
    world.start("one", sys.executable, "-c", SHARING.format(50))
    time.sleep(0.5)
    shown = world.ok("show", "--json", "one").json["memory_bytes"]
    assert 50 << 20 < shown < 100 << 20
    assert world.ok("stats", "--json").json["memory_peak_bytes"] < 100 << 20


def test_the_kernel_enforces_max_cpu_time_between_passes(world: World) -> None:
    options = ("--max-cpu-time", "1s", "--check-interval", "100ms")
    silence_timers(world)
    world.start("one", "sh", "-c", "while :; do :; done", options=options)
    shown = settled(world, "one", within=30)
    assert (shown["state"], shown["cause"]) == ("timeout", "limit")
    assert shown["reason"] == "ended by the kernel beyond max-cpu-time (1s)"


# --- health --------------------------------------------------------------------------------------

HEALTH = ("--health-interval", "300ms", "--health-retries", "2", "--health-timeout", "700ms")


def test_silence_is_notified_once_until_the_next_output(world: World) -> None:
    world.start("one", "cat", options=("--max-silence", "1s"))
    assert eventually(lambda: world.session("one")["health"] == "hung", within=15)
    shown = world.session("one")
    assert (shown["state"], shown["attention"]) == ("running", "hung: silent for 1s")
    assert world.ok("doctor", "--prompt").out == "1 hung\n"
    assert world.sesh("doctor", "--json", "--only", "unwell").json[0]["level"] == "fail"
    time.sleep(1.5)
    assert kinds(world, "one").count("hung") == 1
    world.ok("send", "one", "hello")
    world.ok("pass")
    assert eventually(lambda: "healthy" in kinds(world, "one"))


@pytest.mark.long
def test_a_heartbeat_of_the_agent_counts(world: World) -> None:
    silence = pace.seconds(3)
    script = f"while :; do {SESH} update; sleep 0.4; done"
    world.start("one", "sh", "-c", script, options=("--max-silence", f"{silence}s"))
    time.sleep(1.5 * silence)
    world.ok("pass")
    assert world.session("one")["health"] == "ok"


@pytest.mark.parametrize(
    ("command", "why"),
    [("exit 7", "exited 7"), ("sleep 99", "took longer than 0.7s")],
    ids=["fails", "hangs"],
)
def test_a_failing_health_command_needs_attention(world: World, command: str, why: str) -> None:
    world.start("one", "sleep", "99", options=("--health-cmd", command, *HEALTH))
    assert eventually(lambda: world.session("one")["health"] == "failing", within=20)
    shown = world.session("one")
    assert (shown["state"], shown["generation"]) == ("running", 1)
    assert shown["attention"] == f"unhealthy: health check {why}"
    time.sleep(1)
    assert kinds(world, "one").count("failing") == 1


@pytest.mark.parametrize(
    ("supervision", "health"),
    [
        (("--health-cmd", "exit 7", *HEALTH), "failing"),
        (("--health-cmd", "sleep 99", *HEALTH), "failing"),
        (("--max-silence", "1s"), "hung"),
    ],
    ids=["fails", "hangs", "silent"],
)
def test_the_unwell_are_launched_again_while_they_have_retries(
    world: World, supervision: tuple[str, ...], health: str
) -> None:
    told = world.root / "told"
    world.configure(f"[notify]\ncommand = 'cat >/dev/null; echo told >>{told}'\n")
    world.start("one", "sleep", "99", options=(*supervision, "--retries", "1", *FAST))
    assert eventually(lambda: world.session("one")["generation"] == 2, within=30)
    assert eventually(lambda: world.session("one")["health"] == health, within=30)
    shown = world.session("one")
    assert (shown["state"], shown["generation"], shown["retries"]) == ("running", 2, 1)
    ended = next(event for event in world.events() if event["kind"] == "ended")
    assert (ended["state"], ended["cause"]) == ("failed", "health")
    assert eventually(told.exists)
    time.sleep(1)
    assert len(told.read_text().splitlines()) == 1, "somebody is told when nothing else helps"


def test_the_unwell_are_left_running_while_a_breaker_is_open(world: World) -> None:
    """To end one that may not be launched again would help nobody: somebody is told instead."""
    world.configure("[breaker]\nfailures = 1\nwithin = 60\ncooldown = 5\n")
    for name in ("a", "b"):
        world.start(name, "false", options=("--group", "g"))
    options = ("--health-cmd", "exit 7", *HEALTH, "--retries", "3", *FAST, "--group", "g")
    world.start("one", "sleep", "99", options=options)
    assert eventually(lambda: world.session("one")["health"] == "failing", within=20)
    assert world.session("one")["generation"] == 1
    assert kinds(world, "one").count("failing") == 1
    assert "overdue" not in world.sesh("doctor").out
    assert eventually(lambda: world.session("one")["generation"] >= 2, within=40), "it has closed"


def test_a_session_that_hangs_in_each_launch_uses_up_its_retries(world: World) -> None:
    options = ("--max-silence", "1s", "--retries", "1", "--retry-reset", "800ms", *FAST)
    world.start("one", "sleep", "99", options=options)
    assert eventually(lambda: world.session("one")["health"] == "hung", within=15)
    time.sleep(1)
    world.ok("pass")
    shown = world.session("one")
    assert (shown["generation"], shown["retries"], shown["health"]) == (2, 1, "hung")


def test_all_retries_are_available_if_it_ran_well_before_it_hung(world: World) -> None:
    options = ("--max-silence", "1s", "--retries", "1", "--retry-reset", "1s", *FAST)
    script = "for n in 1 2 3 4 5 6 7 8; do echo; sleep 0.2; done; sleep 99"
    world.start("one", "sh", "-c", script, options=options)
    assert eventually(lambda: world.session("one")["generation"] >= 3, within=30)
    assert "hung" not in kinds(world, "one")


def test_a_health_command_runs_in_the_place_of_its_session(world: World) -> None:
    work = world.root / "elsewhere"
    work.mkdir()
    command = 'echo "$PWD $TOKEN $SESH_NAME" >seen; test -e well'
    options = ("-C", str(work), "-e", "TOKEN=t", "--health-cmd", command, *HEALTH)
    world.start("one", "sleep", "99", options=options)
    (work / "well").touch()
    assert eventually(lambda: world.session("one")["health"] == "ok", within=20)
    assert (work / "seen").read_text() == f"{work} t one\n"
    (work / "well").unlink()
    assert eventually(lambda: world.session("one")["health"] == "failing", within=20)
    (work / "well").touch()
    assert eventually(lambda: world.session("one")["health"] == "ok", within=20)


def test_failures_while_it_starts_up_do_not_count(world: World) -> None:
    options = ("--health-cmd", "exit 1", *HEALTH, "--health-start-period", "1h")
    world.start("one", "sleep", "99", options=options)
    assert eventually(lambda: checks(world) >= 3, within=20)
    assert world.session("one")["health"] != "failing"


def test_resumed_sessions_are_supervised_at_once(world: World) -> None:
    """Though nobody had a reason to look at it soon when it was paused."""
    limit = pace.seconds(2)
    world.start("one", options=("--timeout", f"{limit}s"))
    world.ok("pause", "--hold", "one")
    time.sleep(limit + 0.5)
    world.ok("pass")
    world.ok("resume", "one")
    assert eventually(lambda: on_record(world, "one", "outcome") == "timeout", within=15)


def test_paused_time_does_not_count_as_start_period(world: World) -> None:
    period = pace.seconds(4)
    options = ("--health-cmd", "exit 1", *HEALTH, "--health-start-period", f"{period}s")
    world.start("one", options=options)
    world.ok("pause", "--hold", "one")
    time.sleep(period + 0.5)
    world.ok("resume", "one")
    before = checks(world)

    def checked_thrice() -> bool:
        world.ok("pass")
        return checks(world) >= before + 3

    assert eventually(checked_thrice, within=20)
    assert world.session("one")["health"] != "failing"
    assert eventually(lambda: world.session("one")["health"] == "failing", within=20)


@pytest.mark.parametrize(
    ("missing", "why"),
    [("directory", "its directory is gone"), ("environment", "its saved environment is gone")],
)
def test_a_health_command_that_can_not_run_has_failed(world: World, missing: str, why: str) -> None:
    work = world.root / "elsewhere"
    work.mkdir()
    world.start("one", "sleep", "99", options=("-C", str(work), "--health-cmd", "true", *HEALTH))
    assert eventually(lambda: world.session("one")["health"] == "ok", within=20)
    if missing == "directory":
        work.rmdir()
    else:
        next(world.runtime.glob("one-*.env")).unlink()
    assert eventually(lambda: world.session("one")["health"] == "failing", within=20)
    assert world.session("one")["attention"].startswith(f"unhealthy: health check failed: {why}")


@pytest.mark.parametrize("kind", ["care", "health", "check"])
def test_a_session_with_unusable_files_does_not_delay_others(world: World, kind: str) -> None:
    silence_timers(world)
    world.start("one", "sleep", "99", options=("--health-cmd", "true", *HEALTH))
    world.start("two", "sleep", "99", options=("--timeout", "1s"))
    stem = next(world.state.glob("run/*/one-*.pid")).with_suffix(f".{kind}")
    stem.unlink(missing_ok=True)
    (stem / "x").mkdir(parents=True)
    time.sleep(1.2)
    world.ok("pass")
    assert (world.state_of("one"), world.state_of("two")) == ("running", "timeout")


def test_a_full_disk_ends_no_pass(world: World) -> None:
    state = world.root / "state"
    silence_timers(world)
    with mounted(state, "size=1m"):
        world.start("one", "sleep", "99", options=("--health-cmd", "true", *HEALTH))
        fill = state / "fill"
        with open(fill, "wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        time.sleep(0.5)
        for _ in range(2):
            world.ok("pass")
            time.sleep(0.3)
        fill.unlink()
        world.ok("stop", "one")
        world.tmux("kill-server")


def checks(world: World) -> int:
    """How many health commands have ended."""
    found = [
        json.loads(file.read_text())["checks"] for file in world.state.glob("run/*/one-*.care")
    ]
    return max(found, default=0)


def test_no_health_command_is_left_behind(world: World) -> None:
    options = ("--health-cmd", "sleep 98765", "--health-interval", "200ms", "--health-timeout")
    world.start("one", "sleep", "99", options=(*options, "60s"))
    assert eventually(lambda: _sleeping("98765"), within=10)
    world.ok("stop", "one")
    assert eventually(lambda: not _sleeping("98765"))


def test_none_is_left_behind_when_its_agent_ends_by_itself(world: World) -> None:
    """Neither by a launch that is followed by another, nor by the last one."""
    options = ("--health-cmd", "sleep 98764", "--health-interval", "200ms", "--health-timeout")
    script = "while [ ! -e end ]; do sleep 0.1; done; exit 1"
    world.start("one", "sh", "-c", script, options=(*options, "60s", "--retries", "1", *FAST))
    assert eventually(lambda: _sleeping("98764"), within=10)
    (world.cwd / "end").touch()
    assert settled(world, "one", within=30)["generation"] == 2
    assert eventually(lambda: not _sleeping("98764"), within=10)
    assert not list(world.state.glob("run/*/*.check"))


def _sleeping(argument: str) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read().startswith(f"sleep\0{argument}".encode()):
                    found.append(pid)
        except OSError:
            continue
    return found


# --- settings ------------------------------------------------------------------------------------


def test_flags_come_before_variables_before_the_file(world: World) -> None:
    world.configure('[start]\nretries = 1\ntimeout = "1h"\nhealth_interval = "5m"\n')
    world.env["SESH_START_RETRIES"] = "2"
    world.env["SESH_START_TIMEOUT"] = "2h"
    supervision = world.start("one", options=("--retries", "3"))["care"]
    assert supervision == {"timeout": 7200.0, "retries": 3, "health_interval": 300.0}


SAID: dict[str, tuple[Any, ...]] = {  # by the file, a template, a variable, a flag
    "timeout": (3600.0, 7200.0, 10800.0, 14400.0),
    "idle_timeout": (3600.0, 7200.0, 10800.0, 14400.0),
    "launch_timeout": (11.0, 12.0, 13.0, 14.0),
    "retries": (4, 5, 6, 7),
    "retry_delay": (11.0, 12.0, 13.0, 14.0),
    "retry_max_delay": (31.0, 32.0, 33.0, 34.0),
    "retry_reset": (61.0, 62.0, 63.0, 64.0),
    "retry_on": (["lost"], ["timeout"], ["lost", "timeout"], ["always"]),
    "max_memory": (1 << 30, 2 << 30, 3 << 30, 4 << 30),
    "max_cpu_time": (60.0, 120.0, 180.0, 240.0),
    "check_interval": (31.0, 32.0, 33.0, 34.0),
    "health_cmd": ("true 1", "true 2", "true 3", "true 4"),
    "health_timeout": (31.0, 32.0, 33.0, 34.0),
    "health_start_period": (1.0, 2.0, 3.0, 4.0),
    "health_interval": (31.0, 32.0, 33.0, 34.0),
    "health_retries": (4, 5, 6, 7),
    "max_silence": (60.0, 120.0, 180.0, 240.0),
}


def test_flag_variable_template_file(world: World) -> None:
    """Who says it last is heard, for each kind of care."""
    directory = world.root / "config" / "sesh" / "templates"
    directory.mkdir(parents=True)
    file, template, variable, flag = ({key: SAID[key][n] for key in SAID} for n in range(4))

    def given(*options: str) -> dict[str, Any]:
        shown = world.start("one", options=options)
        world.ok("rm", "--force", "one")
        return {**shown["care"], "launch_timeout": shown["launch_timeout"]}

    def table(values: dict[str, Any]) -> str:
        lines = (f"{key} = {json.dumps(value)}" for key, value in values.items())
        return "\n".join(("[start]", *lines))

    def said(value: Any) -> str:
        return ",".join(value) if isinstance(value, list) else str(value)

    world.configure(table(file))
    assert given() == file
    (directory / "mine.toml").write_text(table(template))
    assert given("-t", "mine") == template
    world.env |= {f"SESH_START_{key.upper()}": said(value) for key, value in variable.items()}
    assert given("-t", "mine") == variable
    flags = [f"--{key.replace('_', '-')}={said(value)}" for key, value in flag.items()]
    assert given("-t", "mine", *flags) == flag


def test_a_scope_that_is_not_wanted(world: World) -> None:
    world.configure("[start]\nscope = true\n")
    assert "scope" in world.start("one")["care"]
    assert world.start("two", options=("--no-scope",))["care"] is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--retry-on", "sometimes"), "--retry-on sometimes: use failure, lost, timeout or always"),
        (("--max-memory", "5"), "'5' is below the minimum of 64K"),
        (("--max-memory", "9999999999999999999T"), "is above the maximum of 1024T"),
        (("--retry-delay", "0"), "--retry-delay should be above 0"),
        (("--timeout", "soon"), "is not a time"),
        (("--max-memory", "lots"), "is not a size"),
        (("--retries", "-1"), "--retries"),
    ],
)
def test_wrong_values_are_reported(world: World, options: tuple[str, ...], told: str) -> None:
    done = world.sesh("start", "one", *options, "--", "sleep", "9")
    assert (done.code, told in done.err) == (2, True), done.err
    assert not world.state.exists()


def test_a_retry_delay_above_the_maximum_is_refused(world: World) -> None:
    options = ("--retries", "1", "--retry-delay", "10m")
    done = world.ok("start", "one", *options, "--", "sleep", "9")
    assert "--retry-delay 10m exceeds --retry-max-delay; using 5m" in done.err


# --- what people see -----------------------------------------------------------------------------


def test_ls_and_show_show_the_supervision_of_a_session(world: World) -> None:
    options = ("--retries", "3", "--retry-delay", "50s", "--timeout", "1h", "--max-memory", "2G")
    health = ("--health-cmd", "true")
    world.start("one", "false", options=(*options, *health))
    assert re.search(r"exit 1; retry 1 of 3 in \d+s", world.ok("ls").out)
    shown = world.ok("show", "one").out
    assert re.search(r"timeout 1h, retries included \(59m\d+s left\), memory 2G", shown)
    retries = "0/3 used, on failure, backoff 50s–5m, reset after 10m, next at "
    assert f"retries    {retries}" in shown
    assert re.search(r"health     unknown \(no result yet\)\n +check: true\n +every 30s", shown)
    assert "sesh restart one   ·   sesh stop one" in shown


def test_show_prints_every_option(world: World) -> None:
    options = {
        "launch-timeout": "11s",
        "retries": "2",
        "retry-reset": "12s",
        "max-memory": "1G",
        "check-interval": "13s",
        "health-cmd": "true",
        "health-interval": "14s",
        "health-timeout": "15s",
        "health-retries": "16",
        "health-start-period": "17s",
        "timeout": "18s",
        "idle-timeout": "19s",
        "max-cpu-time": "20s",
        "max-silence": "21s",
        "breaker-failures": "22",
        "breaker-within": "23s",
        "breaker-cooldown": "24s",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    world.start("one", options=(*words, "--scope", "--group", "g"))
    supervision = world.ok("show", "one").out.partition("limits")[2].partition("why")[0]
    for number in range(11, 25):
        assert str(number) in supervision
    assert "scope" in supervision
    assert world.session("one")["launch_timeout"] == 11


def test_a_scope_that_is_unavailable_is_reported(world: World) -> None:
    done = world.ok("start", "one", "--scope", "--", "sleep", "9")
    assert (done.out, "no systemd user manager" in done.err) == ("one\n", True)


def test_show_names_an_open_breaker_and_the_next_command(world: World) -> None:
    world.configure("[breaker]\nfailures = 1\nwithin = 60\ncooldown = 60\n")
    options = ("--group", "g", "--retries", "1", *FAST)
    world.start("one", "false", options=options)
    world.start("two", "false", options=options)
    assert eventually(lambda: world.session("one")["attention"], within=20)
    for name in ("one", "two"):
        shown = world.ok("show", name).out
        clock = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(breaker open\)$"
        assert re.search(rf"breaker +retries of group g are paused until {clock}", shown, re.M)
        assert f"sesh restart {name}" in shown


def test_a_session_that_waits_for_a_retry_cannot_be_attached_to(world: World) -> None:
    world.start("one", "false", options=("--retries", "3", "--retry-delay", "50s"))
    done = world.sesh("attach", "one")
    assert (done.code, "sesh restart one" in done.err) == (3, True), done.err


def test_a_new_start_does_not_take_the_name_of_what_waits_for_a_retry(world: World) -> None:
    world.start("one", "false", options=("--retries", "3", "--retry-delay", "50s"))
    assert world.sesh("start", "one", "--", "true").code == 8


def test_one_pass_makes_the_checks_of_one_moment_for_all(world: World) -> None:
    """However unevenly they were started: as many passes as there are moments, not as checks."""
    names = [f"s{number}" for number in range(8)]
    health = f'touch "{world.root}/$(date +%s%N)-$SESH_NAME.checked"'
    options = ("--health-cmd", f"SESH_NAME={{}}; {health}", "--health-interval", "4s")
    for name in names:
        own = [word.replace("{}", name) for word in options]
        world.start(name, "sleep", "999", options=own)
        time.sleep(0.15)
    (callback,) = world.state.glob("run/*/callback")
    passes = world.root / "passes"
    callback.write_text(f"echo >>{passes}\n{callback.read_text()}")

    def checks(name: str) -> int:
        return len(list(world.root.glob(f"*-{name}.checked")))

    assert eventually(lambda: all(checks(name) >= 3 for name in names), within=60)
    made = sum(map(checks, names))
    assert made >= 3 * len(names)
    assert passes.read_text().count("\n") <= made / 3


# --- batches -------------------------------------------------------------------------------------


@pytest.fixture
def crew(world: World) -> World:
    for name in ("one", "two"):
        world.start(name, "cat", options=("--group", "crew"))
    world.start("other", "cat")
    return world


def test_a_text_for_a_group(crew: World) -> None:
    crew.ok("send", "--group", "crew", "hello", "there")
    for name in ("one", "two"):
        assert eventually(lambda n=name: "hello there" in crew.ok("logs", n).out)  # type: ignore[misc]
    assert "hello" not in crew.ok("logs", "other").out


def test_waiting_for_a_group(crew: World) -> None:
    crew.ok("send", "--group", "crew", "--key", "C-d")
    done = crew.ok("wait", "--group", "crew", "--timeout", "20s")
    assert sorted(done.out.splitlines()) == ["one completed", "two completed"]
    assert crew.sesh("wait", "--group", "none").code == 4
    assert crew.sesh("wait").code == 2


def test_stop_idle_sessions(crew: World) -> None:
    idle = pace.seconds(4)
    time.sleep(idle + 0.5)
    crew.ok("send", "two", "awake")
    crew.ok("stop", "--idle", f"{idle}s", "--group", "crew", "-y")
    states = {shown["name"]: shown["state"] for shown in crew.ls()}
    assert states == {"one": "stopped", "two": "running", "other": "running"}


def test_one_of_several_that_fails_is_named(crew: World) -> None:
    crew.ok("pause", "--hold", "two")
    done = crew.sesh("restart", "one", "two", "-y")
    assert done.code == 0
    crew.ok("pause", "--hold", "two")
    crew.record("one").write_text("")
    done = crew.sesh("resume", "one", "two")
    assert (done.code, "one" in done.err) == (9, True)


BATCHES = {
    "stop": ("stop", "--group", "crew", "-y"),
    "stop idle ones": ("stop", "--idle", "1ms", "--group", "crew", "-y"),
    "restart": ("restart", "--group", "crew", "-y"),
    "restart failed ones": ("restart", "--failed"),
    "pause": ("pause", "--group", "crew"),
    "resume": ("resume", "--group", "crew"),
    "send": ("send", "--group", "crew", "hello"),
}


@pytest.mark.parametrize("verb", BATCHES)
def test_a_session_of_a_group_that_fails_is_named_and_the_others_continue(
    crew: World, verb: str
) -> None:
    """One can't be asked; of those that have failed, one has no directory any more."""
    if verb == "resume":
        crew.ok("pause", "--hold", "--group", "crew")
    if verb == "restart failed ones":
        gone = crew.root / "gone"
        gone.mkdir()
        for name, where in (("one", gone), ("two", crew.cwd)):
            crew.ok("rm", "--force", name)
            crew.start(name, "false", options=("--group", "crew", "-C", str(where)))
            assert settled(crew, name)["state"] == "failed"
        gone.rmdir()
    else:
        move(crew, "one", id="f" * 32)
    done = crew.sesh(*BATCHES[verb])
    assert (done.code, done.err.count("\n")) == (9, 1), done
    assert "one" in done.err
    assert "two" not in done.err
    assert crew.session("other")["generation"] == 1
    done_with_two = {
        "stop": lambda: crew.state_of("two") == "stopped",
        "stop idle ones": lambda: crew.state_of("two") == "stopped",
        "restart": lambda: crew.session("two")["generation"] == 2,
        "restart failed ones": lambda: crew.session("two")["generation"] == 2,
        "pause": lambda: crew.state_of("two") == "paused",
        "resume": lambda: crew.state_of("two") == "running",
        "send": lambda: "hello" in crew.ok("logs", "two").out,
    }
    assert eventually(done_with_two[verb])


def test_one_of_a_group_that_is_damaged_while_it_is_waited_for(crew: World) -> None:
    crew.start("three", "false", options=("--group", "crew"))
    with reading(crew, "wait", "--group", "crew") as waiter:
        assert waiter.line() == "three failed"
        crew.record("one").write_text("")
        crew.ok("stop", "two")
        code, out, err = waiter.rest()
    assert (code, out) == (9, b"two stopped\n")
    assert (err.count("\n"), "one" in err) == (1, True)


# --- somebody is told ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (("--max-silence", "1s"), "hung"),
        (("--health-cmd", "exit 1", *HEALTH), "failing"),
        (("--health-cmd", "sleep 99", *HEALTH), "failing"),
    ],
    ids=["silent", "failing", "health command hangs"],
)
def test_one_notification_of_an_unhealthy_session(
    world: World, options: tuple[str, ...], kind: str
) -> None:
    told = world.root / "told"
    world.configure(f"[notify]\ncommand = \"tr -d '\\\\n' >>{told}; echo >>{told}\"\n")
    world.start("one", "sleep", "99", options=options)
    assert eventually(told.exists, within=30), world.session("one")
    time.sleep(3)
    (line,) = told.read_text().splitlines()
    assert (json.loads(line)["kind"], json.loads(line)["name"]) == (kind, "one")


def test_a_retry_is_no_news_but_the_last_failure_is(world: World) -> None:
    told = world.root / "told"
    world.configure(f"[notify]\ncommand = \"tr -d '\\\\n' >>{told}; echo >>{told}\"\n")
    world.start("one", "false", options=("--retries", "2", *FAST))
    settled(world, "one")
    assert eventually(told.exists, within=30)
    time.sleep(2)
    (line,) = told.read_text().splitlines()
    assert json.loads(line)["state"] == "failed"
    assert "all 2 retries are used up" in json.loads(line)["text"]


def test_one_notification_of_a_retry_that_could_not_be_launched(world: World) -> None:
    """Its directory is gone: each retry fails, and only the last failure is news."""
    work = world.root / "gone"
    work.mkdir()
    tells(world)
    options = ("-C", str(work), "--retries", "2", *FAST)
    world.start("one", *fails_on_go(world), options=options)
    work.rmdir()
    (world.root / "go").touch()
    shown = settled(world, "one")
    assert (shown["state"], shown["generation"], shown["retries"]) == ("failed", 3, 2)
    (line,) = told(world)
    assert (line["kind"], line["state"], line["cause"]) == ("ended", "failed", "launch")
    assert "all 2 retries are used up" in line["text"]
    # The record comes first, its event just after it.
    assert eventually(lambda: kinds(world, "one").count("restart-failed") == 2)
    assert ends(world, "one") == 3
    figures = world.ok("stats", "--json").json
    assert (figures["ends"], figures["recoveries"], figures["recovered"]) == (3, 2, 0)


def test_one_notification_of_a_retry_that_cannot_be_made(world: World) -> None:
    tells(world)
    options = ("--retries", "2", "--retry-delay", "1s", "-e", "TOKEN=secret")
    world.start("one", *fails_on_go(world), options=options)
    for file in world.root.rglob("one-*.env"):
        file.unlink()
    (world.root / "go").touch()
    settled(world, "one")
    (line,) = told(world)
    assert (line["kind"], line["state"], line["exit_code"]) == ("ended", "failed", 1)
    assert "not retried" in line["text"]
    assert world.ok("stats", "--json").json["ends"] == 1


def test_one_notification_of_an_end_without_further_retries(world: World) -> None:
    tells(world)
    options = ("--retries", "2", "--retry-delay", "300ms", "-e", "TOKEN=secret")
    silence_timers(world)
    world.start("one", "sleep", "99", options=options)
    for file in world.root.rglob("one-*.env"):
        file.unlink()
    os.kill(world.session("one")["pid"], signal.SIGKILL)
    time.sleep(1)
    world.ok("gc")
    settled(world, "one")
    (line,) = told(world)
    assert "not retried" in line["text"]


def test_retries_that_can_not_be_launched_open_the_breaker(world: World) -> None:
    world.configure("[breaker]\nfailures = 2\nwithin = 300\ncooldown = 60\n")
    work = world.root / "gone"
    work.mkdir()
    options = ("-C", str(work), "--group", "crew", "--retries", "9", *FAST)
    world.start("one", *fails_on_go(world), options=options)
    work.rmdir()
    (world.root / "go").touch()
    assert eventually(lambda: "breaker-opened" in kinds(world, "one")), world.events()
    assert world.session("one")["generation"] == 3


def tells(world: World) -> None:
    file = world.root / "told"
    world.configure(f"[notify]\ncommand = \"tr -d '\\\\n' >>{file}; echo >>{file}\"\n")


def told(world: World) -> list[dict[str, Any]]:
    """What somebody was told, once nothing more is to be expected."""
    file = world.root / "told"
    assert eventually(file.exists, within=20), world.events()
    time.sleep(2)
    return [json.loads(line) for line in file.read_text().splitlines()]


# --- a scope of its own --------------------------------------------------------------------------


def test_no_scope_where_none_answers(world: World) -> None:
    shown = world.start("one", "sleep", "99", options=("--scope", "--max-memory", "64M"))
    assert (shown["state"], command_line(shown["pid"])) == ("running", "sleep 99 ")
