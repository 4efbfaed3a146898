"""sesh events: show what happened."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from datetime import datetime

from sesh.commands._declare import COUNT, argument, declare, flag, option
from sesh.commands._options import json_option
from sesh.model import errors
from sesh.model.errors import UsageError
from sesh.state import events, lookup, records
from sesh.terminal import output
from sesh.terminal.event_line import event_line


@declare(
    "events",
    examples={
        "sesh events -f": "follow new events",
        "sesh events web --since 1h": "the last hour of a session",
    },
)
def command(
    name: str | None = argument(required=False),
    follow: bool = flag("-f", "--follow", help="Follow new events."),
    since: datetime | None = option(
        "--since", type="moment", help="Only events since TIME (10m, or a date)."
    ),
    kinds: tuple[str, ...] = option(
        "--kind", multiple=True, metavar="KIND", help="Only events of this kind (repeatable)."
    ),
    lines: int | None = option(
        "-n", "--lines", type=COUNT, metavar="N", help="Only the last N of these events."
    ),
    as_json: bool = json_option("events, one object per line,"),
) -> int:
    """Show the events of all sessions, or of one, oldest first."""
    if name is not None:
        _check_known(name)
    for kind in kinds:
        if kind not in events.KINDS:
            raise UsageError(f"--kind {kind}: should be one of {', '.join(events.KINDS)}")
    held = None if lines is None else deque[events.Event](maxlen=lines)

    def show(event: events.Event) -> None:
        text = json.dumps(event) if as_json else event_line(event, output.terminal_width())
        output.write(f"{text}\n")

    def release() -> None:
        nonlocal held
        released, held = held or (), None
        for event in released:
            show(event)

    def wait(seconds: float) -> bool:
        release()  # the past has been read
        return output.pause(seconds)

    source: Iterable[events.Event] = events.follow(wait) if follow else events.read(since)
    try:
        for event in source:
            if not _wanted(event, name, since, kinds):
                continue
            if held is not None:
                held.append(event)
                continue
            show(event)
            if output.reader_gone():
                break
    except KeyboardInterrupt:
        if not follow:
            raise
        output.end_echo()
        return errors.INTERRUPTED
    release()
    return errors.OK


def _check_known(name: str) -> None:
    """Raise when neither a record nor an event has this name."""
    lookup.check_name(name)
    if records.entry(name) is None and all(one.get("name") != name for one in events.read()):
        raise lookup.missing(name)


def _wanted(
    event: events.Event, name: str | None, since: datetime | None, kinds: tuple[str, ...]
) -> bool:
    return (
        (name is None or event.get("name") == name)
        and (not kinds or event["kind"] in kinds)
        and (since is None or datetime.fromisoformat(str(event["time"])) >= since)
    )
