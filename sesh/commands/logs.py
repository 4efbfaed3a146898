"""sesh logs: show what a session printed."""

from __future__ import annotations

import os
import time
from datetime import datetime

from sesh.commands._declare import COUNT, argument, declare, flag, option
from sesh.model.configuration import Config
from sesh.model.errors import SeshError, UsageError
from sesh.model.record import Record
from sesh.model.states import ALIVE, State
from sesh.model.text import formatting
from sesh.operations import logs
from sesh.places import registry
from sesh.state import log_files, lookup, settings
from sesh.system import paths
from sesh.terminal import output

FETCH_EVERY = 1.0  # seconds between questions to an engine for more output


@declare("logs")
def command(
    name: str = argument(),
    lines: int | None = option(
        "-n", "--lines", type=COUNT, metavar="N", help="Only the last N lines."
    ),
    follow: bool = flag("-f", "--follow", help="Go on as it prints, until it ends."),
    since: datetime | None = option(
        "--since", type="moment", help="Only what was printed since then."
    ),
    raw: bool = flag("--raw", help="The bytes that it printed, escape sequences and all."),
) -> int:
    """Show a session's screen and scrollback as a person would read them, also after its end."""
    found = lookup.one(name)
    record = found.intact.record
    lookup.need_process(found)
    if raw and lines is not None:
        raise UsageError("--raw has no lines; use tail")
    config = settings.load()
    try:
        registry.of(record).fetch_transcript(record, config)
        log_files.mark(record.id)
        begin = _offset(record, since) if since else 0
        end = _show_raw(record, begin) if raw else _show_text(record, begin, lines, follow=follow)
        if follow:
            _follow(record, end, config, raw=raw)
    except FileNotFoundError:
        raise SeshError(f"{name}: its transcript is gone") from None
    return 0


def _offset(record: Record, since: datetime) -> int:
    """The offset of that moment in the transcript, or of a known moment a little before."""
    if os.stat(paths.transcript(record.id)).st_mtime < since.timestamp():
        return logs.size(record)
    offset, known = log_files.offset_at(record.id, since.timestamp())
    younger = known == 0 and since <= record.spec.created
    if known < since.timestamp() - 1 and not younger:
        begin = formatting.clock(known) if known else "its beginning"
        output.note(f"shown from {begin} on: nobody looked between that and the time asked for")
    return offset


def _show_raw(record: Record, begin: int) -> int:
    """Print all bytes so far; returns the offset of their end."""
    end = max(begin, log_files.begin(paths.transcript(record.id)))
    for chunk in logs.raw(record, end):
        output.write_bytes(chunk)
        end += len(chunk)
    return end


def _show_text(record: Record, begin: int, lines: int | None, *, follow: bool) -> int:
    """Print screen and scrollback; returns the offset in the transcript where they end."""
    end = logs.size(record)
    if begin == 0:
        text, end = logs.text_and_size(record, settings.load())
    else:
        text = logs.text_from(record, begin) if begin < end else ""
    text = _last(text, lines)
    blanks = logs.unfinished(record) if follow and text else None
    if blanks is not None:
        text = text.removesuffix("\n") + blanks  # the next output continues that line
    output.write(text)
    return end


def _last(text: str, lines: int | None) -> str:
    """The last lines, safe for a terminal: an edited file may contain escape sequences."""
    wanted = text.splitlines() if lines is None else text.splitlines()[-lines:] if lines else []
    return "".join(formatting.escape(line) + "\n" for line in wanted)


def _follow(record: Record, start: int, config: Config, *, raw: bool) -> None:
    plain = logs.Plain()
    fetched = 0.0

    def lives() -> bool:
        nonlocal fetched
        if time.monotonic() > fetched + FETCH_EVERY:
            registry.of(record).fetch_transcript(record, config)
            fetched = time.monotonic()
        state = lookup.one(record.name).state
        return state in ALIVE or state is State.ORPHAN

    for chunk in logs.follow(record, start, lives, output.pause):
        output.write_bytes(chunk if raw else plain.feed(chunk))
        if output.reader_gone():
            return
