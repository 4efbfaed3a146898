"""sesh logs: what a session printed."""

from __future__ import annotations

import click

from sesh import config, look, output, transcripts
from sesh.commands._options import CONTEXT
from sesh.errors import SeshError, StateError, UsageError
from sesh.model import ALIVE, Record, State


@click.command("logs", context_settings=CONTEXT)
@click.argument("name")
@click.option("-n", "--lines", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on as it prints, until it ends.")
@click.option("--raw", is_flag=True, help="The bytes that it printed, escape sequences and all.")
def command(name: str, lines: int | None, follow: bool, raw: bool) -> int:
    """Show a session's screen and scrollback as a person would read them, also after its end."""
    found = look.one(name)
    if found.session is None:
        raise StateError(f"{name}: its record is damaged; its transcript is in the state directory")
    record = found.session.record
    if raw and lines is not None:
        raise UsageError("--raw has no lines; use tail")
    try:
        start = _show_raw(record) if raw else _show_text(record, lines)
        if follow:
            _follow(record, start, raw=raw)
    except FileNotFoundError:
        raise SeshError(f"{name}: its transcript is gone") from None
    return 0


def _show_raw(record: Record) -> int:
    """All bytes so far; returns how many."""
    written = 0
    for chunk in transcripts.raw(record):
        output.write_bytes(chunk)
        written += len(chunk)
    return written


def _show_text(record: Record, lines: int | None) -> int:
    """Screen and scrollback; returns up to where in the transcript that is."""
    text, written = transcripts.text_and_size(record, config.load())
    output.write(_last(text, lines))
    return written


def _last(text: str, lines: int | None) -> str:
    """The text, safe for a terminal: what tmux captured has no escape sequences, but a file that
    somebody edited may."""
    wanted = text.splitlines() if lines is None else text.splitlines()[-lines:] if lines else []
    return "".join(output.escape(line) + "\n" for line in wanted)


def _follow(record: Record, start: int, *, raw: bool) -> None:
    plain = transcripts.Plain()

    def lives() -> bool:
        state = look.one(record.name).state
        return state in ALIVE or state is State.ORPHAN

    for chunk in transcripts.follow(record, start, lives, output.pause):
        output.write_bytes(chunk if raw else plain.feed(chunk))
        if output.reader_gone():
            return
