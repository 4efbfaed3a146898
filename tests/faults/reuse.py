"""Pids that are used again, in a pid namespace of their own: test_identity.py runs this there.

    python -m tests.faults.reuse SCENARIO ROUNDS    prints what went wrong

The namespace's first process must reap what it inherits, else no pid would ever be free.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.brooms import ENDING, GENTLE, GRACE, sweep
from tests.faults.innocents import Innocents
from tests.faults.living import kill, look, until
from tests.faults.table import Campaign
from tests.surroundings import Terminal
from tests.world import SESH, World, eventually

NAME = "victim"
DETACHED = "setsid {} >/dev/null 2>&1 & exec sleep 1000"
STUBBORN = "trap '' TERM HUP; echo $$ >child.new; mv child.new child; while :; do sleep 0.1; done"


def gone(pid: int) -> bool:
    """Not even a zombie: its number is free. A tmux server sometimes forgets to take leave of a
    child until the next one ends; it is reminded."""
    known = look(pid)
    parent = look(known.parent) if known and not known.alive else None
    if parent and parent.name.startswith("tmux"):
        os.kill(parent.pid, signal.SIGCHLD)
    return known is None


def free(*pids: int) -> None:
    """Kill them, and see that their numbers can be had again."""
    kill(*pids)
    assert until(lambda: all(map(gone, pids)), 60), f"still there: {[look(pid) for pid in pids]}"


def keepers(session: dict[str, Any]) -> tuple[int, int]:
    """The inner and the outer shell."""
    agent = look(session["pid"])
    assert agent is not None
    inner = look(agent.parent)
    assert inner is not None
    return inner.pid, inner.parent


def check(world: World, innocents: Innocents, state: str | None) -> None:
    """Every command that may end something, and nothing has happened to anybody."""
    if state:
        assert world.state_of(NAME) == state, world.session(NAME)
    listed = {one["pid"] for one in world.ls("--all")}
    assert not listed & innocents.pids(), "an innocent is listed"
    sweep(world, *GENTLE, ("stop", NAME, "--grace", GRACE), *ENDING, ("rm", "-f", NAME))
    innocents.check()


# --- scenarios -----------------------------------------------------------------------------------


def agent(world: World, innocents: Innocents) -> None:
    """Agent and keeper die unseen, and the agent's pid is somebody else's."""
    session = world.start(NAME)
    inner, outer = keepers(session)
    free(inner, session["pid"], outer)
    innocents.plain("who has the agent's pid", pid=session["pid"])
    check(world, innocents, "lost")


def keeper(world: World, innocents: Innocents) -> None:
    """The keeper's pids are others': nobody may wait for their word."""
    session = world.start(NAME)
    inner, outer = keepers(session)
    free(inner, session["pid"], outer)
    innocents.plain("who has the inner keeper's pid", pid=inner)
    innocents.plain("who has the outer keeper's pid", pid=outer)
    check(world, innocents, "lost")


def server(world: World, innocents: Innocents) -> None:
    """The tmux server's pid is somebody's with its very name; its socket is gone. A new session
    must neither wait for that one nor signal it."""
    session = world.start(NAME)
    pid = world.server_pid()
    socket = Path(session["socket"])
    free(pid)
    assert until(lambda: gone(session["pid"])), "the agent did not end"
    socket.unlink()
    disguise = world.root / "tmux: server"
    if not disguise.exists():
        disguise.symlink_to("/bin/sh")
    innocents.plain("who has the server's pid and name", shell=str(disguise), pid=pid)
    world.start("next")
    check(world, innocents, "lost")
    world.ok("rm", "-f", "next")


def leftover(world: World, innocents: Innocents) -> None:
    """Between the list of orphans and the yes, one ends and its pid is somebody else's."""
    child = world.cwd / "child"
    child.unlink(missing_ok=True)
    session = world.start(NAME, "sh", "-c", DETACHED.format('sh -c "$0"'), STUBBORN)
    assert eventually(child.exists), "no child"
    orphan = int(child.read_text())
    os.kill(session["pid"], signal.SIGKILL)
    assert eventually(lambda: world.state_of(NAME) == "failed")
    terminal = Terminal(world, SESH, "stop", "--orphans", "--grace", GRACE)
    assert terminal.shows(f"process {orphan}"), terminal.screen()
    assert terminal.shows("[y/N]"), terminal.screen()
    free(orphan)
    innocents.plain("who has the orphan's pid", pid=orphan)
    terminal.type("y", "Enter")
    terminal.finish()
    check(world, innocents, "failed")


def remains(world: World, innocents: Innocents) -> None:
    """A stop is killed; what it had remembered by pid ends, and the pid is somebody else's."""
    child = world.cwd / "child"
    child.unlink(missing_ok=True)
    script = f'setsid env -i PATH="$PATH" sh -c "$0" & {STUBBORN.replace("child", "agent")}'
    session = world.start(NAME, "sh", "-c", script, STUBBORN)
    assert eventually(child.exists), "no child"
    hidden = int(child.read_text())
    stop = world.popen("stop", NAME, "--grace", "60s")
    assert eventually(lambda: f"pid = {hidden}" in world.record(NAME).read_text()), "not noted"
    stop.kill()
    stop.wait()
    free(hidden, session["pid"])
    innocents.plain("who has the child's pid", pid=hidden)
    check(world, innocents, None)


SCENARIOS: dict[str, Callable[[World, Innocents], None]] = {
    "agent": agent,
    "keeper": keeper,
    "server": server,
    "leftover": leftover,
    "remains": remains,
}


def main(scenario: str, rounds: str) -> int:
    campaign = Campaign(f"pid_reuse[{scenario}]")
    world = World()
    innocents = Innocents(world)
    try:
        for _ in range(int(rounds)):
            with campaign.round(scenario):
                SCENARIOS[scenario](world, innocents)
            world.sesh("rm", "-f", NAME)
    finally:
        innocents.end()
        world.end()
    print(campaign.told())
    return 1 if campaign.wrong or not campaign.rounds else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
