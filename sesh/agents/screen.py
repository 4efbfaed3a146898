"""What an agent's screen says: the last resort, because it takes a look at tmux.

The word is kept (`ID.GEN.seen`) for those who can't look, and for ourselves: as long as nothing was
printed since, the screen is the same. Before something is typed, nothing that is kept counts: see
`asked`.
"""

from __future__ import annotations

import json
import time

from sesh.agents import dialogs, questions
from sesh.agents.activity import SCREEN, Activity, Launch, equipment, known, worked_by_screen
from sesh.agents.dialogs import Dialog
from sesh.agents.last_event import BUSY, WAITING
from sesh.agents.questions import Question
from sesh.agents.rules import Rule, match
from sesh.model.errors import CannotTellError, StateError
from sesh.model.value_object import Value, replace
from sesh.places.host import tmux_server
from sesh.state import settings
from sesh.system import files
from sesh.system.tmux import Tmux

_TROUBLES = ("login", "rate limit", "help")  # it takes a prompt meanwhile, if no dialog is open


_silent: dict[str, float] = {}  # servers that have not answered, and until when none is asked again
_PAUSE = 10.0  # seconds: a server that hangs delays a list of many agents once


class Asked(Value):
    """What an agent asks just now. Without a dialog it can't be answered from here."""

    question: Question
    dialog: Dialog | None
    rule: str | None = None
    whole: bool = True  # False: in a moment more will be known, by its screen or by its hook


def doing(launch: Launch, socket: str, pane: str | None) -> Activity | None:
    """What the agent of a living session does, by its screen where nothing else tells."""
    found, worth_a_look = known(launch)
    if not worth_a_look or pane is None or time.monotonic() < _silent.get(socket, 0.0):
        return found
    try:
        seen = look(launch, tmux_server.server(socket, launch.run, settings.load()), pane)
    except CannotTellError:
        _silent[socket] = time.monotonic() + _PAUSE
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
    found = _activity(kit.rules, text, moment)
    _keep(launch, found, moment)
    return found


def _activity(rules: tuple[Rule, ...], text: str, moment: float) -> Activity | None:
    """By its rules or, where none fits, by a dialog that stands there."""
    rule = match(rules, SCREEN, text)
    if rule is not None and rule.means != WAITING:
        return Activity(rule.means, SCREEN, None, moment, rule.label)
    asks = _asked(rule, text, None)
    if asks is None:
        return None
    what = (rule.what or None) if rule else "input"
    question = questions.plain(asks.question)
    return Activity(WAITING, SCREEN, what, moment, asks.rule, question=question)


def asked(launch: Launch, text: str) -> Asked | None:
    """What it asks, by its screen as it is now and whatever else is known; None: nothing. A trouble
    is no question."""
    kit = equipment(launch)
    rule = match(kit.rules, SCREEN, text) if kit else None
    if kit is None or (rule is not None and rule.means != WAITING):
        return None
    doing, _ = known(launch)
    waits = doing is not None and doing.kind == WAITING
    told = questions.of_plain(doing.question) if doing and waits and doing.question else None
    found = _asked(rule, text, told)
    if doing is None or not waits:
        return found
    if found is not None:
        untold = kit.kind == "claude" and (doing.what or "").startswith("permission") and not told
        return replace(found, whole=found.dialog is not None and not untold)
    what = doing.what or ""
    if doing.source == SCREEN or doing.trouble or what.startswith(_TROUBLES):
        return None  # what was seen there is gone
    question = told or Question(f"it waits for {what or 'an answer'}", doing.source)
    return Asked(question, None, whole=False)


def shown(text: str) -> Asked | None:
    """What a program asks of which nothing is known but its screen."""
    dialog = dialogs.menu(text)
    return Asked(dialogs.question(dialog, None), dialog) if dialog else None


def _asked(rule: Rule | None, text: str, told: Question | None) -> Asked | None:
    """What a screen asks; `told` is what its agent has said of that."""
    dialog = dialogs.read(text)
    if dialog is not None:
        return Asked(dialogs.question(dialog, told), dialog, rule.label if rule else None)
    if rule is None:
        return None
    return Asked(told or Question(f"it waits for {rule.what}", SCREEN), None, rule.label)


def _keep(launch: Launch, found: Activity | None, moment: float) -> None:
    """Without room for it, the next one looks again."""
    values = {name: getattr(found, name) for name in Activity.fields} if found else {}
    worked = worked_by_screen(launch) or (found is not None and found.kind == BUSY)
    data = json.dumps({**values, "at": moment, "worked": worked}).encode() + b"\n"
    try:
        files.write_private(f"{launch.stem}.seen", data, durable=False)
    except StateError:
        return
