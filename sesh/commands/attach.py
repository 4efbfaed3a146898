"""sesh attach: attach to a session, or show a menu for one that has ended."""

from __future__ import annotations

import time

from sesh.commands._declare import argument, declare, flag
from sesh.model import errors
from sesh.model.errors import CannotTellError, ConflictError, UsageError
from sesh.model.states import ALIVE, ENDED, ENDED_WELL, State
from sesh.operations import attach
from sesh.places import registry
from sesh.state import lookup, settings
from sesh.state.judge import Seen
from sesh.terminal import output

END_PATIENCE = 5.0  # seconds that a keeper may take to write how its agent ended


@declare(
    "attach",
    examples={
        "sesh attach web": "Ctrl-b d detaches",
        "sesh attach -r web": "watch only",
    },
)
def command(
    name: str | None = argument(required=False),
    read_only: bool = flag("-r", "--read-only", help="Watch only; keys are not passed on."),
    detach_others: bool = flag("-d", "--detach-others", help="Detach all other clients."),
    ended: bool = flag("--ended", hidden=True),
) -> int:
    """Attach to a session. Without NAME: the only living session, or one picked from a list.

    Ctrl-b d detaches. An ended session is shown with its last lines and a menu: restart, logs,
    delete, cancel.
    """
    found = _choose() if name is None else _settled(name) if ended else lookup.one(name)
    if found is None:
        return errors.INTERRUPTED
    config = settings.load()
    session = found.intact
    lookup.need_process(found)
    if found.state is State.UNKNOWN:
        raise CannotTellError(f"{found.name}: {found.reason}")
    if found.state in ENDED | {State.RECOVERING}:
        from sesh.commands import _menu

        if ended and found.state in ENDED_WELL:
            output.say(_menu.headline(session))
            return 0
        return _menu.menu(found, config)
    if found.state is State.ORPHAN:
        raise ConflictError(
            f"{found.name}: {found.reason}; nothing to attach to; next: sesh show {found.name}"
        )
    if found.state is State.PAUSED:
        raise ConflictError(f"{found.name} is paused; next: sesh resume {found.name}")
    if ended:  # the client has detached, or failed and printed why although the session lives
        return 1 if session.record.place.calls_back else 0
    attach.need_terminal()
    attach.attach(session.record, config, read_only=read_only, alone=detach_others)
    return 0


def _settled(name: str) -> Seen:
    """The session whose terminal has just gone; its end may take a moment to be recorded. The last
    report of an engine on another machine may be older than the end."""
    record = lookup.find(name).readable
    if record is not None:
        registry.of(record).refresh(record, settings.load())
    deadline = time.monotonic() + END_PATIENCE
    unsettled = (State.UNKNOWN, State.STOPPING)
    while (found := lookup.one(name)).state in unsettled and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _choose() -> Seen | None:
    """The only living session, or the one that the user picks; None: the user has left."""
    found = lookup.everything()
    living = [one for one in found if _attachable(one)]
    if len(living) == 1:
        return living[0]
    if not output.interactive():
        if not living:
            raise UsageError("no living session to attach to; next: sesh ls")
        raise UsageError(f"several sessions: {', '.join(one.name for one in living)}; give a name")
    attach.need_terminal()
    from sesh.commands import _pick

    ended = [one for one in _pick.shown(found) if one.state in ENDED and one.has_process]
    if not living and not ended:
        raise UsageError("no session to attach to; next: sesh start NAME COMMAND")
    return _pick.pick([*living, *ended], "attach to")


def _attachable(one: Seen) -> bool:
    return one.state in ALIVE - {State.RECOVERING} and one.has_process
