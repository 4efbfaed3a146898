"""What people see: streams, colour, escaping, times, widths.

Imported by a fast lane: only light modules here.
"""

from __future__ import annotations

import os
import sys
import time
from unicodedata import category, east_asian_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_COLOURS = {
    "stale": "33",
    "recovering": "33",
    "stopping": "33",
    "orphan": "33",
    "failed": "31",
    "lost": "31",
    "timeout": "31",
    "damaged": "31",
    "running": "32",
    "unknown": "2",
    "completed": "2",
    "stopped": "2",
}
NOTHING = "–"


# --- streams -----------------------------------------------------------------------------------


def write(text: str) -> None:
    """Data, to stdout. A reader that has gone (`| head`) is no error, and no reason to stop work;
    whatever the locale, the text is UTF-8."""
    _write_all(1, text.encode("utf-8", "backslashreplace"))


def pause(seconds: float) -> bool:
    """Sleep; False when stdout's reader has gone. (A pipe without a reader reports an error even
    to one who asks for nothing; a terminal or file lets us sleep.)"""
    from select import POLLERR, POLLHUP, poll

    asked = poll()
    asked.register(1, 0)
    return not any(flags & (POLLERR | POLLHUP) for _, flags in asked.poll(seconds * 1000))


def write_bytes(data: bytes) -> None:
    _write_all(1, data)


def say(text: str) -> None:
    """A line for people, to stderr, without our name in front."""
    try:
        _write_all(2, f"{text}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return  # nobody left to tell


def note(text: str, *, hint: tuple[str, ...] = (), after_echo: bool = False) -> None:
    """An error or remark of ours, in one line, to stderr; on a line of its own when the terminal
    has just echoed a key such as ^C. Hints, what to do next, follow: in a line if there is room."""
    start = "\n" if after_echo and os.isatty(2) else ""
    say(f"{start}sesh: {escape(text)}")
    width, line = terminal_width(), _INDENT + _INDENT.join(hint)
    fits = width is None or display_width(line) <= width
    for one in ([line] if fits else [_INDENT + part for part in hint]) if hint else []:
        say(escape(one))


_INDENT = " " * 6  # in front of a hint
_gone = False  # stdout's reader


def reader_gone() -> bool:
    """Has whoever read stdout gone away? A command that goes on for ever should end then."""
    return _gone


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except BrokenPipeError:
        global _gone
        _gone = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), fd)


def write_line_over(text: str) -> None:
    """Rewrite the line that the cursor is in, on stderr."""
    try:
        _write_all(2, f"\r\033[K{text}".encode())
    except OSError:
        return  # nobody left to tell


def escape(text: str) -> str:
    """Make what a stranger wrote harmless to a terminal: control and format characters are shown
    as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _harmless(c) else _escaped(c) for c in text)


def _harmless(char: str) -> bool:
    return char.isprintable() or category(char) == "Zs"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def use_colour(flag: str, fd: int = 1) -> bool:
    """flag > NO_COLOR > FORCE_COLOR > TERM=dumb > isatty"""
    if flag != "auto":
        return flag == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM", "dumb") != "dumb" and os.isatty(fd)


def paint(text: str, state: str, *, colour: bool) -> str:
    code = _COLOURS.get(state)
    return f"\033[{code}m{text}\033[0m" if colour and code else text


def terminal_width() -> int | None:
    """Columns to fit into; None when nobody watches: then nothing is cut."""
    if not os.isatty(1):
        return None
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


# --- words -------------------------------------------------------------------------------------


def epoch(stamp: str | None) -> float | None:
    """The inverse of `view.timestamp`."""
    if not stamp:
        return None
    from calendar import timegm

    numbers = (stamp[:4], stamp[5:7], stamp[8:10], stamp[11:13], stamp[14:16], stamp[17:19])
    return timegm(tuple(map(int, numbers)))


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def clock(seconds: float) -> str:
    """A moment as people here write it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def short_time(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def ago(seconds: float | None, now: float) -> str:
    if seconds is None:
        return NOTHING
    return "now" if now - seconds < 5 else f"{short_time(now - seconds)} ago"


def long_time(seconds: float, units: int = 1) -> str:
    """`2 hours`; with two units `1 hour 59 minutes`."""
    parts: list[str] = []
    rest = max(0, int(seconds))
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, rest = divmod(rest, length)
        if count and len(parts) < units:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return " ".join(parts) or "0 seconds"


def size(count: float | None) -> str:
    if count is None:
        return NOTHING
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024 or unit == "GB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"


def command_line(command: Sequence[str]) -> str:
    from shlex import join

    return escape(join(map(str, command)))  # a record of an older sesh may hold what is no text


# --- widths --------------------------------------------------------------------------------------


def display_width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(c) in "WF" else 0 if category(c) == "Mn" else 1 for c in text)


def cut(text: str, width: int) -> str:
    """At most `width` columns of it, with an ellipsis when something is missing."""
    if display_width(text) <= width:
        return text
    kept, used = [], 0
    for char in text:
        used += display_width(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + "…" if width > 0 else ""


_NARROWEST = 20  # columns in which texts are wrapped, however few there are


def wrapped(text: str, width: int | None) -> list[str]:
    """In lines of at most so many columns, broken between words; None: in one line. Only a word
    that is longer than a line is broken itself."""
    if width is None:
        return [text]
    room = max(_NARROWEST, width)
    first, *words = text.split(" ")
    lines = _pieces(first, room)
    for word in words:
        longer = f"{lines[-1]} {word}"
        if display_width(longer) <= room:
            lines[-1] = longer
        elif word:
            lines += _pieces(word, room)
    return [line.rstrip(" ") for line in lines]


def _pieces(word: str, room: int) -> list[str]:
    pieces, used = [""], 0
    for char in word:
        used += display_width(char)
        if used > room:
            pieces.append("")
            used = display_width(char)
        pieces[-1] += char
    return pieces


def progress_bar(done: int, total: int, cells: int = 24) -> str:
    full = cells * done // max(1, total)
    return "█" * full + "░" * (cells - full)


def interactive() -> bool:
    return sys.stdin is not None and os.isatty(0) and os.isatty(2)
