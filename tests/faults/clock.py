"""A clock that was set, or a machine that stood still: for one sesh, while the real ones go on."""

from __future__ import annotations

from tests.surroundings import run
from tests.world import SESH, Done, World

# Python's clocks, moved. Files keep the times that they have, and processes their start ticks, as
# when a machine's clock is set or it was suspended.
_CLOCK = """\
import datetime, os, time
real, true_time, true_clock = datetime.datetime, time.time, time.clock_gettime
true_monotonic = time.monotonic
shift = float(os.environ["TEST_CLOCK"])
boot, awake = float(os.environ["TEST_UPTIME"]), float(os.environ["TEST_AWAKE"])
class Moved(real):
    @classmethod
    def now(cls, tz=None):
        return real.now(tz) + datetime.timedelta(seconds=shift)
datetime.datetime = Moved
time.time = lambda: true_time() + shift
moved = {time.CLOCK_BOOTTIME: boot, time.CLOCK_MONOTONIC: awake}
time.clock_gettime = lambda clock: true_clock(clock) + moved.get(clock, 0.0)
time.monotonic = lambda: true_monotonic() + awake
"""


def at(world: World, shift: int, *argv: str, timeout: float = 60) -> Done:
    """Run sesh by a time of day that is `shift` seconds off."""
    return moved(world, (shift, 0, 0), *argv, timeout=timeout)


def after_sleep(world: World, seconds: int, *argv: str) -> Done:
    """Run sesh on a machine that was suspended for `seconds` just now."""
    return moved(world, (seconds, seconds, 0), *argv)


def after_standstill(world: World, seconds: int, *argv: str) -> Done:
    """Run sesh on a machine that was paused as a whole, whose clocks have all gone on."""
    return moved(world, (seconds, seconds, seconds), *argv)


def moved(world: World, shifts: tuple[int, int, int], *argv: str, timeout: float = 60) -> Done:
    """By a time of day, an uptime and a time awake that are so many seconds off."""
    clock = world.root / "clock"
    clock.mkdir(exist_ok=True)
    (clock / "sitecustomize.py").write_text(_CLOCK)
    names = ("TEST_CLOCK", "TEST_UPTIME", "TEST_AWAKE")
    moved = dict(zip(names, map(str, shifts), strict=True))
    env = {**world.env, "PYTHONPATH": str(clock), **moved}
    return run(world, SESH, *argv, env=env, timeout=timeout)
