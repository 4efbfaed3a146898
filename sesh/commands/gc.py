"""sesh gc: one safe maintenance pass."""

from __future__ import annotations

from sesh.commands._declare import declare, flag, option
from sesh.commands._options import json_option
from sesh.gc import report
from sesh.gc.plan import Options
from sesh.gc.run import run
from sesh.model import errors
from sesh.terminal import output


@declare("gc", examples={"sesh gc --dry-run": "show what would be done"})
def command(
    dry_run: bool = flag("-n", "--dry-run", help="Show what would be done, but change nothing."),
    older_than: float | None = option(
        "--older-than",
        type="duration",
        help="Archive sessions that completed more than TIME ago (1h).",
    ),
    kill_orphans: bool = flag(
        "--kill-orphans", help="End processes that outlived their session, if two passes agree."
    ),
    auto: bool = flag(
        "--auto", help="For timers: print nothing if nothing is done or another gc is running."
    ),
    as_json: bool = json_option("the steps"),
) -> int:
    """Clean up: finish interrupted stops, end sessions over a limit, archive ended sessions,
    remove old files.

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
