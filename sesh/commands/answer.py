"""sesh answer: answer the question of an agent."""

from __future__ import annotations

from sesh.commands._declare import argument, declare, option
from sesh.model.errors import UsageError
from sesh.model.text import formatting
from sesh.operations import send
from sesh.operations.send import Terminal
from sesh.state import lookup, settings
from sesh.terminal import output


@declare(
    "answer",
    examples={
        "sesh answer fix yes": "allow it once",
        "sesh answer fix 2": "choose the second option",
    },
)
def command(
    name: str = argument(),
    answer: tuple[str, ...] = argument(nargs=-1, required=True),
    about: str = option(
        "--about", metavar="WORDS", default="", help="Only if the question contains WORDS."
    ),
) -> int:
    """Answer an agent's question: yes, no, always, the number of an option, or TEXT.

    The screen is checked right before a key is pressed, and until the question is gone.
    """
    word = " ".join(answer).strip()
    if not word:
        raise UsageError("missing answer: yes, no, always, the number of an option, or a text")
    terminal = Terminal(lookup.one(name), settings.load())
    done = send.answer(terminal, word, about)
    output.write(f"{terminal.name}: {formatting.escape(done)}\n")
    return 0
