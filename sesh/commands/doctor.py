"""sesh doctor: find problems, show the commands that fix them, or fix them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sesh import doctor
from sesh.commands._declare import declare, flag, option
from sesh.commands._options import COLOUR, YES, json_option
from sesh.doctor import CHECKS, Done
from sesh.doctor.context import Check, Context, Finding, Level
from sesh.model import errors
from sesh.model.configuration import Config
from sesh.model.errors import StateError, UsageError
from sesh.model.text import formatting, quick_json
from sesh.state import settings
from sesh.terminal import output, prompt

_NARROW = 64  # columns below which texts stand under their ids, not beside them
_ID_WIDTH = max(len(one.id) for one in CHECKS)
_COLOURS = {Level.FAIL: "failed", Level.WARN: "stale"}


@declare(
    "doctor",
    examples={"sesh doctor": "find problems", "sesh doctor --fix": "fix what is safe to fix"},
)
def command(
    fix: bool = flag("--fix", help="Apply safe fixes, then check again."),
    yes: bool = YES,
    only: tuple[str, ...] = option(
        "--only", multiple=True, metavar="ID", help="Run only this check (repeatable)."
    ),
    list_checks: bool = flag("--list-checks", help="List the checks and exit."),
    fail_on: str = option(
        "--fail-on",
        type=(Level.WARN.value, Level.FAIL.value),
        default=Level.FAIL.value,
        help="The lowest level that exits with 10 (fail).",
    ),
    as_prompt: bool = flag(
        "--prompt", help="Print one short line if something needs attention, otherwise nothing."
    ),
    exit_code: bool = flag(
        "--exit-code", help="With --prompt: exit with 10 if something needs attention."
    ),
    refresh: bool = flag("--refresh", hidden=True),  # `sesh init` runs it in the background
    as_json: bool = json_option("an array of findings"),
    colour: str = COLOUR,
) -> int:
    """Diagnose problems and suggest or apply fixes."""
    if as_prompt:
        if fix or only or list_checks or as_json:
            raise UsageError("--prompt can only be combined with --exit-code")
        return _prompt(exit_code=exit_code, refresh=refresh)
    chosen = doctor.choose(only)
    if list_checks:
        return _list(chosen, as_json=as_json)
    begin, context = time.monotonic(), _look()
    if fix and _fix(chosen, context, yes=yes, colour=output.use_colour(colour, 2)):
        begin, context = time.monotonic(), _look()
    findings = doctor.run(chosen, context)
    if as_json:
        output.write(_array([_view(one) for one in findings]))
    else:
        _print(findings, chosen, context, begin, colour=output.use_colour(colour))
    bad = (Level.WARN, Level.FAIL) if fail_on == Level.WARN else (Level.FAIL,)
    return errors.PROBLEMS if any(one.level in bad for one in findings) else errors.OK


def _prompt(*, exit_code: bool, refresh: bool) -> int:
    """The line for prompts. (A fast lane answers the usual ways to ask for it before we do.)"""
    if refresh:
        prompt.refresh(make=True)
        return errors.OK
    line = prompt.line()
    if line:
        output.write(f"{line}\n")
    return errors.PROBLEMS if line and exit_code else errors.OK


def _look() -> Context:
    """A fresh look; with the default settings where the user's can't be read."""
    try:
        return Context(settings.load())
    except StateError as error:
        return Context(Config(), str(error))


def _list(chosen: Sequence[Check], *, as_json: bool) -> int:
    if as_json:
        output.write(_array([{"id": one.id, "text": one.what} for one in chosen]))
    else:
        output.write("".join(f"{one.id:<{_ID_WIDTH}}   {one.what}\n" for one in chosen))
    return errors.OK


def _array(objects: Sequence[dict[str, object]]) -> str:
    """A JSON array, an object a line."""
    return "[" + ",\n".join(quick_json.dumps(one, separators=(",", ":")) for one in objects) + "]\n"


# --- fixing --------------------------------------------------------------------------------------


def _fix(chosen: Sequence[Check], context: Context, *, yes: bool, colour: bool) -> bool:
    """Apply safe fixes, and print each. False when there was nothing to do."""

    def may(question: str) -> bool:
        if yes or not output.interactive():
            return yes
        import click

        return click.confirm(formatting.escape(question), err=True)

    told = False
    for done in doctor.fix(chosen, context, _look, may):
        output.say(_told(done, colour=colour))
        told = True
    if told:
        output.say("")
    return told


def _told(done: Done, *, colour: bool) -> str:
    step = done.step
    if done.left:
        word, text = "left", f"{step.question} (-y answers yes)"
    elif done.problem is not None:
        word, text = "failed", done.problem
    else:
        word, text = "fixed", step.what
    state = {"fixed": "running", "failed": "failed"}.get(word, "stale")
    painted = output.paint(f"{word:<6}", state, colour=colour)
    return f"{painted}  {done.id:<{_ID_WIDTH}}  {formatting.escape(text)}"


# --- the report ----------------------------------------------------------------------------------


def _view(one: Finding) -> dict[str, object]:
    return {
        "id": one.id,
        "level": one.level.value,
        "text": one.text,
        "mend": one.remedy,
        "subjects": list(one.subjects),
    }


def _print(
    findings: Sequence[Finding],
    chosen: Sequence[Check],
    context: Context,
    begin: float,
    *,
    colour: bool,
) -> None:
    bad = [one for one in findings if one.level is not Level.OK]
    bad.sort(key=lambda one: one.level is not Level.FAIL)
    count = formatting.number(len(chosen), "check")
    took = f"{(time.monotonic() - begin) * 1000:.0f} ms"
    if not bad:
        sessions = formatting.number(context.sessions, "session")
        output.write(f"sesh doctor: no problems ({count}, {sessions}, {took})\n")
        return
    width = output.terminal_width()
    head, aside = f"sesh doctor: {_summary(bad)}", f" ({count}, {took})"
    output.write(f"{_if_it_fits(head, aside, width)}\n\n")
    output.write("".join(_block(one, width, colour=colour) for one in _together(bad)))


def _summary(bad: Sequence[Finding]) -> str:
    problems = sum(one.level is Level.FAIL for one in bad)
    counts = ((problems, "problem"), (len(bad) - problems, "warning"))
    return ", ".join(formatting.number(count, noun) for count, noun in counts if count)


def _together(bad: Sequence[Finding]) -> list[Finding]:
    """One finding for checks that failed for the same reason."""
    groups: dict[tuple[Level, str, str | None], list[Finding]] = {}
    for one in bad:
        groups.setdefault((one.level, one.text, one.remedy), []).append(one)
    joined = []
    for (level, text, remedy), same in groups.items():
        ids = ", ".join(one.id for one in same)
        many = Finding(level, f"{text} ({ids})", remedy, id=f"{len(same)} checks")
        joined.append(many if len(same) > 1 else same[0])
    return joined


def _block(one: Finding, width: int | None, *, colour: bool) -> str:
    """A finding: level, id and text, and the command under it."""
    level = output.paint(f"{one.level.value:<4}", _COLOURS[one.level], colour=colour)
    narrow = width is not None and width < _NARROW
    pad = _ID_WIDTH + 3
    indent = " " * (6 if narrow else 6 + pad)
    lines = formatting.wrapped(
        formatting.escape(one.text), None if width is None else width - len(indent)
    )
    first, rest = ("", lines) if narrow else (lines[0], lines[1:])
    text = f"{level}  {one.id:<{pad}}{first}".rstrip() + "\n"
    text += "".join(f"{indent}{line}\n" for line in rest)
    if one.remedy is not None:
        fix = f"{indent}fix: {formatting.escape(one.remedy)}"
        text += _if_it_fits(fix, f"   ({one.note})" if one.note else "", width) + "\n"
    return text


def _if_it_fits(text: str, aside: str, width: int | None) -> str:
    """The text, with an optional part where there is room for it."""
    fits = width is None or formatting.display_width(text + aside) <= width
    return text + aside if fits else text
