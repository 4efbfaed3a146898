"""sesh pause: pause sessions."""

from __future__ import annotations

from sesh.commands._declare import declare, flag
from sesh.commands._options import CONDITIONS, GROUP, NAMES, TAGS, Selection, choose, each
from sesh.model.configuration import Config
from sesh.model.errors import UsageError
from sesh.model.states import State
from sesh.operations.pause import detach, pause
from sesh.state import settings
from sesh.state.judge import Seen
from sesh.terminal import output


@declare("pause", examples={"sesh pause web": "freeze it"})
def command(
    names: tuple[str, ...] = NAMES,
    group: str | None = GROUP,
    tags: tuple[str, ...] = TAGS,
    conditions: tuple[str, ...] = CONDITIONS,
    hold: bool = flag(
        "--hold", help="Keep the agent running; only detach clients and refuse input."
    ),
    freeze: bool = flag("--freeze", help="Fail if a session can only be held."),
) -> int:
    """Pause sessions: freeze their processes, detach all clients, refuse attach and send, suspend
    limits.

    A session that cannot be frozen is held: its agent keeps running.
    """
    if hold and freeze:
        raise UsageError("--hold and --freeze contradict each other: use one of them")
    config = settings.load()
    found = choose(names, Selection(group, tags, conditions), _wanted)
    code, paused = each(found, "pause", lambda one: _pause(one, config, hold=hold, freeze=freeze))
    detach(paused, config)
    output.done("paused", [one.name for one in paused])
    return code


def _pause(one: Seen, config: Config, *, hold: bool, freeze: bool) -> None:
    why = pause(one, config, hold=hold)
    if why is not None and freeze:
        raise why
    if why is not None:
        output.note(f"{one.name} is held, not frozen: {str(why).removeprefix(f'{one.name}: ')}")


def _wanted(one: Seen) -> bool:
    """Of a selection: sessions that run, and those that cannot be queried: they are named."""
    return one.state in (State.RUNNING, State.UNKNOWN) and one.has_process
