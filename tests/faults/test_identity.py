"""Who is who, when pids come again, the clock moves or the boot id changes: nobody wrong is ended,
nobody alive is called dead."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sesh.model import record
from sesh.model.place import Agent, Process
from sesh.model.record import Status
from sesh.model.states import Desired, State
from sesh.model.value_object import replace
from tests.conftest import need
from tests.faults import reuse
from tests.faults.brooms import END_ORPHANS, ENDING, GENTLE, GRACE, KILLING_GC, LOOKING
from tests.faults.clock import at, moved
from tests.faults.innocents import Innocents
from tests.faults.living import Known, dead, kill, look
from tests.faults.table import Campaign
from tests.surroundings import before_this_boot, move, need_root, read_record, run, write_record
from tests.world import FULL, SESH, Done, World, count, eventually

pytestmark = pytest.mark.timeout(count(600, 3600))

CHECKOUT = Path(__file__).parents[2]
OLD_BOOT = "00000000-1111-2222-3333-444444444444"
HOUR, DAY, YEAR = 3600, 24 * 3600, 365 * 24 * 3600
NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


# --- pids that come again ------------------------------------------------------------------------


def need_namespaces(*command: str) -> None:
    need_root()
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("may not make namespaces here")


@pytest.mark.parametrize("scenario", reuse.SCENARIOS)
def test_pid_reuse(campaign: Campaign, scenario: str) -> None:
    need("tmux")
    need_namespaces(*NAMESPACE)
    rounds = count(1, 5)
    # A shell is the namespace's first process: it reaps what it inherits.
    reaper = ("sh", "-c", '"$@"; exit $?', "sh")
    python = (sys.executable, "-m", "tests.faults.reuse", scenario, str(rounds))
    with campaign.round(scenario):
        done = subprocess.run(
            [*NAMESPACE, *reaper, *python], cwd=CHECKOUT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    campaign.rounds += rounds - 1
    campaign.conclude()


def forge(world: World, name: str, victim: Known, boot: str | None = None) -> None:
    """A record whose agent has just the pid and the start ticks of somebody else."""
    record = read_record(world, name)
    assert record.place.agent is not None
    agent: Agent = replace(record.place.agent, process=Process(victim.pid, victim.start))
    machine = record.place.machine
    if boot:
        machine = replace(machine, boot=boot)
        record = before_this_boot(record)
    place = replace(record.place, agent=agent, machine=machine)
    write_record(world, replace(record, place=place))


@contextmanager
def innocents_in(world: World) -> Iterator[Innocents]:
    made = Innocents(world)
    try:
        yield made
    finally:
        made.end()


def abandon(world: World, name: str) -> dict[str, Any]:
    """A session whose agent and keeper have died unseen."""
    session = world.start(name)
    agent = look(session["pid"])
    assert agent is not None
    inner = look(agent.parent)
    assert inner is not None
    kill(inner.pid, agent.pid)
    assert eventually(lambda: dead(agent))
    return session


@pytest.mark.parametrize("boot", [None, OLD_BOOT], ids=["this boot", "an older boot"])
def test_same_pid_and_same_tick(world: World, campaign: Campaign, boot: str | None) -> None:
    """Start ticks count from the boot on, so another boot's process may have the same; and of two
    processes of one pid in one boot, two thirds had when it was forced."""
    with innocents_in(world) as innocents:
        for number in range(count(1, 5)):
            with campaign.round("same pid, same tick"):
                name = f"s{number}"
                abandon(world, name)
                innocents.plain("who has the agent's pid and tick")
                forge(world, name, innocents.all[-1].family[0], boot)
                session = world.session(name)
                assert session["state"] == "lost", session
                for argv in (*GENTLE, ("stop", name), *ENDING, ("rm", "-f", name)):
                    world.sesh(*argv)
                innocents.check()
    campaign.conclude()


# --- a clock that moves --------------------------------------------------------------------------


def test_the_clock_is_moved(world: World) -> None:
    """Else the campaigns would show nothing."""
    world.start("a")
    checked = seconds(listed(world, YEAR)["a"]["checked_at"])
    assert abs(checked - time.time() - YEAR) < 60


def listed(world: World, shift: int, *options: str) -> dict[str, dict[str, Any]]:
    """By name, and by pid for what outlives its session; the history comes last and is older."""
    done = at(world, shift, "ls", "--json", *options)
    assert done.code == 0, done
    return {
        one["name"] if one["generation"] else f"{one['name']} {one['pid']}": one
        for one in reversed(done.json)
    }


def seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


FIXED = ("state", "reason", "pid", "started", "created", "ended", "exit_code", "cause")


def check_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    changed = {key: (before[key], after[key]) for key in FIXED if before[key] != after[key]}
    assert not changed, f"before and after: {changed}"


def leave_behind(world: World, name: str) -> Known:
    """A process that outlives its session, and does not end when it is asked to."""
    file = world.cwd / f"{name}.pid"
    file.unlink(missing_ok=True)
    child = f"trap '' TERM HUP; echo $$ >{file}.new; mv {file}.new {file}; exec sleep 1000"
    session = world.start(name, "sh", "-c", 'setsid sh -c "$0" & exec sleep 1000', child)
    assert eventually(file.exists)
    found = look(int(file.read_text()))
    assert found is not None
    os.kill(session["pid"], signal.SIGKILL)
    assert eventually(lambda: world.state_of(name) == "failed")
    return found


SHIFTS = {"+1 hour": HOUR, "-1 year": -YEAR}
if FULL:
    SHIFTS |= {"-1 hour": -HOUR, "+1 year": YEAR}
shifts = pytest.mark.parametrize("shift", SHIFTS.values(), ids=SHIFTS)


@shifts
def test_moved_clock(world: World, campaign: Campaign, shift: int) -> None:
    """All say the same as before the clock was set; what lives is ended only when asked for."""
    for _ in range(count(1, 5)):
        agent = look(world.start("lives")["pid"])
        assert agent is not None
        world.ok("start", "done", "--", "true")
        assert eventually(lambda: world.state_of("done") == "completed")
        orphan = leave_behind(world, "left")
        before = {one["name"]: one for one in world.ls()}
        for argv in (("show", "lives"), ("ls", "--wide"), *LOOKING):
            with campaign.round(" ".join(argv)):
                done = at(world, shift, *argv)
                assert done.code == 0 or argv == ("doctor",), done
                assert not re.search(r"(?<!\S)-\d", done.out), f"a negative time: {done.out}"
        for options in ((), ("--all",)):
            with campaign.round(f"states {' '.join(options)}"):
                after = listed(world, shift, *options)
                check_same(before["lives"], after["lives"])
                # An end that is long past is not shown any more, without --all.
                for name in ("done", "left") if options or shift < 0 else ():
                    check_same(before[name], after[name])
        with campaign.round("start of an orphan"):
            began = seconds(listed(world, shift, "--all")[f"left {orphan.pid}"]["started"])
            assert abs(began - (time.time() + shift)) < 60, f"{began}: by its clock a minute ago"
        with campaign.round("gc"):
            world.ok(*KILLING_GC)
            done = at(world, shift, *KILLING_GC)  # it is new, whatever the clock says
            assert (done.code, dead(orphan), dead(agent)) == (0, False, False), done
            check_same(before["lives"], listed(world, shift)["lives"])
        with campaign.round("stop --orphans"):
            done = at(world, shift, "stop", "--orphans", "-y", "--grace", GRACE)
            assert (done.code, dead(orphan), dead(agent)) == (0, True, False), done
        with campaign.round("stop"):
            done = at(world, shift, "stop", "lives", "--grace", GRACE, timeout=20)
            assert (done.code, dead(agent)) == (0, True), done
            # By the clock of today the end may be long past.
            assert listed(world, 0, "--all")["lives"]["state"] == "stopped"
        world.sesh("rm", "-f", "lives", "done", "left")
    campaign.conclude()


@pytest.mark.parametrize("how", ["gc --auto", "gc"])
def test_gc_by_a_clock_that_is_40_days_ahead(world: World, how: str) -> None:
    """Nothing is deleted for its age by one clock alone, also not by a second gc. What is as old by
    both clocks goes at once, the rest when they have agreed for a day."""
    for name in ("done", "old"):
        world.start(name, "sh", "-c", f"echo {name}")
    assert eventually(lambda: {one["state"] for one in world.ls()} == {"completed"})
    world.ok("gc", "--older-than", "0")
    for path in world.state.glob("*/old-*"):
        os.utime(path, times=(time.time() - 31 * DAY,) * 2)
    assert kept(world) == {"done", "old"}
    dry = at(world, 40 * DAY, "gc", "--dry-run")
    assert re.search(r"would keep +1 history record .*but the clock jumped", dry.out), dry
    assert re.search(r"would remove +1 history record .*older than", dry.out), dry
    for _ in range(2):
        done = at(world, 40 * DAY, *how.split())
        assert (done.code, kept(world)) == (0, {"done"}), done
        assert len([*world.state.glob("transcripts/done-*.log")]) == 1
    done = moved(world, (41 * DAY + HOUR, DAY + HOUR, DAY + HOUR), *how.split())
    assert (done.code, kept(world)) == (0, set()), done


def kept(world: World) -> set[str]:
    return {record.name_of(path.stem) for path in (world.state / "history").iterdir()}


def rewrite(world: World, name: str, state: State, **status: object) -> None:
    """Change what a record says has happened."""
    record = read_record(world, name)
    write_record(world, replace(record, status=replace(record.status, **status)), state)


@shifts
def test_clock_moved_during_a_stop(world: World, campaign: Campaign, shift: int) -> None:
    """A stop was killed, then the clock was set: the next one ends it within the grace."""
    up = world.cwd / "up"
    script = f"trap '' TERM HUP; touch {up}; while :; do sleep 0.1; done"
    for _ in range(count(1, 5)):
        with campaign.round("stop"):
            up.unlink(missing_ok=True)
            agent = look(world.start("slow", "sh", "-c", script)["pid"])
            assert agent is not None
            assert eventually(up.exists)
            asked = datetime.now(UTC) - timedelta(seconds=shift)
            wish = {"desired": Desired.STOPPED, "stop_asked": asked, "stop_grace": 1.0}
            rewrite(world, "slow", State.STOPPING, **wish)
            assert world.state_of("slow") == "stopping"
            done = world.sesh("stop", "slow", timeout=20)
            assert (done.code, dead(agent)) == (0, True), done
            assert world.state_of("slow") == "stopped"
        if not campaign.wrong:
            world.ok("rm", "slow")
    campaign.conclude()


@shifts
def test_clock_moved_during_a_start(world: World, campaign: Campaign, shift: int) -> None:
    """A start was killed right after its claim, then the clock was set: it can be stopped and
    forgotten, and never for long is in anybody's way."""
    world.configure("[start]\nlaunch_timeout = 1\n")
    for number in range(count(1, 5)):
        with campaign.round("start"):
            name = f"s{number}"
            claim_only(world, name, datetime.now(UTC) - timedelta(seconds=shift))
            states = ("starting", "timeout") if shift < 0 else ("timeout",)
            assert world.state_of(name) in states, world.session(name)
            world.sesh("stop", name, timeout=20)
            assert world.state_of(name) in ("stopped", "timeout"), world.session(name)
            world.ok("rm", name)
    campaign.conclude()


def claim_only(world: World, name: str, launched: datetime) -> None:
    """What a `start` leaves that is killed right after its claim."""
    world.start(name, "true")
    assert eventually(lambda: world.state_of(name) == "completed")
    record = read_record(world, name)
    for path in Path(record.place.run).glob(f"{record.id}.*"):
        path.unlink()
    place = replace(record.place, agent=None, pane=None, server=None)
    status = Status(desired=Desired.RUNNING, launched=launched)
    write_record(world, replace(record, place=place, status=status), State.STARTING)


# --- another boot id -----------------------------------------------------------------------------


def after_reboot(world: World, *argv: str) -> Done:
    """Run sesh where the boot id is another one."""
    boot = world.root / "boot_id"
    boot.write_text(f"{OLD_BOOT}\n")
    script = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
    return run(world, "unshare", "--mount", "sh", "-c", script, str(boot), SESH, *argv)


def forget_boots(world: World) -> None:
    """Else they have shown that they go on beside each other, as those of two machines."""
    for path in world.state.glob("run/*/boot.*"):
        path.unlink()


def test_changed_boot_id(world: World, campaign: Campaign) -> None:
    """What lives, lives, whatever the boot id says; only what is gone was lost with the boot."""
    need_namespaces("unshare", "--mount")
    if after_reboot(world, "--version").code:
        pytest.skip("may not mount over the boot id here")
    for number in range(count(1, 5)):
        lives, gone = f"lives{number}", f"gone{number}"
        agent = look(world.start(lives)["pid"])
        assert agent is not None
        with campaign.round("looked at from another boot"):
            abandon(world, gone)
            write_record(world, before_this_boot(read_record(world, gone)))
            forget_boots(world)
            states = {one["name"]: one for one in after_reboot(world, "ls", "--json").json}
            assert states[lives]["state"] == "running", states[lives]
            assert states[gone]["reason"] == "this machine was restarted", states[gone]
        with campaign.round("the broom of another boot"):
            for argv in (*GENTLE, *ENDING):
                done = after_reboot(world, *argv)
                assert done.code == 0 or argv == ("doctor",), done
            assert not dead(agent), "a living agent was ended"
            assert world.state_of(lives) == "running"
        with campaign.round("its record names another boot"):
            forget_boots(world)
            move(world, lives, boot=OLD_BOOT)
            assert world.state_of(lives) == "running"
            world.ok(*END_ORPHANS)
            assert not dead(agent), "a living agent was ended"
        with campaign.round("stop"):
            world.ok("stop", lives)
            assert dead(agent)
            assert world.state_of(lives) == "stopped"
        world.sesh("rm", "-f", lives, gone)
    campaign.conclude()
