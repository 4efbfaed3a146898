"""Options that several commands have, selection of sessions, and questions to the user."""

from __future__ import annotations

from sesh.commands._declare import argument, flag, option
from sesh.model import errors
from sesh.model.errors import NoSessionError, SeshError, UsageError, noted
from sesh.state import lookup
from sesh.state.judge import Seen
from sesh.terminal import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

NAMES = argument(nargs=-1, metavar="[NAME]...")
YES = flag("-y", "--yes", help="Answer yes to the question.")
GRACE = option(
    "--grace", type="duration", help="How long to wait between asking and killing (10s)."
)
COLOUR = option(
    *("--color", "--colour"),
    type=("auto", "always", "never"),
    default="auto",
    help="Colour the output (auto: on a terminal).",
)


def named(name: str | None) -> str:
    """The name, which by now is given or that of the surrounding session."""
    if not name:
        raise UsageError("which session? give its name, or call it inside of one")
    return name


def json_option(what: str) -> Any:
    return flag("--json", help=f"Print {what} as JSON.")


def confirm(question: str, *, yes: bool) -> bool:
    """Ask the user, unless `yes`; without a terminal it is an error."""
    if yes:
        return True
    if not output.interactive():
        raise UsageError(f"{question} There is no terminal to ask; -y answers yes")
    import click

    try:
        return click.confirm(question, err=True)
    except click.Abort:
        raise KeyboardInterrupt from None


def check_choice(names: Sequence[str], *, selecting: bool, how: str) -> None:
    """Raise unless either names or a selection are given."""
    if bool(names) == selecting:
        raise UsageError(f"give names, or {how}{', but not both' if names else ''}")


def choose(
    names: Sequence[str], wanted: Callable[[Seen], bool] | None, group: str | None, how: str
) -> list[Seen]:
    """The sessions that are named or selected; exactly one of both must be given."""
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
    """Do the same with each session. Returns the exit code, and the sessions without an error."""
    if not found:
        output.note(f"nothing to {verb}")
    results: dict[str, object] = {}
    done = []
    for one in found:
        with noted(results, one.name):
            work(one)
            results[one.name] = None
            done.append(one)
    return report(results), done


def report(results: Mapping[str, object]) -> int:
    """Print the errors among results; returns the exit code. A single result is raised if it is an
    error."""
    codes = []
    for name, result in results.items():
        if isinstance(result, SeshError):
            if len(results) == 1:
                raise result
            text = str(result)
            output.note(text if name in text else f"{name}: {text}", hint=result.hint)
        codes.append(result.exit_code if isinstance(result, SeshError) else errors.OK)
    return errors.of_many(codes)
