"""Many `sesh` at once on the same names: no deadlock, nothing orphaned, the records whole."""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass

import pytest

from tests.faults.living import command_line, marked, servers, until
from tests.faults.table import Campaign
from tests.world import SESH, World, count

pytestmark = pytest.mark.timeout(count(600, 3600))

MANY = count(12, 50)
NO_DEADLOCK = 100.0  # seconds within which all must have ended
ALIVE = ("running", "starting", "stopping")
ENDED = ("stopped", "failed", "timeout", "lost", "completed")
# What may come of a command that others get in the way of: done, conflict, no such session,
# not confirmed.
FAIR = {
    "start": {0, 8},
    "stop": {0, 1, 4, 8},
    "restart": {0, 1, 4, 8},
    "rm": {0, 1, 8},  # with -f a missing one is fine
}


@dataclass
class Ran:
    argv: tuple[str, ...]
    code: int | None
    said: str


def all_at_once(world: World, commands: list[tuple[str, ...]]) -> list[Ran]:
    """Start all of them, then wait for all of them."""
    running = [
        subprocess.Popen(
            [SESH, *argv],
            env=world.env,
            cwd=world.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for argv in commands
    ]
    return [wait(argv, process) for argv, process in zip(commands, running, strict=True)]


def wait(argv: tuple[str, ...], process: subprocess.Popen[str]) -> Ran:
    try:
        _, said = process.communicate(timeout=NO_DEADLOCK)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Ran(argv, None, "did not end: a deadlock?")
    return Ran(argv, process.returncode, said.strip())


def agents(world: World) -> dict[str, list[int]]:
    """Living agents by session id."""
    found = defaultdict(list)
    for pid, session_id in marked(world).items():
        if command_line(pid).startswith("sleep 1000"):
            found[session_id].append(pid)
    return found


def check_consistent(world: World) -> None:
    """Every living agent is the one agent of a record that calls it alive; records are whole."""
    listed = world.ls()
    names = Counter(one["name"] for one in listed)
    assert max(names.values(), default=1) == 1, f"twice in the list: {names}"
    for one in listed:
        assert one["state"] in ALIVE + ENDED, one
    by_id = {one["id"]: one for one in listed}
    living = agents(world)
    for session_id, pids in living.items():
        assert session_id in by_id, f"agents {pids} of {session_id}: no record"
        one = by_id[session_id]
        assert one["state"] in ALIVE, f"agents {pids} live, but it is {one}"
        assert pids == [one["pid"]], f"agents {pids}, the record says {one['pid']}"
    for one in listed:
        if one["state"] == "running":
            assert one["id"] in living, f"no agent: {one}"


def settle(world: World) -> None:
    """Nothing may be on its way any more: no stop or start whose sesh has ended."""

    def settled() -> bool:
        return not {"starting", "stopping"} & {one["state"] for one in world.ls()}

    assert until(settled, within=20), world.ls()


def check_end(world: World) -> None:
    """All can be stopped, and then nothing is left but one tmux server and dead panes."""
    if world.ls():
        world.ok("stop", "--all", "-y")
    listed = world.ls()
    assert {one["state"] for one in listed} <= set(ENDED), listed
    assert until(lambda: not left(world), within=10), [command_line(pid) for pid in left(world)]
    assert len(servers(world)) <= 1, "more than one tmux server"
    for pane in panes(world):
        dead, session_id, name = pane.split(" ", 2)
        assert dead == "1", f"a live pane is left of {name}"
        assert session_id in {one["id"] for one in listed}, f"nobody knows the pane of {name}"


def left(world: World) -> list[int]:
    """Processes that should have gone. (A dead pane, kept for its last screen, keeps its pipe.)"""
    own = servers(world)
    pipes = [pid for pid in world.processes() if command_line(pid).strip() == "cat"]
    kept = pipes[: len(panes(world))]
    return [pid for pid in world.processes() if pid not in (*own, *kept)]


def panes(world: World) -> list[str]:
    if not servers(world):
        return []
    return world.tmux(
        "list-panes", "-a", "-F", "#{pane_dead} #{@sesh_id} #{session_name}"
    ).splitlines()


def failures(ran: list[Ran]) -> str:
    return "; ".join(sorted({f"{one.argv[0]} {one.code} {one.said[:200]}" for one in ran}))


def test_starts_of_one_name(world: World, campaign: Campaign) -> None:
    """Parallel starts of one name: one winner, else conflicts, one agent."""
    for number in range(count(1, 5)):
        name = f"same{number}"
        with campaign.round(name):
            ran = all_at_once(world, [("start", name, "--", "sleep", "1000")] * MANY)
            codes = Counter(one.code for one in ran)
            assert codes == {0: 1, 8: MANY - 1}, f"{codes}: {failures(ran)}"
            assert world.state_of(name) == "running"
            check_consistent(world)
            check_end(world)
    campaign.conclude()


def test_starts_over_an_ended_name(world: World, campaign: Campaign) -> None:
    """The same where an ended session has the name: it moves to the history once."""
    for number in range(count(1, 5)):
        name = f"again{number}"
        with campaign.round(name):
            world.ok("start", name, "--", "true")
            ran = all_at_once(world, [("start", name, "--", "sleep", "1000")] * (MANY // 5))
            codes = Counter(one.code for one in ran)
            assert codes == {0: 1, 8: MANY // 5 - 1}, f"{codes}: {failures(ran)}"
            check_consistent(world)
            assert len(list((world.state / "history").glob(f"{name}-*.toml"))) == 1
            check_end(world)
    campaign.conclude()


def test_starts_of_many_names(world: World, campaign: Campaign) -> None:
    """Parallel starts of as many names, on a server that does not run yet: all are there."""
    for number in range(count(1, 5)):
        with campaign.round(f"round {number}"):
            names = [f"n{number}x{one}" for one in range(MANY)]
            ran = all_at_once(world, [("start", name, "--", "sleep", "1000") for name in names])
            assert {one.code for one in ran} == {0}, failures([one for one in ran if one.code])
            listed = {one["name"]: one["state"] for one in world.ls()}
            assert {listed.get(name) for name in names} == {"running"}, listed
            check_consistent(world)
            check_end(world)
            world.ok("rm", *names)
    campaign.conclude()


def order(verb: str, name: str) -> tuple[str, ...]:
    if verb == "start":
        return ("start", name, "--", "sleep", "1000")
    force = ("-f",) if verb == "rm" else ()
    return (verb, *force, "--grace", "2", name)


def mix(campaign: Campaign, names: list[str], verbs: tuple[str, ...]) -> list[tuple[str, ...]]:
    choose = campaign.random.choice
    return [order(choose(verbs), choose(names)) for _ in range(MANY)]


@pytest.mark.parametrize(
    "verbs",
    [("start", "stop", "restart"), ("start", "stop", "restart", "rm")],
    ids=["start stop restart", "start stop restart rm"],
)
def test_mix(world: World, campaign: Campaign, verbs: tuple[str, ...]) -> None:
    """Many parallel commands on three names: each does its work or says why not."""
    names = ["one", "two", "three"]
    codes: Counter[int | None] = Counter()
    for number in range(count(1, 5)):
        with campaign.round(f"round {number}"):
            for name in names:
                world.sesh("start", name, "--", "sleep", "1000")
            ran = all_at_once(world, mix(campaign, names, verbs))
            codes.update(one.code for one in ran)
            unfair = [one for one in ran if one.code not in FAIR[one.argv[0]]]
            assert not unfair, failures(unfair)
            settle(world)
            check_consistent(world)
            check_end(world)
    told = ", ".join(f"{code}: {times}" for code, times in sorted(codes.items(), key=str))
    campaign.remark(f"exit codes {told}")
    campaign.conclude()
