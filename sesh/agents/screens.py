"""What an agent's screen says: the last resort, because it takes a look at tmux.

The word is kept (`ID.GEN.seen`) for those who can't look, and for ourselves: as long as nothing was
printed since, the screen is the same.
"""

from __future__ import annotations

import json
import time

from sesh import config, files, observe
from sesh.agents.activity import SCREEN, Activity, Launch, equipment, known, worked_by_screen
from sesh.agents.said import BUSY
from sesh.errors import CannotTellError, StateError
from sesh.rules import match
from sesh.tmux import Tmux


def doing(launch: Launch, socket: str, pane: str | None) -> Activity | None:
    """What the agent of a living session does, by its screen where nothing else tells."""
    found, worth_a_look = known(launch)
    if not worth_a_look or pane is None:
        return found
    try:
        seen = look(launch, observe.server(socket, launch.run, config.load()), pane)
    except CannotTellError:
        return found
    return known(launch, seen)[0]


def look(launch: Launch, server: Tmux, pane: str) -> Activity | None:
    """Look at its screen; None: no rule knows it, or it can't be seen."""
    kit = equipment(launch)
    if kit is None or not kit.by_screen:
        return None
    moment = time.time()
    text = server.screen(pane)
    if text is None:
        return None
    rule = match(kit.rules, SCREEN, text)
    found = Activity(rule.means, SCREEN, rule.what or None, moment, rule.label) if rule else None
    _keep(launch, found, moment)
    return found


def _keep(launch: Launch, found: Activity | None, moment: float) -> None:
    """Without room for it, the next one looks again."""
    values = {name: getattr(found, name) for name in Activity.fields} if found else {}
    worked = worked_by_screen(launch) or (found is not None and found.kind == BUSY)
    data = json.dumps({**values, "at": moment, "worked": worked}).encode() + b"\n"
    try:
        files.write_private(f"{launch.stem}.seen", data, durable=False)
    except StateError:
        return
