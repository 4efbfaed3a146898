"""sesh restart: bring sessions back, each in its own place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sesh.commands._declare import declare, option
from sesh.commands._options import choose, confirm, grace_option, names_argument, yes_option
from sesh.model import errors
from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, SeshError, StateError
from sesh.model.states import ALIVE, State
from sesh.operations.start import check, restart, still_wanted
from sesh.operations.stop import inside, refused, stop
from sesh.state import breakers, lookup, settings
from sesh.state.judge import Seen
from sesh.terminal import output

_LIVING = (ALIVE | {State.ORPHAN}) - {State.RECOVERING}


@declare("restart")
@names_argument
@option("--stale", is_flag=True, help="Restart every stale session.")
@option("--failed", is_flag=True, help="Restart every failed session, also what a limit ended.")
@option("--lost", is_flag=True, help="Restart every lost session, as after a reboot.")
@option("-a", "--all", "everything", is_flag=True, help="Restart every session, living too.")
@option("-g", "--group", metavar="GROUP", help="Restart the sessions of a group.")
@option("--force", is_flag=True, hidden=True, expose_value=False)  # of older versions
@option("--fresh", is_flag=True, help="Begin a new conversation with the agent.")
@grace_option
@yes_option
def command(
    names: tuple[str, ...],
    stale: bool,
    failed: bool,
    lost: bool,
    everything: bool,
    group: str | None,
    fresh: bool,
    grace: float | None,
    yes: bool,
) -> int:
    """Start the next generation of sessions: same name, same tmux session where it still stands,
    and the agent in the same conversation.

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
    living = [one for one in found if one.state in _LIVING]
    if len(living) > 1 and not confirm(
        f"restart {len(found)} sessions, {len(living)} of them alive?", yes=yes
    ):
        return errors.FAILED
    limit = config.stop.grace if grace is None else grace
    _note_breakers(found, config)
    return errors.of_many(
        [_restart(one, config, limit, fresh=fresh, alone=len(found) == 1) for one in found]
    )


def _note_breakers(found: list[Seen], config: Config) -> None:
    """A breaker holds back automatic retries only, never a person."""
    opened = breakers.open_for([one.session.record for one in found if one.session], config)
    for circle, until in sorted(set(opened.values())):
        output.note(f"{breakers.sentence(circle, until)}: automatic retries are paused")


def _restart(one: Seen, config: Config, grace: float, *, fresh: bool, alone: bool) -> int:
    """Restart one; a problem is reported (when it is the only one: raised)."""
    try:
        ended = _ended(one, config, grace, fresh=fresh)
        with _wanted(one):
            done = restart(ended, config, fresh=fresh)
    except SeshError as error:
        if alone:
            raise
        output.note(f"{one.name}: {error}" if one.name not in str(error) else str(error))
        return error.exit_code
    output.write(f"{done.name}\n")
    return errors.OK


def _ended(one: Seen, config: Config, grace: float, *, fresh: bool) -> Seen:
    """The session, brought down if it lives."""
    if one.damaged:
        raise StateError(f"{one.name}: its record is damaged ({one.damaged.reason})")
    assert one.session is not None
    lookup.need_process(one)
    if one.state is State.UNKNOWN:
        raise CannotTellError(f"{one.name}: {one.session.verdict.reason}; not restarted")
    if one.state not in _LIVING:
        return one
    if inside(one.session):
        raise ConflictError(f"{one.name} can't restart itself; call it from another terminal")
    if one.state is State.STARTING:
        raise ConflictError(f"{one.name} is starting just now")
    check(one.session.record, fresh=fresh)
    with _wanted(one):
        after = stop([one], config, grace, close_panes=False, keep=True)[0]
        lookup.check_same_launch(one, after)
        if after.state in _LIVING:
            why = refused(after) or after.state
            raise SeshError(f"{one.name} could not be stopped: {why}; not restarted")
    return after


@contextmanager
def _wanted(one: Seen) -> Iterator[None]:
    """What lived is to live on, should this fail: an engine or a server may die meanwhile."""
    try:
        yield
    except SeshError as error:
        if one.state in _LIVING:
            still_wanted(one, str(error))
        raise
