"""Fit the table of sessions into a terminal of any width, without wrapping.

No row pays for another: a long name or note is cut alone, a command may run into the room of a
reason that its row does not have, and where both do not fit, a reason replaces the columns of its
own row. Imported by a fast lane: only light modules here.
"""

from __future__ import annotations

from sesh.model.text.formatting import cut, display_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Columns = Mapping[str, Sequence[str]]  # the cells of each title, without the title
    Brief = Callable[[int], str]  # a reason in so many columns
    Paint = Callable[[int, str, str], str]  # row (0: the titles), title, text
    _Cell = tuple[str, str, int | None]  # title, text, and the width that it fills

NAME, COMMAND, REASON = "NAME", "COMMAND", ""  # the first column; the last two
_WIDE, _NARROW = 3, 2  # columns between cells: when everything fits, and else
_ROOMY, _TIGHT = 52, 36  # for commands with reasons: what other columns leave them; the least
_COMMANDS = 20  # for commands without reasons
_USEFUL = 10  # columns of a command or a reason
_BRIEF = 24  # columns of a reason in the place of others
_SHORTEST = 8  # columns of a name


def fitted(
    columns: Columns,
    room: int | None,
    *,
    least: Mapping[str, int],
    useless: Sequence[str],
    drop: Sequence[str],
    roomy: bool,
    briefs: Sequence[Brief | None],
    paint: Paint,
) -> list[str]:
    """The table as lines of at most `room` columns, with its titles. `least`: the width that a
    column keeps while others are dropped; `useless`: what goes as soon as anything must; `drop`:
    the order of the others; `roomy`: they go before reasons are cut; `briefs`: the reasons of rows
    where they replace columns."""
    layout = _Layout(columns, _WIDE)
    if room is not None and layout.width() > room:
        layout = _Layout({k: cells for k, cells in columns.items() if k not in useless}, _NARROW)
        layout.drop(
            drop, room, least, (_ROOMY if roomy else _TIGHT) if REASON in columns else _COMMANDS
        )
        if not layout.fits(room, least, _TIGHT if REASON in columns else _USEFUL):
            layout = _without_reasons(columns, briefs, room, least, drop)
        layout.squeeze(room, least)
    return [*layout.lines(room, paint)]


def _without_reasons(
    columns: Columns,
    briefs: Sequence[Brief | None],
    room: int,
    least: Mapping[str, int],
    drop: Sequence[str],
) -> _Layout:
    """The columns of the rows without a brief; a brief needs only a name beside it."""
    kept = {
        title: [
            "" if brief and title != NAME else cell
            for cell, brief in zip(cells, briefs, strict=True)
        ]
        for title, cells in columns.items()
        if title != REASON
    }
    layout = _Layout(kept, _NARROW, briefs)
    layout.drop(drop, room, least, _COMMANDS)
    if not layout.fits(room, least, _USEFUL):
        layout.drop((COMMAND, "ACTIVITY"), room, least, _USEFUL)
    return layout


class _Layout:
    """Columns with their widths. The command and the reason of a row share the room at its end."""

    def __init__(
        self, columns: Columns, gap: int, briefs: Sequence[Brief | None] | None = None
    ) -> None:
        self._columns = dict(columns)
        self._gap = gap
        self._briefs = briefs or [None] * len(columns[NAME])
        self._cells = {
            title: [display_width(title), *map(display_width, cells)]
            for title, cells in columns.items()
        }
        self._widths = {
            title: max(cells)
            for title, cells in self._cells.items()
            if title not in (COMMAND, REASON)
        }

    # --- how wide ------------------------------------------------------------------------------

    def width(self) -> int:
        """With everything, and with all commands and all reasons under each other."""
        widths = [max(cells) for cells in self._cells.values()]
        return sum(widths) + self._gap * (len(widths) - 1)

    def fits(self, room: int, least: Mapping[str, int], tail: int) -> bool:
        """Is there room for so many columns of commands and reasons, or for what they need?"""
        needed = [min(width, least.get(title, width)) for title, width in self._widths.items()]
        tail = self._tail_needs(tail) if COMMAND in self._columns else -self._gap
        return sum(needed) + self._gap * len(needed) + tail <= room

    def _tail_needs(self, most: int) -> int:
        """What the commands and reasons of all rows but one need, up to `most`; and the least for
        each reason."""
        commands = self._cells[COMMAND][1:]
        if REASON not in self._columns:
            return min(most, _usual(commands))
        both = [
            command + (self._gap + reason if reason else 0)
            for command, reason in zip(commands, self._cells[REASON][1:], strict=True)
        ]
        return min(most, max(_usual(both), min(max(both), _TIGHT)))

    def drop(self, titles: Sequence[str], room: int, least: Mapping[str, int], tail: int) -> None:
        """Drop columns, in this order, until the others fit."""
        for title in titles:
            if self.fits(room, least, tail):
                return
            self._columns.pop(title, None)
            self._widths.pop(title, None)

    def squeeze(self, room: int, least: Mapping[str, int]) -> None:
        """Shrink columns until commands and reasons have room: first those in which the fewest
        cells become shorter, then names, then what is on the right."""
        tail = self._gap + self._tail_needs(_ROOMY) if COMMAND in self._columns else 0
        while (excess := self._excess(room - tail)) > 0:
            steps = [*self._steps(least)]
            if not steps:
                break
            _, _, title, width = min(steps)
            self._widths[title] = max(width, self._widths[title] - excess)
        name = self._widths[NAME]
        longest = _usual([display_width(brief(room)) for brief in self._briefs if brief])
        if longest:
            name = min(name, max(least[NAME], room - self._gap - min(longest, _BRIEF)))
        self._widths[NAME] = max(min(name, _SHORTEST), name - max(0, self._excess(room)))
        for title in [*self._widths][:0:-1]:
            self._widths[title] -= max(0, self._excess(room))
            if self._widths[title] <= 0:
                del self._widths[title]

    def _excess(self, room: int) -> int:
        return sum(self._widths.values()) + self._gap * (len(self._widths) - 1) - room

    def _steps(self, least: Mapping[str, int]) -> Iterator[tuple[int, int, str, int]]:
        """How each column can be shrunk next: the number of cells that it cuts, its width now, its
        title, and its width then."""
        for title, width in self._widths.items():
            shorter = [cell for cell in self._cells[title] if cell < width]
            if width > least.get(title, width):
                cut_off = len(self._cells[title]) - len(shorter)
                yield cut_off, -width, title, max([least[title], *shorter])

    # --- the lines -----------------------------------------------------------------------------

    def lines(self, room: int | None, paint: Paint) -> Iterator[str]:
        names = distinct(self._columns[NAME], self._widths[NAME])
        begin = sum(self._widths.values()) + self._gap * len(self._widths)
        left = None if room is None else room - begin
        reasons_at = self._reasons_at(left) if REASON in self._columns else 0
        titles: list[_Cell] = [(title, title, width) for title, width in self._widths.items()]
        yield self._line(0, [*titles, *self._tail(COMMAND, "", left, 0)], paint)
        for row, (name, brief) in enumerate(zip(names, self._briefs, strict=True)):
            cells: list[_Cell] = [(NAME, name, self._widths[NAME])]
            if brief and room is not None:
                cells.append((REASON, brief(room - self._widths[NAME] - self._gap), None))
            else:
                columns = [(title, width) for title, width in self._widths.items() if title != NAME]
                cells += [(title, self._columns[title][row], width) for title, width in columns]
                cells += self._tail(*self._ending(row), left, reasons_at)
            yield self._line(row + 1, cells, paint)

    def _ending(self, row: int) -> tuple[str, str]:
        """The command and the reason of a row."""
        command, reason = (self._columns.get(title) for title in (COMMAND, REASON))
        return command[row] if command else "", reason[row] if reason else ""

    def _reasons_at(self, left: int | None) -> int:
        """Where reasons begin: behind all commands or, where there is no room for that, behind
        those that have a reason."""
        commands, reasons = self._cells[COMMAND], self._cells[REASON][1:]
        if left is None or max(commands) + self._gap + max(reasons) <= left:
            return max(commands) + self._gap
        beside = [command for command, reason in zip(commands[1:], reasons, strict=True) if reason]
        usual = _usual([reason for reason in reasons if reason])
        most = max(_USEFUL, left - self._gap - usual)
        return max(len(COMMAND), min(most, max(beside))) + self._gap

    def _tail(self, command: str, reason: str, left: int | None, reasons_at: int) -> list[_Cell]:
        """The command and the reason of a row, in `left` columns."""
        if COMMAND not in self._columns:
            return []
        if not reason:
            return [(COMMAND, command if left is None else cut(command, left), None)]
        width = display_width(command)
        if left is not None:
            width = min(width, max(reasons_at, left - display_width(reason)) - self._gap)
        begin = max(reasons_at, width + self._gap)
        shown = reason if left is None else cut(reason, left - begin)
        return [(COMMAND, cut(command, width), begin - self._gap), (REASON, shown, None)]

    def _line(self, row: int, cells: Sequence[_Cell], paint: Paint) -> str:
        shown = []
        for title, cell, width in cells:
            text = cell if width is None else cut(cell, width)
            space = " " * ((width or 0) - display_width(text))
            shown.append((paint(row, title, text) if text else "") + space)
        return (" " * self._gap).join(shown).rstrip()


def _usual(widths: Sequence[int]) -> int:
    """The width that all cells but one need: a single long one costs the others nothing."""
    longest = sorted(filter(None, widths))[-2:]
    return longest[0] if longest else 0


# --- names -------------------------------------------------------------------------------------


def distinct(names: Sequence[str], width: int) -> list[str]:
    """The names in at most `width` columns, different ones never with the same text: where their
    beginnings are the same, their ends are kept, or the part in which they differ."""
    shown = {name: cut(name, width) for name in names}
    for text in {*shown.values()}:
        alike = [name for name, its in shown.items() if its == text]
        if len(alike) > 1:
            shown |= _told_apart(alike, width, {*shown.values()})
    return [shown[name] for name in names]


def _told_apart(names: Sequence[str], width: int, taken: set[str]) -> dict[str, str]:
    """Names that begin alike, cut in the same way if that is possible."""
    ways = [[*_cuts(name, width)] for name in names]
    for texts in zip(*ways, strict=False):
        if len({*texts} - taken) == len(names):
            return dict(zip(names, texts, strict=True))
    found: dict[str, str] = {}
    for name, cuts in zip(names, ways, strict=True):
        free = (text for text in cuts if text not in taken and text not in found.values())
        found[name] = next(free, cut(name, width))
    return found


def _cuts(name: str, width: int) -> Iterator[str]:
    """Other ways to cut a name: its beginning and its end, or a part of it."""
    if display_width(name) <= width:
        yield name
        return
    for end in range(max(1, width // 3), width):
        yield cut(f"{name[: width - 1 - end]}…{name[-end:]}", width)
    for begin in range(1, len(name) - width + 2):
        yield cut(f"…{name[begin : begin + width - 2]}…", width)
