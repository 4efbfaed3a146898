"""sesh send: type into a session as a person would."""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import suppress

import click

from sesh import config, look, observe, output, paths, reports, tmux, transcripts
from sesh.commands._options import CONTEXT, choose, each
from sesh.errors import (
    CannotTellError,
    SeshError,
    UsageError,
)
from sesh.lifecycle import servers
from sesh.look import Seen
from sesh.model import ALIVE, Record, State

LIMIT = 1 << 20
PAUSE = 0.15  # between text and Enter: an agent that reads a paste must not swallow the key
QUIET, LONG = 0.5, 4.0  # the same for an agent that sesh knows: quiet for so long, at most so long
PATIENCE = 1.0  # how long to wait for a sign that something arrived
# The end of a bracketed paste: behind it, text would be typed as keys. Terminals filter it too.
_BRACKETS = (b"\x1b[201~", b"\xc2\x9b201~")
_NAMED_KEYS = (
    "Enter Escape Tab BTab Space BSpace Up Down Left Right Home End PageUp PageDown PPage NPage "
    "IC DC Insert Delete"
)
_KEY = re.compile(rf"(?:[CMS]-)*(?:[!-~]|F(?:1[0-2]|[1-9])|{'|'.join(_NAMED_KEYS.split())})")


@click.command("send", context_settings=CONTEXT)
@click.argument("name", required=False)
@click.argument("text", nargs=-1)
@click.option("-g", "--group", metavar="GROUP", help="Send to the living sessions of a group.")
@click.option(
    "-k",
    "--key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="Press a key such as Enter, Escape, Up or C-c (repeatable), after the text.",
)
@click.option("--no-enter", is_flag=True, help="Do not press Enter after the text.")
def command(
    name: str | None,
    text: tuple[str, ...],
    group: str | None,
    keys: tuple[str, ...],
    no_enter: bool,
) -> int:
    """Type TEXT into a session and press Enter; `-` reads the text from standard input.

    Many lines arrive as one paste. Says so when nothing showed that it arrived.
    """
    names = () if name is None else (name,)
    if group is not None:
        names, text = (), (*names, *text)
    data = _data(text)
    for key in keys:
        if not _KEY.fullmatch(key):
            raise UsageError(f"--key {key}: no such key; Enter, Escape, C-c, M-x, F5, Up …")
    if not data and not keys:
        raise UsageError("nothing to send: give a text, - for standard input, or --key")
    settings = config.load()
    found = choose(names, _wanted if group is not None else None, group, "--group")
    return each(found, "send to", lambda one: _send(one, data, keys, settings, enter=not no_enter))


def _wanted(one: Seen) -> bool:
    """Of a group: all that have not ended. What can't be sent to just now is named."""
    return one.state in ALIVE | {State.ORPHAN, State.UNKNOWN} and not one.record_only


def _send(
    found: Seen, data: bytes, keys: tuple[str, ...], settings: config.Config, *, enter: bool
) -> None:
    record = look.must_be(found, State.RUNNING)
    name, pane = record.name, record.place.pane
    server = observe.server_of(record, settings)
    servers.need_terminal(record)
    if pane is None:
        raise CannotTellError(f"{name}: its tmux pane is not known yet; try again")
    servers.reach(record, server)
    before = _written(record, settings)
    if data:
        with suppress(SeshError):  # a full disk keeps nobody from working
            reports.prompted(record)
        _check(name, server.paste(pane, data))
        if enter:
            _settle(record, before, settings)
            _check(name, server.press(pane, "Enter"))
    if keys:
        _check(name, server.press(pane, *keys))
    if not _arrived(record, before, settings):
        output.note(f"{name} has shown no sign that it arrived; sesh logs {name} tells more")


def _data(text: tuple[str, ...]) -> bytes:
    if text == ("-",):
        data = sys.stdin.buffer.read(LIMIT + 1).removesuffix(b"\n")
    else:
        data = os.fsencode(" ".join(text))
    for bracket in _BRACKETS:
        data = data.replace(bracket, b"")
    if len(data) > LIMIT:
        raise UsageError("more than 1 MiB: write it to a file and send its name")
    return data


def _check(name: str, reply: tmux.Reply) -> None:
    if reply.trouble is tmux.Trouble.OTHER:
        raise CannotTellError(f"{name}: tmux: {reply.text}; it may or may not have arrived")
    if not reply.ok:
        raise SeshError(f"{name}: tmux: {reply.text}; nothing was sent")


def _written(record: Record, settings: config.Config) -> int:
    transcripts.fetch(record, settings)
    try:
        return os.stat(paths.transcript(record.id)).st_size
    except OSError:
        return 0


def _settle(record: Record, before: int, settings: config.Config) -> None:
    """Wait until an agent has shown the text and is quiet again: an Enter that comes while it still
    reads is taken for a part of the text. Anything else gets a moment: it may echo nothing."""
    deadline = time.monotonic() + (LONG if record.spec.kit else PAUSE)
    seen, quiet_since = before, time.monotonic()
    while (now := time.monotonic()) < deadline:
        if seen != before and now - quiet_since >= QUIET:
            return
        time.sleep(0.02)
        size = _written(record, settings)
        if size != seen:
            seen, quiet_since = size, time.monotonic()


def _arrived(record: Record, before: int, settings: config.Config) -> bool:
    """Did it print anything since? Most programs echo what is typed."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if _written(record, settings) != before:
            return True
        time.sleep(0.02)
    return False
