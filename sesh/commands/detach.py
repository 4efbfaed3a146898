"""sesh detach: detach all clients from sessions."""

from __future__ import annotations

from sesh.commands._declare import argument, declare
from sesh.model.errors import CannotTellError
from sesh.places import registry
from sesh.state import lookup, settings
from sesh.system import tmux


@declare("detach")
def command(names: tuple[str, ...] = argument(nargs=-1, metavar="[NAME]...")) -> int:
    """Detach all clients from sessions. Without NAME: from all sessions."""
    config = settings.load()
    found = lookup.some(names) if names else lookup.everything()
    for one in found:
        if names:
            lookup.need_process(one)
        elif one.damaged or not one.has_process:
            continue
        server = registry.of(one.intact.record).tmux(one.intact.record, config)
        reply = server.detach_all(one.name)
        if reply.trouble is tmux.Trouble.OTHER:
            raise CannotTellError(f"{one.name}: tmux: {reply.text}")
    return 0
