"""Choose a session at a terminal: a list that typing filters.

First what is pure: rows, filter, and the lines to draw. Then the terminal: keys are read from
stdin, the list is drawn on stderr, always in the same place, and erased at the end. The terminal's
settings are restored however it ends. fzf is used instead where it is installed; a terminal that
cannot move its cursor gets a numbered list.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from sesh.model.session_json import View
from sesh.model.state_table import STATES
from sesh.model.text import formatting
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Value, replace
from sesh.system import paths, subprocesses
from sesh.terminal import output, table_layout

_TITLES = ("NAME", "STATE", "ACTIVITY", "COMMAND")
_LEAST = {"NAME": 8, "ACTIVITY": 8}  # columns that are left of them
_DROP = ("COMMAND", "ACTIVITY")
_MARK = "▸ "
_ROOMY = 6  # lines from which on there are titles and a line that explains the keys
_LONGEST = 500  # columns of a command that fzf gets


class Row(Value):
    """A session to choose from. Its texts are safe for a terminal."""

    name: str
    state: str
    activity: str
    command: str
    attention: bool = False


class Choice(Value):
    """What was typed, and which of the rows that match is chosen."""

    typed: str = ""
    at: int = 0


def row(view: View) -> Row:
    activity = view.get("activity")
    command = formatting.command_line(view.get("command") or [])
    return Row(
        formatting.escape(view["name"]),
        view["state"],
        formatting.escape(activity or formatting.NOTHING),
        formatting.escape(output.from_home(command) or formatting.NOTHING),
        bool(view.get("attention")),
    )


def matching(rows: Sequence[Row], typed: str) -> list[int]:
    """The rows that contain every word that was typed, in any case of letters."""
    words = typed.casefold().split()
    texts = [f"{one.name} {one.state} {one.activity} {one.command}".casefold() for one in rows]
    return [at for at, text in enumerate(texts) if all(word in text for word in words)]


def moved(choice: Choice, key: str, count: int, page: int) -> Choice:
    """The choice after a key, where `count` rows match and `page` of them are seen."""
    steps = {"up": -1, "down": 1, "page-up": -page, "page-down": page}
    if key in steps:
        return replace(choice, at=max(0, min(choice.at + steps[key], count - 1)))
    if key == "backspace":
        return Choice(choice.typed[:-1])
    if key == "word":
        head = choice.typed.rstrip()
        return Choice(head[: len(head) - len(head.split(" ")[-1])])
    if key == "line":
        return Choice()
    if len(key) == 1 and key.isprintable():
        return Choice(choice.typed + key)
    return choice


def drawn(
    rows: Sequence[Row],
    choice: Choice,
    what: str,
    size: tuple[int, int],
    *,
    colour: bool,
) -> tuple[list[str], int]:
    """The lines of the list, the first with what was typed; and the column of the cursor in that.
    They fit into a terminal of `size`, columns and lines, and leave its first line."""
    columns, lines = size
    room = max(1, columns - 1)  # nothing in the last column: terminals wrap there
    found = matching(rows, choice.typed)
    count = shown(lines)
    begin = max(0, min(choice.at - count // 2, len(found) - count))
    title, *body = _table(rows, room - len(_MARK), colour=colour)
    listed = [
        _marked(body[at], begin + number == choice.at, colour=colour)
        for number, at in enumerate(found[begin : begin + count])
    ]
    first = _first(what, choice.typed, room)
    if lines < _ROOMY:
        return [first, *listed], formatting.display_width(first)
    dim = output.DIM if colour else ""
    if not found:
        listed = [output.coloured(formatting.cut("  no session matches", room), dim)]
    keys = _explained(f"{len(found)} of {len(rows)}", room)
    head = output.coloured(" " * len(_MARK) + title, dim)
    return [first, head, *listed, output.coloured(keys, dim)], formatting.display_width(first)


def shown(lines: int) -> int:
    """How many rows a terminal with so many lines has room for."""
    return max(1, lines - (4 if lines >= _ROOMY else 2))


def _marked(line: str, chosen: bool, *, colour: bool) -> str:
    if not chosen:
        return " " * len(_MARK) + line
    return output.coloured(_MARK, output.BOLD if colour else "") + line


def _first(what: str, typed: str, room: int) -> str:
    """The line that is typed into; of a long text only the end."""
    prompt = f"{what} {_MARK}"
    if formatting.display_width(prompt) + 4 > room:
        prompt = _MARK
    line = prompt + typed
    while formatting.display_width(line) >= room and typed:
        typed = typed[1:]
        line = f"{prompt}…{typed}"
    return line


def _explained(count: str, room: int) -> str:
    texts = (
        f"{count}   type to filter · ↑ ↓ choose · Enter takes it · Esc leaves",
        f"{count}   ↑ ↓ · Enter · Esc leaves",
        count,
    )
    lines = [f"  {text}" for text in texts]
    return next((one for one in lines if formatting.display_width(one) <= room), lines[-1][:room])


def _table(rows: Sequence[Row], room: int | None, *, colour: bool) -> list[str]:
    """Titles and rows as aligned lines; without activities where none is known."""
    cells = [(one.name, one.state, one.activity, one.command) for one in rows]
    columns = {title: [one[at] for one in cells] for at, title in enumerate(_TITLES)}
    if all(activity == formatting.NOTHING for activity in columns["ACTIVITY"]):
        del columns["ACTIVITY"]

    def paint(number: int, title: str, text: str) -> str:
        return output.coloured(text, _colour(rows[number - 1], title) if number and colour else "")

    return table_layout.fitted(
        columns,
        room,
        least=_LEAST,
        useless=(),
        drop=_DROP,
        roomy=True,
        briefs=[None] * len(rows),
        paint=paint,
    )


def _colour(one: Row, title: str) -> str:
    """The colours of `ls`."""
    state = STATES[one.state]
    others = output.DIM if state.ended else ""
    if title == "NAME":
        return others if state.ended and not one.attention else output.BOLD
    if title == "STATE":
        return output.YELLOW if one.attention and state.alive else state.colour
    return output.YELLOW if title == "ACTIVITY" and one.activity == "waiting" else others


# --- keys ----------------------------------------------------------------------------------------

_KEY = lazy(r"\x1b[\[O][ -?]*[@-~]|\x1b[^\x1b]|[\s\S]")
_BEGUN = lazy(r"\x1b(?:[\[O][ -?]*)?\Z")  # of an escape sequence
_KEYS = {
    **dict.fromkeys(("\x1b[A", "\x1bOA", "\x10"), "up"),
    **dict.fromkeys(("\x1b[B", "\x1bOB", "\x0e"), "down"),
    **dict.fromkeys(("\r", "\n"), "enter"),
    **dict.fromkeys(("\x1b", "\x03", "\x04", "\x07"), "leave"),
    **dict.fromkeys(("\x7f", "\x08"), "backspace"),
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\x15": "line",
    "\x17": "word",
}


def keys(text: str) -> tuple[list[str], str]:
    """The keys that were pressed: names, or the characters themselves; and the beginning of an
    escape sequence whose rest is still to come."""
    found = _BEGUN.search(text)
    rest = found[0] if found else ""
    done = text[: len(text) - len(rest)]
    return [_KEYS.get(one, one) for one in _KEY.findall(done)], rest


# --- the terminal --------------------------------------------------------------------------------

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ESCAPE = 0.05  # seconds in which the rest of an escape sequence arrives
_USUAL = (80, 24)


def choose(rows: Sequence[Row], what: str) -> int | None:
    """The row that the user takes; None: the user has left. `what` is done with it."""
    if os.environ.get("TERM", "dumb") in ("dumb", ""):
        return _by_number(rows, what)
    fzf = None if os.environ.get("SESH_PICKER") == "builtin" else paths.which("fzf")
    with _noting(*_ENDS, signal.SIGWINCH) as (wakes, got), _restored():
        taken = _by_fzf(fzf, rows, what, wakes, got) if fzf else None
        if taken is None:
            taken = _by_keys(rows, what, wakes, got)
    for number in {signal.SIGTERM, signal.SIGHUP}.intersection(got):
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return taken if taken >= 0 else None


_LEFT = -1


@contextmanager
def _noting(*numbers: int) -> Iterator[tuple[int, list[int]]]:
    """Note these signals in a list instead of ending; a file becomes readable with each. So none
    can come between a change of the terminal and its end. Ignored ones stay ignored."""
    ends, wakes = os.pipe()
    os.set_blocking(wakes, False)
    got: list[int] = []
    before = {
        number: signal.signal(number, lambda one, _: got.append(one))
        for number in numbers
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    woken = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    try:
        yield ends, got
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(ends)
        os.close(wakes)


@contextmanager
def _restored() -> Iterator[None]:
    """Restore the settings of the terminal at the end, if it is still there."""
    before = termios.tcgetattr(0)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, before)


def _by_keys(rows: Sequence[Row], what: str, wakes: int, got: list[int]) -> int:
    """Our own list."""
    choice, begun = Choice(), ""
    try:
        _take_keys()
        while not _ended(got):
            size = _size()
            _draw(*drawn(rows, choice, what, size, colour=output.use_colour("auto", 2)))
            pressed, begun = _pressed(wakes, begun)
            for key in pressed:
                found = matching(rows, choice.typed)
                if key == "leave":
                    return _LEFT
                if key == "enter" and found:
                    return found[choice.at]
                choice = moved(choice, key, len(found), shown(size[1]))
    except (OSError, termios.error):  # the terminal is gone
        return _LEFT
    finally:
        output.draw("\r\033[J")
    return _LEFT


def _ended(got: Collection[int]) -> bool:
    return not {*_ENDS}.isdisjoint(got)


def _take_keys() -> None:
    """Let each key arrive at once, without echo, and none as a signal. What was typed before the
    list could be seen is discarded: it chooses nothing."""
    mode = termios.tcgetattr(0)
    mode[0] &= ~termios.IXON
    mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
    mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
    termios.tcsetattr(0, termios.TCSAFLUSH, mode)


def _size() -> tuple[int, int]:
    try:
        columns, lines = os.get_terminal_size(2)
    except OSError:
        return _USUAL
    return columns or _USUAL[0], lines or _USUAL[1]


def _draw(lines: Sequence[str], column: int) -> None:
    """Draw over the list that is there, from the line of the cursor on, and return to it."""
    back = f"\033[{len(lines) - 1}A" if len(lines) > 1 else ""
    text = "\033[K\r\n".join(lines)
    output.draw(f"\r{text}\033[J{back}\r\033[{column}C")


def _pressed(wakes: int, begun: str) -> tuple[list[str], str]:
    """Wait for keys, or for a signal. `begun` is the beginning of an escape sequence: if nothing
    follows, it was the Escape key."""
    ready, _, _ = select.select([0, wakes], [], [], _ESCAPE if begun else None)
    if wakes in ready:
        os.read(wakes, 64)
    if 0 not in ready:
        return ([], begun) if ready else (["leave"], "")
    typed = os.read(0, 1024)
    return keys(begun + typed.decode(errors="ignore")) if typed else (["leave"], "")


# --- other ways to choose ------------------------------------------------------------------------

_NOTHING_TAKEN = (1, 130)  # exit codes of fzf: nothing matched; the user has left
# Options that a user may have set for all calls of fzf and that would change the answer.
_PLAIN = (
    *("--no-multi", "--no-print-query", "--no-print0", "--no-expect", "--no-select-1"),
    *("--no-exit-0", "--no-tac", "--no-preview"),
)


def _by_fzf(
    fzf: str, rows: Sequence[Row], what: str, wakes: int, got: Collection[int]
) -> int | None:
    """The same by fzf; None when it could not show the list. Each line that it gets begins with
    its number, which fzf does not show."""
    brief = [replace(one, command=formatting.cut(one.command, _LONGEST)) for one in rows]
    lines = _table(brief, None, colour=output.use_colour("auto", 2))
    given = "".join(f"{number}\t{line}\n" for number, line in enumerate(lines))
    show = ("--delimiter=\t", "--with-nth=2..", "--header-lines=1", "--ansi", "--tiebreak=index")
    height = min(len(lines) + 3, max(5, _size()[1] - 1))
    look = (f"--height={height}", "--layout=reverse", f"--prompt={what} {_MARK}")
    answer = subprocesses.converse(
        [fzf, *show, *look, *_PLAIN], given.encode(), wakes, lambda: _ended(got)
    )
    if _ended(got) or answer.code in _NOTHING_TAKEN:
        return _LEFT
    number = answer.out.partition("\t")[0].strip()
    taken = int(number) - 1 if answer.ok and number.isdecimal() and number.isascii() else _LEFT
    return taken if 0 <= taken < len(rows) else None


def _by_number(rows: Sequence[Row], what: str) -> int | None:
    """For a terminal that cannot move its cursor: a numbered list, and a question."""
    title, *lines = _table(rows, max(1, _size()[0] - 6), colour=False)
    output.say(f"     {title}")
    for number, line in enumerate(lines, 1):
        output.say(f"{number:3}  {line}")
    while True:
        output.draw(f"{what}: ")
        answer = sys.stdin.readline()
        if not answer.strip():
            return None
        if answer.strip().isascii() and answer.strip().isdecimal() and 0 < int(answer) <= len(rows):
            return int(answer) - 1
        output.say(f"give a number from 1 to {len(rows)}; Enter alone leaves")
