"""Search the conversations of agents and what sessions printed.

Everything is read in pieces. A terminal shows the same line again and again, so each line that was
printed counts once for a session.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sesh.agents import questions, transcripts
from sesh.model.agents.turns import Turn
from sesh.model.errors import SeshError, UsageError
from sesh.model.record import Record
from sesh.model.text import formatting
from sesh.model.value_object import Value
from sesh.operations import logs
from sesh.operations.conversations import read
from sesh.operations.logs import Lines, Tail
from sesh.state import log_files
from sesh.system import paths, processes

OUTPUT = "output"  # the source of a line that was printed
LIMIT = 5.0  # seconds that one line may take
_MOST_KNOWN = 10_000  # lines of a session that are remembered
Matches = Callable[[str], bool]


class Found(Value):
    """A line that matches. `source`: the role of a turn, or OUTPUT."""

    source: str
    at: float | None
    line: str


def search(record: Record, matches: Matches, note: Callable[[str], None]) -> Iterator[Found]:
    """The lines of a session that match. `note` gets what cannot be read."""
    if record.spec.kit is not None and transcripts.why_none(record.spec.kit.kind) is None:
        yield from _guarded(_said(record, matches), record, note)
    if record.place.has_process:
        yield from _guarded(_printed(record, matches), record, note)


def _guarded(
    found: Iterator[Found], record: Record, note: Callable[[str], None]
) -> Iterator[Found]:
    try:
        yield from found
    except FileNotFoundError:
        return
    except OSError as error:
        note(f"{record.name}: {error.filename or 'its transcript'}: {error.strerror}")
    except UsageError:
        raise
    except SeshError as error:
        note(str(error))


def _said(record: Record, matches: Matches) -> Iterator[Found]:
    if record.place.machine.id != processes.here().id:
        return
    for one in read.every(record):
        for turn in one.turns():
            for line in _lines(turn):
                if matches(line):
                    yield Found(turn.role, turn.at, line)


def _lines(turn: Turn) -> Iterator[str]:
    if turn.tool and turn.input is not None:
        given = questions.matter(turn.input)
        for line in (given[1] if given else "").splitlines() or [""]:
            yield f"{turn.tool}: {line}" if line else turn.tool
    yield from turn.text.splitlines()
    if turn.error:
        yield turn.error


def _printed(record: Record, matches: Matches) -> Iterator[Found]:
    path = paths.transcript(record.id)
    time_of = log_files.time_of(record.id, record.spec.created.timestamp())
    lines, tail = Lines(), Tail(record, log_files.begin(path))
    known: set[str] = set()
    for line, end in logs.lines_with_ends(tail, lines):
        text = line.strip()
        if text and text not in known and matches(text):
            if len(known) < _MOST_KNOWN:
                known.add(text)
            yield Found(OUTPUT, time_of(end), text)
    for line in lines.rest():
        text = line.strip()
        if text and text not in known and matches(text):
            yield Found(OUTPUT, time_of(tail.offset), text)


@contextmanager
def limited(matches: Matches) -> Iterator[Matches]:
    """The same test with a time limit for each line: a pattern may take for ever. (Only in the main
    thread: others get no signals.)"""
    if threading.current_thread() is not threading.main_thread():
        yield matches
        return

    def too_long(_number: int, _frame: object) -> None:
        raise UsageError(f"the pattern takes more than {formatting.short_time(LIMIT)} for a line")

    def test(line: str) -> bool:
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        try:
            return matches(line)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, too_long)
    try:
        yield test
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
