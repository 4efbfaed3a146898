"""The commands that clean up, in one place: what they may never touch is checked against them all.

A new one is a line here.
"""

from __future__ import annotations

from tests.world import Done, World

GRACE = "0.3s"
END_ORPHANS = ("stop", "--orphans", "-y", "--grace", GRACE)

# Look, and clean up without ending anything that lives.
GENTLE: tuple[tuple[str, ...], ...] = (
    ("ls",),
    ("ls", "--all"),
    ("pass",),
)
# End what was left behind.
ENDING: tuple[tuple[str, ...], ...] = (END_ORPHANS,)
# Bring lost records back.
MENDING: tuple[tuple[str, ...], ...] = (("adopt", "--all"),)


def sweep(world: World, *brooms: tuple[str, ...]) -> list[Done]:
    """Run each of them; none may fail."""
    return [world.ok(*broom) for broom in brooms]
