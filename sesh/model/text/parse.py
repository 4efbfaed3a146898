"""Numbers and times as others write them: a keeper, a tmux or an agent in a container. PURE.

What runs in a container may write anything. A word is a number only in ASCII digits and in its
range; a time is never before the launch that it is of, and never after now. All else is no word.
"""

from __future__ import annotations

PID = 1 << 22  # the most that the kernel gives
TICKS = (1 << 63) - 1
DEVICE = (1 << 32) - 1
STATUS = 255
GENERATION = 10**9


def number(text: str, most: int) -> int | None:
    """`"²".isdigit()` is true, and thousands of digits are an error of their own."""
    if not text.isascii() or not text.isdigit() or len(text) > len(str(most)):
        return None
    value = int(text)
    return value if value <= most else None


def moment(seconds: float, now: float, since: float = 0.0) -> float:
    """A time that somebody else has set, moved to where it can have been."""
    return min(max(seconds, since), now)
