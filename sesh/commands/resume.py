"""sesh resume: resume paused sessions."""

from __future__ import annotations

from sesh.commands._declare import declare
from sesh.commands._options import CONDITIONS, GROUP, NAMES, TAGS, Selection, choose, each
from sesh.model.states import State
from sesh.model.text import formatting
from sesh.operations.pause import resume, supervise_again
from sesh.state import settings
from sesh.state.judge import Seen
from sesh.terminal import output


@declare("resume")
def command(
    names: tuple[str, ...] = NAMES,
    group: str | None = GROUP,
    tags: tuple[str, ...] = TAGS,
    conditions: tuple[str, ...] = CONDITIONS,
) -> int:
    """Resume paused sessions: thaw them, allow attach and send, enforce limits again."""
    config = settings.load()
    found = choose(names, Selection(group, tags, conditions), _wanted)
    code, resumed = each(found, "resume", lambda one: resume(one, config))
    running = [one.name for one in resumed if one.state is not State.PAUSED]
    if running:
        output.note(
            f"{formatting.listed(running)} {'is' if len(running) == 1 else 'are'} not paused"
        )
    resumed = [one for one in resumed if one.state is State.PAUSED]
    supervise_again(resumed, config)
    output.done("resumed", [one.name for one in resumed])
    return code


def _wanted(one: Seen) -> bool:
    """Of a selection: paused sessions, and those that cannot be queried, so that they are named."""
    return one.state in (State.PAUSED, State.UNKNOWN)
