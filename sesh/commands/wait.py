"""sesh wait: wait until sessions reach a state."""

from __future__ import annotations

import time

from sesh.commands._declare import declare, flag, option
from sesh.commands._options import CONDITIONS, GROUP, NAMES, TAGS, Selection, choose
from sesh.model import errors
from sesh.model.agents.hook_event import ACTIVITIES
from sesh.model.errors import UsageError
from sesh.model.states import ALIVE, ENDED, State
from sesh.model.text import formatting, pattern
from sesh.operations import wait
from sesh.operations.wait import GaveUp, Reached, Wanted
from sesh.terminal import output

_GROUPS = {"ended": ENDED, "alive": ALIVE}


@declare(
    "wait",
    examples={
        "sesh wait job --timeout 1h": "until it ends; exit 124 after an hour",
        "sesh wait fix --for waiting,idle": "until an agent needs input",
    },
)
def command(
    names: tuple[str, ...] = NAMES,
    group: str | None = GROUP,
    tags: tuple[str, ...] = TAGS,
    conditions: tuple[str, ...] = CONDITIONS,
    wanted: str | None = option(
        "--for",
        metavar="STATE,…",
        help="A state, ended (any end; default) or alive; of agents: busy, waiting, idle.",
    ),
    regex: str | None = option(
        "--output", metavar="REGEX", help="Wait for an output line that matches."
    ),
    any_one: bool = flag("--any", help="Return when one session reaches it."),
    every: bool = flag("--all", help="Return when all sessions reach it (default)."),
    timeout: float | None = option(
        "--timeout", type="duration", help="Give up after TIME (exit 124)."
    ),
    exit_code: bool = flag("--exit-code", help="Exit with the agent's exit status."),
) -> int:
    """Wait until sessions end, reach a state, become busy, waiting or idle, or print a line.

    Prints the name and state of each session that reaches it.
    """
    if any_one and every:
        raise UsageError("--all and --any contradict each other: use one of them")
    if regex is not None and wanted is not None:
        raise UsageError("--output and --for contradict each other: use one of them")
    goal = _wanted(wanted or "ended") if regex is None else _printing(regex)
    selection = Selection(group, tags, conditions)
    if selection.given or not names:
        names = tuple(one.name for one in choose(names, selection))
    deadline = None if timeout is None else time.monotonic() + timeout
    reached: list[Reached] = []
    lost: list[GaveUp] = []
    for one in wait.until(dict.fromkeys(names), goal, deadline):
        if isinstance(one, GaveUp):
            if len(set(names)) == 1:
                raise one.error
            output.note(str(one.error))
            lost.append(one)
            continue
        reached.append(one)
        output.write(f"{one.name} {formatting.escape(one.word)}\n")
        if any_one:
            break
    if any_one and reached:
        lost = []  # --any: the others do not matter
    elif left := sorted({*names} - {one.name for one in reached} - {one.name for one in lost}):
        output.note(f"timed out waiting for {', '.join(left)}")
        return errors.TIMED_OUT
    codes = [code for one in reached if (code := _exit_code(one))]
    if exit_code and codes:
        return codes[0]
    return errors.of_many([*(errors.OK for _ in reached), *(one.error.exit_code for one in lost)])


def _exit_code(one: Reached) -> int:
    """The agent's exit status; 1 for an end without a status that is not a success."""
    if one.state not in ENDED or one.state in (State.COMPLETED, State.STALE):
        return one.exit_code or errors.OK
    return one.exit_code or errors.FAILED


def _printing(regex: str) -> Wanted:
    """The meaning of `--output`."""
    return Wanted(frozenset(), words=repr(regex), output=pattern.given("--output", regex))


def _wanted(text: str) -> Wanted:
    """The meaning of `--for`."""
    words = text.split(",")
    meanings: dict[str, frozenset[State]] = {
        **_GROUPS,
        **{state: frozenset({state}) for state in State if state is not State.DAMAGED},
        **dict.fromkeys(ACTIVITIES, frozenset()),
    }
    for word in words:
        if word not in meanings:
            raise UsageError(f"--for {text}: should be one of {', '.join(meanings)}, or several")
    return Wanted(
        frozenset().union(*(meanings[word] for word in words)),
        tuple(word for word in words if word in ACTIVITIES),
        " or ".join(words),
    )
