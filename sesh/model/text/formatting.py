"""Format text for people: times, sizes, escapes, widths. Fast lanes use it: light imports only."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

NOTHING = "–"
NO_BREAK = "\N{NO-BREAK SPACE}"  # between words that `wrapped` leaves in one line
_LONGEST_COMMAND = 8  # words
_DOT = "·"  # between two texts; not at the beginning of a line
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


def short_time(seconds: float, parts: int = 1) -> str:
    """`2h`; with two parts `2h5m`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            rest = seconds % size
            more = short_time(rest, parts - 1) if parts > 1 and rest >= 1 else ""
            return f"{int(seconds // size)}{unit}{more}"
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


def tokens(count: int | None) -> str:
    """`950`, `1.2k`, `34k`, `1.2M`."""
    if count is None:
        return NOTHING
    number: float = count
    for unit in ("", "k", "M", "G"):
        if number < 999.5 or unit == "G":
            break
        number /= 1000
    return f"{number:.0f}{unit}" if number >= 9.95 or not unit else f"{number:.1f}{unit}"


def dollars(cost: float | None, *, lower_bound: bool = False) -> str:
    """`$1.23`; a small amount with two digits that matter; `≥$1.23` for a lower bound."""
    if cost is None:
        return NOTHING
    digits = 2
    while 0 < cost < 10 ** (1 - digits) and digits < 6:
        digits += 1
    return f"{'≥' if lower_bound else ''}${cost:,.{digits}f}"


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


def table(
    rows: Sequence[Sequence[str]],
    room: int | None = None,
    *,
    shrink: Mapping[int, int] | None = None,
    drop: Sequence[int] = (),
    numbers: bool = False,
) -> list[str]:
    """Rows as lines with aligned columns, the first to the left; `numbers`: the others to the
    right. To fit into `room`, columns of `shrink` become narrower, down to their width there; those
    of `drop` are dropped, in this order, as long as that is not enough; then the right is cut."""
    widths = {
        at: max(map(display_width, column)) for at, column in enumerate(zip(*rows, strict=True))
    }
    if room is not None:
        least = {at: min(widths[at], width) for at, width in (shrink or {}).items()}
        for at in drop:
            if _total({**widths, **least}) > room:
                del widths[at]
                least.pop(at, None)
        for at, width in least.items():
            widths[at] = max(width, widths[at] - max(0, _total(widths) - room))
        for at in reversed(widths):
            widths[at] -= min(widths[at], max(0, _total(widths) - room))
    lines = []
    for row in rows:
        cells = []
        for at, width in widths.items():
            cell = cut(row[at], width)
            space = " " * (width - display_width(cell))
            cells.append(space + cell if numbers and at else cell + space)
        lines.append(_GAP.join(cells).rstrip())
    return lines


def _total(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def wrapped(text: str, width: int | None, *, break_words: bool = True) -> list[str]:
    """Wrap at `width` columns between words; None: one line. Commands of sesh and words joined by
    NO_BREAK stay together if they fit into a line; longer words are broken, or left as they are."""
    if width is None:
        return [text.replace(NO_BREAK, " ")]
    room, lines = max(1, width), list[str]()
    for word in _words(text.split(" "), room):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and display_width(longer) <= room:
            lines[-1] = longer
        elif word not in ("", _DOT) or not lines:
            lines += _pieces(word, room) if break_words else [word]
    return [line.rstrip(" ") for line in lines]


def hanging(head: str, text: str, width: int | None, *, break_words: bool = False) -> str:
    """A text behind a head, in lines of at most `width` columns under each other; None: in one.
    Words that are longer than a line, as paths, stay whole, or are broken."""
    if width is None:
        return head + text
    lines = wrapped(text, width - display_width(head), break_words=break_words)
    return head + ("\n" + " " * display_width(head)).join(lines)


def _words(words: list[str], room: int) -> Iterator[str]:
    """Words, with those that are not to be parted as one."""
    at = 0
    while at < len(words):
        end = at + _command(words[at : at + _LONGEST_COMMAND])
        whole = " ".join(words[at:end]).replace(NO_BREAK, " ")
        yield from [whole] if display_width(whole) <= room else whole.split(" ")
        at = end


def _command(words: list[str]) -> int:
    """How many words at the beginning are a command: `sesh`, its subcommand, one name, options and
    placeholders. Without one: 1."""
    if words[0].lstrip("(") != "sesh" or not words[1:] or not words[1][:1].isalpha():
        return 1
    count, names = 2, 0
    for word in words[2:]:
        plain = word[:1].islower() or word[:1].isdigit()
        names += plain
        if words[count - 1][-1] in ",;:.)" or not word or names > 1 or word == _DOT:
            break
        count += 1
    return count


def _pieces(word: str, room: int) -> list[str]:
    pieces, used = [""], 0
    for char in word:
        used += display_width(char)
        if used > room and pieces[-1]:
            pieces.append("")
            used = display_width(char)
        pieces[-1] += char
    return pieces


def progress_bar(done: int, total: int, cells: int = 24) -> str:
    full = cells * done // max(1, total)
    return "█" * full + "░" * (cells - full)
