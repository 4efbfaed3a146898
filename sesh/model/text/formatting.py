"""Format text for people: times, sizes, escapes, widths. Fast lanes use it: light imports only."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

NOTHING = "–"
_DAYS_BEFORE_1970 = 719469


def escape(text: str) -> str:
    """Make untrusted text safe for a terminal: control and format characters become escapes."""
    if text.isascii() and text.isprintable():
        return text
    from unicodedata import category

    harmless = {c for c in text if c.isprintable() or category(c) == "Zs"}
    return "".join(c if c in harmless else c.encode("unicode_escape").decode() for c in text)


def epoch(stamp: str | None) -> float | None:
    """The inverse of `session_json.timestamp`."""
    if not stamp:
        return None
    year, month, day = int(stamp[:4]), int(stamp[5:7]), int(stamp[8:10])
    hour, minute, second = int(stamp[11:13]), int(stamp[14:16]), int(stamp[17:19])
    # Years begin in March here, so that a leap day is the last of its year. (calendar.timegm does
    # the same, and its import costs as much as the rest of a list.)
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day
    return (days - _DAYS_BEFORE_1970) * 86400 + hour * 3600 + minute * 60 + second


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def clock(seconds: float) -> str:
    """A time in the local time zone."""
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


def few(texts: list[str] | tuple[str, ...], most: int = 4) -> str:
    """Some of the texts, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def listed(names: Sequence[str], most: int = 3) -> str:
    """`web`, `web and api`, `web, api and db`; of more than that `web, api and 3 more`."""
    first, last = names[: most - 1], names[most - 1 :]
    if len(last) > 1:
        last = [f"{len(last)} more"]
    *some, final = (*first, *last)
    return f"{', '.join(some)} and {final}" if some else final


def either(words: Iterable[str]) -> str:
    """`a, b or c`"""
    *some, last = words
    return f"{', '.join(some)} or {last}" if some else last


def number(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def long_time(seconds: float, units: int = 1) -> str:
    """`2 hours`; with two units `1 hour 59 minutes`."""
    parts: list[str] = []
    rest = max(0, int(seconds))
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, rest = divmod(rest, length)
        if count and len(parts) < units:
            parts.append(number(count, unit))
    return " ".join(parts) or "0 seconds"


def size(count: float | None) -> str:
    if count is None:
        return NOTHING
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024 or unit == "GB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"


_UNQUOTED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"  # by shlex


def command_line(command: Sequence[str]) -> str:
    words = [str(word) for word in command]  # a record of an older version may contain other types
    if all(word and not word.strip(_UNQUOTED) for word in words):
        return " ".join(words)
    from sesh.model.text.shell_words import join

    return escape(join(words))


def display_width(text: str) -> int:
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

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


_GAP = "   "  # between columns
_LEAST = 10  # what a column is shrunk to where only the last of `drop` is left; without it: 1


def table(
    rows: Sequence[Sequence[str]],
    room: int | None = None,
    *,
    shrink: Mapping[int, int] | None = None,
    drop: Sequence[int] = (),
    numbers: bool = False,
    paint: Callable[[int, int, str], str] | None = None,
) -> list[str]:
    """Rows as lines with aligned columns, the first to the left; `numbers`: the others to the
    right. To fit into `room`, shrink columns to the widths of `shrink`, or less if that is not
    enough; but first drop columns in the order of `drop`. `paint` colours a cell: row, column."""
    columns = [[display_width(cell) for cell in column] for column in zip(*rows, strict=True)]
    widths = {at: max(cells) for at, cells in enumerate(columns)}
    if room is not None:
        _squeeze(widths, columns, _drop(widths, room, shrink or {}, [*drop]), room)
    lines = []
    for number, row in enumerate(rows):
        cells = []
        for at, width in widths.items():
            cell = cut(row[at], width)
            space = " " * (width - display_width(cell))
            shown = paint(number, at, cell) if paint and cell else cell
            cells.append(space + shown if numbers and at else shown + space)
        lines.append(_GAP.join(cells).rstrip())
    return lines


def _drop(
    widths: dict[int, int], room: int, shrink: Mapping[int, int], drop: list[int]
) -> dict[int, int]:
    """Remove columns until the others fit if they are shrunk; the least width of each."""
    while True:
        enough = len(drop) > 1
        least = {
            at: min(width, (shrink[at] if enough else _LEAST) if drop else 1)
            for at, width in widths.items()
            if at in shrink
        }
        if not drop or _total({**widths, **least}) <= room:
            return least
        del widths[drop.pop(0)]


def _squeeze(
    widths: dict[int, int], columns: Sequence[Sequence[int]], least: Mapping[int, int], room: int
) -> None:
    """Shrink the columns in which the fewest cells are longer than the new width, so that a single
    long cell costs the other rows nothing; the widest of several."""
    shorter = {at: sorted(columns[at]) for at in least}  # than the column is now
    while (excess := _total(widths) - room) > 0:
        steps = []
        for at, cells in shorter.items():
            while cells and cells[-1] >= widths[at]:
                cells.pop()
            if widths[at] > least[at]:
                cut_off = len(columns[at]) - len(cells)
                steps.append((cut_off, -widths[at], at, max([least[at], *cells[-1:]])))
        if not steps:
            break
        _, _, at, level = min(steps)
        widths[at] = max(level, widths[at] - excess)
    for at in reversed(widths):
        widths[at] -= min(widths[at], max(0, _total(widths) - room))


def _total(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


_NARROWEST = 20  # columns in which texts are wrapped, however few there are


def wrapped(text: str, width: int | None) -> list[str]:
    """Wrap at `width` columns between words; None: one line. Only words that are longer than a line
    are broken."""
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
