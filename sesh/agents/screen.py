"""What an agent's screen shows: the last resort, because it needs a call to tmux.

The result is cached in `ID.GEN.seen`, also for callers that do not call tmux. It is valid until the
session prints something. `open_question` never uses the cache, because its callers type into the
session.
"""

from __future__ import annotations

import time

from sesh.agents import dialogs, questions
from sesh.agents.activity import SCREEN, Activity, examine, read_kit, was_busy_on_screen
from sesh.agents.dialogs import Dialog
from sesh.agents.questions import Question
from sesh.agents.rules import Rule, match
from sesh.model.agents.hook_event import BUSY, WAITING
from sesh.model.errors import CannotTellError, StateError
from sesh.model.text import quick_json
from sesh.model.value_object import Value, replace
from sesh.places.agent_files import Launch
from sesh.places.host import tmux_server
from sesh.state import settings
from sesh.system import files
from sesh.system.tmux import Tmux

_TROUBLES = ("login", "rate limit", "help")  # it takes prompts, if no dialog is open


_silent: dict[str, float] = {}  # servers that did not answer, and when to try them again
_PAUSE = 10.0  # seconds: a server that hangs delays a list of many agents only once


class OpenQuestion(Value):
    """The question that an agent asks now. Without a dialog, sesh cannot answer it."""

    question: Question
    dialog: Dialog | None
    rule: str | None = None
    complete: bool = True  # False: the screen or the hook will show more in a moment


def doing(launch: Launch, socket: str, pane: str | None) -> Activity | None:
    """What the agent of a living session does; reads the screen when no other source can tell."""
    found, worth_a_look = examine(launch)
    if not worth_a_look or pane is None or time.monotonic() < _silent.get(socket, 0.0):
        return found
    try:
        seen = look(launch, tmux_server.server(socket, launch.run, settings.load()), pane)
    except CannotTellError:
        _silent[socket] = time.monotonic() + _PAUSE
        return found
    return examine(launch, seen)[0]


def look(launch: Launch, server: Tmux, pane: str) -> Activity | None:
    """Read its screen; None: no rule matches, or the screen cannot be read."""
    kit = read_kit(launch)
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
    """By its rules or, when none matches, by a dialog on the screen."""
    rule = match(rules, SCREEN, text)
    if rule is not None and rule.means != WAITING:
        return Activity(rule.means, SCREEN, None, moment, rule.label)
    asks = _question_on(rule, text, None)
    if asks is None:
        return None
    what = (rule.what or None) if rule else "input"
    question = questions.plain(asks.question)
    return Activity(WAITING, SCREEN, what, moment, asks.rule, question=question)


def open_question(launch: Launch, text: str) -> OpenQuestion | None:
    """What an agent asks, from its current screen and all other sources; None: nothing. Waiting
    because of an error is not a question."""
    kit = read_kit(launch)
    rule = match(kit.rules, SCREEN, text) if kit else None
    if kit is None or (rule is not None and rule.means != WAITING):
        return None
    doing, _ = examine(launch)
    waits = doing is not None and doing.kind == WAITING
    reported = questions.of_plain(doing.question) if doing and waits and doing.question else None
    found = _question_on(rule, text, reported)
    if doing is None or not waits:
        return found
    what = doing.what or ""
    if found is not None:
        hook_is_late = kit.kind == "claude" and what.startswith("permission") and not reported
        return replace(found, complete=found.dialog is not None and not hook_is_late)
    if doing.source == SCREEN or doing.trouble or what.startswith(_TROUBLES):
        return None  # the screen has changed since
    question = reported or Question(f"it waits for {what or 'an answer'}", doing.source)
    return OpenQuestion(question, None, complete=False)


def menu_question(text: str) -> OpenQuestion | None:
    """What a program asks that is not a known agent: only menus are recognised."""
    dialog = dialogs.menu(text)
    return OpenQuestion(dialogs.question(dialog, None), dialog) if dialog else None


def _question_on(rule: Rule | None, text: str, reported: Question | None) -> OpenQuestion | None:
    """The question on a screen; `reported` is the question that the agent reported."""
    dialog = dialogs.read(text)
    if dialog is not None:
        label = rule.label if rule else None
        return OpenQuestion(dialogs.question(dialog, reported), dialog, label)
    if rule is None:
        return None
    return OpenQuestion(reported or Question(f"it waits for {rule.what}", SCREEN), None, rule.label)


def _keep(launch: Launch, found: Activity | None, moment: float) -> None:
    """Cache the result. On a full disk the next caller reads the screen again."""
    values = {name: getattr(found, name) for name in Activity.fields} if found else {}
    worked = was_busy_on_screen(launch) or (found is not None and found.kind == BUSY)
    data = quick_json.dumps({**values, "at": moment, "worked": worked}).encode() + b"\n"
    try:
        files.write_private(f"{launch.stem}.seen", data, durable=False)
    except StateError:
        return
