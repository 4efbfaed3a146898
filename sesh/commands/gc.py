"""sesh gc: one safe maintenance pass."""

from __future__ import annotations

from sesh.commands._declare import declare, option
from sesh.commands._options import json_option
from sesh.gc.plan import Options
from sesh.terminal import gc_output


@declare("gc")
@option("-n", "--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@option(
    "--older-than",
    type="duration",
    help="Archive what ended well longer ago than this (1h).",
)
@option(
    "--kill-orphans",
    is_flag=True,
    help="End processes that outlive their session, once two passes agree.",
)
@option(
    "--auto",
    is_flag=True,
    help="For timers: say nothing when nothing is done or another is at work.",
)
@json_option("the steps")
def command(
    dry_run: bool, older_than: float | None, kill_orphans: bool, auto: bool, as_json: bool
) -> int:
    """Clean up: finish stops, end what is over its limits, archive what ended, remove what is old.

    Nothing that lives is touched, unless a limit or --kill-orphans says so.
    """
    options = Options(older_than, kill_orphans)
    return gc_output.tidy(options, dry_run=dry_run, auto=auto, as_json=as_json)
