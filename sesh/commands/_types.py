"""The types of options that click itself does not know."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from sesh.commands._declare import COUNT
from sesh.model.text import units
from sesh.state import settings

_LONGEST = 366 * 86400
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.4
    """`10`, `10s`, `1.5m`, `1h30m`: seconds."""

    name = "TIME"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        seconds = units.seconds(value)
        if seconds is None:
            self.fail(f"{value!r} is not a time, for example 10s, 5m or 2h", param, ctx)
        if seconds > _LONGEST:
            self.fail(f"{value!r} is more than a year", param, ctx)
        return seconds


class Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.4
    """`500M`, `2G`: bytes; 0 is no limit."""

    name = "SIZE"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if isinstance(value, int):
            return value
        count = units.size(value)
        if count is None:
            self.fail(f"{value!r} is not a size, for example 500M or 2G", param, ctx)
        if 0 < count < settings.SMALLEST:
            least = units.amount(settings.SMALLEST)
            self.fail(f"{value!r} is less than {least}; 500M or 2G, say", param, ctx)
        if count > settings.LARGEST:
            self.fail(f"{value!r} is more than {units.amount(settings.LARGEST)}", param, ctx)
        return count


class Moment(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.4
    """`10m` (that long ago), `2026-11-15`, `2026-11-15T12:00:00Z`."""

    name = "TIME"

    def convert(self, value: Any, param: Any, ctx: Any) -> datetime:
        if isinstance(value, datetime):
            return value
        seconds = units.seconds(value)
        if seconds is not None:
            return datetime.now(UTC) - timedelta(seconds=min(seconds, _LONGEST * 100))
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is not a time, for example 10m or 2026-11-15T12:00:00Z", param, ctx
            )
        if not _EARLIEST.year <= moment.year < _LATEST.year:
            # near the ends of the calendar there is no such time in another zone
            return _EARLIEST if moment.year < _LATEST.year else _LATEST
        return moment if moment.tzinfo else moment.astimezone()


def named(kind: str | tuple[str, ...]) -> click.ParamType:  # type: ignore[type-arg,unused-ignore]
    """The type that a declaration names; a tuple is a choice."""
    if isinstance(kind, tuple):
        return click.Choice(kind)
    return _NAMED[kind]


_NAMED = {"duration": Duration(), "moment": Moment(), COUNT: click.IntRange(0)}
