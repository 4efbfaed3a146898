"""sesh events: show what happened."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime

from sesh.commands._declare import argument, declare, flag, option
from sesh.commands._options import json_option
from sesh.model.errors import UsageError
from sesh.state import events, lookup
from sesh.terminal import output
from sesh.terminal.event_line import event_line


@declare("events")
def command(
    name: str | None = argument(required=False),
    follow: bool = flag("-f", "--follow", help="Go on as things happen."),
    since: datetime | None = option(
        "--since", type="moment", help="Only what happened since then (10m, or a date)."
    ),
    kinds: tuple[str, ...] = option(
        "--kind", multiple=True, metavar="KIND", help="Only this kind (repeatable)."
    ),
    as_json: bool = json_option("one object a line"),
) -> int:
    """Show what happened to all sessions, or to one, oldest first."""
    if name is not None:
        lookup.check_name(name)
    for kind in kinds:
        if kind not in events.KINDS:
            raise UsageError(f"--kind {kind}: should be one of {', '.join(events.KINDS)}")
    source: Iterable[events.Event] = events.follow(output.pause) if follow else events.read(since)
    for event in source:
        if _wanted(event, name, since, kinds):
            output.write((json.dumps(event) if as_json else event_line(event)) + "\n")
            if output.reader_gone():
                break
    return 0


def _wanted(
    event: events.Event, name: str | None, since: datetime | None, kinds: tuple[str, ...]
) -> bool:
    return (
        (name is None or event.get("name") == name)
        and (not kinds or event["kind"] in kinds)
        and (since is None or datetime.fromisoformat(str(event["time"])) >= since)
    )
