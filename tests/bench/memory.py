"""What a session costs in memory beyond tmux and its agent: all else that the server runs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_TRIES = 40


@dataclass(frozen=True, slots=True)
class Memory:
    """Proportional set sizes: a page that several processes share counts once in all."""

    sessions: int
    others: int  # processes below the server that are not an agent's
    others_kb: int
    server_kb: int

    @property
    def megabytes(self) -> float:
        """Per session."""
        return self.others_kb / self.sessions / 1024

    @property
    def processes(self) -> float:
        return self.others / self.sessions


def measure(server: int, agents: Collection[int]) -> Memory:
    """In a moment in which no pass is on its way: what it starts is not resident."""
    for _ in range(_TRIES):
        others = _below(server, agents)
        try:
            total = sum(map(_pss, others))
        except OSError:
            pass
        else:
            if _below(server, agents) == others:
                return Memory(len(agents), len(others), total, _pss(server))
        time.sleep(0.5)
    raise AssertionError("there is no quiet moment")


def _below(top: int, without: Collection[int]) -> list[int]:
    """All processes below one, except some and what is below those."""
    children = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            children[int(stat.rpartition(")")[2].split()[1])].append(int(entry.name))
    found: list[int] = []
    left = [top]
    while left:
        below = [pid for pid in children[left.pop()] if pid not in without]
        found += below
        left += below
    return found


def _pss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise AssertionError(f"no Pss of {pid}")
