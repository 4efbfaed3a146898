"""sesh gc: one safe maintenance pass."""

from __future__ import annotations

from sesh.commands._declare import declare, option
from sesh.commands._options import json_option
from sesh.gc import report
from sesh.gc.plan import Options
from sesh.gc.run import run
from sesh.model import errors
from sesh.terminal import output


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
    result = run(options, dry_run=dry_run, auto=auto, by_hand=output.interactive())
    if result is None:
        return errors.OK
    steps, trouble = result
    if as_json:
        output.write(report.as_json(steps))
    else:
        for failure in report.failures(steps):
            output.note(failure)
        if dry_run or not auto or any(step.done for step in steps):
            output.write(report.table(steps, output.terminal_width(), dry_run=dry_run))
            closing = report.closing(steps, dry_run=dry_run)
            if closing:
                output.say(closing)
    if trouble is not None:
        raise trouble
    return report.exit_code(steps)
