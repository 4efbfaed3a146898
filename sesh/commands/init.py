"""sesh init: the code that puts what needs attention into a shell's prompt."""

from __future__ import annotations

import click

from sesh.commands._options import CONTEXT
from sesh.model import errors
from sesh.terminal import output, prompt


@click.command("init", context_settings=CONTEXT)
@click.argument("shell", type=click.Choice(list(prompt.SHELLS)), metavar="SHELL")
def command(shell: str) -> int:
    """Print what puts sesh into the prompt of a shell: bash, zsh or fish."""
    output.write(prompt.script(shell))
    return errors.OK
