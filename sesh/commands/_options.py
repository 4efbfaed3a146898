"""What several commands take: options in the same words, and the one way to ask a question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from sesh.model import errors, units
from sesh.model.errors import NoSessionError, SeshError, UsageError
from sesh.state import lookup, settings
from sesh.state.lookup import Seen
from sesh.terminal import output

F = TypeVar("F", bound=Callable[..., Any])

CONTEXT = {"help_option_names": ["-h", "--help"]}

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
            self.fail(f"{value!r} is not a time such as 10s, 5m or 2h", param, ctx)
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
            self.fail(f"{value!r} is not a size such as 500M or 2G", param, ctx)
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
            self.fail(f"{value!r} is not a time such as 10m or 2026-11-15T12:00:00Z", param, ctx)
        if not _EARLIEST.year <= moment.year < _LATEST.year:
            # near the ends of the calendar there is no such time in another zone
            return _EARLIEST if moment.year < _LATEST.year else _LATEST
        return moment if moment.tzinfo else moment.astimezone()


def names_argument(function: F) -> F:
    return click.argument("names", nargs=-1, metavar="[NAME]...")(function)


def named(name: str | None) -> str:
    """The name that was given, or that of the session in which this is called."""
    if not name:
        raise UsageError("which session? give its name, or call it inside of one")
    return name


def json_option(what: str) -> Callable[[F], F]:
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")


def yes_option(function: F) -> F:
    return click.option("-y", "--yes", is_flag=True, help="Answer yes to the question.")(function)


def grace_option(function: F) -> F:
    return click.option(
        "--grace",
        type=Duration(),
        help="How long to wait between asking and killing (10s).",
    )(function)


def colour_option(function: F) -> F:
    return click.option(
        "--color",
        "--colour",
        "colour",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="Colour the output (auto: on a terminal).",
    )(function)


def confirm(question: str, *, yes: bool) -> bool:
    """Ask, unless answered beforehand; without a terminal there is nobody to ask."""
    if yes:
        return True
    if not output.interactive():
        raise UsageError(f"{question} There is no terminal to ask; -y answers yes")
    return click.confirm(question, err=True)


def check_choice(names: Sequence[str], *, selecting: bool, how: str) -> None:
    """Raise unless either names or a selection are given."""
    if bool(names) == selecting:
        raise UsageError(f"give names, or {how}{', but not both' if names else ''}")


def choose(
    names: Sequence[str], wanted: Callable[[Seen], bool] | None, group: str | None, how: str
) -> list[Seen]:
    """The sessions that names or a selection mean; exactly one of both must be given."""
    check_choice(names, selecting=wanted is not None or group is not None, how=how)
    if names:
        return lookup.some(names)
    found = lookup.everything()
    if group is not None:
        found = [one for one in found if one.session and one.session.record.spec.group == group]
        if not found:
            raise NoSessionError(f"no session is in group {group}")
    return [one for one in found if wanted is None or wanted(one)]


def each(found: Sequence[Seen], verb: str, work: Callable[[Seen], None]) -> tuple[int, list[Seen]]:
    """Do the same with each session. An error is reported, and the other sessions go on. Returns
    the exit code, and the sessions with which it was done."""
    if not found:
        output.note(f"nothing to {verb}")
    codes, done = [], []
    for one in found:
        try:
            work(one)
            codes.append(errors.OK)
            done.append(one)
        except SeshError as error:
            if len(found) == 1:
                raise
            output.note(str(error), hint=error.hint)
            codes.append(error.exit_code)
    return errors.of_many(codes), done
