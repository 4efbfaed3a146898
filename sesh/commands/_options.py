"""Options that several commands have, selection of sessions, and questions to the user."""

from __future__ import annotations

import os

from sesh.commands._declare import argument, flag, option
from sesh.model import errors
from sesh.model.errors import NoSessionError, SeshError, UsageError, noted
from sesh.model.text import formatting
from sesh.model.value_object import Value
from sesh.state import judge, lookup, records
from sesh.state.judge import Seen
from sesh.terminal import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

NAMES = argument(nargs=-1, metavar="[NAME]...")
GROUP = option("-g", "--group", metavar="GROUP", help="Select the sessions of a group.")
TAGS = option("--tag", multiple=True, metavar="TAG", help="Select by tag (repeatable).")
SELECTION = "--group, --tag or --filter"
CONDITIONS = option(
    "--filter",
    multiple=True,
    metavar="KEY=VALUE",
    help="Select as in sesh ls (repeatable): state, name (a glob), activity, …",
)
YES = flag("-y", "--yes", help="Do not ask for confirmation.")
DRY_RUN = flag("--dry-run", help="Show what would be done, but change nothing.")
GRACE = option("--grace", type="duration", help="Time between asking (TERM) and killing (10s).")
COLOUR = option(
    *("--color", "--colour"),
    type=("auto", "always", "never"),
    default="auto",
    help="Colour the output (auto: on a terminal).",
)


def named(name: str | None) -> str:
    """The name, which by now is given or that of the surrounding session, which may have been
    renamed."""
    if not name:
        raise UsageError("missing session name (optional inside a session)")
    if name == os.environ.get("SESH_NAME"):
        around = records.of_id(os.environ.get("SESH_ID", ""))
        return around.name if around else name
    return name


def json_option(what: str) -> Any:
    return flag("--json", help=f"Print {what} as JSON.")


def confirm(question: str, *, yes: bool) -> bool:
    """Ask the user, unless `yes`; without a terminal it is an error."""
    if yes:
        return True
    if not output.interactive():
        raise UsageError(f"cannot ask without a terminal: {question}; next: repeat with -y")
    import click

    try:
        return click.confirm(
            output.question(question), err=True, show_default=False, prompt_suffix=" "
        )
    except click.Abort:
        raise KeyboardInterrupt from None


class Selection(Value):
    """What `--group`, `--tag` and `--filter` select: the sessions that match all that are given.
    Several tags are alternatives, and so are several values of one key."""

    group: str | None = None
    tags: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def given(self) -> bool:
        return self.group is not None or bool(self.tags or self.conditions)

    def sessions(self) -> list[Seen]:
        """All that match, in any state; without options, all sessions."""
        matches = self._matches()
        found = [one for one in lookup.everything() if self._labelled(one) and matches(one)]
        if not found and self.given:
            raise NoSessionError(self._none())
        return found

    def _labelled(self, one: Seen) -> bool:
        """Has it the group and one of the tags? Of a damaged record neither is known."""
        spec = one.record.spec if one.record else None
        if self.group is not None and (spec is None or spec.group != self.group):
            return False
        return not self.tags or (spec is not None and not {*self.tags}.isdisjoint(spec.tags))

    def _matches(self) -> Callable[[Seen], bool]:
        if not self.conditions:
            return lambda _: True
        from sesh.terminal import filters, session_list

        wanted = filters.parse(self.conditions)
        return lambda one: filters.matches(session_list.complete(one), wanted)

    def _none(self) -> str:
        if not self.tags and not self.conditions:
            return f"no session is in group {self.group}"
        words = [] if self.group is None else [f"--group {self.group}"]
        words += [f"--tag {tag}" for tag in self.tags]
        words += [f"--filter {condition}" for condition in self.conditions]
        return f"no session matches {' '.join(words)}"


def check_choice(names: Sequence[str], *, selecting: bool, how: str) -> None:
    """Raise unless either names or a selection are given. `how`: the options that select."""
    if bool(names) == selecting:
        raise UsageError(f"give names, or {how}{', but not both' if names else ''}")


def choose(
    names: Sequence[str],
    selection: Selection,
    wanted: Callable[[Seen], bool] = lambda _: True,
    *,
    how: str = SELECTION,
    selecting: bool = False,
) -> list[Seen]:
    """The sessions that are named, or those of the selection that are `wanted`; exactly one of both
    must be given. `how`: the options that select; `selecting`: another one of them is given."""
    check_choice(names, selecting=selecting or selection.given, how=how)
    if names:
        return lookup.some(names)
    return [one for one in selection.sessions() if wanted(one)]


def agreed(question: str, found: list[Seen], again: Callable[[], list[Seen]]) -> list[Seen] | None:
    """Ask about selected sessions; None: the answer is no. It may have taken long: those that are
    not selected any more, or were launched again meanwhile, are left."""
    if not confirm(question, yes=False):
        return None
    launches = {one.name: one.record and one.record.launch for one in found}
    now = [
        one
        for one in again()
        if one.name in launches and launches[one.name] == (one.record and one.record.launch)
    ]
    left = launches.keys() - {one.name for one in now}
    if left:
        output.note(f"{formatting.listed(sorted(left))} changed meanwhile: skipped")
    return now


def planned(steps: Iterable[str]) -> int:
    """Print what `--dry-run` has found out."""
    output.write("".join(f"{step}\n" for step in steps))
    return errors.OK


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


def known(results: dict[str, object]) -> list[Seen]:
    """The sessions of these names, judged together; the errors of unknown names are noted."""
    entries = []
    for name in results:
        with noted(results, name):
            entries.append(lookup.find(name))
    return judge.judge(entries)


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
