"""sesh attach: into a session's terminal, or a menu when there is nothing to attach to."""

from __future__ import annotations

import os
import re
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import suppress

from sesh.commands._declare import argument, declare, option
from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, EndedError, StateError, UsageError
from sesh.model.observation import Session
from sesh.model.session_json import view
from sesh.model.states import ALIVE, ENDED, ENDED_WELL, State
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
_KEY = lazy(r"\x1b[\[O][ -?]*[@-~]|\x1b[^\x1b]|.", re.DOTALL)
END_PATIENCE = 5.0  # seconds that a keeper may take to say how its agent ended


@declare("attach")
@argument("name", required=False)
@option("-r", "--read-only", is_flag=True, help="Look, but do not type.")
@option("-d", "--detach-others", is_flag=True, help="Detach all other clients.")
@option("--ended", is_flag=True, hidden=True)
def command(name: str | None, read_only: bool, detach_others: bool, ended: bool) -> int:
    """Attach to a session. Without NAME: the only one, or a choice.

    A session that has ended is shown with its last lines and a menu: restart, tear down, logs,
    cancel. Detach with C-b d.
    """
    found = _choose() if name is None else _settled(name) if ended else lookup.one(name)
    config = settings.load()
    if found.session is None:
        raise StateError(f"{found.name}: its record is damaged; see sesh show {found.name}")
    lookup.need_process(found)
    if found.state is State.UNKNOWN:
        raise CannotTellError(f"{found.name}: {found.session.verdict.reason}")
    if found.state in ENDED | {State.RECOVERING}:
        if ended and found.state in ENDED_WELL:
            output.say(_headline(found.session))
            return 0
        return _menu(found, config)
    if found.state is State.ORPHAN:
        raise ConflictError(f"{found.name}: {found.session.verdict.reason}; nothing to attach to")
    if found.state is State.PAUSED:
        raise ConflictError(f"{found.name} is paused; sesh resume {found.name} first")
    if ended:  # the client has left it, or failed although it lives: its own words say why
        return 1 if found.session.record.place.calls_back else 0
    attach.need_terminal()
    attach.attach(found.session.record, config, read_only=read_only, alone=detach_others)
    return 0


def _settled(name: str) -> Seen:
    """The session whose terminal has just gone; how it ended may take a moment to be said."""
    deadline = time.monotonic() + END_PATIENCE
    unsettled = (State.UNKNOWN, State.STOPPING)
    while (found := lookup.one(name)).state in unsettled and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _choose() -> Seen:
    """The only living session, or the one that a person picks."""
    living = [one for one in lookup.everything() if _attachable(one)]
    if not living:
        raise UsageError("no living session to attach to; sesh ls shows all")
    if len(living) == 1:
        return living[0]
    if not output.interactive():
        raise UsageError(f"which one? {', '.join(one.name for one in living)}")
    for number, one in enumerate(living, 1):
        output.say(f"{number:3}  {one.name}")
    import click

    try:
        answer: int = click.prompt("attach to", type=click.IntRange(1, len(living)), err=True)
    except click.Abort:
        raise KeyboardInterrupt from None
    return living[answer - 1]


def _attachable(one: Seen) -> bool:
    return one.state in ALIVE - {State.RECOVERING} and one.has_process


# --- the menu ----------------------------------------------------------------------------------


def _headline(session: Session) -> str:
    verdict = session.verdict
    ended = formatting.epoch(view(session.record, verdict)["ended"])
    when = f" {formatting.long_time(time.time() - ended)} ago" if ended is not None else ""
    return f"{session.name} {verdict.state}{when}: {formatting.escape(verdict.reason or '')}"


def _menu(found: Seen, config: Config) -> int:
    assert found.session is not None
    session = found.session
    if not (os.isatty(0) and os.isatty(2)):
        raise EndedError(f"{_headline(session)}; sesh restart {found.name} brings it back")
    output.say(_headline(session))
    lines = logs.text(session.record, config).rstrip().splitlines()[-LAST_LINES:]
    width = (output.terminal_width() or 80) - 7
    output.say("")
    for line in lines:
        output.say(f"    │ {formatting.cut(formatting.escape(line), width)}")
    output.say("")
    keys = _keys()
    while True:
        key = _ask("[R]estart in the same place   [T]ear down   [L]ogs   [C]ancel ▸ ", keys)
        if key == "r":
            return _restart(found, config)
        if key == "t":
            keys = _only_new_keys()
            if _ask(f"delete {found.name}: {what_goes(session.record)}? [y/N] ▸ ", keys) == "y":
                stop([found], config, config.stop.grace)
                forget(lookup.one(found.name), config, output.note)
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
    assert done.session is not None
    if done.state in ENDED:
        return _menu(done, config)
    attach.attach(done.session.record, config, read_only=False, alone=False)
    return 0


def _ask(question: str, keys: Iterator[str]) -> str:
    """One key, without Enter; the terminal is left as it was, whatever happens. Nothing when it has
    gone."""
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
    """What was typed before the next question is no answer to it."""
    with suppress(termios.error):
        termios.tcflush(0, termios.TCIFLUSH)
    return _keys()


def _keys() -> Iterator[str]:
    """What each key sends: a character, or ESC and more. What was typed ahead comes key by key."""
    while True:
        typed = os.read(0, 32).decode(errors="replace").lower()
        yield from _KEY.findall(typed) or [""]
