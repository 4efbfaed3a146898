"""sesh update: report progress of a session."""

from __future__ import annotations

from sesh.commands._declare import argument, declare, flag, option
from sesh.commands._options import json_option, named
from sesh.model import progress
from sesh.model.progress import Report
from sesh.model.states import State
from sesh.model.text import quick_json
from sesh.operations import report_progress
from sesh.places import launch_files
from sesh.state import lookup
from sesh.state.judge import Seen
from sesh.terminal import output, session_list


@declare(
    "update",
    examples={"sesh update --phase planning": "report progress", "sesh update": "a heartbeat"},
)
def command(
    name: str | None = argument(required=False, envvar="SESH_NAME"),
    phase: str | None = option("--phase", metavar="PHASE", help="Current phase of the work."),
    metadata: tuple[str, ...] = option(
        "--meta",
        multiple=True,
        metavar="KEY=TEXT",
        help="Store metadata (repeatable); KEY:=JSON for other values.",
    ),
    error: str | None = option("--error", metavar="TEXT", help="Report an error (counted)."),
    summary: str | None = option("--summary", metavar="TEXT", help="Short summary of the work."),
    resume_ready: str | None = option(
        "--resume-ready", type=("yes", "no"), help="Whether the work can be resumed."
    ),
    conversation: str | None = option(
        "--conversation", metavar="ID", help="ID of the agent's conversation."
    ),
    force: bool = flag("--force", help="Store values that look like secrets."),
    as_json: bool = json_option("the session"),
) -> int:
    """Report progress of a session. Without options: a heartbeat.

    Inside a session NAME defaults to that session.
    """
    report = Report(
        phase,
        progress.parse(metadata) if metadata else None,
        error,
        summary,
        None if resume_ready is None else resume_ready == "yes",
        conversation,
        force,
    )
    found = _update(named(name), report)
    if as_json:
        output.write(quick_json.dumps(session_list.complete(found)) + "\n")
    return 0


def _update(name: str, report: Report) -> Seen:
    found = None if report != Report(force=report.force) else lookup.one(name)
    if found is None or not found.has_process:
        found = report_progress.update(name, report)
    else:
        lookup.must_be(found, State.RUNNING, State.PAUSED)
    if found.has_process and found.state in (State.RUNNING, State.PAUSED):
        launch_files.beat(found.intact.record)
    return found
