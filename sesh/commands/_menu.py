"""The menu that attach shows for an ended session: restart, logs, delete, cancel."""

from __future__ import annotations

import os
import re
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import suppress

from sesh.model.configuration import Config
from sesh.model.errors import EndedError
from sesh.model.observation import Session
from sesh.model.session_json import view
from sesh.model.states import ENDED
from sesh.model.text import formatting
from sesh.model.text.pattern import lazy
from sesh.operations import attach, logs
from sesh.operations.forget import forget, what_goes
from sesh.operations.restart import restart
from sesh.operations.stop.stop import stop
from sesh.state import lookup, settings
from sesh.state.judge import Seen
from sesh.terminal import output

LAST_LINES = 10
_CHOICES = ("[R]estart", "[L]ogs", "[D]elete", "[C]ancel")
_NARROW = 44  # columns in which they stand close together
_KEY = lazy(r"\x1b[\[O][ -?]*[@-~]|\x1b[^\x1b]|.", re.DOTALL)


def headline(session: Session) -> str:
    verdict = session.verdict
    ended = formatting.epoch(view(session.record, verdict)["ended"])
    when = "" if ended is None else f" {since(time.time() - ended)}"
    return f"{session.name} {verdict.state}{when}: {formatting.escape(verdict.reason or '')}"


def since(seconds: float) -> str:
    return "just now" if seconds < 1 else f"{formatting.long_time(seconds)} ago"


def menu(found: Seen, config: Config) -> int:
    session = found.intact
    if not (os.isatty(0) and os.isatty(2)):
        raise EndedError(f"{headline(session)}; next: sesh restart {found.name}")
    output.say(headline(session))
    lines = logs.text(session.record, config).rstrip().splitlines()[-LAST_LINES:]
    columns = output.terminal_width() or 80
    question = (" " * (3 if columns > _NARROW else 1)).join(_CHOICES) + " ▸ "
    output.say("")
    for line in lines:
        output.say(f"    │ {formatting.cut(formatting.escape(line), columns - 7)}")
    output.say("")
    keys = _keys()
    while True:
        key = _ask(question, keys)
        if key == "r":
            return _restart(found, config)
        if key == "d":
            keys = _only_new_keys()
            if _ask(f"delete {found.name}: {what_goes(session.record)}? [y/N] ▸ ", keys) == "y":
                stop([found], config, config.stop.grace)
                forget(lookup.one(found.name), config, output.note)
                output.done("removed", [found.name])
                return 0
        elif key == "l":
            output.write(logs.text(session.record, config))
        elif key in ("c", "q", "\x1b", "\r", "\n", ""):
            return 3


def _restart(found: Seen, config: Config) -> int:
    trouble = settings.trouble()
    if trouble is not None:
        raise trouble
    done = restart(found, config)
    if done.state in ENDED:
        return menu(done, config)
    attach.attach(done.intact.record, config, read_only=False, alone=False)
    return 0


def _ask(question: str, keys: Iterator[str]) -> str:
    """Read one key, without Enter, and restore the terminal. Empty when the terminal is gone."""
    try:
        os.write(2, question.encode())
        before = termios.tcgetattr(0)
        try:
            tty.setcbreak(0)
            key = next(keys)
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
    except (OSError, termios.error):
        return ""
    output.say(key if key.isprintable() else "")
    return key


def _only_new_keys() -> Iterator[str]:
    """Discard what was typed before the next question: it is no answer to it."""
    with suppress(termios.error):
        termios.tcflush(0, termios.TCIFLUSH)
    return _keys()


def _keys() -> Iterator[str]:
    """Yield what each key sends: a character, or ESC and more."""
    while True:
        typed = os.read(0, 32).decode(errors="replace").lower()
        yield from _KEY.findall(typed) or [""]
