"""sesh pause: pause sessions."""

from __future__ import annotations

from sesh.commands._declare import declare, flag, option
from sesh.commands._options import NAMES, choose, each
from sesh.model.states import State
from sesh.operations.pause import detach, pause
from sesh.state import settings
from sesh.state.judge import Seen


@declare("pause")
def command(
    names: tuple[str, ...] = NAMES,
    group: str | None = option(
        "-g", "--group", metavar="GROUP", help="Pause the running sessions of a group."
    ),
    freeze: bool = flag("--freeze", help="Stop its processes too, or pause its container."),
) -> int:
    """Pause sessions: detach all clients, refuse attach and send, suspend limits.

    The agent keeps running, unless it is frozen.
    """
    config = settings.load()
    found = choose(names, _wanted if group is not None else None, group, "--group")
    code, paused = each(found, "pause", lambda one: pause(one, config, freeze=freeze))
    detach(paused, config)
    return code


def _wanted(one: Seen) -> bool:
    """Of a group: sessions that run, and those that cannot be queried, so that they are named."""
    return one.state in (State.RUNNING, State.UNKNOWN) and one.has_process
