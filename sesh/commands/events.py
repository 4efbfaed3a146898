"""sesh events: show what happened."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime

from sesh.commands._declare import argument, declare, option
from sesh.commands._options import json_option
from sesh.model.errors import UsageError
from sesh.state import events, lookup
from sesh.terminal import output
from sesh.terminal.event_line import event_line


@declare("events")
@argument("name", required=False)
@option("-f", "--follow", is_flag=True, help="Go on as things happen.")
@option("--since", type="moment", help="Only what happened since then (10m, or a date).")
@option("--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind (repeatable).")
@json_option("one object a line")
def command(
    name: str | None,
    follow: bool,
    since: datetime | None,
    kinds: tuple[str, ...],
    as_json: bool,
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
