"""gc for people and timers: run it and print its report."""

from __future__ import annotations

from sesh.gc import report
from sesh.gc.plan import Options
from sesh.gc.run import run
from sesh.model import errors
from sesh.terminal import output


def tidy(
    options: Options, *, dry_run: bool = False, auto: bool = False, as_json: bool = False
) -> int:
    """One maintenance pass; its exit code."""
    done = run(options, dry_run=dry_run, auto=auto, by_hand=output.interactive())
    if done is None:
        return errors.OK
    told, trouble = done
    if as_json:
        output.write(report.as_json(told))
    else:
        for failure in report.failures(told):
            output.note(failure)
        if dry_run or not auto or any(one.done for one in told):
            output.write(report.table(told, output.terminal_width(), dry_run=dry_run))
            closing = report.closing(told, dry_run=dry_run)
            if closing:
                output.say(closing)
    if trouble is not None:
        raise trouble
    return report.exit_code(told)
