"""The list to pick a session from: its lines at any size, its keys, and a person at a terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.model.text import formatting
from sesh.terminal import picker
from sesh.terminal.picker import Choice
from tests.conftest import need
from tests.emulator import Terminal
from tests.surroundings import complains
from tests.world import World, eventually

BUILTIN = {"SESH_PICKER": "builtin"}
UP, DOWN, ESCAPE = "\x1b[A", "\x1b[B", "\x1b"


def view(name: str, state: str = "running", command: str = "sleep 9", **more: Any) -> Any:
    return {"name": name, "state": state, "command": command.split()} | more


DAY = [
    picker.row(one)
    for one in (
        view("api", command="./server --port 8080"),
        view("fix-login", command="claude --resume", activity="waiting", attention="waiting"),
        view("payments", "failed", "npm run worker", attention="exit 1"),
        view("build", "completed", "make"),
    )
]


def lines(choice: Choice, columns: int = 80, rows: int = 24, *, colour: bool = False) -> list[str]:
    return picker.drawn(DAY, choice, "attach to", (columns, rows), colour=colour)[0]


def is_drawn(shown: list[str], wanted: str) -> None:
    assert [line.rstrip() for line in shown] == dedent(wanted).strip("\n").splitlines()


# --- what is drawn -----------------------------------------------------------------------------


def test_the_list_at_80_columns() -> None:
    is_drawn(
        lines(Choice()),
        """
        attach to ▸
          NAME        STATE       ACTIVITY   COMMAND
        ▸ api         running     –          ./server --port 8080
          fix-login   running     waiting    claude --resume
          payments    failed      –          npm run worker
          build       completed   –          make
          4 of 4   type to filter · ↑ ↓ choose · Enter takes it · Esc leaves
        """,
    )


def test_what_is_typed_filters_and_a_row_is_chosen() -> None:
    is_drawn(
        lines(Choice("RUN", 2), 40),
        """
        attach to ▸ RUN
          NAME       STATE      ACTIVITY
          api        running    –
          fix-login  running    waiting
        ▸ payments   failed     –
          3 of 4   ↑ ↓ · Enter · Esc leaves
        """,
    )


def test_narrow_and_low() -> None:
    is_drawn(
        lines(Choice("", 3), 20, 8),
        """
        attach to ▸
          NAME      STATE
          api       running
          fix-log…  running
          payments  failed
        ▸ build     comple…
          4 of 4
        """,
    )
    is_drawn(
        lines(Choice("", 3), 20, 4),
        """
        attach to ▸
          payments  failed
        ▸ build     comple…
        """,
    )


def test_when_nothing_matches() -> None:
    is_drawn(
        lines(Choice("nonsense")),
        """
        attach to ▸ nonsense
          NAME        STATE       ACTIVITY   COMMAND
          no session matches
          0 of 4   type to filter · ↑ ↓ choose · Enter takes it · Esc leaves
        """,
    )


def test_the_colours_are_those_of_ls() -> None:
    shown = lines(Choice(), colour=True)
    assert "\x1b[1mapi\x1b[0m" in shown[2]
    assert "\x1b[32mrunning\x1b[0m" in shown[2]
    assert "\x1b[33mwaiting\x1b[0m" in shown[3]
    assert "\x1b[31mfailed\x1b[0m" in shown[4]
    assert "\x1b[2mbuild\x1b[0m" in shown[5]
    plain = [re.sub(r"\x1b\[\d*m", "", line) for line in shown]
    assert plain == lines(Choice())


@given(
    names=st.lists(st.text(min_size=1, max_size=70), min_size=1, max_size=40),
    commands=st.lists(st.text(max_size=90), min_size=40, max_size=40),
    typed=st.text(max_size=60),
    at=st.integers(0, 50),
    size=st.tuples(st.integers(12, 130), st.integers(2, 30)),
    colour=st.booleans(),
)
def test_it_fits_whatever_the_sessions_are_called(
    names: list[str],
    commands: list[str],
    typed: str,
    at: int,
    size: tuple[int, int],
    colour: bool,
) -> None:
    rows = [
        picker.row(view(name, command=command))
        for name, command in zip(names, commands, strict=False)
    ]
    typed = "".join(one for one in typed if one.isprintable())
    found = picker.matching(rows, typed)
    choice = Choice(typed, min(at, max(0, len(found) - 1)))
    shown, column = picker.drawn(rows, choice, "attach to", size, colour=colour)
    bare = [re.sub(r"\x1b\[\d*m", "", line) for line in shown]
    assert all(formatting.display_width(line) < size[0] for line in bare)
    assert len(shown) <= max(2, size[1] - 1)
    assert column < size[0]
    assert all(formatting.escape(line) == line for line in bare)
    assert sum(line.startswith("▸") for line in bare[1:]) == bool(found)


# --- what matches ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", [0, 1, 2, 3]),
        ("LOGIN", [1]),
        ("failed", [2]),
        ("wait", [1]),
        ("run", [0, 1, 2]),
        ("npm run", [2]),
        ("worker pay", [2]),
        ("  ", [0, 1, 2, 3]),
        ("xyz", []),
    ],
)
def test_words_match_name_state_activity_and_command(typed: str, found: list[int]) -> None:
    assert picker.matching(DAY, typed) == found


# --- keys --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pressed", "begun"),
    [
        ("ab", ["a", "b"], ""),
        (f"{UP}{DOWN}\x1bOA\x10\x0e", ["up", "down", "up", "up", "down"], ""),
        ("\r", ["enter"], ""),
        ("a\x7f\x08\x15\x17", ["a", "backspace", "backspace", "line", "word"], ""),
        ("\x03", ["leave"], ""),
        (ESCAPE, [], ESCAPE),
        ("a\x1b[", ["a"], "\x1b["),
        (f"{ESCAPE}{UP}", ["leave", "up"], ""),
        ("\x1b[1;5C", ["\x1b[1;5C"], ""),
        ("\x1bx", ["\x1bx"], ""),
        ("\x1b[5~\x1b[6~", ["page-up", "page-down"], ""),
    ],
)
def test_keys(text: str, pressed: list[str], begun: str) -> None:
    assert picker.keys(text) == (pressed, begun)


@pytest.mark.parametrize(
    ("choice", "key", "after"),
    [
        (Choice("", 1), "down", Choice("", 2)),
        (Choice("", 3), "down", Choice("", 3)),
        (Choice("", 0), "up", Choice("", 0)),
        (Choice("", 0), "page-down", Choice("", 2)),
        (Choice("", 3), "page-up", Choice("", 1)),
        (Choice("a", 2), "b", Choice("ab", 0)),
        (Choice("ab", 2), "backspace", Choice("a", 0)),
        (Choice("", 0), "backspace", Choice("", 0)),
        (Choice("npm run", 0), "word", Choice("npm ", 0)),
        (Choice("npm ", 0), "word", Choice("", 0)),
        (Choice("npm run", 1), "line", Choice("", 0)),
        (Choice("a", 1), "\x1b[1;5C", Choice("a", 1)),
        (Choice("a", 1), "\x00", Choice("a", 1)),
    ],
)
def test_what_a_key_does(choice: Choice, key: str, after: Choice) -> None:
    assert picker.moved(choice, key, 4, 2) == after


# --- at a terminal -----------------------------------------------------------------------------


@pytest.fixture
def three(world: World) -> World:
    """A world with three sessions, of which sesh keeps records only."""
    for name, command in (("one", "make all"), ("two", "npm test"), ("three", "make docs")):
        world.ok("start", name, "--record-only", "--", *command.split())
    return world


def test_a_person_types_moves_and_takes(three: World) -> None:
    terminal = Terminal(three, env=BUILTIN)
    terminal.type("sesh show | head -n 1; echo code $?")
    terminal.see_screen("""
        $ sesh show | head -n 1; echo code $?
        show ▸
          NAME    STATE     COMMAND
        ▸ one     running   make all
          three   running   make docs
          two     running   npm test
          3 of 3   type to filter · ↑ ↓ choose · Enter takes it · Esc leaves
    """)
    terminal.press("m", "a", "k", "Down")
    terminal.see_screen("""
        $ sesh show | head -n 1; echo code $?
        show ▸ mak
          NAME    STATE     COMMAND
          one     running   make all
        ▸ three   running   make docs
          2 of 3   type to filter · ↑ ↓ choose · Enter takes it · Esc leaves
    """)
    terminal.press("Enter")
    terminal.see_screen("""
        $ sesh show | head -n 1; echo code $?
        three  running…
        code 0
        $
    """)
    terminal.at_the_shell()


@pytest.mark.parametrize("key", ["Escape", "C-c", "C-d"])
def test_leaving_leaves_nothing(three: World, key: str) -> None:
    terminal = Terminal(three, env=BUILTIN)
    terminal.type("sesh show; echo code $?")
    terminal.see("3 of 3")
    terminal.press("t", key)
    terminal.see_screen("""
        $ sesh show; echo code $?
        code 130
        $
    """)
    terminal.at_the_shell()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_ends_it_and_the_terminal_is_restored(
    three: World, number: signal.Signals, code: int
) -> None:
    terminal = Terminal(three, env=BUILTIN)
    terminal.type("stty -g >before; sesh show; echo code $?; stty -g >after")
    terminal.see("3 of 3")
    os.kill(_pid(three), number)
    terminal.see(f"code {code}")
    terminal.see_no_more("3 of 3")
    terminal.at_the_shell()
    assert (three.cwd / "before").read_text() == (three.cwd / "after").read_text()


def _pid(world: World) -> int:
    """The process that shows the list."""

    def found() -> list[int]:
        return [
            one for one in world.processes() if _argv(one)[-2:] in (["show", ""], ["attach", ""])
        ]

    (pid,) = eventually(found)
    return int(pid)


def _argv(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def test_a_hangup_ends_it(three: World) -> None:
    terminal = Terminal(three, env=BUILTIN)
    terminal.type("sesh show")
    terminal.see("3 of 3")
    pid = _pid(three)
    terminal.hang_up()
    assert eventually(lambda: pid not in three.processes(), 10)


def test_a_bug_leaves_the_terminal_as_it_was(three: World) -> None:
    code = """
        from sesh.terminal import picker
        picker.keys = None
        try:
            picker.choose([picker.Row("one", "running", "–", "make all")], "show")
        except TypeError:
            print("a bug")
    """
    (three.cwd / "bug.py").write_text(dedent(code))
    terminal = Terminal(three, env=BUILTIN)
    terminal.type(f"{sys.executable} bug.py")
    terminal.see("1 of 1")
    terminal.press("x")
    terminal.see("a bug")
    terminal.at_the_shell()


def test_what_was_typed_before_the_list_was_there_takes_nothing(three: World) -> None:
    terminal = Terminal(three, env=BUILTIN)
    terminal.type("sleep 0.5; sesh show")
    terminal.type("two")
    terminal.see("show ▸")
    terminal.see("3 of 3")
    terminal.press("Escape")
    terminal.at_the_shell()


@pytest.mark.parametrize("columns", [120, 80, 40, 20])
def test_it_fits_and_follows_the_size_of_the_terminal(three: World, columns: int) -> None:
    for number in range(8):
        three.ok("start", f"more-{number}", "--record-only", "--", "sleep", "1" * 50)
    terminal = Terminal(three, columns=columns, rows=10, env=BUILTIN)
    terminal.type("sesh show")
    terminal.see("11 of 11")
    assert [line[:8] for line in terminal.screen().splitlines()[:4]] == [
        *("$ sesh s", "show ▸", "  NAME  ", "▸ more-0"),
    ]
    terminal.press("Up", *["Down"] * 20)
    terminal.see("▸ two")
    terminal.resize(columns + 9, 7)
    terminal.press("Up")
    terminal.see("▸ three")
    assert "more-6" not in terminal.screen()
    terminal.press("Escape")
    terminal.see_no_more("three")
    terminal.at_the_shell()


def test_a_dumb_terminal_gets_numbers(three: World) -> None:
    terminal = Terminal(three, env={"TERM": "dumb"})
    terminal.type("sesh show | head -n 1")
    terminal.see_screen("""
        $ sesh show | head -n 1
             NAME    STATE     COMMAND
          1  one     running   make all
          2  three   running   make docs
          3  two     running   npm test
        show:
    """)
    terminal.type("4")
    terminal.see("give a number from 1 to 3")
    terminal.type("3")
    terminal.see("two  running")
    terminal.type("clear; sesh show; echo code $?")
    terminal.see("show:")
    terminal.press("Enter")
    terminal.see("code 130")


# --- fzf ---------------------------------------------------------------------------------------

STAND_IN = """\
#!/bin/sh
cat >given
[ -z "$TAKES" ] || grep -- "$TAKES" given
exit ${CODE:-0}
"""


def stand_in(world: World) -> dict[str, str]:
    """A program that takes the place of fzf; the environment in which it is found first."""
    (world.root / "bin").mkdir()
    fzf = world.root / "bin" / "fzf"
    fzf.write_text(STAND_IN)
    fzf.chmod(0o755)
    return {"PATH": f"{world.root}/bin:{Path(sys.executable).parent}:{world.env['PATH']}"}


def test_fzf_gets_the_rows_and_its_line_is_taken(three: World) -> None:
    env = stand_in(three)
    terminal = Terminal(three, env={**env, "TAKES": "npm", "NO_COLOR": "1"})
    terminal.type("sesh show | head -n 1")
    terminal.see("two  running")
    given = (three.cwd / "given").read_text()
    assert given == (
        "0\tNAME    STATE     COMMAND\n1\tone     running   make all\n"
        "2\tthree   running   make docs\n3\ttwo     running   npm test\n"
    )


@pytest.mark.parametrize("code", [1, 130])
def test_leaving_fzf_is_leaving(three: World, code: int) -> None:
    terminal = Terminal(three, env={**stand_in(three), "CODE": str(code)})
    terminal.type("sesh show; echo code $?")
    terminal.see("code 130")
    terminal.at_the_shell()


def test_an_fzf_that_does_not_work_is_replaced(three: World) -> None:
    terminal = Terminal(three, env={**stand_in(three), "CODE": "2"})
    terminal.type("sesh show; echo code $?")
    terminal.see("3 of 3")
    terminal.press("Escape")
    terminal.see("code 130")


def test_hostile_text_reaches_no_terminal_and_makes_no_rows(world: World) -> None:
    world.ok("start", "calm", "--record-only", "--", "sleep", "9")
    world.ok("start", "evil", "--record-only", "--", "a\x1b[31m\n1\tb\x07", "\x9b31m")
    terminal = Terminal(world, env={**stand_in(world), "CODE": "130"})
    terminal.type("sesh show; echo code $?")
    terminal.see("code 130")
    given = (world.cwd / "given").read_text()
    assert len(given.splitlines()) == 3
    bare = re.sub(r"\x1b\[\d*m", "", given)
    assert "\\x1b[31m\\n1\\tb\\x07" in bare
    assert all(one.isprintable() or one in "\t\n" for one in bare)
    builtin = Terminal(world, env=BUILTIN)
    builtin.type("sesh show")
    builtin.see("\\x1b[31m\\n1\\tb\\x07")


def test_the_real_fzf(three: World) -> None:
    need("fzf")
    terminal = Terminal(three, env={"FZF_DEFAULT_OPTS": "--multi --print-query --tac"})
    terminal.type("sesh show | head -n 1; echo code $?")
    terminal.see("show ▸")
    terminal.see("3/3")
    terminal.press("m", "a", "k", "d", "o", "c")
    terminal.see("1/3")
    terminal.press("Enter")
    terminal.see("three  running")
    terminal.type("clear; sesh show; echo code $?")
    terminal.see("3/3")
    terminal.press("Escape")
    terminal.see("code 130")
    terminal.type("clear; stty -g >before; sesh show; echo code $?; stty -g >after")
    terminal.see("3/3")
    os.kill(_pid(three), signal.SIGTERM)
    terminal.see("code 143")
    terminal.at_the_shell()
    assert (three.cwd / "before").read_text() == (three.cwd / "after").read_text()


# --- without a terminal ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "next_step"),
    [("show", "sesh ls"), ("logs", "--group"), ("restart", "--failed"), ("attach", "sesh ls")],
)
def test_without_a_terminal_it_is_an_error(three: World, command: str, next_step: str) -> None:
    complains(three.sesh(command), 2, next_step)
