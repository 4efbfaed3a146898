"""sesh doctor: what is wrong; so far only as the one line that a prompt shows."""

from __future__ import annotations

import click

from sesh import errors, output, prompt
from sesh.commands._options import CONTEXT
from sesh.errors import UsageError


@click.command("doctor", context_settings=CONTEXT)
@click.option(
    "--prompt",
    "as_prompt",
    is_flag=True,
    help="Print one short line if something needs attention, else nothing.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 10 if something needs attention.")
@click.option("--refresh", is_flag=True, hidden=True)  # what `sesh init` runs in the background
def command(as_prompt: bool, exit_code: bool, refresh: bool) -> int:
    """Say what needs attention."""
    if not as_prompt:
        raise UsageError("nothing but --prompt is here yet; sesh ls shows all sessions")
    if refresh:
        prompt.refresh(make=True)
        return errors.OK
    line = prompt.line()
    if line:
        output.write(f"{line}\n")
    return errors.PROBLEMS if line and exit_code else errors.OK
