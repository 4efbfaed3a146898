"""sesh transcript: show what was said in the conversation of an agent."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from sesh.agents import questions
from sesh.commands._declare import COUNT, argument, declare, flag, option
from sesh.commands._options import json_option
from sesh.model import errors
from sesh.model.agents import turns
from sesh.model.agents.turns import ASSISTANT, ROLES, TOOL, Turn
from sesh.model.errors import UsageError
from sesh.model.text import formatting, quick_json
from sesh.operations.conversations import read
from sesh.state import lookup
from sesh.terminal import output

_AT_ONCE = 100  # turns
_LONGEST_CALL = 200  # columns of a call of a tool


@declare(
    "transcript",
    examples={
        "sesh transcript fix": "what was said",
        "sesh transcript fix --last": "only the agent's last answer",
    },
)
def command(
    name: str = argument(),
    role: str | None = option(
        "--role", type=ROLES, help="Only prompts (user), answers and calls, or results of tools."
    ),
    last: bool = flag("--last", help="Only the text of the last one (of an answer by default)."),
    lines: int | None = option("-n", type=COUNT, metavar="N", help="Only the last N turns."),
    as_json: bool = json_option("an array of turns"),
) -> int:
    """Show the conversation of an agent by its transcript: prompts, answers, calls of tools.

    Also after the end of the session.
    """
    if last and lines is not None:
        raise UsageError("--last and -n contradict each other: use one of them")
    found: Iterable[Turn] = read.turns(lookup.one(name).intact.record)
    if last:
        wanted = role or ASSISTANT
        found = deque((one for one in found if one.role == wanted and one.text), 1)
    elif role is not None:
        found = (one for one in found if one.role == role)
    elif not as_json:
        found = (one for one in found if one.role != TOOL or one.error)
    if lines is not None:
        found = deque(found, lines)
    if as_json:
        _print_json(found)
    elif (rest := _some(found)) is None:
        output.note(f"{name}: nothing was said yet")
    elif last:
        output.write("".join(_text(one.text, "") for one in rest))
    else:
        colour = output.use_colour("auto")
        for some in iter(lambda: [*islice(rest, _AT_ONCE)], []):
            output.write("".join(_shown(one, colour=colour) for one in some))
    return errors.OK


def _some(found: Iterable[Turn]) -> Iterator[Turn] | None:
    """None when there is none."""
    turns = iter(found)
    first = next(turns, None)
    return None if first is None else chain([first], turns)


def _shown(turn: Turn, *, colour: bool) -> str:
    """A turn for people: a line with its role and time, then its text; a call in one line."""
    when = formatting.clock(turn.at) if turn.at is not None else ""
    head = f"{output.coloured(turn.role, output.BOLD) if colour else turn.role}  {when}".rstrip()
    error = f"  {formatting.escape(turn.error)}" if turn.error else ""
    if turn.tool and turn.role != TOOL:
        given = questions.matter(turn.input or {})
        call = f"{turn.tool}: {questions.line(given[1])}" if given else turn.tool
        return f"{head}  {formatting.cut(formatting.escape(call), _LONGEST_CALL)}{error}\n\n"
    return f"{head}{error}\n{_text(turn.text, '  ')}\n"


def _text(text: str, indent: str) -> str:
    lines = text.replace("\t", "    ").splitlines()
    return "".join(f"{indent}{formatting.escape(line)}".rstrip() + "\n" for line in lines)


def _print_json(found: Iterable[Turn]) -> None:
    """An array with a turn on each line."""
    texts = (quick_json.dumps(turns.plain(one)) for one in found)
    before = "["
    for some in iter(lambda: [*islice(texts, _AT_ONCE)], []):
        output.write(before + ",\n".join(some))
        before = ",\n"
    output.write("[]\n" if before == "[" else "]\n")
