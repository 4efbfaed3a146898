"""sesh update: what an agent says of itself."""

from __future__ import annotations

import click

from sesh import launchfiles, look
from sesh.commands._options import CONTEXT
from sesh.errors import UsageError
from sesh.model import State


@click.command("update", context_settings=CONTEXT)
@click.argument("name", required=False, envvar="SESH_NAME")
def command(name: str | None) -> int:
    """Say that a session is alive and at work, for --max-silence.

    NAME is that of the session it is called in, if there is one.
    """
    if not name:
        raise UsageError("which session? give its name, or call it inside of one")
    record = look.must_be(look.one(name), State.RUNNING, State.PAUSED)
    launchfiles.beat(record)
    return 0
