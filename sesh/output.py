"""What people see: tables, colour, escaping, times. Works on the JSON objects of sessions.

Imported by a fast lane: only light modules here.
"""

from __future__ import annotations

import os
import sys
import time
from unicodedata import category, east_asian_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sesh.view import View

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
_NOTHING = "–"
_SHORTEST = 16  # what a long column is cut to before columns are dropped


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


def note(text: str, *, after_echo: bool = False) -> None:
    """An error or remark of ours, in one line, to stderr; on a line of its own when the terminal
    has just echoed a key such as ^C."""
    start = "\n" if after_echo and os.isatty(2) else ""
    say(f"{start}sesh: {escape(text)}")


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
        return _NOTHING
    return "now" if now - seconds < 5 else f"{short_time(now - seconds)} ago"


def long_time(seconds: float) -> str:
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    count = max(0, int(seconds))
    return f"{count} second{'s' if count != 1 else ''}"


def size(count: float | None) -> str:
    if count is None:
        return _NOTHING
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024 or unit == "GB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"


def command_line(command: Sequence[str]) -> str:
    from shlex import join

    return escape(join(command))


# --- the table of sessions ---------------------------------------------------------------------


def session_table(
    views: Sequence[View], *, wide: bool, colour: bool, width: int | None, now: float
) -> str:
    """The table for people. Columns are dropped from the right until it fits, never wrapped."""
    columns = _columns(views, wide, now)
    cells = [[title for title, _ in columns]]
    cells += [[cell(view) for _, cell in columns] for view in views]
    widths = [max(display_width(row[i]) for row in cells) for i in range(len(columns))]
    lines = [_line(row, widths) for row in cells]
    if width is not None:
        lines = _fit(cells, widths, width)
    if colour:
        lines[1:] = [
            _paint_state(line, view["state"]) for line, view in zip(lines[1:], views, strict=True)
        ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def ls_text(views: Sequence[View], *, wide: bool, colour: bool) -> tuple[bytes, str | None]:
    """What `ls` prints on stdout, and the closing line for people on stderr."""
    table = session_table(views, wide=wide, colour=colour, width=terminal_width(), now=time.time())
    return table.encode("utf-8", "backslashreplace"), closing_line(views)


def _columns(
    views: Sequence[View], wide: bool, now: float
) -> list[tuple[str, Callable[[View], str]]]:
    columns: list[tuple[str, Callable[[View], str]]] = [
        ("NAME", lambda v: escape(v["name"])),
        ("STATE", lambda v: v["state"]),
    ]
    if any(v.get("activity") for v in views):
        columns.append(("ACTIVITY", _activity))
    columns += [
        ("UP", lambda v: _up(v, now)),
        ("LAST OUTPUT", lambda v: ago(epoch(v.get("last_output")), now)),
        ("WHERE", lambda v: escape(v.get("container") or v.get("place") or _NOTHING)),
    ]
    if wide:
        columns += [
            ("PID", lambda v: str(v.get("pid") or _NOTHING)),
            ("MEMORY", lambda v: size(v.get("memory_bytes"))),
            ("CPU", lambda v: _cpu(v.get("cpu_seconds"))),
            ("GEN", lambda v: str(v.get("generation") or _NOTHING)),
            ("GROUP", lambda v: escape(v.get("group") or _NOTHING)),
            ("BRANCH", lambda v: escape(v.get("branch") or _NOTHING)),
            ("DIRECTORY", lambda v: escape(v.get("cwd") or _NOTHING)),
        ]
    columns.append(("COMMAND", lambda v: command_line(v.get("command") or []) or _NOTHING))
    if any(_remark(v) for v in views):
        columns.append(("", _remark))
    return columns


def _activity(view: View) -> str:
    activity = view.get("activity") or _NOTHING
    waiting = view.get("waiting_for")
    return escape(f"{activity}: {waiting}" if waiting else activity)


def _up(view: View, now: float) -> str:
    started = epoch(view.get("started"))
    alive = view["state"] in ("running", "paused", "stopping", "orphan")
    return short_time(now - started) if alive and started is not None else _NOTHING


def _cpu(seconds: float | None) -> str:
    return _NOTHING if seconds is None else f"{seconds:.1f}s"


def _remark(view: View) -> str:
    reason = escape(view.get("reason") or "")
    if view["state"] == "unknown":
        return f"(was {view.get('last_known')}) {reason}"
    return "" if reason in ("exit 0", "stopped on request") else reason


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


def _pad(text: str, width: int) -> str:
    return text + " " * (width - display_width(text))


def _line(row: Iterable[str], widths: Iterable[int]) -> str:
    return "   ".join(_pad(text, width) for text, width in zip(row, widths, strict=True))


def _fit(cells: list[list[str]], widths: list[int], room: int) -> list[str]:
    """Cut the long columns (the command, then the remark), then drop columns from the right, until
    every line fits."""
    wanted = list(widths)
    titles = cells[0]
    for title in ("DIRECTORY", "COMMAND", ""):
        if title in titles:
            at = titles.index(title)
            spare = max(0, wanted[at] - _SHORTEST)
            wanted[at] -= min(spare, max(0, _total(wanted) - room))
    while len(wanted) > 2 and _total(wanted) > room:
        wanted.pop()
    lines = []
    for row in cells:
        fitted = [cut(text, width) for text, width in zip(row, wanted, strict=False)]
        lines.append(cut(_line(fitted, wanted).rstrip(), room))
    return lines


def _total(widths: list[int]) -> int:
    return sum(widths) + 3 * (len(widths) - 1)


def _paint_state(line: str, state: str) -> str:
    before, found, after = line.partition(f" {state}")
    return before + " " + paint(state, state, colour=True) + after if found else line


def closing_line(views: Sequence[View]) -> str | None:
    """What needs a person, and what to do about it; None when nothing does."""
    needy: dict[str, list[str]] = {}
    for view in views:
        if view.get("attention") or view["state"] == "damaged":
            needy.setdefault(_kind(view), []).append(escape(view["name"]))
    if not needy:
        return None
    count = sum(map(len, needy.values()))
    line = f"{count} {'needs' if count == 1 else 'need'} you: {' · '.join(_advice(needy))}"
    width = terminal_width()
    return line if width is None else cut(line, width)


def _kind(view: View) -> str:
    """Its state; a process that outlives its session is no session that could be adopted."""
    outlives = view["state"] == "orphan" and view.get("generation") is None
    return "leftover" if outlives else view["state"]


def _advice(needy: dict[str, list[str]]) -> list[str]:
    """What to do, the commands that mend many at once first."""
    advice = [
        f"sesh restart --{state}" for state in ("lost", "failed") if len(needy.get(state, ())) > 1
    ]
    ended = [
        name
        for state in ("stale", "failed", "lost", "timeout")
        for name in needy.get(state, ())
        if f"sesh restart --{state}" not in advice
    ]
    if ended:
        advice.append(f"restart or stop {_some(ended)}")
    if "orphan" in needy:
        advice.append(f"adopt or stop {_some(needy['orphan'])}")
    if "leftover" in needy:
        advice.append("sesh stop --orphans")
    others = [
        name
        for state, names in needy.items()
        if state not in ("stale", "failed", "lost", "timeout", "orphan", "leftover")
        for name in names
    ]
    return [*advice, f"show {_some(others)}"] if others else advice


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def progress_bar(done: int, total: int, cells: int = 24) -> str:
    full = cells * done // max(1, total)
    return "█" * full + "░" * (cells - full)


def interactive() -> bool:
    return sys.stdin is not None and os.isatty(0) and os.isatty(2)
