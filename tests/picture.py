"""The picture of the README: a real run in a real terminal, drawn as SVG, light and dark.

`make picture` writes docs/picture-light.svg and -dark.svg; tests/test_picture.py compares them with
another run. What differs from run to run is replaced: all times are the same. It draws only what
the terminal showed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from itertools import groupby, zip_longest
from pathlib import Path

from tests.conftest import a_world
from tests.emulator import Terminal
from tests.world import World, eventually

DOCS = Path(__file__).parents[1] / "docs"

# Each prints a line, so that its last output is known, and runs until it is killed.
PROGRAM = '#!/bin/sh\necho "$0 is ready"\nexec sleep 100000\n'
PROGRAMS = ("server", "worker", "watch-docs")

BASHRC = r"""
PS1='\[\e[34m\]\w\[\e[0m\] $ \[\e[1m\]'
PS0='\[\e[0m\]'
eval "$(sesh init bash)"
bind 'set enable-bracketed-paste off'
clear
"""

LINES = (
    "sesh start api -- ./server --port 8080",
    "sesh start worker -- ./worker",
    "sesh start docs -- ./watch-docs",
    "kill -9 $(sesh ls -f name=api --format '{pid}'); sesh wait api",
    "sesh ls",
    "sesh restart api",
    "tmux -S $(sesh ls -f name=api --format '{socket}') kill-server; sesh wait api docs worker",
    "sesh restart --lost",
    "sesh ls",
)
COLUMNS, ROWS = 104, 46


def recorded() -> list[str]:
    """The lines of the terminal after the run, with colours as escape sequences."""
    with a_world() as world:
        home = Path(world.env["HOME"])
        world.cwd = home / "shop"
        world.cwd.mkdir()
        for name in PROGRAMS:
            (world.cwd / name).write_text(PROGRAM)
            (world.cwd / name).chmod(0o755)
        (home / ".bashrc").write_text(BASHRC)
        terminal = Terminal(world, columns=COLUMNS, rows=ROWS)
        terminal.run(f"cd; exec bash --rcfile {home}/.bashrc -i")
        terminal.see_screen("~ $")
        terminal.run("cd shop; clear")
        terminal.see_screen("~/shop $")
        for count, line in enumerate(LINES, start=1):
            terminal.type(line)
            wait_for_prompt(terminal, count + 1)
            wait_for_output(world)
        return list(with_own_styles(terminal.coloured().rstrip().splitlines()))


def with_own_styles(lines: Iterable[str]) -> Iterator[str]:
    """tmux leaves out what the line before has set already; here every line says all of its own."""
    style: tuple[str, ...] = ()
    for line in lines:
        yield "".join(f"\x1b[{code}m" for code in style) + line
        for codes in SEQUENCE.findall(line):
            style = styled(style, codes)


def wait_for_prompt(terminal: Terminal, count: int) -> None:
    """Until the shell has asked that many times."""
    assert eventually(lambda: sum(map(is_prompt, terminal.screen().splitlines())) == count, 60), (
        terminal.screen()
    )


def wait_for_output(world: World) -> None:
    """Until each session has printed its line, so that a list shows when."""
    assert eventually(lambda: all(one["last_output"] for one in world.ls()))


# --- what differs from run to run --------------------------------------------------------------

SEQUENCE = re.compile(r"\x1b\[([\d;]*)m")
TIMES = {
    "UP": (re.compile(r"\d+[smh]"), "4s"),
    "LAST OUTPUT": (re.compile(r"now|\d+[smh] ago"), "now"),
}
SINCE = re.compile(r", (just now|\d+[smh] ago)\b")  # in the last column


def normalised(lines: Iterable[str]) -> list[str]:
    """The lines with the same times in every run, with tables aligned for these, and with what
    happens at the same time in one order."""
    made: list[str] = []
    for kind, group in groupby(lines, kinds()):
        found = list(group)
        if kind == "table":
            found = list(aligned([re.split(r" {2,}", line) for line in found]))
        made += sorted(found, key=plain) if kind == "lost" else found
    return made


def kinds() -> Callable[[str], str]:
    """What a line is, for one line after another: a table ends with an empty line or a prompt."""
    kind = ""

    def next_kind(line: str) -> str:
        nonlocal kind
        shown = plain(line)
        if shown.startswith("NAME "):
            kind = "table"
        elif not shown or is_prompt(line):
            kind = ""
        elif kind != "table":
            kind = "lost" if shown.endswith(" lost") else ""
        return kind

    return next_kind


def is_prompt(line: str) -> bool:
    return bool(re.match(r"(⚑ [^~]* )?~/shop \$", plain(line)))


def aligned(table: list[list[str]]) -> Iterator[str]:
    """The rows of a table; the first has the titles, except that of the last column."""
    titles = [plain(cell) for cell in table[0]]
    columns = []
    for title, cells in zip_longest(titles, zip_longest(*table, fillvalue=""), fillvalue=""):
        time, same = TIMES.get(title, (None, ""))
        shown = [same_time(cell, time, same) for cell in cells]
        width = max(len(plain(cell)) for cell in shown)
        columns.append([cell + " " * (width - len(plain(cell))) for cell in shown])
    return ("   ".join(row).rstrip() for row in zip(*columns, strict=True))


def same_time(cell: str, time: re.Pattern[str] | None, same: str) -> str:
    """The cell, with a time that is the same in every run in its own style."""
    shown = plain(cell)
    if time and time.fullmatch(shown):
        return cell.replace(shown, same)
    return cell if time else SINCE.sub(", just now", cell)


def plain(line: str) -> str:
    return SEQUENCE.sub("", line)


# --- the drawing -------------------------------------------------------------------------------

FONT = "ui-monospace, SFMono-Regular, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
SIZE, CELL, LINE = 14, 8.4, 20  # pixels: of the font, of a column, of a line
MARGIN, BAR, GAP = 22, 38, 8  # around the text; the window's title; in front of a prompt

# Light and dark; those with a number are of escape sequences.
COLOURS = {
    "window": ("#ffffff", "#0d1117"),
    "bar": ("#f6f8fa", "#161b22"),
    "border": ("#d0d7de", "#30363d"),
    "title": ("#656d76", "#8b949e"),
    "text": ("#1f2328", "#e6edf3"),
    "31": ("#cf222e", "#ff7b72"),
    "32": ("#1a7f37", "#3fb950"),
    "33": ("#9a6700", "#d29922"),
    "34": ("#0969da", "#79c0ff"),
    "35": ("#8250df", "#d2a8ff"),
    "36": ("#1b7c83", "#56d4dd"),
    "90": ("#656d76", "#8b949e"),
}
VARIANTS = ("light", "dark")
BUTTONS = ("#ff5f57", "#febc2e", "#28c840")


def svg(lines: list[str], palette: Mapping[str, str]) -> str:
    """A window with these lines in it."""
    columns = max(len(plain(line)) for line in lines)
    width = round(columns * CELL + 2 * MARGIN)
    y = float(BAR + MARGIN)
    texts: list[str] = []
    for line in lines:
        if is_prompt(line):
            y += GAP
        texts += (text(start, y, shown, style) for start, shown, style in runs(line))
        y += LINE
    height = round(y - LINE + MARGIN)
    colours = [f".c{code}{{fill:{colour}}}" for code, colour in palette.items() if code.isdigit()]
    buttons = (
        f'<circle cx="{MARGIN + 20 * at}" cy="{BAR / 2:g}" r="6" fill="{colour}"/>'
        for at, colour in enumerate(BUTTONS)
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" role="img" aria-label="a terminal with sesh">',
            f"<style>text{{font:{SIZE}px {FONT};fill:{palette['text']}}}"
            f".title{{fill:{palette['title']};text-anchor:middle}}"
            f".c1{{font-weight:600}}.c2{{opacity:.6}}{''.join(colours)}</style>",
            f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10"'
            f' fill="{palette["window"]}" stroke="{palette["border"]}"/>',
            f'<path d="M.5 {BAR}V10.5a10 10 0 0 1 10-10H{width - 10.5}a10 10 0 0 1 10 10V{BAR}z"'
            f' fill="{palette["bar"]}" stroke="{palette["border"]}"/>',
            *buttons,
            f'<text class="title" x="{width / 2:g}" y="{BAR / 2 + 5:g}">~/shop</text>',
            *texts,
            "</svg>\n",
        ]
    )


def runs(line: str) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """The parts of a line with one style and without wide gaps, each with its column."""
    column = 0
    style: tuple[str, ...] = ()
    for at, part in enumerate(SEQUENCE.split(line)):
        if at % 2:
            style = styled(style, part)
            continue
        for found in re.finditer(r"\S+(?: \S+)*", part):
            yield column + found.start(), found[0], style
        column += len(part)


def styled(style: tuple[str, ...], codes: str) -> tuple[str, ...]:
    """The style after an escape sequence: bold, dim, and one of the colours."""
    for code in codes.split(";"):
        if code in ("", "0"):
            style = ()
        elif code == "22":
            style = tuple(one for one in style if one not in "12")
        elif code in ("1", "2"):
            style = (*style, code)
        elif code != "49":  # the background is always the window's
            assert code == "39" or code in COLOURS, f"no colour for {code}"
            style = (*(one for one in style if one in "12"), *([code] if code in COLOURS else []))
    return style


def text(column: int, y: float, shown: str, style: tuple[str, ...]) -> str:
    """One run; as wide as its columns, whatever font is found."""
    kind = f' class="{" ".join(f"c{code}" for code in style)}"' if style else ""
    return (
        f'<text x="{MARGIN + column * CELL:g}" y="{y:g}"{kind}'
        f' textLength="{len(shown) * CELL:g}">{escape(shown, quote=False)}</text>'
    )


def pictures() -> dict[Path, str]:
    """Each file of the picture and what belongs in it, from one run."""
    lines = normalised(recorded())
    return {
        DOCS / f"picture-{name}.svg": svg(
            lines, {role: shades[at] for role, shades in COLOURS.items()}
        )
        for at, name in enumerate(VARIANTS)
    }


if __name__ == "__main__":
    DOCS.mkdir(exist_ok=True)
    for path, drawn in pictures().items():
        path.write_text(drawn)
        print(path)
