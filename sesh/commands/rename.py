"""sesh rename: give a session another name."""

from __future__ import annotations

from sesh.commands._declare import argument, declare
from sesh.operations import rename
from sesh.state import lookup, settings
from sesh.terminal import output


@declare("rename")
def command(name: str = argument(), new: str = argument()) -> int:
    """Rename a session.

    A living session keeps running. An ended session named NEW moves to the history.
    """
    rename.rename(lookup.one(name), new, settings.load(), output.note)
    output.succeeded(f"renamed {name} to {new}")
    return 0
