"""sesh send: type into a session."""

from __future__ import annotations

import os
import sys

from sesh.commands._declare import argument, declare, flag, option
from sesh.commands._options import CONDITIONS, GROUP, TAGS, Selection, choose, each
from sesh.model.errors import UsageError
from sesh.model.states import ALIVE, State
from sesh.operations import send
from sesh.operations.send import Terminal
from sesh.state import settings
from sesh.state.judge import Seen
from sesh.system.tmux import KEY

LIMIT = 1 << 20


@declare(
    "send",
    examples={
        "sesh send fix 'and the docs'": "type a text",
        "git diff | sesh send fix -": "paste standard input",
        "sesh send fix -k Escape": "press a key",
    },
)
def command(
    name: str | None = argument(required=False),
    text: tuple[str, ...] = argument(nargs=-1),
    group: str | None = GROUP,
    tags: tuple[str, ...] = TAGS,
    conditions: tuple[str, ...] = CONDITIONS,
    keys: tuple[str, ...] = option(
        "-k",
        "--key",
        multiple=True,
        metavar="KEY",
        help="Press a key after the text: Enter, Escape, Up, C-c … (repeatable).",
    ),
    no_enter: bool = flag("--no-enter", help="Do not press Enter after the text."),
    force: bool = flag("--force", help="Type even if the agent is waiting for an answer."),
) -> int:
    """Type TEXT into a session and press Enter; - reads TEXT from standard input.

    Multi-line text is pasted at once. Types nothing while an agent is waiting for an answer (see
    sesh answer). Fails if there is no sign that the text arrived.
    """
    names = () if name is None else (name,)
    selection = Selection(group, tags, conditions)
    if selection.given:
        names, text = (), (*names, *text)
    data = _data(text)
    for key in keys:
        if not KEY.fullmatch(key):
            raise UsageError(f"--key {key}: unknown key; use Enter, Escape, C-c, M-x, F5, Up …")
    if not data and not keys:
        raise UsageError("nothing to send: give a text, - for standard input, or --key")
    config = settings.load()
    found = choose(names, selection, _wanted)

    def work(one: Seen) -> None:
        send.send(Terminal(one, config), data, keys, enter=not no_enter, force=force)

    return each(found, "send to", work)[0]


def _wanted(one: Seen) -> bool:
    """Of a selection: all that have not ended. What can't be sent to just now is named."""
    return one.state in ALIVE | {State.ORPHAN, State.UNKNOWN} and one.has_process


def _data(text: tuple[str, ...]) -> bytes:
    if text == ("-",):
        data = sys.stdin.buffer.read(LIMIT + 1).removesuffix(b"\n")
    else:
        data = os.fsencode(" ".join(text))
    data = send.clean(data)
    if len(data) > LIMIT:
        raise UsageError("more than 1 MiB: write it to a file and send the name of the file")
    return data
