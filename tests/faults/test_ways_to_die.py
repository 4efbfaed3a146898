"""However an agent ends, the very next `ls` says the right state, cause and exit status.

"The next call" begins when the kernel has ended the agent: gone, or a zombie. Nothing else is
waited for: neither its keeper's word, nor tmux, nor the call back.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.faults.living import Known, dead, look, until
from tests.faults.table import Campaign
from tests.world import World, count

pytestmark = pytest.mark.timeout(count(600, 3600))


@dataclass
class Victim:
    """A running session, with the processes that can be hit."""

    world: World
    session: dict[str, Any]
    agent: Known
    inner: int  # the keeper's inner shell, the agent's parent
    outer: int  # the keeper's outer shell, the pane's process
    server: Known


@dataclass(frozen=True)
class End:
    """What `ls` must say."""

    state: str
    cause: str
    codes: tuple[int | None, ...]
    signals: tuple[int | None, ...] = (None,)


COMPLETED = End("completed", "exit", (0,))
FAILED_3 = End("failed", "exit", (3,))
HUNG_UP = End("lost", "terminal-gone", (129,), (signal.SIGHUP,))
# An interactive bash that is hung up exits 0 as often as 129.
BASH_HUNG_UP = End("lost", "terminal-gone", (0, 129), (None, signal.SIGHUP))
UNSEEN = End("lost", "unknown", (None,))


def killed(number: int) -> End:
    return End("failed", "signal", (128 + number,), (number,))


# --- agents ------------------------------------------------------------------------------------

SLEEP = ("sleep", "1000")
BASH = ("bash", "--norc", "--noprofile", "-i")
WITH_CHILD = ("sh", "-c", "sleep 1000; exit 7")


def obeying(world: World) -> tuple[str, ...]:
    """An agent that exits with the status that is written to its FIFO."""
    fifo = world.root / "order"
    if not fifo.exists():
        os.mkfifo(fifo)
    return ("sh", "-c", 'read -r status <"$0"; exit "$status"', str(fifo))


def start(world: World, command: tuple[str, ...]) -> Victim:
    session = world.start("victim", *command)
    agent = look(session["pid"])
    assert agent is not None, "the agent that was just started is gone"
    inner = look(agent.parent)
    assert inner is not None, "the agent's keeper is gone"
    server = look(world.server_pid())
    assert server is not None, "there is no tmux server"
    return Victim(world, session, agent, inner.pid, inner.parent, server)


# --- deeds -------------------------------------------------------------------------------------


def order(status: int) -> Callable[[Victim], None]:
    def deed(victim: Victim) -> None:
        (victim.world.root / "order").write_text(f"{status}\n")

    return deed


def typed(*keys: str) -> Callable[[Victim], None]:
    """A shell that is just setting up its terminal may lose what was typed before."""

    def press(victim: Victim) -> bool:
        victim.world.tmux("send-keys", "-t", victim.session["pane"], *keys)
        return until(lambda: dead(victim.agent), 3)

    def deed(victim: Victim) -> None:
        until(lambda: press(victim))

    return deed


def signalled(number: int) -> Callable[[Victim], None]:
    return lambda victim: os.kill(victim.agent.pid, number)


def group_signalled(victim: Victim) -> None:
    """A TERM for the whole pane: the keeper must leave it to the agent."""
    os.killpg(os.getpgid(victim.agent.pid), signal.SIGTERM)


def kill_pane(victim: Victim) -> None:
    victim.world.tmux("kill-pane", "-t", victim.session["pane"])


def kill_session(victim: Victim) -> None:
    victim.world.tmux("kill-session", "-t", "=victim")


def kill_server(victim: Victim) -> None:
    victim.world.tmux("kill-server")


def kill_server_hard(victim: Victim) -> None:
    os.kill(victim.server.pid, signal.SIGKILL)


def kill_outer(victim: Victim) -> None:
    os.kill(victim.outer, signal.SIGKILL)


def kill_inner(victim: Victim) -> None:
    os.kill(victim.inner, signal.SIGKILL)


@dataclass(frozen=True)
class Way:
    name: str
    command: tuple[str, ...] | Callable[[World], tuple[str, ...]]
    deed: Callable[[Victim], None]
    end: End


WAYS = (
    Way("exits 0", obeying, order(0), COMPLETED),
    Way("exits 3", obeying, order(3), FAILED_3),
    Way("exits 3, bash", BASH, typed("exit 3", "Enter"), FAILED_3),
    Way("exits 0, bash", BASH, typed("exit", "Enter"), COMPLETED),
    Way("ends by Ctrl-D, bash", BASH, typed("C-d"), COMPLETED),
    Way("killed by 9", SLEEP, signalled(9), killed(9)),
    Way("killed by 9, bash", BASH, signalled(9), killed(9)),
    Way("killed by 15", SLEEP, signalled(15), killed(15)),
    Way("killed by 15, its group", SLEEP, group_signalled, killed(15)),
    Way("killed by 6", SLEEP, signalled(6), killed(6)),
    Way("ended by Ctrl-C", SLEEP, typed("C-c"), killed(2)),
    Way("ended by Ctrl-C, with a child", WITH_CHILD, typed("C-c"), killed(2)),
    Way("pane killed", SLEEP, kill_pane, HUNG_UP),
    Way("pane killed, bash", BASH, kill_pane, BASH_HUNG_UP),
    Way("session killed", SLEEP, kill_session, HUNG_UP),
    Way("session killed, bash", BASH, kill_session, BASH_HUNG_UP),
    Way("server killed", SLEEP, kill_server, HUNG_UP),
    Way("server killed, bash", BASH, kill_server, BASH_HUNG_UP),
    Way("server killed by 9", SLEEP, kill_server_hard, HUNG_UP),
    Way("server killed by 9, bash", BASH, kill_server_hard, BASH_HUNG_UP),
    Way("outer keeper killed by 9", SLEEP, kill_outer, HUNG_UP),
    Way("outer keeper killed by 9, bash", BASH, kill_outer, BASH_HUNG_UP),
    Way("inner keeper killed by 9", SLEEP, kill_inner, UNSEEN),
    Way("inner keeper killed by 9, bash", BASH, kill_inner, UNSEEN),
)


def told(session: dict[str, Any]) -> str:
    keys = ("state", "cause", "exit_code", "signal", "reason")
    return ", ".join(f"{key} {session[key]}" for key in keys)


def check(session: dict[str, Any], end: End) -> None:
    right = (
        session["state"] == end.state
        and session["cause"] == end.cause
        and session["exit_code"] in end.codes
        and session["signal"] in end.signals
    )
    assert right, f"{told(session)}; should be {end}"


def die(world: World, way: Way) -> None:
    """One round: start, do it, and look at once."""
    command = way.command(world) if callable(way.command) else way.command
    victim = start(world, command)
    way.deed(victim)
    assert until(lambda: dead(victim.agent)), "the agent did not end"
    check(world.session("victim"), way.end)
    # Again: what was written down must say the same through the fast lane.
    check(world.session("victim"), way.end)
    if way.deed in (kill_server, kill_server_hard):
        # A new session that meets a server half gone is another story.
        assert until(lambda: dead(victim.server)), "the tmux server did not end"


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_ways_to_die(world: World, campaign: Campaign, way: Way) -> None:
    for _ in range(count(1, 100)):
        with campaign.round(way.name):
            die(world, way)
    campaign.conclude()


@pytest.mark.parametrize(
    ("script", "end"),
    [("exit 0", COMPLETED), ("exit 3", FAILED_3), ("kill -9 $$", killed(9))],
    ids=["exits 0", "exits 3", "killed by 9"],
)
def test_ends_at_once(world: World, campaign: Campaign, script: str, end: End) -> None:
    """An agent that ends before anybody could look leaves its word all the same."""
    for _ in range(count(1, 100)):
        with campaign.round(script):
            world.ok("start", "victim", "--", "sh", "-c", script)
            check(world.session("victim"), end)
    campaign.conclude()
