"""sesh logs: show what sessions printed."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice

from sesh.commands._declare import COUNT, argument, declare, flag, option
from sesh.commands._options import Selection, choose, report
from sesh.model import errors
from sesh.model.configuration import Config
from sesh.model.errors import SeshError, UsageError, noted
from sesh.model.record import Record
from sesh.model.states import ALIVE, State
from sesh.model.text import formatting, pattern
from sesh.model.value_object import Value
from sesh.operations import logs
from sesh.operations.logs import Lines, Plain, Tail
from sesh.places import registry
from sesh.state import judge, log_files, lookup, records, settings
from sesh.state.judge import Seen
from sesh.system import paths
from sesh.terminal import output

_AT_ONCE = 1000  # lines
LOOK_EVERY = 1.0  # seconds between looks for more sessions, and questions to an engine
_COLOURS = ("36", "33", "32", "35", "34")  # of names in front of lines
_NO_TIME = " " * len("2026-11-15 12:00:00")
Timed = tuple[str, float | None]  # a line, and when it was printed


@declare(
    "logs",
    examples={
        "sesh logs -f web": "follow the output",
        "sesh logs -n 100 web": "the last 100 lines",
    },
)
def command(
    names: tuple[str, ...] = argument(nargs=-1, metavar="[NAME]..."),
    group: str | None = option(
        "-g", "--group", metavar="GROUP", help="Show the sessions of a group."
    ),
    lines: int | None = option(
        "-n", "--lines", "--tail", type=COUNT, metavar="N", help="Only the last N lines."
    ),
    follow: bool = flag("-f", "--follow", help="Follow the output until the session ends."),
    since: datetime | None = option("--since", type="moment", help="Only output since TIME."),
    grep: str | None = option(
        "--grep", metavar="REGEX", help="Only matching lines (exit 1 if there are none)."
    ),
    timestamps: bool = flag("--timestamps", help="Print the time of each line, if known."),
    raw: bool = flag("--raw", help="Print the raw bytes, including escape sequences."),
) -> int:
    """Show the output of sessions: screen and scrollback as plain text, also after their end.

    With several sessions, each line begins with the session's name.
    """
    if raw and lines is not None:
        raise UsageError("--raw and --lines contradict each other; pipe the output to tail")
    if raw and (timestamps or grep is not None or group is not None or len(names) > 1):
        raise UsageError("--raw is for one session, without --grep and --timestamps")
    matches = None if grep is None else pattern.given("--grep", grep)
    if not names and group is None and output.interactive():
        from sesh.commands import _pick

        picked = _pick.to_look_at("logs of", lambda one: one.has_process)
        if picked is None:
            return errors.INTERRUPTED
        chosen = [picked]
    else:
        chosen = choose(names, Selection(group), how="--group")
    if group is not None:
        chosen = [one for one in chosen if one.has_process]
    known = [one.name for one in chosen] if group is not None or len(chosen) > 1 else []
    printer = _Printer(known, matches, timestamps=timestamps)
    try:
        return _print(chosen, _Asked(lines, since, follow, raw), group, printer)
    except KeyboardInterrupt:
        if not follow:
            raise
        output.end_echo()
        return errors.INTERRUPTED


def _print(chosen: list[Seen], asked: _Asked, group: str | None, printer: _Printer) -> int:
    """Print the output of these sessions, and follow it if that is asked for."""
    results: dict[str, object] = {}
    streams = []
    for one in chosen:
        with noted(results, one.name):
            streams.append(_show(one, asked, printer))
            results[one.name] = None
    code = report(results)
    if asked.follow and streams:
        _follow(streams, group, printer)
    unmatched = printer.matches and not asked.follow and not printer.matched
    return code or (errors.FAILED if unmatched else errors.OK)


class _Asked(Value):
    """The options that concern each session alone."""

    lines: int | None
    since: datetime | None
    follow: bool
    raw: bool


class _Printer:
    """Prints lines: those that match, each after the name of its session and its time."""

    def __init__(
        self, names: Iterable[str], matches: Callable[[str], bool] | None, *, timestamps: bool
    ) -> None:
        self._names = list(names)  # empty: lines have no names
        self.matches = matches
        self._colour = output.use_colour("auto")
        self.timestamps = timestamps
        self.matched = False

    @property
    def plain(self) -> bool:
        """Are lines printed as they are?"""
        return not (self._names or self.matches or self.timestamps)

    def add(self, name: str) -> None:
        if name not in self._names:
            self._names.append(name)

    def show(self, name: str, lines: Iterable[Timed], most: int | None = None) -> None:
        """Print these lines, or only the last of them."""
        wanted = (one for one in lines if not self.matches or self.matches(one[0]))
        prefix = self._prefix(name)
        shown = (
            f"{prefix}{self._time(at)}{formatting.escape(line)}\n"
            for line, at in (wanted if most is None else deque(wanted, most))
        )
        for some in iter(lambda: "".join(islice(shown, _AT_ONCE)), ""):
            self.matched = True
            output.write(some)

    def _prefix(self, name: str) -> str:
        if not self._names:
            return ""
        text = f"{name:<{max(map(len, self._names))}}  |"
        colour = _COLOURS[self._names.index(name) % len(_COLOURS)]
        return f"\033[{colour}m{text}\033[0m " if self._colour else f"{text} "

    def _time(self, at: float | None) -> str:
        if not self.timestamps:
            return ""
        return f"{_NO_TIME if at is None else formatting.clock(at)} "


class _Stream:
    """The further output of a session."""

    def __init__(self, record: Record, end: int) -> None:
        self.record = record
        self.tail = Tail(record, end)
        self._fetched = 0.0

    def news(self, config: Config) -> Iterator[bytes]:
        if time.monotonic() > self._fetched + LOOK_EVERY:
            registry.of(self.record).fetch_transcript(self.record, config)
            self._fetched = time.monotonic()
        return self.tail.read()

    def show(self, chunk: bytes) -> None:
        """Print more output."""
        output.write_bytes(chunk)

    def finish(self) -> None:
        """Print what was held back."""


class _PlainStream(_Stream):
    """The same without escape sequences."""

    def __init__(self, record: Record, end: int) -> None:
        super().__init__(record, end)
        self._plain = Plain()

    def show(self, chunk: bytes) -> None:
        output.write_bytes(self._plain.feed(chunk))


class _LineStream(_Stream):
    """The same by lines."""

    def __init__(self, record: Record, end: int, printer: _Printer, begun: str = "") -> None:
        super().__init__(record, end)
        self.lines = Lines(begun.encode())
        self._printer = printer

    def show(self, chunk: bytes) -> None:
        self._print(self.lines.feed(chunk))

    def finish(self) -> None:
        self._print(self.lines.rest())

    def _print(self, lines: Iterable[str]) -> None:
        self._printer.show(self.record.name, ((line, time.time()) for line in lines))


# --- what there is -------------------------------------------------------------------------------


def _show(found: Seen, asked: _Asked, printer: _Printer) -> _Stream:
    """Print the output of a session so far; returns what follows it."""
    record = found.intact.record
    lookup.need_process(found)
    try:
        registry.of(record).fetch_transcript(record, settings.load())
        log_files.mark(record.id)
        begin = _offset(record, asked.since) if asked.since else 0
        if asked.raw:
            return _Stream(record, _show_raw(record, begin))
        if printer.timestamps:
            return _show_timed(record, begin, asked, printer)
        return _show_text(record, begin, asked, printer)
    except FileNotFoundError:
        raise SeshError(f"{record.name}: its transcript is gone") from None


def _offset(record: Record, since: datetime) -> int:
    """The offset of that moment in the transcript, or of a known moment a little before."""
    if os.stat(paths.transcript(record.id)).st_mtime < since.timestamp():
        return logs.size(record)
    offset, known = log_files.offset_at(record.id, since.timestamp())
    younger = known == 0 and since <= record.spec.created
    if known < since.timestamp() - 1 and not younger:
        begin = formatting.clock(known) if known else "its beginning"
        output.note(f"shown from {begin}; the times of later output are not known exactly")
    return offset


def _show_raw(record: Record, begin: int) -> int:
    """Print all bytes so far; returns the offset of their end."""
    end = max(begin, log_files.begin(paths.transcript(record.id)))
    for chunk in logs.raw(record, end):
        output.write_bytes(chunk)
        end += len(chunk)
    return end


def _show_timed(record: Record, begin: int, asked: _Asked, printer: _Printer) -> _Stream:
    """Print the lines of the transcript: only they have times."""
    stream = _LineStream(record, begin, printer)
    printed = log_files.time_of(record.id, record.spec.created.timestamp())

    def lines() -> Iterator[Timed]:
        for line, end in logs.lines_with_ends(stream.tail, stream.lines):
            yield line, printed(end)
        if not asked.follow:
            for line in stream.lines.rest():
                yield line, printed(stream.tail.offset)

    printer.show(record.name, lines(), asked.lines)
    return stream


def _show_text(record: Record, begin: int, asked: _Asked, printer: _Printer) -> _Stream:
    """Print screen and scrollback."""
    end = logs.size(record)
    if begin == 0:
        text, end = logs.text_and_size(record, settings.load())
    else:
        text = logs.text_from(record, begin) if begin < end else ""
    lines = text.splitlines()
    blanks = logs.unfinished(record) if asked.follow and lines else None
    begun = "" if blanks is None else lines.pop() + blanks  # the next output continues that line
    if not printer.plain:
        printer.show(record.name, ((line, None) for line in lines), asked.lines)
        return _LineStream(record, end, printer, begun)
    most = asked.lines
    if begun and most:
        most -= 1
    printer.show(record.name, ((line, None) for line in lines), most)
    if asked.lines != 0:
        output.write(formatting.escape(begun))
    return _PlainStream(record, end)


# --- what follows --------------------------------------------------------------------------------


def _follow(streams: list[_Stream], group: str | None, printer: _Printer) -> None:
    """Print what these sessions print, until all have ended."""
    config, begun, looked = settings.load(), datetime.now(UTC), time.monotonic()
    while True:
        if group is not None and time.monotonic() > looked + LOOK_EVERY:
            streams += _joined(group, streams, begun, printer)
            looked = time.monotonic()
        lives = _any_lives(streams)
        for stream in list(streams):
            _show_news(stream, streams, config)
            if output.reader_gone():
                return
        if not lives or not output.pause(logs.POLL):
            break
    for stream in streams:
        stream.finish()


def _show_news(stream: _Stream, streams: list[_Stream], config: Config) -> None:
    """Print what one session has printed. A problem with it does not end the others."""
    problem = None
    try:
        for chunk in stream.news(config):
            stream.show(chunk)
    except FileNotFoundError:
        problem = SeshError(f"{stream.record.name}: its transcript is gone")
    except SeshError as error:
        problem = error
    if problem is None:
        return
    streams.remove(stream)
    stream.finish()
    if not streams:
        raise problem
    output.note(str(problem))


def _joined(
    group: str, streams: list[_Stream], begun: datetime, printer: _Printer
) -> list[_LineStream]:
    """Sessions that are new in the group; those that are older join with what they print now."""
    known = {stream.record.id for stream in streams}
    new = []
    for record, _ in records.having("group", group):
        if record.id in known or not record.place.has_process:
            continue
        if not os.path.exists(paths.transcript(record.id)):
            continue
        printer.add(record.name)
        end = 0 if record.spec.created >= begun else logs.size(record)
        new.append(_LineStream(record, end, printer))
    return new


def _any_lives(streams: list[_Stream]) -> bool:
    names = [stream.record.name for stream in streams]
    held = lookup.held(names)
    if any(one.mode not in ("ended", "word") for one in held.values()):
        return True
    rest = [entry for name in names if name not in held and (entry := records.entry(name))]
    states = [found.state for found in judge.judge(rest)] if rest else []
    return any(state in ALIVE or state is State.ORPHAN for state in states)
