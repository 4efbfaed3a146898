"""All checks of doctor in the order in which they are shown, and how they are made and fixed. A
new check is a line in the table of its area."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress

from sesh.doctor import files, machine, orphans, places, records, sessions, tmux
from sesh.doctor.context import Check, Context, Finding, Level, Step
from sesh.model.errors import SeshError, UsageError
from sesh.model.value_object import Value, replace

CHECKS = (
    *tmux.CHECKS,
    *sessions.CHECKS,
    *orphans.CHECKS,
    *records.CHECKS,
    *places.CHECKS,
    *files.CHECKS,
    *machine.CHECKS,
)
IDS = tuple(check.id for check in CHECKS)
# Fixed before all others: files that must be readable, servers that must answer, records.
_FIRST = (
    *("permissions", "tmux-socket", "tmux-server"),
    *("record-damaged", "orphan-agent", "orphan-container"),
)


def choose(only: Collection[str]) -> list[Check]:
    """The checks of these ids, or all."""
    for wanted in only:
        if wanted not in IDS:
            from difflib import get_close_matches

            near = get_close_matches(wanted, IDS, 1)
            hint = f"did you mean {near[0]}?" if near else "next: sesh doctor --list-checks"
            raise UsageError(f"no check named {wanted}; {hint}")
    return [check for check in CHECKS if not only or check.id in only]


def run(chosen: Sequence[Check], context: Context) -> list[Finding]:
    """The findings of all checks: at least one each, `ok` where all is well."""
    return [finding for check in chosen for finding in examine(check, context)]


def examine(check: Check, context: Context) -> list[Finding]:
    """The findings of one check; an error in it is a finding too."""
    try:
        found = check.find(context)
    except (SeshError, OSError) as error:
        found = [Finding(Level.FAIL, f"cannot be checked: {_why(error)}")]
    return [replace(one, id=check.id) for one in found or [Finding(Level.OK, check.what)]]


def _why(error: SeshError | OSError) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'system'}: {error.strerror or error}"
    return str(error)


# --- fixes ---------------------------------------------------------------------------------------


class Done(Value):
    """The result of a step: done; `left`, because it was not confirmed; or failed, and why."""

    id: str  # of the check
    step: Step
    left: bool = False
    problem: str | None = None


def fix(
    chosen: Sequence[Check],
    context: Context,
    look_again: Callable[[], Context],
    may: Callable[[str], bool],
) -> Iterator[Done]:
    """Fix what these checks find, step by step. Look again after each check that had a step."""
    first = {check_id: number for number, check_id in enumerate(_FIRST)}
    for check in sorted(chosen, key=lambda check: first.get(check.id, len(first))):
        steps: list[Step] = []
        with suppress(SeshError, OSError):  # its finding reports that the check itself fails
            steps = check.fix(context) if check.fix else []
        for step in steps:
            yield _do(check.id, step, may)
        if steps:
            context = look_again()


def _do(id_: str, step: Step, may: Callable[[str], bool]) -> Done:
    if step.question is not None and not may(step.question):
        return Done(id_, step, left=True)
    try:
        step.do()
    except (SeshError, OSError) as error:
        return Done(id_, step, problem=_why(error))
    return Done(id_, step)
