"""A clock that was set: for one sesh, while the machine's own goes on."""

from __future__ import annotations

from tests.surroundings import run
from tests.world import SESH, Done, World

# Python's clock, moved. Files keep the times that they have, and what counts from the boot goes on,
# as when a machine's clock is set.
_CLOCK = """\
import datetime, os, time
shift, real, true_time = int(os.environ["TEST_CLOCK"]), datetime.datetime, time.time
class Moved(real):
    @classmethod
    def now(cls, tz=None):
        return real.now(tz) + datetime.timedelta(seconds=shift)
datetime.datetime = Moved
time.time = lambda: true_time() + shift
"""


def at(world: World, shift: int, *argv: str, timeout: float = 60) -> Done:
    """Run sesh by a clock that is `shift` seconds off."""
    clock = world.root / "clock"
    clock.mkdir(exist_ok=True)
    (clock / "sitecustomize.py").write_text(_CLOCK)
    env = {**world.env, "PYTHONPATH": str(clock), "TEST_CLOCK": str(shift)}
    return run(world, SESH, *argv, env=env, timeout=timeout)
