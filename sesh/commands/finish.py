"""sesh finish: report that the work of a session is finished."""

from __future__ import annotations

import os

import click

from sesh.commands import _help
from sesh.commands._declare import argument, declare, option
from sesh.commands._options import json_option, named
from sesh.model import progress
from sesh.model.errors import UsageError
from sesh.model.progress import Report
from sesh.model.text import formatting, quick_json
from sesh.operations import report_progress
from sesh.terminal import output, session_list


class _Outcome(_help.Command):
    """`[NAME] OUTCOME`: inside a session the name is known and may be left out."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "[NAME]", "OUTCOME"]


@declare("finish", cls=_Outcome, examples={"sesh finish completed": "inside the session"})
def command(
    words: tuple[str, ...] = argument(nargs=-1, metavar="NAME"),
    summary: str | None = option("--summary", metavar="TEXT", help="Short summary of the result."),
    as_json: bool = json_option("the session and its duration"),
) -> int:
    """Report that a session's work is finished: completed, failed or abandoned.

    The report is final. Ends no process. Inside a session NAME defaults to that session.
    """
    if not words or len(words) > 2 or words[-1] not in progress.FINAL:
        raise UsageError(
            f"missing outcome: give {formatting.either(progress.FINAL)}, after an optional name"
        )
    outcome = words[-1]
    name = named(words[0] if len(words) == 2 else os.environ.get("SESH_NAME"))
    found = report_progress.update(name, Report(phase=outcome, summary=summary))
    seconds = progress.duration(found.intact.record)
    if as_json:
        shown = {**session_list.complete(found), "duration": round(seconds, 3)}
        output.write(quick_json.dumps(shown) + "\n")
    else:
        output.write(f"{name} {outcome} after {formatting.long_time(seconds)}\n")
    return 0
