"""What it costs to look after sessions: all that their tmux server and what it calls back use."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench import memory
from tests.world import World

EVERY = 30  # seconds between two health commands of a session
LIMIT = 2.0  # per cent of one core
PROCESSES = 3.0  # a session, beyond tmux and its agent: the two levels of the keeper, the log pipe


@dataclass(frozen=True, slots=True)
class Cost:
    sessions: int
    seconds: float  # how long it was measured
    processor: float  # seconds of processor time in it
    well: int  # sessions whose health command has succeeded
    resident: float  # processes a session beyond tmux and its agent

    @property
    def per_cent(self) -> float:
        return 100 * self.processor / self.seconds


def measure(world: World, sessions: int, seconds: float) -> Cost:
    """Start so many with a trivial health command, and see what five minutes of them take."""
    options = ("--health-cmd", "true", "--health-interval", f"{EVERY}s")
    for number in range(sessions):
        world.start(f"s{number:03}", "sleep", "100000", options=options)
    time.sleep(EVERY)
    server = world.server_pid()
    begin, before = time.monotonic(), _processor_time(server)
    time.sleep(seconds)
    used, took = _processor_time(server) - before, time.monotonic() - begin
    shown = world.ls()
    well = sum(one["health"] == "ok" for one in shown)
    resident = memory.measure(server, [one["pid"] for one in shown]).processes
    return Cost(sessions, took, used, well, resident)


def _processor_time(pid: int) -> float:
    """Of a process and of all children that it has waited for, theirs included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
