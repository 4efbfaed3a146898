"""The process table as these tests see it: by themselves, without any help of sesh's own code."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests import pace
from tests.world import World

DEAD = "ZXx"


@dataclass(frozen=True)
class Known:
    """A process and who its parents are."""

    pid: int
    start: int
    parent: int
    state: str
    name: str

    @property
    def alive(self) -> bool:
        return self.state not in DEAD


def look(pid: int) -> Known | None:
    try:
        line = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    head, _, tail = line.rpartition(")")
    fields = tail.split()
    return Known(pid, int(fields[19]), int(fields[1]), fields[0], head.partition("(")[2])


def dead(process: Known) -> bool:
    """Gone, a zombie, or another process by now."""
    now = look(process.pid)
    return now is None or now.start != process.start or not now.alive


def kill(*pids: int) -> None:
    """By -9; one may take the next along."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def until(check: Callable[[], bool], within: float = 10.0) -> bool:
    """Poll without any pause worth the name: what is tested is the very next call after it."""
    begin = time.monotonic()
    while not check():
        if time.monotonic() - begin > pace.seconds(within):
            return False
        time.sleep(0.0005)
    return True


def environment(pid: int) -> dict[bytes, bytes]:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return {key: value for key, _, value in (entry.partition(b"=") for entry in entries)}


def marked(world: World) -> dict[int, str]:
    """Every living process that carries the marker of one of the world's sessions: pid → id."""
    found = {}
    for pid in world.processes():
        marker = environment(pid).get(b"SESH_ID")
        if marker is not None:
            found[pid] = os.fsdecode(marker)
    return found


def servers(world: World) -> list[int]:
    """The tmux servers of a world."""
    found = [look(pid) for pid in world.processes()]
    return [one.pid for one in found if one and one.name.startswith("tmux: server")]


def command_line(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "gone"
    return raw.replace(b"\0", b" ").decode(errors="replace")[:200]
