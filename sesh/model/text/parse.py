"""Parse untrusted numbers and times: from a keeper, a tmux or an agent in a container. PURE.

A process in a container may write anything. A number has only ASCII digits and must be in range; a
time is never before its launch and never in the future.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PID = 1 << 22  # the kernel's maximum
TICKS = (1 << 63) - 1
DEVICE = (1 << 32) - 1
STATUS = 255
GENERATION = 10**9


def number(text: str, most: int) -> int | None:
    """A number up to `most`, else None. (`"²".isdigit()` is true, and `int` limits digits.)"""
    if not text.isascii() or not text.isdigit() or len(text) > len(str(most)):
        return None
    value = int(text)
    return value if value <= most else None


def numbers(texts: Sequence[str], most: Sequence[int]) -> list[int] | None:
    """As many numbers as there are limits, else None."""
    found = [number(text, limit) for text, limit in zip(texts, most, strict=False)]
    known = [value for value in found if value is not None]
    return known if len(known) == len(texts) == len(most) else None


def moment(seconds: float, now: float, since: float = 0.0) -> float:
    """An untrusted time, moved into the possible range."""
    return min(max(seconds, since), now)
