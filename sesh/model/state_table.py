"""The properties of each state of a session, in one table. PURE.

The keys are the values of `states.State`; a state without a row fails at import. Fast lanes read it
and cannot afford to import `enum`.
"""

from __future__ import annotations

from sesh.model.errors import CANNOT_TELL, ENDED, FAILED, OK, STATE
from sesh.model.value_object import Value

_RED, _GREEN, _YELLOW, _DIM, _PLAIN = "31", "32", "33", "2", ""
_MENU = "sesh attach {0}   ·   sesh restart {0}   ·   sesh stop {0}"
_DISMISS = "sesh restart {0}, or sesh stop {0} to dismiss"
_AGAIN = "sesh restart {0}   ·   sesh rm {0}"


class Row(Value):
    """The properties of one state."""

    rank: int  # in a prompt, the lowest first; `prompt` ranks other words between 10 and 20
    colour: str
    exit_code: int  # of `sesh status`
    next: str  # commands that `sesh show` proposes; {0} is the name
    remedy: str = "sesh show {0}"  # what `ls` proposes below its table if it needs attention
    alive: bool = False
    ended: bool = False
    failure: bool = False


def _alive(rank: int, colour: str, next_: str) -> Row:
    return Row(rank, colour, OK, next_, alive=True)


def _failure(rank: int) -> Row:
    return Row(rank, _RED, ENDED, _MENU, _DISMISS, ended=True, failure=True)


STATES = {
    "damaged": Row(1, _RED, STATE, "sesh doctor --fix   ·   sesh rm --force {0}"),
    "starting": _alive(22, _PLAIN, "sesh wait {0} --for running   ·   sesh stop {0}"),
    "running": _alive(23, _GREEN, "sesh attach {0}   ·   sesh stop {0}"),
    "paused": _alive(24, _PLAIN, "sesh resume {0}   ·   sesh stop {0}"),
    "stopping": _alive(20, _YELLOW, "sesh stop {0}"),
    "recovering": Row(
        21,
        _YELLOW,
        OK,
        "sesh restart {0}   ·   sesh stop {0}",
        "sesh restart {0}",
        alive=True,
    ),
    "stale": Row(5, _YELLOW, ENDED, _MENU, _DISMISS, ended=True),
    "failed": _failure(3),
    "lost": _failure(6),
    "timeout": _failure(4),
    "completed": Row(26, _DIM, ENDED, _AGAIN, ended=True),
    "stopped": Row(27, _DIM, ENDED, _AGAIN, ended=True),
    "unknown": Row(25, _DIM, CANNOT_TELL, "sesh doctor"),
    "orphan": Row(
        2, _YELLOW, FAILED, "sesh adopt {0}   ·   sesh stop {0}", "sesh adopt {0}, or sesh stop {0}"
    ),
}
