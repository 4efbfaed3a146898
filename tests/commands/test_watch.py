"""sesh watch."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO

import pytest

from tests import pace
from tests.emulator import Terminal
from tests.surroundings import silence_timers
from tests.world import SESH, World, eventually

HEEDING = ("env", "--default-signal=HUP,INT")  # whoever runs the tests may ignore them


def watching(world: World, *options: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    argv = [*HEEDING, SESH, "watch", *options]
    watch = subprocess.Popen(argv, env=world.env, cwd=world.cwd, stdout=pipe, stderr=pipe)
    assert eventually(lambda: catches(watch.pid, signal.SIGTERM))  # it is up
    return watch


def catches(pid: int, number: signal.Signals) -> bool:
    """Has the process a handler for the signal?"""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (number - 1) & 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_does_what_is_due_and_ends_when_asked(world: World, number: int) -> None:
    silence_timers(world)
    world.start("one", "sleep", "99", options=("--timeout", "1s"))
    watch = watching(world, "--interval", "60s")
    assert eventually(lambda: world.state_of("one") == "timeout", within=60)
    assert eventually(lambda: "ended" in [event["kind"] for event in world.events()])
    watch.send_signal(number)
    out, err = watch.communicate(timeout=pace.seconds(60))
    assert (watch.returncode, err) == (0, b"")
    assert b"ended" in out
    assert b"ran for its timeout" in out


def test_two_of_them_are_harmless(world: World) -> None:
    options = ("--retries", "3", "--retry-delay", "200ms")
    silence_timers(world)
    world.start("one", "sh", "-c", "sleep 0.3; exit 1", options=options)
    both = [watching(world, "-q", "--interval", "200ms") for _ in range(2)]
    assert eventually(lambda: world.state_of("one") == "failed", within=30)
    for watch in both:
        watch.terminate()
        assert watch.communicate(timeout=pace.seconds(60)) == (b"", b"")
        assert watch.returncode == 0
    again = [event["retry"] for event in world.events() if event["kind"] == "restarted"]
    assert again == [1, 2, 3]


def test_settings_that_can_not_be_read_are_told_when_they_change_and_care_goes_on(
    world: World,
) -> None:
    told = world.root / "told"
    notify = f"[notify]\ncommand = 'cat >>{told}'\n"
    silence_timers(world)
    world.start("one", "sleep", "99", options=("--timeout", "1s"))
    world.configure(f"{notify}[stop\n")
    watch = watching(world, "--interval", "200ms")
    assert watch.stderr is not None
    assert b"not valid TOML" in watch.stderr.readline()
    assert eventually(lambda: "timeout" in [one.get("state") for one in world.events()], within=60)
    time.sleep(1)  # some rounds in which it is no news
    world.configure(f"{notify}[sotp]\n")
    assert b"unknown section [sotp]" in watch.stderr.readline()
    assert not told.exists()
    world.configure(notify)
    assert eventually(told.exists)  # a mended file counts
    world.configure("[sotp]\n")
    assert b"unknown section [sotp]" in watch.stderr.readline()
    watch.terminate()
    assert watch.communicate(timeout=pace.seconds(60))[1] == b""
    assert watch.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_what_it_was_started_to_ignore_does_not_end_it(
    world: World, number: signal.Signals
) -> None:
    name = number.name.removeprefix("SIG")
    argv = ["env", f"--ignore-signal={name}", SESH, "watch", "--interval", "200ms"]
    printed = world.root / "printed"
    with printed.open("wb") as file:
        watch = subprocess.Popen(argv, env=world.env, cwd=world.cwd, stdout=file)
    numbers = count()

    def tells() -> bool:
        """Of something that happens now?"""
        name = f"s{next(numbers)}"
        world.start(name, "true")
        return bool(eventually(lambda: f" {name} " in printed.read_text(), within=2))

    assert eventually(tells)
    watch.send_signal(number)
    assert tells()
    watch.terminate()
    assert watch.wait(pace.seconds(60)) == 0


def says_something(world: World, stream: IO[bytes], numbers: Iterator[int]) -> bool:
    """Does a watch say anything, now that something has happened again?"""
    world.start(f"s{next(numbers)}", "true")
    return bool(select.select([stream], [], [], 0)[0])


def test_a_full_disk_below_its_output_is_told_once_and_care_goes_on(world: World) -> None:
    silence_timers(world)
    world.start("one", "sleep", "99", options=("--timeout", "1s"))
    with open("/dev/full", "wb") as full:
        watch = subprocess.Popen(
            [SESH, "watch", "--interval", "200ms"],
            env=world.env,
            cwd=world.cwd,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert watch.stderr is not None
    assert eventually(partial(says_something, world, watch.stderr, count()), 60, pause=0.25)
    why = b"sesh: cannot write to standard output: No space left on device\n"
    assert watch.stderr.readline() == why
    assert eventually(lambda: world.state_of("one") == "timeout", within=60)
    watch.terminate()
    assert watch.communicate(timeout=pace.seconds(60))[1] == b""
    assert watch.returncode == 0


def test_it_ends_when_nobody_reads(world: World) -> None:
    watch = subprocess.Popen(
        ["/bin/sh", "-c", f"{SESH} watch --interval 100ms | head -n 1"],
        env=world.env,
        cwd=world.cwd,
        stdout=subprocess.PIPE,
    )
    numbers = count()

    def has_ended() -> bool:
        """When it has something to say again, that is."""
        world.start(f"s{next(numbers)}", "true")
        return watch.poll() is not None

    assert eventually(has_ended, 30, pause=0.25)
    out, _ = watch.communicate()
    assert len(out.splitlines()) == 1


def test_an_interval_of_nothing_is_refused(world: World) -> None:
    done = world.sesh("watch", "--interval", "0")
    assert (done.code, "at least 100ms" in done.err) == (2, True)


def test_it_collects_no_dead_children(world: World) -> None:
    """Health commands and notifications are children that nobody waits for."""
    world.configure('[notify]\ncommand = "cat >/dev/null"\non = ["failed"]\n')
    health = ("--health-cmd", "true", "--health-interval", "200ms")
    silence_timers(world)
    world.start("one", "sleep", "99", options=health)
    watch = watching(world, "-q", "--interval", "100ms")
    assert eventually(lambda: world.session("one")["health"] == "ok", within=60)
    world.start("two", "false")
    time.sleep(2)

    def dead() -> list[int]:
        return [child for child in children(watch.pid) if state(child) == "Z"]

    assert eventually(lambda: len(dead()) <= 1)  # that of this very moment
    watch.terminate()
    watch.communicate(timeout=pace.seconds(60))
    assert watch.returncode == 0


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""


def test_it_tells_also_what_was_written_late_or_before_the_clock_was_set(world: World) -> None:
    world.start("one", "sleep", "99")
    late = {"time": "2020-01-01T00:00:00.000Z", "kind": "hung", "name": "late", "id": "x"}
    log = world.state / "events.jsonl"
    with watching(world, "--interval", "100ms") as watch:
        assert watch.stdout is not None
        assert eventually(partial(says_something, world, watch.stdout, count()), 60, pause=0.25)
        with log.open("a") as lines:
            lines.write(json.dumps(late) + "\n")
        time.sleep(0.5)
        watch.terminate()
        out, _ = watch.communicate(timeout=pace.seconds(60))
    assert [line.split()[-2:] for line in out.decode().splitlines() if "late" in line] == [
        ["late", "hung"]
    ]


def test_on_a_terminal_it_says_what_it_does(world: World) -> None:
    silence_timers(world)
    terminal = Terminal(world)
    terminal.type("sesh watch --interval 90s; echo code $?")
    terminal.see("supervising all sessions, every 90 seconds or sooner; Ctrl-C ends it")
    terminal.press("C-c")
    terminal.see("code 0")
    terminal.type("clear; sesh watch -q; echo code $?")
    pids = eventually(lambda: [one for one in world.processes() if b"watch" in _argv(one)])
    assert eventually(lambda: catches(pids[0], signal.SIGTERM))  # it is up
    terminal.press("C-c")
    terminal.see("code 0")
    assert "supervising" not in terminal.screen()


def _argv(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
