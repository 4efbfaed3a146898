"""The report of a gc: its table for people, its JSON, its exit code. Prints nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sesh.gc.plan import Outcome, Step, Verb, What
from sesh.model import errors
from sesh.model.text import formatting, quick_json

_DONE = {
    Verb.FINISH: "finished",
    Verb.END: "ended",
    Verb.RESTART: "restarted",
    Verb.GIVE_UP: "gave up",
    Verb.KILL: "killed",
    Verb.CLOSE: "closed",
    Verb.ARCHIVE: "archived",
    Verb.REMOVE: "removed",
    Verb.ROTATE: "rotated",
    Verb.KEEP: "kept",
}
_ADVICE = {
    "stop": "end with:",
    "adopt": "adopt with:",
    "rm": "remove anyway with:",
    "doctor --fix": "fix with:",
    "doctor": "see why with:",
}
_FILES = {What.TRANSCRIPT, What.TEMP, What.LAUNCH_FILE, What.MOUNT, What.EVENTS, What.NOTICE}
_NAMES_SHOWN = 1000  # when no terminal cuts the line


def exit_code(outcomes: Sequence[Outcome]) -> int:
    tried = [one for one in outcomes if one.done or one.failed]
    return errors.of_many([errors.FAILED if one.failed else errors.OK for one in tried])


def as_json(outcomes: Sequence[Outcome]) -> str:
    return quick_json.dumps([_object(one) for one in outcomes]) + "\n"


def _object(one: Outcome) -> dict[str, object]:
    step = one.step
    return {
        "verb": step.verb.value,
        "what": step.what.value,
        "subject": step.subject,
        "id": step.session_id,
        "why": step.why,
        "size_bytes": step.size or None,
        "mend": step.remedy,
        "done": one.done,
        "skipped": one.skipped,
    }


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    return [
        f"{one.step.subject}: could not {one.step.verb}: {one.skipped}"
        for one in outcomes
        if one.failed
    ]


def table(outcomes: Sequence[Outcome], width: int | None, *, dry_run: bool) -> str:
    """What was done and kept, one line per group; cut at the width, never wrapped."""
    shown = [one for one in outcomes if one.done or one.kept or dry_run]
    rows = [_row(some, dry_run=dry_run) for some in _groups(shown)]
    return "".join(f"{line}\n" for line in formatting.table(rows, width))


def closing(outcomes: Sequence[Outcome], *, dry_run: bool) -> str | None:
    if dry_run and not all(one.kept for one in outcomes):
        return "nothing was done (--dry-run)"
    return None if any(one.done or one.failed for one in outcomes) else "nothing to clean up"


def _groups(outcomes: Iterable[Outcome]) -> list[list[Step]]:
    """Steps of one kind and reason together, in the order of the plan; kept ones come last."""
    found: dict[tuple[str, str, str, str | None], list[Step]] = {}
    for one in sorted(outcomes, key=lambda one: one.kept):
        step = one.step
        found.setdefault((step.verb, step.what, step.why, step.remedy), []).append(step)
    return list(found.values())


def _row(steps: list[Step], *, dry_run: bool) -> tuple[str, str, str]:
    first = steps[0]
    verb = f"would {first.verb}" if dry_run else _DONE[first.verb]
    total = sum(step.size for step in steps)
    size = f" ({formatting.size(total)})" if total else ""
    counted = f"{len(steps)} {_plural(first.what, len(steps))}{size} {formatting.escape(first.why)}"
    return verb, counted, _right(steps)


def _plural(what: What, count: int) -> str:
    if count == 1:
        return what.value
    return f"{what}es" if what.value.endswith("ss") else f"{what}s"


def _right(steps: list[Step]) -> str:
    """The last column: the names, or the command for what gc leaves to the user."""
    first = steps[0]
    if first.verb is Verb.KEEP:
        return _advice(first.remedy) if first.remedy else ""
    if first.what in _FILES:
        return ""
    return ", ".join(formatting.escape(step.subject) for step in steps[:_NAMES_SHOWN])


def _advice(remedy: str) -> str:
    words = remedy.removeprefix("sesh ")
    return next(f"{how} {remedy}" for what, how in _ADVICE.items() if words.startswith(what))
