"""sesh pass: one pass over every session. What the keeper's call back and the timers run."""

from __future__ import annotations

import click

from sesh import config, supervise
from sesh.commands._options import CONTEXT


@click.command("pass", context_settings=CONTEXT)
def command() -> int:
    """Look at every session once, write down what ended, finish stops that were interrupted.

    Prints nothing. Two at once are harmless.
    """
    supervise.run_pass(config.load())
    return 0
