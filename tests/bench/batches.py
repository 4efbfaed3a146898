"""Verbs on many sessions beside the same on one, and how often each calls tmux.

Every call goes through a script that counts it, for one session and for many alike.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tests.surroundings import fake_tmux
from tests.world import World, eventually

ONE = "only"  # the session that is measured alone


@dataclass(frozen=True, slots=True)
class Took:
    ms: float
    calls: int  # of tmux


Batch = dict[str, Took]  # verb → what it took


class Batches:
    """Measures on the sessions of a world, and leaves none."""

    def __init__(self, sesh: str, world: World) -> None:
        self.sesh = sesh
        self.world = world
        self.log = world.root / "calls"
        program = f'echo $PPID >>{self.log}; exec {shutil.which("tmux")} "$@"'
        self.env = {**world.env, **fake_tmux(world, program)}

    def one(self, rounds: int) -> Batch:
        """The medians of a single session."""
        found: dict[str, list[Took]] = {}
        for _ in range(rounds):
            found.setdefault("start", []).append(self._run("start", ONE, "--", "sleep", "100000"))
            found.setdefault("stop", []).append(self._run("stop", ONE))
            found.setdefault("rm", []).append(self._run("rm", ONE))
        return {
            verb: Took(median(one.ms for one in all_), max(one.calls for one in all_))
            for verb, all_ in found.items()
        }

    def many(self, names: Sequence[str]) -> Batch:
        """All sessions: restarted after the loss of their server, stopped, removed."""
        os.kill(self.world.server_pid(), signal.SIGKILL)
        assert eventually(lambda: self._states() == {"lost"}, 120)
        return {
            "restart --lost": self._run("restart", "--lost"),
            "stop --all": self._run("stop", "--all", "-y"),
            "rm": self._run("rm", *names),
        }

    def _states(self) -> set[object]:
        return {one["state"] for one in self.world.ls()}

    def _run(self, *words: str) -> Took:
        self.log.write_text("")
        begin = time.perf_counter()
        done = subprocess.run([self.sesh, *words], env=self.env, capture_output=True, text=True)
        took = (time.perf_counter() - begin) * 1000
        assert done.returncode == 0, f"sesh {' '.join(words)[:200]}: {done.stderr[-500:]}"
        calls = Counter(self.log.read_text().split())  # those of a pass have another parent
        return Took(took, max(calls.values(), default=0))
