"""How slow this machine is now: limits in the tests are for an idle machine, times this factor.

The worse of two signs counts: how many processes want each core (two are usual while tests run side
by side), and how long a small process takes.
"""

from __future__ import annotations

import os
import time

_USUAL = 0.001  # seconds that `sh -c :` takes on an idle machine, generously
_MOST = 10.0
_GOOD_FOR = 3.0  # seconds that a measurement is used for
_last = (float("-inf"), 1.0)


def factor() -> float:
    """1 on an idle machine, more on a slow or busy one."""
    global _last
    measured, found = _last
    if time.monotonic() - measured > _GOOD_FOR:
        found = min(max(1.0, _crowd() - 1, _process() / _USUAL), _MOST)
        _last = (time.monotonic(), found)
    return found


def seconds(idle: float) -> float:
    """A limit that is right for an idle machine, scaled for this one."""
    return idle * factor()


def option(idle: float) -> str:
    """The same, as sesh's options take it."""
    return f"{round(seconds(idle) * 1000)}ms"


def _crowd() -> float:
    """Processes that want to run, for each core: now, or in the last minute."""
    with open("/proc/loadavg") as file:
        minute, _, _, now, _ = file.read().split()
    return max(float(minute), int(now.partition("/")[0])) / (os.cpu_count() or 1)


def _process() -> float:
    begin = time.perf_counter()
    for _ in range(3):
        os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", ":"], {}), 0)
    return (time.perf_counter() - begin) / 3
