"""sesh restart: restart sessions, each in its own place."""

from __future__ import annotations

from sesh.commands._declare import declare, flag, option
from sesh.commands._options import (
    GRACE,
    NAMES,
    YES,
    choose,
    confirm,
    report,
)
from sesh.model import errors
from sesh.model.configuration import Config
from sesh.model.states import State
from sesh.operations.restart import LIVING, restart_all
from sesh.state import breakers, settings
from sesh.state.judge import Seen, readable
from sesh.terminal import output


@declare("restart")
def command(
    names: tuple[str, ...] = NAMES,
    stale: bool = flag("--stale", help="Restart every stale session."),
    failed: bool = flag("--failed", help="Restart every failed session, also what a limit ended."),
    lost: bool = flag("--lost", help="Restart every lost session, as after a reboot."),
    everything: bool = flag("-a", "--all", help="Restart every session, living too."),
    group: str | None = option(
        "-g", "--group", metavar="GROUP", help="Restart the sessions of a group."
    ),
    _force: bool = flag("--force", hidden=True),  # of older versions
    fresh: bool = flag("--fresh", help="Begin a new conversation with the agent."),
    grace: float | None = GRACE,
    yes: bool = YES,
) -> int:
    """Restart sessions in place: same name, same tmux session if it still exists, and the agent in
    the same conversation.

    A living session is stopped first.
    """
    config = settings.load()
    flags = {
        State.STALE: stale,
        State.FAILED: failed,
        State.TIMEOUT: failed,  # `doctor` counts both as failed
        State.LOST: lost,
    }
    states = {state for state, given in flags.items() if given}
    selected = None
    if states:
        selected = lambda one: one.state in states and one.has_process  # noqa: E731  # clearer
    elif everything or group is not None:
        selected = lambda one: not one.damaged and one.has_process  # noqa: E731
    found = choose(names, selected, group, "--stale, --failed, --lost, --all or --group")
    if not found:
        output.note("nothing to restart")
        return errors.OK
    living = [one for one in found if one.state in LIVING]
    if len(living) > 1 and not confirm(
        f"restart {len(found)} sessions, {len(living)} of them alive?", yes=yes
    ):
        return errors.FAILED
    limit = config.stop.grace if grace is None else grace
    _note_breakers(found, config)
    results = restart_all(found, config, limit, fresh=fresh)
    restarted = [one.name for one in found if isinstance(results[one.name], Seen)]
    output.write("".join(f"{name}\n" for name in restarted))
    return report({one.name: results[one.name] for one in found})


def _note_breakers(found: list[Seen], config: Config) -> None:
    """A breaker holds back automatic retries only, never a person."""
    opened = breakers.open_for(readable(found), config)
    for circuit, until in sorted(set(opened.values())):
        output.note(f"{breakers.sentence(circuit, until)}: automatic retries are paused")
