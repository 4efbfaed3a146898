"""Times and sizes as people write them: `90`, `1.5m`, `2h`; `64K`, `2 GB`. PURE."""

from __future__ import annotations

import re

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d+)\s*([KMGT]?)I?B?", re.IGNORECASE)
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SPANS = (("day", 86400), ("hour", 3600), ("minute", 60))


def seconds(text: str) -> float | None:
    """A time in seconds; None when that is no time."""
    found = _TIME.fullmatch(text.strip())
    return float(found[1]) * _SECONDS[found[2]] if found else None


def size(text: str) -> int | None:
    """A size in bytes; None when that is no size."""
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) * _BYTES[found[2].upper()] if found else None


def span(seconds: float) -> str:
    """A time in its largest whole unit: `2 hours`, `90 seconds`."""
    for unit, length in _SPANS:
        if seconds >= length and seconds % length == 0:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{seconds:g} second{'s' if seconds != 1 else ''}"


def amount(count: int) -> str:
    """A size in its largest whole unit: `2G`, `1500K`, `100`."""
    for unit in ("T", "G", "M", "K"):
        if count and count % _BYTES[unit] == 0:
            return f"{count // _BYTES[unit]}{unit}"
    return str(count)
