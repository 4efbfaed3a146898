"""Times and sizes as people write them: `90`, `1.5m`, `1h30m`; `64K`, `1.5 GB`. PURE."""

from __future__ import annotations

import re

from sesh.model.text.pattern import lazy

_NUMBER = lazy(r"\d+(?:\.\d+)?")
_PART = lazy(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# A limit on digits: Python refuses to convert thousands of them.
_SIZE = lazy(r"(\d{1,20})(\.\d{1,20})?\s*([KMGT]?)I?B?", re.IGNORECASE)
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SPANS = (("day", 86400), ("hour", 3600), ("minute", 60))


def seconds(text: str) -> float | None:
    """Parse a time; None when it is not valid. Larger units come first."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    parts = _PART.findall(text)
    lengths = [_SECONDS[unit] for _, unit in parts]
    falling = lengths == sorted(set(lengths), reverse=True)
    if not parts or not falling or _PART.sub("", text):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def size(text: str) -> int | None:
    """Parse a size in bytes; None when it is not valid."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    unit = _BYTES[found[3].upper()]
    return int(found[1]) * unit + round(float(f"0{found[2] or '.0'}") * unit)


def span(seconds: float) -> str:
    """A time in its largest whole unit: `2 hours`, `90 seconds`."""
    for unit, length in _SPANS:
        if seconds >= length and seconds % length == 0:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{seconds:g} second{'s' if seconds != 1 else ''}"


def time(seconds: float) -> str:
    """A time exactly, as `seconds` reads it: `5m`, `90m`, `0.5s`."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def amount(count: int) -> str:
    """A size in its largest whole unit: `2G`, `1500K`, `100`."""
    for unit in ("T", "G", "M", "K"):
        if count and count % _BYTES[unit] == 0:
            return f"{count // _BYTES[unit]}{unit}"
    return str(count)
