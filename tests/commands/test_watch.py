"""sesh watch."""

from __future__ import annotations

import signal
import subprocess
import time
from itertools import count
from pathlib import Path

import pytest

from tests.surroundings import silence_timers
from tests.world import SESH, World, eventually


def watching(world: World, *options: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [SESH, "watch", *options], env=world.env, cwd=world.cwd, stdout=pipe, stderr=pipe
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_does_what_is_due_and_ends_when_asked(world: World, number: int) -> None:
    world.start("one", "sleep", "99", options=("--timeout", "1s"))
    silence_timers(world)
    watch = watching(world, "--interval", "60s")
    assert eventually(lambda: world.state_of("one") == "timeout", within=60)
    watch.send_signal(number)
    out, err = watch.communicate(timeout=60)
    assert (watch.returncode, err) == (0, b"")
    assert b"ended" in out
    assert b"ran for its timeout" in out


def test_two_of_them_are_harmless(world: World) -> None:
    options = ("--retries", "3", "--retry-delay", "200ms")
    world.start("one", "sh", "-c", "sleep 0.3; exit 1", options=options)
    silence_timers(world)
    both = [watching(world, "-q", "--interval", "200ms") for _ in range(2)]
    assert eventually(lambda: world.state_of("one") == "failed", within=30)
    for watch in both:
        watch.terminate()
        assert watch.communicate(timeout=60) == (b"", b"")
        assert watch.returncode == 0
    again = [event["retry"] for event in world.events() if event["kind"] == "restarted"]
    assert again == [1, 2, 3]


def test_settings_that_can_not_be_read_are_told_and_it_goes_on(world: World) -> None:
    world.start("one", "sleep", "99", options=("--timeout", "1s"))
    silence_timers(world)
    world.configure("[stop\n")
    watch = watching(world, "--interval", "200ms")
    assert watch.stderr is not None
    assert b"not valid TOML" in watch.stderr.readline()
    world.configure("")
    assert eventually(lambda: world.state_of("one") == "timeout", within=60)
    watch.terminate()
    watch.communicate(timeout=60)
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
    assert (done.code, "100ms at least" in done.err) == (2, True)


def test_it_collects_no_dead_children(world: World) -> None:
    """Health commands and notifications are children that nobody waits for."""
    world.configure('[notify]\ncommand = "cat >/dev/null"\non = ["failed"]\n')
    health = ("--health-cmd", "true", "--health-interval", "200ms")
    world.start("one", "sleep", "99", options=health)
    silence_timers(world)
    watch = watching(world, "-q", "--interval", "100ms")
    assert eventually(lambda: world.session("one")["health"] == "ok", within=60)
    world.start("two", "false")
    silence_timers(world)
    time.sleep(2)
    dead = [child for child in children(watch.pid) if state(child) == "Z"]
    assert len(dead) <= 1  # that of this very moment
    watch.terminate()
    watch.communicate(timeout=60)
    assert watch.returncode == 0


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""
