"""The types of options that click itself does not know."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from sesh.commands._declare import COUNT
from sesh.model.text import units
from sesh.state import settings

LONGEST = 366 * 86400  # seconds
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)


def named(kind: str | tuple[str, ...]) -> click.ParamType:  # type: ignore[type-arg,unused-ignore]
    """The type that a declaration names; a tuple is a choice."""
    return click.Choice(kind) if isinstance(kind, tuple) else _NAMED[kind]


class _Parsed(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.4
    """A text that `read` parses. Its ValueError completes the sentence "TEXT is …"."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(f"{value!r} is {error}", param, ctx)


class Whole(click.IntRange):
    """A whole number, with the bounds in plain words."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            bounds = (
                f", {self.min} or more" if self.max is None else f" from {self.min} to {self.max}"
            )
            self.fail(f"{value} should be a whole number{bounds}", param, ctx)


def _duration(text: str) -> float:
    """Seconds: `10`, `10s`, `1.5m`, `1h30m`."""
    seconds = units.seconds(text)
    if seconds is None:
        raise ValueError("not a time, for example 10s, 5m or 2h")
    if seconds > LONGEST:
        raise ValueError("more than a year")
    return seconds


def _size(text: str) -> int:
    """Bytes: `500M`, `2G`; 0 is no limit."""
    count = units.size(text)
    if count is None:
        raise ValueError("not a size, for example 500M or 2G")
    if 0 < count < settings.SMALLEST:
        raise ValueError(f"below the minimum of {units.amount(settings.SMALLEST)}")
    if count > settings.LARGEST:
        raise ValueError(f"above the maximum of {units.amount(settings.LARGEST)}")
    return count


def _moment(text: str) -> datetime:
    """`10m` (that long ago), `2026-11-15`, `2026-11-15T12:00:00Z`."""
    seconds = units.seconds(text)
    if seconds is not None:
        return datetime.now(UTC) - timedelta(seconds=min(seconds, LONGEST * 100))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("not a time, for example 10m or 2026-11-15T12:00:00Z") from None
    if not _EARLIEST.year <= moment.year < _LATEST.year:
        # near the ends of the calendar there is no such time in another zone
        return _EARLIEST if moment.year < _LATEST.year else _LATEST
    return moment if moment.tzinfo else moment.astimezone()


_NAMED = {
    "duration": _Parsed("TIME", _duration),
    "moment": _Parsed("TIME", _moment),
    "size": _Parsed("SIZE", _size),
    COUNT: Whole(0),
}
