"""sesh init: print the code that shows in a shell's prompt which sessions need attention."""

from __future__ import annotations

from sesh.commands._declare import argument, declare
from sesh.model import errors
from sesh.terminal import output, prompt


@declare("init", examples={'eval "$(sesh init bash)"': "in ~/.bashrc"})
def command(shell: str = argument(type=tuple(prompt.SHELLS), metavar="SHELL")) -> int:
    """Print shell prompt integration for bash, zsh or fish."""
    output.write(prompt.script(shell))
    return errors.OK
