"""sesh resume: resume paused sessions."""

from __future__ import annotations

from sesh.commands._declare import declare, option
from sesh.commands._options import NAMES, choose, each
from sesh.model.states import State
from sesh.operations.pause import resume, supervise_again
from sesh.state import settings
from sesh.state.judge import Seen


@declare("resume")
def command(
    names: tuple[str, ...] = NAMES,
    group: str | None = option(
        "-g", "--group", metavar="GROUP", help="Resume the paused sessions of a group."
    ),
) -> int:
    """Resume paused sessions: thaw them, allow attach and send, and count their limits again."""
    config = settings.load()
    found = choose(names, _wanted if group is not None else None, group, "--group")
    code, resumed = each(found, "resume", lambda one: resume(one, config))
    supervise_again((one for one in resumed if one.state is State.PAUSED), config)
    return code


def _wanted(one: Seen) -> bool:
    """Of a group: paused sessions, and those that cannot be queried, so that they are named."""
    return one.state in (State.PAUSED, State.UNKNOWN)
