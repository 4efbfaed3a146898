"""sesh ask: send a prompt to an agent, and print its answer."""

from __future__ import annotations

import os
import sys
import time

from sesh.commands._declare import argument, declare, option
from sesh.model import errors
from sesh.model.errors import UsageError
from sesh.model.text import formatting
from sesh.operations.conversations import ask, read
from sesh.operations.send import Terminal
from sesh.state import lookup, settings
from sesh.terminal import output

_LIMIT = 1 << 20


@declare(
    "ask",
    examples={
        "sesh ask fix 'is it done?'": "print the agent's answer",
        "git diff | sesh ask review -": "with standard input as the prompt",
    },
)
def command(
    name: str = argument(),
    prompt: tuple[str, ...] = argument(nargs=-1, required=True),
    timeout: float | None = option(
        "--timeout", type="duration", help="Give up waiting after that long (exit 124)."
    ),
) -> int:
    """Send PROMPT to an agent, wait until it has answered, and print the answer.

    `-` reads the prompt from standard input. Exits with 8 if the agent asks something.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    text = _text(prompt)
    if not text.strip():
        raise UsageError("which prompt? give a text, or - for standard input")
    found = lookup.one(name)
    read.kind_of(found.intact.record)
    answer = ask.ask(Terminal(found, settings.load()), text, deadline)
    lines = answer.replace("\t", "    ").splitlines()
    output.write("".join(formatting.escape(line) + "\n" for line in lines))
    return errors.OK


def _text(prompt: tuple[str, ...]) -> str:
    if prompt != ("-",):
        return " ".join(prompt)
    data = sys.stdin.buffer.read(_LIMIT + 1).removesuffix(b"\n")
    if len(data) > _LIMIT:
        raise UsageError("more than 1 MiB: write it to a file and send its name")
    return os.fsdecode(data)
