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
    phase: str | None = option("--phase", metavar="PHASE", help="What its work has come to."),
    metadata: tuple[str, ...] = option(
        "--meta",
        multiple=True,
        metavar="KEY=TEXT",
        help="Note something (repeatable); KEY:=JSON for a value that is no text.",
    ),
    error: str | None = option(
        "--error", metavar="TEXT", help="Something went wrong; they are counted."
    ),
    summary: str | None = option(
        "--summary", metavar="TEXT", help="Say in a few words what it is about."
    ),
    resume_ready: str | None = option(
        "--resume-ready", type=("yes", "no"), help="Can its work be resumed?"
    ),
    conversation: str | None = option(
        "--conversation", metavar="ID", help="The agent's own name for its conversation."
    ),
    force: bool = flag("--force", help="Note even what looks like a secret."),
    as_json: bool = json_option("the session"),
) -> int:
    """Report progress of a session. Without options: a heartbeat.

    NAME is that of the session it is called in, if there is one.
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
