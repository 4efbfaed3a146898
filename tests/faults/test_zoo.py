"""The orphan zoo: whatever dies, every child that keeps its environment is found, named after its
session and, when asked, ended; and nothing else is ever touched."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.conftest import need
from tests.faults.brooms import END_ORPHANS, ENDING, FIX, GENTLE, GRACE, KILLING_GC, sweep
from tests.faults.innocents import Innocents, crowd
from tests.faults.living import dead, until
from tests.faults.table import Campaign
from tests.faults.zoo import KINDS, NAME, Animal, Zoo, open_zoo
from tests.world import World, count

pytestmark = pytest.mark.timeout(count(600, 3600))


# --- deaths --------------------------------------------------------------------------------------


def kill_pane(zoo: Zoo) -> None:
    zoo.world.tmux("kill-pane", "-t", str(zoo.session["pane"]))


def kill_session(zoo: Zoo) -> None:
    zoo.world.tmux("kill-session", "-t", f"={NAME}")


def end_server(zoo: Zoo) -> None:
    os.kill(zoo.server.pid, signal.SIGTERM)
    assert until(lambda: dead(zoo.server)), "the tmux server did not end"


def kill_server(zoo: Zoo) -> None:
    os.kill(zoo.server.pid, signal.SIGKILL)
    assert until(lambda: dead(zoo.server)), "the tmux server did not end"


def kill_agent(zoo: Zoo) -> None:
    os.kill(zoo.agent.pid, signal.SIGKILL)


def kill_outer_keeper(zoo: Zoo) -> None:
    os.kill(zoo.outer, signal.SIGKILL)


def kill_inner_keeper(zoo: Zoo) -> None:
    os.kill(zoo.inner, signal.SIGKILL)


@dataclass(frozen=True)
class Death:
    name: str
    deed: Callable[[Zoo], None]
    state: str


DEATHS = (
    Death("pane", kill_pane, "lost"),
    Death("session", kill_session, "lost"),
    Death("server", end_server, "lost"),
    Death("server by 9", kill_server, "lost"),
    Death("agent by 9", kill_agent, "failed"),
    Death("outer keeper by 9", kill_outer_keeper, "lost"),
    Death("inner keeper by 9", kill_inner_keeper, "lost"),
)


# --- what must be true ---------------------------------------------------------------------------


@dataclass
class Visit:
    """What was seen and done after one death."""

    zoo: Zoo
    lived: set[int]  # pids of what has outlived the session
    listed: dict[int, dict[str, object]]  # by `ls --all`
    told: str  # by `stop --orphans`


def visit(zoo: Zoo) -> Visit:
    """Look at what is left, then have it ended."""
    # What is hung up with its terminal may take a moment to die.
    until(lambda: not any(one.alive for one in zoo.animals if not one.kind.outlives), within=1)
    lived = {animal.process.pid for animal in zoo.animals if animal.alive}
    sweep(zoo.world, *GENTLE)
    listed = zoo.orphans()
    return Visit(zoo, lived, listed, zoo.world.ok(*END_ORPHANS).err)


def check(seen: Visit, animal: Animal) -> None:
    pid, kind = animal.process.pid, animal.kind
    assert pid in seen.lived or not kind.outlives, "it should have outlived its session"
    findable = pid in seen.lived and kind.hidden is None
    assert (pid in seen.listed) == findable, f"listed are {sorted(seen.listed)}"
    assert (f"process {pid} " in seen.told) == findable, seen.told
    if findable:
        check_shown(seen.listed[pid], seen.zoo.session, kind.kept)
    assert animal.alive == (pid in seen.lived and not kind.killable), "wrongly ended, or left"


def check_shown(
    shown: dict[str, object], session: dict[str, object], kept: str | None = None
) -> None:
    """An orphan is shown as what it is: whose, and whether it will be left alone."""
    reason = f"outlives its session ({kept})" if kept else "outlives its session"
    assert shown["reason"] == reason, shown
    assert (shown["name"], shown["id"]) == (session["name"], session["id"]), shown
    assert shown["generation"] is None, shown


def check_swept(zoo: Zoo) -> None:
    """Afterwards only what must be left alone is still shown, and a second broom finds nothing."""
    kept = {kind.kept for kind in KINDS if kind.kept}
    for one in zoo.orphans().values():
        assert any(why in str(one["reason"]) for why in kept), f"still there: {one}"
    assert "no orphans to end" in zoo.world.ok(*END_ORPHANS).err


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.name)
def test_zoo(world: World, campaign: Campaign, death: Death) -> None:
    need("bash")
    for _ in range(count(1, 5)):
        with open_zoo(world) as zoo:
            with campaign.round("its end"):
                death.deed(zoo)
                assert until(zoo.agent_ended), "the agent did not end"
                assert world.state_of(NAME) == death.state
            seen = visit(zoo)
            for animal in zoo.animals:
                with campaign.round(animal.kind.name):
                    check(seen, animal)
            with campaign.round("afterwards"):
                check_swept(zoo)
    hidden = [kind.name for kind in KINDS if kind.hidden]
    campaign.remark(f"can't be found: {', '.join(hidden)}")
    campaign.conclude()


def wait_two_minutes(world: World) -> None:
    """Make what gc has seen that much older, instead."""
    (path,) = world.state.glob("run/*/orphans.seen")
    boot, *lines = path.read_text().splitlines()
    words = [line.rpartition(" ") for line in lines]
    older = [f"{what} {float(seconds) - 120}" for what, _, seconds in words]
    path.write_text("\n".join([boot, *older, ""]))


def test_zoo_gc(world: World, campaign: Campaign) -> None:
    """`gc --kill-orphans` ends the same, but not what it sees for the first time."""
    need("bash")
    for _ in range(count(1, 3)):
        with open_zoo(world) as zoo, campaign.round("gc"):
            kill_agent(zoo)
            assert until(zoo.agent_ended), "the agent did not end"
            until(lambda: not any(one.alive for one in zoo.animals if not one.kind.outlives), 1)
            lived = {one.kind.name for one in zoo.animals if one.alive}
            sweep(world, KILLING_GC, KILLING_GC)
            assert {one.kind.name for one in zoo.animals if one.alive} == lived, "too early"
            wait_two_minutes(world)
            sweep(world, KILLING_GC)
            wrong = [
                one.kind.name
                for one in zoo.animals
                if one.alive != (one.kind.name in lived and not one.kind.killable)
            ]
            assert not wrong, f"wrongly ended, or left: {', '.join(wrong)}"
            check_swept(zoo)
    campaign.conclude()


# --- sesh itself is killed -----------------------------------------------------------------------


def kill_sesh(zoo: Zoo, campaign: Campaign, *argv: str) -> bool:
    """Run sesh and kill it at some moment of the first second; was it still at work?"""
    process = zoo.world.popen(*argv)
    try:
        process.wait(campaign.random.uniform(0.05, 1.0))
    except subprocess.TimeoutExpired:
        process.kill()
    return process.wait() == -signal.SIGKILL


def check_not_too_early(zoo: Zoo) -> None:
    """No `stopped` while something lives that a stop has to end: what nothing but its parent ties
    to the agent, too."""
    before = [animal for animal in zoo.animals if not animal.kind.kept and animal.alive]
    if zoo.world.state_of(NAME) == "stopped":
        left = [animal.kind.name for animal in before if animal.alive]
        assert not left, f"stopped, but alive: {', '.join(left)}"


def test_zoo_stop_killed(world: World, campaign: Campaign) -> None:
    """A stop that was killed is gone on with by the next one. While the agent lives, its children
    are known by their parent, and then remembered: none is left, however it hides."""
    need("bash")
    hit = 0
    for _ in range(count(1, 20)):
        with open_zoo(world) as zoo, campaign.round("stop"):
            hit += kill_sesh(zoo, campaign, "stop", NAME, "--grace", "1s")
            check_not_too_early(zoo)
            world.ok("stop", NAME, "--grace", "1s")
            assert world.state_of(NAME) == "stopped"
            wrong = [one.kind.name for one in zoo.animals if one.alive != bool(one.kind.kept)]
            assert not wrong, f"wrongly ended, or left: {', '.join(wrong)}"
            check_swept(zoo)
    campaign.remark(f"{hit} hit")
    campaign.conclude()


def test_zoo_broom_killed(world: World, campaign: Campaign) -> None:
    """A `stop --orphans` that was killed: the next one ends the rest, and nothing else."""
    need("bash")
    hit = 0
    for _ in range(count(1, 20)):
        with open_zoo(world) as zoo, campaign.round("stop --orphans"):
            kill_agent(zoo)
            assert until(zoo.agent_ended), "the agent did not end"
            hit += kill_sesh(zoo, campaign, "stop", "--orphans", "-y", "--grace", "1s")
            world.ok(*END_ORPHANS)
            check_swept(zoo)
            wrong = [one.kind.name for one in zoo.animals if one.kind.killable == one.alive]
            dead_already = [one.kind.name for one in zoo.animals if not one.kind.outlives]
            assert set(wrong) <= set(dead_already), f"wrongly ended, or left: {', '.join(wrong)}"
    campaign.remark(f"{hit} hit")
    campaign.conclude()


# --- innocents -----------------------------------------------------------------------------------


# A server's death would end innocents, too.
DEATHS_IN_A_CROWD = [one for one in DEATHS if one.deed not in (end_server, kill_server)]


def check_innocent(world: World, innocents: Innocents) -> None:
    """None is listed as what could be ended, none was signalled."""
    for one in world.ls("--all"):
        if one["pid"] in innocents.pids():
            assert one["state"] == "running", f"an innocent is listed: {one}"
    innocents.check()


def test_zoo_innocents(world: World, campaign: Campaign) -> None:
    """Every death and every broom, in the middle of a crowd."""
    need("bash")
    ended = str(world.start("ended", "true")["id"])
    with crowd(world, count(24, 200), ended) as innocents:
        campaign.remark(f"{len(innocents.all)} innocents")
        for death in campaign.random.sample(DEATHS_IN_A_CROWD, count(1, len(DEATHS_IN_A_CROWD))):
            with open_zoo(world) as zoo:
                with campaign.round(death.name):
                    death.deed(zoo)
                    assert until(zoo.agent_ended), "the agent did not end"
                for broom in (*GENTLE, FIX, *ENDING, ("rm", "-f", NAME), FIX):
                    with campaign.round(f"{death.name}, {' '.join(broom)}"):
                        sweep(world, broom)
                        check_innocent(world, innocents)
        with campaign.round("stop"), open_zoo(world):
            world.ok("stop", NAME, "--grace", GRACE)
            check_innocent(world, innocents)
    campaign.conclude()
