"""sesh detach: send everybody home."""

from __future__ import annotations

from sesh.commands._declare import argument, declare
from sesh.model.errors import CannotTellError, StateError
from sesh.places import registry
from sesh.state import lookup, settings
from sesh.system import tmux


@declare("detach")
@argument("names", nargs=-1, metavar="[NAME]...")
def command(names: tuple[str, ...]) -> int:
    """Detach all clients from the named sessions, or from all sessions."""
    config = settings.load()
    for found in lookup.some(names) if names else lookup.everything():
        if found.session is None:
            if names:
                raise StateError(f"{found.name}: its record is damaged")
            continue
        if not found.has_process:
            if names:
                lookup.need_process(found)
            continue
        server = registry.of(found.session.record).tmux(found.session.record, config)
        reply = server.detach_all(found.name)
        if reply.trouble is tmux.Trouble.OTHER:
            raise CannotTellError(f"{found.name}: tmux: {reply.text}")
    return 0
