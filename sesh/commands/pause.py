"""sesh pause: pause sessions."""

from __future__ import annotations

from sesh.commands._declare import declare, flag
from sesh.commands._options import CONDITIONS, GROUP, NAMES, TAGS, Selection, choose, each
from sesh.model.states import State
from sesh.operations.pause import detach, pause
from sesh.state import settings
from sesh.state.judge import Seen
from sesh.terminal import output


@declare("pause")
def command(
    names: tuple[str, ...] = NAMES,
    group: str | None = GROUP,
    tags: tuple[str, ...] = TAGS,
    conditions: tuple[str, ...] = CONDITIONS,
    freeze: bool = flag("--freeze", help="Stop its processes too, or pause its container."),
) -> int:
    """Pause sessions: detach all clients, refuse attach and send, suspend limits.

    The agent keeps running, unless it is frozen.
    """
    config = settings.load()
    found = choose(names, Selection(group, tags, conditions), _wanted)
    code, paused = each(found, "pause", lambda one: pause(one, config, freeze=freeze))
    detach(paused, config)
    output.done("paused", [one.name for one in paused])
    return code


def _wanted(one: Seen) -> bool:
    """Of a selection: sessions that run, and those that cannot be queried: they are named."""
    return one.state in (State.RUNNING, State.UNKNOWN) and one.has_process
