"""Killed between an end and its event: the next look writes the event, and no end is told twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests import pace
from tests.faults.table import Campaign
from tests.surroundings import run, silence_timers
from tests.world import FULL, SESH, Done, World, count, eventually

pytestmark = pytest.mark.timeout(count(600, 3600))

# Killed just before the N-th of its operations on the files that an end and its event are in.
_KILLER = """\
import os, signal, sys
left = int(os.environ["TEST_KILL_AT"])
def hook(event, args):
    global left
    writes = event in ("os.rename", "os.remove") or event == "open" and args[2] & os.O_ACCMODE
    if writes and any(w in str(args[0]) for w in ("/sessions/", "/untold/", "events.jsonl")):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
"""
MOST = 200  # more operations than any of these commands makes


def killed_at(world: World, number: int, *argv: str) -> Done:
    directory = world.root / "killer"
    directory.mkdir(exist_ok=True)
    (directory / "sitecustomize.py").write_text(_KILLER)
    env = {**world.env, "PYTHONPATH": str(directory), "TEST_KILL_AT": str(number)}
    return run(world, SESH, *argv, env=env)


def begin(world: World, name: str, *command: str, options: Sequence[str] = ()) -> None:
    """Nobody looks at it by itself."""
    silence_timers(world)
    world.start(name, *command, options=options)


FAILS = ("sh", "-c", "sleep 0.5; exit 3")


def failed(world: World, name: str) -> tuple[str, ...]:
    begin(world, name, *FAILS)
    assert eventually(lambda: [*world.state.glob(f"run/*/{name}-*.exit")])
    return ("pass",)


def retried(world: World, name: str) -> tuple[str, ...]:
    begin(world, name, *FAILS, options=("--retries", "3", "--retry-delay", "5m"))
    assert eventually(lambda: [*world.state.glob(f"run/*/{name}-*.exit")])
    return ("ls", "--json")


def given_up(world: World, name: str) -> tuple[str, ...]:
    """One pass tells its end, and that it is not launched again: its directory is gone."""
    gone = world.root / name
    gone.mkdir()
    retry = ("--retries", "3", "--retry-delay", "10ms", "-C", str(gone))
    begin(world, name, *FAILS, options=retry)
    assert eventually(lambda: [*world.state.glob(f"run/*/{name}-*.exit")])
    gone.rmdir()
    return ("pass",)


def stopped(world: World, name: str) -> tuple[str, ...]:
    begin(world, name)
    return ("stop", name)


def reported(world: World, name: str) -> tuple[str, ...]:
    world.ok("start", name, "--record-only")
    return ("finish", name, "failed")


SCENARIOS = (failed, given_up, *((retried, stopped, reported) if FULL else ()))
Prepare = Callable[[World, str], tuple[str, ...]]


def check(world: World, name: str) -> None:
    """Each end is told once, and the last one is that of the record."""
    kinds = ("ended", "stopped")
    told = [one for one in world.events() if one["name"] == name and one["kind"] in kinds]
    keys = [(one["generation"], one["reason"]) for one in told]
    assert len(keys) == len({*keys}), keys
    shown = world.session(name)
    assert shown["ended"], shown
    assert keys[-1:] == [(shown["generation"], shown["reason"].partition("; retry ")[0])], shown
    assert not [*world.state.glob("run/*/untold/*")]


@pytest.mark.long
@pytest.mark.parametrize("prepare", SCENARIOS)
def test_killed_between_an_end_and_its_event(
    world: World, campaign: Campaign, prepare: Prepare
) -> None:
    """Before each of its operations on these files in turn; and who is to be notified is, once."""
    told = world.root / "told"
    notify = f"[notify]\ncommand = 'cat >>{told}; echo >>{told}'\non = ['failed']\n"
    world.configure(f"[start]\nlaunch_timeout = {pace.seconds(3):g}\n{notify}")
    step = count(8, 1) if prepare is given_up else 1
    for number in range(campaign.random.randint(1, step), MOST, step):
        name = f"n{number}"
        argv = prepare(world, name)
        done = killed_at(world, number, *argv)
        with campaign.round(f"{' '.join(argv)}, operation {number}"):
            world.ok("ls", "--json", "--all")
            if prepare in (stopped, reported):
                world.sesh(*argv)
            if prepare is given_up:
                assert eventually(partial(is_over, world, name))
            for _ in range(2):
                check(world, name)
                world.ok("pass")
        if done.code != -signal.SIGKILL:
            break
    assert (done.code, number > 3) == (0, True), done
    if prepare is failed:
        every = sorted(f"n{one}" for one in range(1, number + 1))
        assert eventually(lambda: sorted(notified(told)) == every), notified(told)
    campaign.remark(f"{campaign.rounds - 1} kills")
    campaign.conclude()


def is_over(world: World, name: str) -> bool:
    world.ok("pass")
    return world.state_of(name) == "failed"


def notified(told: Path) -> list[str]:
    lines = told.read_text().splitlines() if told.exists() else []
    return [json.loads(line)["name"] for line in lines if line]
