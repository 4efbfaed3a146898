"""sesh gc: one safe maintenance pass."""

from __future__ import annotations

from sesh.commands._declare import declare, option
from sesh.commands._options import json_option
from sesh.gc.plan import Options
from sesh.terminal import gc_output


@declare("gc")
@option("-n", "--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@option(
    "--older-than",
    type="duration",
    help="Archive sessions that completed longer ago than this (1h).",
)
@option(
    "--kill-orphans",
    is_flag=True,
    help="End processes that outlive their session, once two passes agree.",
)
@option(
    "--auto",
    is_flag=True,
    help="For timers: print nothing when nothing is done or another gc runs.",
)
@json_option("the steps")
def command(
    dry_run: bool, older_than: float | None, kill_orphans: bool, auto: bool, as_json: bool
) -> int:
    """Clean up: finish stops, end sessions over a limit, archive ended ones, remove old files.

    Living sessions are not touched, except by a limit or --kill-orphans.
    """
    options = Options(older_than, kill_orphans)
    return gc_output.tidy(options, dry_run=dry_run, auto=auto, as_json=as_json)
