"""Output for people: streams and colours.

Imported by a fast lane: only light modules here.
"""

from __future__ import annotations

import os
import sys

from sesh.model.text.formatting import display_width, escape, hanging, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# --- streams -----------------------------------------------------------------------------------


def write(text: str) -> None:
    """Write data to stdout, in UTF-8 under any locale. A reader that has gone (`| head`) is no
    error: the work continues."""
    _write_all(1, text.encode("utf-8", "backslashreplace"))


def pause(seconds: float) -> bool:
    """Sleep; False when stdout's reader has gone. (A pipe without a reader reports an error even
    when no event is asked for; a terminal or file does not.)"""
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
        return  # stderr has no reader


def done(what: str, names: Sequence[str]) -> None:
    """Tell a person what was done with which sessions."""
    if names:
        succeeded(f"{what} {listed(names)}")


def succeeded(text: str) -> None:
    """Tell a person what was done; write nothing where a program reads stdout."""
    if os.isatty(1):
        say(hanging("", escape(text), terminal_width(2)))


def note(text: str, *, hint: tuple[str, ...] = (), after_echo: bool = False) -> None:
    """Write an error or remark to stderr, in one line; on a new line when the terminal has just
    echoed a key, for example ^C. Hints follow: in one line if there is room."""
    if after_echo:
        end_echo()
    width, line = terminal_width(2), _INDENT + _INDENT.join(hint)
    say(hanging("sesh: ", escape(text), width))
    fits = width is None or display_width(line) <= width
    for one in ([line.strip()] if fits else hint) if hint else []:
        say(hanging(_INDENT, escape(one), width))


def end_echo() -> None:
    """End the line in which the terminal has echoed a key, for example ^C."""
    if os.isatty(2):
        say("")


_INDENT = " " * 6  # in front of a hint
_gone = False  # stdout's reader


def reader_gone() -> bool:
    """Has the reader of stdout gone? A command that runs until it is ended should end then."""
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


def question(text: str) -> str:
    """A question with its possible answers, wrapped at the width of the terminal."""
    return hanging("", f"{text} [y/N]:", terminal_width(2))


def write_line_over(text: str) -> None:
    """Rewrite the line that the cursor is in, on stderr."""
    draw(f"\r\033[K{text}")


def draw(text: str) -> None:
    """Write to the terminal of a person, on stderr, as it is."""
    try:
        _write_all(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        return  # stderr has no reader


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
    """The text in the colour of a state."""
    from sesh.model.state_table import STATES

    return coloured(text, STATES[state].colour) if colour and state in STATES else text


BOLD, DIM, YELLOW = "1", "2", "33"


def coloured(text: str, code: str) -> str:
    return f"\033[{code}m{text}\033[0m" if code else text


def from_home(text: str) -> str:
    """A path or a command line with `~` for the home directory."""
    home = os.environ.get("HOME", "").rstrip("/")
    if not home or home not in text:
        return text
    words = text.split(" ")
    return " ".join(
        "~" + word[len(home) :] if word == home or word.startswith(home + "/") else word
        for word in words
    )


def terminal_width(fd: int = 1) -> int | None:
    """Columns of the terminal; None when stdout is none: then nothing is cut."""
    if not os.isatty(fd):
        return None
    try:
        return os.get_terminal_size(fd).columns or 80
    except OSError:
        return 80


def interactive() -> bool:
    return sys.stdin is not None and os.isatty(0) and os.isatty(2)
