"""The commands that clean up, in one place: what they may never touch is checked against them all.

A new one is a line here.
"""

from __future__ import annotations

from tests.world import Done, World

GRACE = "0.3s"
END_ORPHANS = ("stop", "--orphans", "-y", "--grace", GRACE)

# Look at everything.
LOOKING: tuple[tuple[str, ...], ...] = (
    ("ls",),
    ("ls", "--all"),
    ("pass",),
    ("gc", "--dry-run"),
    ("doctor",),
)
# Look, and clean up without ending anything that lives.
GENTLE: tuple[tuple[str, ...], ...] = (*LOOKING, ("gc",))
# End what was left behind. A gc alone ends nothing that it sees for the first time.
KILLING_GC = ("gc", "--kill-orphans")
ENDING: tuple[tuple[str, ...], ...] = (KILLING_GC, END_ORPHANS, KILLING_GC)
# Bring lost records back.
FIX = ("doctor", "--fix", "-y")
MENDING: tuple[tuple[str, ...], ...] = (("adopt", "--all"), FIX)

PROBLEMS = 10  # what doctor exits with when some are left


def sweep(world: World, *brooms: tuple[str, ...]) -> list[Done]:
    """Run each of them; none may fail."""
    return [_use(world, broom) for broom in brooms]


def _use(world: World, broom: tuple[str, ...]) -> Done:
    done = world.sesh(*broom)
    fine = (0, PROBLEMS) if broom[0] == "doctor" else (0,)
    assert done.code in fine, f"sesh {' '.join(broom)}: exit {done.code}\n{done.out}{done.err}"
    return done
