"""`sesh pass` killed by -9 at any moment, while agents fail and are launched again: the next pass
converges, nothing is launched twice, no retry is lost."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from tests.faults.living import command_line, look, marked
from tests.faults.table import Campaign
from tests.surroundings import silence_timers
from tests.world import World, count, eventually

pytestmark = pytest.mark.timeout(count(600, 3600))

RETRIES = 1000
ROUNDS = (5, 500)
ANEW = 50  # rounds after which the retries of both might be used up: slow ones have many

AGENT = "sleep 0.05; exit 1"


def prepare(world: World) -> None:
    world.configure("[start]\nlaunch_timeout = 3\n[stop]\ngrace = 1\n")
    options = ("--retries", str(RETRIES), "--retry-delay", "20ms", "--retry-max-delay", "20ms")
    silence_timers(world)
    world.start("fails", "sh", "-c", AGENT, options=options)
    limits = ("--idle-timeout", "100ms", "--retry-on", "timeout,failure,lost")
    world.start("late", "sleep", "99", options=(*options, *limits))


def kill_a_pass(world: World, campaign: Campaign) -> None:
    done = world.popen("pass")
    time.sleep(campaign.random.uniform(0.02, 0.6))
    done.send_signal(signal.SIGKILL)
    done.wait()


def check(world: World, before: dict[str, dict[str, Any]]) -> None:
    """One agent at most; generations and retries go on from where they were."""
    for name, old in before.items():
        shown = world.session(name)
        agents = [pid for pid, id_ in marked(world).items() if id_ == shown["id"] and agent(pid)]
        assert len(agents) <= 1, f"{name} lives {len(agents)} times"
        assert shown["generation"] >= old["generation"], name
        assert shown["generation"] == shown["retries"] + 1, shown
        assert shown["state"] in ("running", "recovering", "starting", "stopping"), shown


def agent(pid: int) -> bool:
    """Is it the child of a keeper, and no keeper itself?"""
    known = look(pid)
    above = command_line(known.parent) if known and known.alive else ""
    return "keeper.sh" in above and "keeper.sh" not in command_line(pid)


def test_a_pass_killed_anywhere(world: World, campaign: Campaign) -> None:
    for number in range(count(*ROUNDS)):
        if number % ANEW == 0:
            world.sesh("rm", "--force", "fails", "late")
            prepare(world)
        with campaign.round(f"pass {number}"):
            before = {name: world.session(name) for name in ("fails", "late")}
            kill_a_pass(world, campaign)
            silence_timers(world)
            check(world, before)
            if number % 5 == 4:
                converges(world, before)
    campaign.remark(f"generations {[world.session(n)['generation'] for n in ('fails', 'late')]}")
    assert not campaign.wrong, campaign.told()


def converges(world: World, before: dict[str, dict[str, Any]]) -> None:
    """Whole passes launch both again: no retry was lost."""

    def gone_on() -> bool:
        world.ok("pass")
        silence_timers(world)
        return all(
            world.session(name)["generation"] > old["generation"] for name, old in before.items()
        )

    assert eventually(gone_on, within=20), [world.session(name) for name in before]


def test_events_tell_of_every_launch_once(world: World) -> None:
    """Whatever was killed: no generation is in the log twice."""
    prepare(world)
    campaign = Campaign("events")
    for _ in range(count(3, 50)):
        kill_a_pass(world, campaign)
        silence_timers(world)
    world.ok("pass")
    seen = [
        (event["name"], event["generation"], event["kind"])
        for event in world.events()
        if event["kind"] in ("restarted", "ended")
    ]
    assert len(seen) == len(set(seen))
    assert os.path.exists(world.record("fails"))
