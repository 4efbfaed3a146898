"""A person's day with sesh, at a real terminal. The screens are as that person sees them; `…` is
what differs from run to run."""

from __future__ import annotations

import os

import pytest

from tests.emulator import Terminal, attached
from tests.world import World, eventually

# An agent that works on what it is told, and dies of one word.
AGENT = """\
echo "agent ready"
while read -r word; do
  case $word in
    crash) echo "Error: address already in use" >&2; exit 1 ;;
    done) echo "all done"; exit 0 ;;
    *) echo "working on $word" ;;
  esac
done
"""


@pytest.fixture
def terminal(world: World) -> Terminal:
    """A terminal in a directory with an agent in it."""
    agent = world.cwd / "agent"
    agent.write_text(f"#!/bin/sh\n{AGENT}")
    agent.chmod(0o755)
    return Terminal(world, columns=76, rows=16)


# What differs with the width of the terminal; the other screens are the same.
LISTED = {
    120: """
        $ sesh ls
        NAME    STATE     UP   LAST OUTPUT   COMMAND
        tests   failed    –    …./agent   exit 1, …
        web     running   …s   …./agent

        1 needs attention: tests (sesh restart tests, or sesh stop tests to dismiss)
        $
    """,
    80: """
        $ sesh ls
        NAME    STATE     UP   LAST OUTPUT   COMMAND
        tests   failed    –    …./agent   exit 1, …
        web     running   …s   …./agent

        1 needs attention: tests (sesh restart tests, or sesh stop tests to dismiss)
        $
    """,
    40: """
        $ sesh ls
        NAME   STATE…COMMAND
        tests  failed: exit 1, …
        web    running…./agent

        1 needs attention: tests
        (sesh restart tests, or sesh stop tests
        to dismiss)
        $
    """,
}
SHOWN = {
    120: """
        $ sesh show tests
        tests  failed    exit 1
          command    ./agent
          where      host, tmux pane %…
          directory  …
          life       started …-…-… …:…:… (…), ended …-…-… …:…:… (…), generation 1
          memory     –   cpu –
          output     transcript … B, last output …
          cause      exit, exit status 1
          why        agent: gone (pid …)
                     recorded state: failed
          next       sesh attach tests   ·   sesh restart tests   ·   sesh stop tests
        $
    """,
    80: """
        $ sesh show tests
        tests  failed    exit 1
          command    ./agent
          where      host, tmux pane %…
          directory  …
          life       started …-…-… …:…:… (…), ended …
        …
          memory     –   cpu –
          output     transcript … B, last output …
          cause      exit, exit status 1
          why        agent: gone (pid …)
                     recorded state: failed
          next       sesh attach tests   ·   sesh restart tests   ·   sesh stop tests
        $
    """,
    40: """
        $ sesh show tests
        tests  failed    exit 1
          command    ./agent
          where      host, tmux pane %…
          directory  …
          life       started …-…-… …:…:…
        …
          memory     –   cpu –
          output     transcript … B, last
                     output …
          cause      exit, exit status 1
          why        agent: gone (pid …)
                     recorded state: failed
          next       sesh attach tests   ·
                     sesh restart tests   ·
                     sesh stop tests
        $
    """,
}
CHOICES = "[R]estart   [L]ogs   [D]elete   [C]ancel ▸"
NONE_LEFT = "sesh: no sessions; next: sesh start NAME COMMAND"
NARROW = {
    CHOICES: "[R]estart [L]ogs [D]elete [C]ancel ▸",
    NONE_LEFT: "sesh: no sessions; next:\n              sesh start NAME COMMAND",
}


def clear(terminal: Terminal) -> None:
    terminal.run("clear")
    terminal.see_screen("$")


def test_morning_start_look_and_leave_it_alone(world: World, terminal: Terminal) -> None:
    terminal.type("sesh")
    terminal.see_screen("""
        $ sesh
        sesh: no sessions; next: sesh start NAME COMMAND
        sesh --help lists the commands
        $
    """)
    clear(terminal)
    terminal.run("sesh start payments -- ./agent")
    terminal.see_screen("""
        $ sesh start payments -- ./agent
        payments
        $
    """)
    terminal.run("sesh ls")
    terminal.see_screen("""
        $ sesh start payments -- ./agent
        payments
        $ sesh ls
        NAME       STATE     UP   LAST OUTPUT   COMMAND
        payments   running   …s   now           ./agent
        $
    """)
    clear(terminal)
    terminal.run("sesh attach")
    terminal.see_screen("""
        agent ready
        …
        [payments]…
    """)
    terminal.type("login")
    terminal.see_screen("""
        agent ready
        login
        working on login
        …
        [payments] 0:…detach: C-b d
    """)
    terminal.press("C-b", "d")
    terminal.see_screen("""
        $ sesh attach
        [detached (from session payments)]
        $
    """)
    assert world.state_of("payments") == "running"


@pytest.mark.parametrize("colour", [True, False], ids=["colour", "plain"])
@pytest.mark.parametrize("columns", [120, 80, 40])
def test_a_day_at_this_width(world: World, terminal: Terminal, columns: int, colour: bool) -> None:
    day = Terminal(world, columns=columns, rows=26, env={} if colour else {"NO_COLOR": "1"})

    def run(line: str, screen: str) -> None:
        if day.screen() != "$":
            clear(day)
        day.run(line)
        see(screen)
        assert line not in COLOURED or ("\x1b[" in day.coloured()) == colour

    def see(screen: str) -> None:
        for wide, narrow in NARROW.items() if columns == 40 else ():
            screen = screen.replace(wide, narrow)
        day.see_screen(screen)

    run("sesh start web -- ./agent", "$ sesh start web -- ./agent\nweb\n$")
    run("sesh start tests -- ./agent", "$ sesh start tests -- ./agent\ntests\n$")
    run("sesh send tests crash; sesh wait tests", "$ …\ntests failed\n$")
    run("sesh ls", LISTED[columns])
    run("sesh show tests", SHOWN[columns])
    run(
        "sesh logs tests",
        """
        $ sesh logs tests
        agent ready
        crash
        Error: address already in use
        $
        """,
    )
    run(
        "sesh attach tests",
        f"""
        $ sesh attach tests
        tests failed …: exit 1

            │ agent ready
            │ crash
            │ Error: address already in use

        {CHOICES}
        """,
    )
    day.press("r")
    see("""
        agent ready
        …
        [tests] 0:…detach: C-b d
    """)
    day.press("C-b", "d")
    see(f"""
        …
        {CHOICES} r
        [detached (from session tests)]
        $
    """)
    run("sesh restart web", "$ sesh restart web\nweb\n$")
    run("sesh stop --all -y", "$ sesh stop --all -y\nstopped tests and web\n$")
    run("sesh rm web tests", "$ sesh rm web tests\nremoved web and tests\n$")
    run(
        "sesh ls; echo",
        f"""
        $ sesh ls; echo
        {NONE_LEFT}

        $
        """,
    )


COLOURED = ("sesh ls", "sesh show tests")


def test_noon_the_agent_dies_and_the_menu_has_four_keys(world: World, terminal: Terminal) -> None:
    terminal.run("sesh start payments --attach -- ./agent")
    terminal.see("[payments]")
    terminal.type("crash")
    terminal.see_screen("""
        $ sesh start payments --attach -- ./agent
        payments
        payments failed …: exit 1

            │ agent ready
            │ crash
            │ Error: address already in use

        [R]estart   [L]ogs   [D]elete   [C]ancel ▸
    """)
    terminal.press("l")
    terminal.see_screen("""
        …
        [R]estart   [L]ogs   [D]elete   [C]ancel ▸ l
        agent ready
        crash
        Error: address already in use
        [R]estart   [L]ogs   [D]elete   [C]ancel ▸
    """)
    terminal.press("c")
    terminal.see_screen("""
        …
        [R]estart   [L]ogs   [D]elete   [C]ancel ▸ c
        $
    """)
    clear(terminal)
    terminal.run("sesh ls")
    terminal.see_screen("""
        $ sesh ls
        NAME       STATE    UP   LAST OUTPUT   COMMAND
        payments   failed   –    …./agent   exit 1, …

        1 needs attention: payments (sesh restart payments, or sesh stop payments to
        dismiss)
        $
    """)
    clear(terminal)
    terminal.run("sesh attach payments")
    terminal.see("[C]ancel ▸")
    terminal.press("r")
    terminal.see_screen("""
        agent ready
        …
        [payments]…
    """)
    assert world.session("payments")["generation"] == 2
    terminal.type("crash")
    terminal.see_screen("""
        …
        [R]estart   [L]ogs   [D]elete   [C]ancel ▸ r
        payments failed …: exit 1
        …
        [R]estart   [L]ogs   [D]elete   [C]ancel ▸
    """)
    terminal.press("d")
    terminal.see_screen("""
        …
        [R]estart   [L]ogs   [D]elete   [C]ancel ▸ d
        delete payments: its record and its transcript? [y/N] ▸
    """)
    terminal.press("y")
    terminal.see_screen("""
        …
        delete payments: its record and its transcript? [y/N] ▸ y
        removed payments
        $
    """)
    clear(terminal)
    terminal.run("sesh ls")
    terminal.see_screen("""
        $ sesh ls
        sesh: no sessions; next: sesh start NAME COMMAND
        $
    """)


def test_afternoon_without_attaching(world: World, terminal: Terminal) -> None:
    terminal.run("sesh start api -- ./agent")
    terminal.see_screen("$ sesh start api -- ./agent\napi\n$")
    terminal.run("sesh send api write the tests")
    terminal.see_screen("…\n$ sesh send api write the tests\n$")
    terminal.run("sesh logs api")
    terminal.see_screen("""
        $ sesh start api -- ./agent
        api
        $ sesh send api write the tests
        $ sesh logs api
        agent ready
        write the tests
        working on write the tests
        $
    """)
    clear(terminal)
    terminal.run("sesh send api done && sesh wait api --exit-code; echo $?")
    terminal.see_screen("""
        $ sesh send api done && sesh wait api --exit-code; echo $?
        api completed
        0
        $
    """)
    clear(terminal)
    terminal.run("sesh logs -n 2 api; sesh events api")
    terminal.see_screen("""
        $ sesh logs -n 2 api; sesh events api
        done
        all done
        20…  api                   started         ./agent
        20…  api                   ended           completed: exit 0
        $
    """)
    clear(terminal)
    terminal.run("sesh send api more; sesh attach ap")
    terminal.see_screen("""
        $ sesh send api more; sesh attach ap
        sesh: api has ended (completed); next: sesh restart api
        sesh: no session named ap; did you mean api?
        $
    """)


def test_an_agent_that_is_done_gives_the_shell_back(world: World, terminal: Terminal) -> None:
    terminal.run("sesh start api -a -- ./agent")
    terminal.see("[api] 0:")
    terminal.type("done")
    terminal.see_screen("""
        $ sesh start api -a -- ./agent
        api
        api completed …: exit 0
        $
    """)


def test_inside_a_tmux_of_ones_own(world: World, terminal: Terminal) -> None:
    terminal.run("sesh start api -- ./agent")
    terminal.see("\napi\n$")
    mine = Terminal(world, columns=76, rows=10, nested=True)
    mine.run("sesh attach api")
    mine.see_screen("""
        agent ready
        …
        [api] 0:…
    """)
    assert mine.windows()[-1] == "api"
    mine.press("C-b", "d")
    mine.see_screen("""
        $ sesh attach api
        $
    """)


def test_from_one_session_into_another(world: World, terminal: Terminal) -> None:
    terminal.run("sesh start api -- ./agent; sesh start shell -a -- sh")
    terminal.see_screen("""
        $
        …
        [shell] 0:…
    """)
    terminal.type("sesh attach api")
    terminal.see_screen("""
        agent ready
        …
        [api] 0:…
    """)
    terminal.press("C-b", "d")
    terminal.see_screen("""
        …
        [detached (from session api)]
        $
    """)
    assert world.state_of("shell") == "running"


def test_evening_the_terminal_is_closed_and_opened_again(world: World, terminal: Terminal) -> None:
    terminal.run("sesh start api -a -- ./agent")
    terminal.see("[api] 0:")
    terminal.type("the-night-shift")
    terminal.see("working on the-night-shift")
    terminal.hang_up()
    assert attached(world, "api", 0)
    again = Terminal(world, columns=76, rows=10)
    again.run("sesh attach")
    again.see_screen("""
        agent ready
        the-night-shift
        working on the-night-shift
        …
        [api] 0:…
    """)
    elsewhere = world.sesh("detach")
    assert (elsewhere.code, elsewhere.out, elsewhere.err) == (0, "", "")
    again.see_screen("""
        $ sesh attach
        [detached (from session api)]
        $
    """)


def test_a_bad_night_the_tmux_server_is_killed(world: World, terminal: Terminal) -> None:
    terminal.run("sesh start api -- ./agent; sesh send api midnight")
    assert eventually(lambda: "working on midnight" in world.sesh("logs", "api").out)
    os.kill(world.server_pid(), 9)
    assert eventually(lambda: world.state_of("api") == "lost")
    clear(terminal)
    terminal.run("sesh attach api")
    terminal.see_screen("""
        $ sesh attach api
        api lost …: …

            │ agent ready
            │ midnight
            │ working on midnight

        [R]estart   [L]ogs   [D]elete   [C]ancel ▸
    """)
    terminal.press("r")
    terminal.see_screen("""
        agent ready
        …
        [api] 0:…
    """)
