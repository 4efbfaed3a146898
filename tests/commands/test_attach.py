"""sesh attach: into a session's terminal, from any terminal; or the menu of one that has ended."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests import pace
from tests.emulator import Terminal, attached, clients
from tests.surroundings import complains, move
from tests.world import SESH, World, eventually

MENU = "[R]estart   [L]ogs   [D]elete   [C]ancel ▸"
FAILING = ("sh", "-c", "echo first; echo it broke; exit 3")


def ended(world: World, name: str, *command: str) -> None:
    """A session that has ended, and whose end is known."""
    world.start(name, *command)
    assert eventually(lambda: world.session(name)["ended"]), world.ls()


# --- a living session --------------------------------------------------------------------------


def test_shows_the_session_and_takes_what_is_typed(world: World) -> None:
    world.start("a", "sh")
    terminal = Terminal(world)
    terminal.type("sesh attach a")
    terminal.see("[a] 0:")
    terminal.type("echo typed $((1 + 1)) times")
    terminal.see("typed 2 times")
    terminal.press("C-b", "d")
    terminal.see("[detached (from session a)]")
    terminal.at_the_shell()
    assert world.state_of("a") == "running"


def test_leaves_no_process_of_ours_between_terminal_and_tmux(world: World) -> None:
    """Ctrl-C and hangups must not meet a Python first: it becomes the tmux client."""
    world.start("a", "cat")
    terminal = Terminal(world)
    terminal.type("sesh attach a")
    assert attached(world, "a")
    pid = int(world.tmux("list-clients", "-F", "#{client_pid}"))
    assert _argv(pid)[0].endswith(b"/tmux")
    assert not [p for p in world.processes() if SESH.encode() in _argv(p)]


def _argv(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def test_ctrl_c_goes_to_the_agent(world: World) -> None:
    world.start("a", "sh", "-c", "trap 'echo caught' INT; while :; do sleep 0.05; done")
    terminal = Terminal(world)
    terminal.type("sesh attach a")
    terminal.see("[a] 0:")
    terminal.press("C-c")
    terminal.see("caught")
    assert world.state_of("a") == "running"


def test_read_only_looks_but_does_not_type(world: World) -> None:
    world.start("a", "sh", "-c", "echo ready; exec cat")
    terminal = Terminal(world)
    terminal.type("sesh attach -r a")
    terminal.see("ready")
    assert attached(world, "a")
    assert world.tmux("list-clients", "-F", "#{client_readonly}") == "1"
    terminal.type("not for you")
    world.ok("send", "a", "from elsewhere")
    terminal.see("from elsewhere")
    assert "not for you" not in terminal.screen()


def test_detach_others_sends_them_home(world: World) -> None:
    world.start("a", "cat")
    one, other = Terminal(world), Terminal(world)
    one.type("sesh attach a")
    assert attached(world, "a")
    other.type("sesh attach -d a")
    one.see("[detached")
    one.at_the_shell()
    assert attached(world, "a", 1)
    other.see("[a] 0:")


def test_two_terminals_share_a_session(world: World) -> None:
    world.start("a", "cat")
    one, other = Terminal(world), Terminal(world)
    for terminal in (one, other):
        terminal.type("sesh attach a")
    assert attached(world, "a", 2)
    one.type("seen by both")
    for terminal in (one, other):
        terminal.see("seen by both")


def test_a_resize_reaches_the_agent(world: World) -> None:
    world.start("a", "sh", "-c", "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done")
    terminal = Terminal(world, columns=80, rows=24)
    terminal.type("sesh attach a")
    terminal.see("23 80")  # a line is tmux's own
    terminal.resize(61, 12)
    terminal.see("11 61")
    terminal.press("C-b", "d")
    terminal.at_the_shell()


def test_a_terminal_of_20_by_5(world: World) -> None:
    world.start("a", "cat")
    terminal = Terminal(world, columns=20, rows=5)
    terminal.type("sesh attach a")
    assert attached(world, "a")
    terminal.type("tiny")
    terminal.see("tiny")
    terminal.press("C-b", "d")
    terminal.see("[detached")
    assert world.state_of("a") == "running"


def test_a_dumb_terminal_is_told_so_and_nothing_breaks(world: World) -> None:
    """tmux can't draw there; it says so, and the session knows nothing of it."""
    world.start("a", "cat")
    terminal = Terminal(world, env={"TERM": "dumb"})
    terminal.type("sesh attach a; echo code $?")
    terminal.see("code 1")
    assert "Traceback" not in terminal.screen()
    assert "terminal" in terminal.screen()
    terminal.at_the_shell()
    assert world.state_of("a") == "running"


def test_a_hangup_while_attached_leaves_the_session_alone(world: World) -> None:
    world.start("a", "cat")
    before = set(world.processes())
    terminal = Terminal(world)
    terminal.type("sesh attach a")
    assert attached(world, "a")
    terminal.hang_up()
    assert attached(world, "a", 0)
    assert world.state_of("a") == "running"
    assert eventually(lambda: set(world.processes()) == before, 10)
    world.ok("send", "a", "still there")
    assert eventually(lambda: "still there" in world.ok("logs", "a").out)


# --- without a name ----------------------------------------------------------------------------


def test_without_a_name_it_is_the_only_living_one(world: World) -> None:
    ended(world, "over", "true")
    world.start("only", "cat")
    terminal = Terminal(world)
    terminal.type("sesh attach")
    terminal.see("[only] 0:")


BUILTIN = {"SESH_PICKER": "builtin"}


def test_without_a_name_a_person_picks_one_the_living_first(world: World) -> None:
    ended(world, "broken", "false")
    for name in ("one", "two", "three"):
        world.start(name, "cat")
    terminal = Terminal(world, env=BUILTIN)
    terminal.type("sesh attach")
    terminal.see_screen("""
        $ sesh attach
        attach to ▸
          NAME     STATE     COMMAND
        ▸ one      running   cat
          three    running   cat
          two      running   cat
          broken   failed    false
          4 of 4   type to filter · ↑ ↓ choose · Enter takes it · Esc leaves
    """)
    terminal.press("Down", "Down", "Enter")
    terminal.see("[two] 0:")


def test_one_that_has_ended_can_be_picked_for_its_menu(world: World) -> None:
    ended(world, "broken", "false")
    terminal = Terminal(world, env=BUILTIN)
    terminal.type("sesh attach; echo code $?")
    terminal.see("1 of 1")
    terminal.press("Enter")
    terminal.see(MENU)
    terminal.press("c")
    terminal.see("code 3")
    terminal.at_the_shell()


def test_a_choice_can_be_refused(world: World) -> None:
    for name in ("one", "two"):
        world.start(name, "cat")
    terminal = Terminal(world, env=BUILTIN)
    terminal.type("sesh attach; echo code $?")
    terminal.see("attach to")
    terminal.press("C-c")
    terminal.see("code 130")
    terminal.at_the_shell()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("restart", "-y", "one"), "was started again"),
        (("stop", "one"), "one is stopped by now, not running"),
        (("rm", "-f", "one"), "no session named one"),
        (("rename", "one", "other"), "no session named one"),
    ],
    ids=lambda one: str(one[0]),
)
def test_a_session_that_changed_while_it_was_picked_is_refused(
    world: World, change: tuple[str, ...], why: str
) -> None:
    for name in ("one", "two"):
        world.start(name, "cat")
    terminal = Terminal(world, env=BUILTIN)
    terminal.type("sesh attach; echo code $?")
    terminal.see("2 of 2")
    world.ok(*change)
    terminal.press("Enter")
    terminal.see(why)
    terminal.see("code ")
    assert world.tmux("list-clients") == ""


def test_without_a_name_and_terminal_the_names_are_told(world: World) -> None:
    for name in ("one", "two"):
        world.start(name, "cat")
    complains(world.sesh("attach"), 2, "one, two")


def test_without_a_name_and_a_living_session(world: World) -> None:
    ended(world, "over", "true")
    complains(world.sesh("attach"), 2, "no living session", "sesh ls")


# --- inside tmux -------------------------------------------------------------------------------


def test_inside_another_tmux_it_is_a_window_there(world: World) -> None:
    world.start("a", "cat")
    terminal = Terminal(world, nested=True)
    terminal.type("sesh attach a; echo back with $?")
    terminal.see("[a] 0:")
    assert terminal.windows()[1:] == ["a"]
    terminal.type("through two of them")
    terminal.see("through two of them")
    terminal.press("C-b", "d")
    terminal.see("back with 0")
    assert len(terminal.windows()) == 1
    assert world.state_of("a") == "running"


def test_an_agent_that_fails_in_that_window_shows_its_menu_there(world: World) -> None:
    world.start("a", "sh", "-c", "read word; exit 4")
    terminal = Terminal(world, nested=True)
    terminal.type("sesh attach a")
    terminal.see("[a] 0:")
    terminal.type("go")
    terminal.see("a failed")
    terminal.see(MENU)
    terminal.press("c")
    assert eventually(lambda: len(terminal.windows()) == 1), terminal.screen()


def inside_a(world: World) -> Terminal:
    """A terminal that is attached to session a, whose agent is a shell with sesh in its PATH."""
    env = {"PATH": f"{Path(SESH).parent}:{world.env['PATH']}", "PS1": "in a$ ", "ENV": ""}
    options = [f"-e{name}={value}" for name, value in env.items()]
    world.start("a", "sh", options=options)
    terminal = Terminal(world)
    terminal.type("sesh attach a")
    terminal.see("in a$")
    return terminal


def test_inside_the_same_server_this_client_is_switched(world: World) -> None:
    world.start("b", "sh", "-c", "echo here is b; exec cat")
    terminal = inside_a(world)
    terminal.type("sesh attach b")
    terminal.see("here is b")
    assert (len(clients(world, "a")), len(clients(world, "b"))) == (0, 1)
    terminal.press("C-b", "d")
    terminal.see("[detached (from session b)]")


def test_only_the_client_that_looks_at_this_pane_is_switched(world: World) -> None:
    for name in ("b", "c"):
        world.start(name, "cat")
    terminal = inside_a(world)
    other = Terminal(world)
    other.type("sesh attach c")
    assert attached(world, "c")
    terminal.type("sesh attach b")
    assert attached(world, "b")
    assert len(clients(world, "c")) == 1


def test_read_only_is_kept_when_switching(world: World) -> None:
    world.start("b", "sh", "-c", "echo here is b; exec cat")
    terminal = inside_a(world)
    terminal.type("sesh attach -r b")
    terminal.see("here is b")
    assert world.tmux("list-clients", "-F", "#{client_readonly}") == "1"


def test_in_a_session_that_nobody_watches_there_is_nothing_to_switch(world: World) -> None:
    """Typed by `send`, not by a person."""
    world.start("b", "cat")
    inside_a(world).press("C-b", "d")
    assert attached(world, "a", 0)
    world.ok("send", "a", "sesh attach b; echo code $?")
    assert eventually(lambda: "code 2" in world.ok("logs", "a").out, 10), world.ok("logs", "a").out


_OUTER = "unset TMUX; tmux -S {}/mine -f /dev/null new -n mine sh -i"


@pytest.mark.parametrize(
    ("setting", "keys"),
    [
        ("", ("C-b", "C-b", "d")),
        (r" \; set -g prefix C-a", ("C-b", "d")),
        (
            r" \; set -g prefix C-a \; set -g prefix2 C-b \; bind C-b send-prefix -2",
            ("C-b", "C-b", "d"),
        ),
    ],
)
def test_inside_another_tmux_the_status_line_names_the_keys_that_detach(
    world: World, setting: str, keys: tuple[str, ...]
) -> None:
    """Both get the keys, as from a keyboard."""
    world.start("a", "sh", "-c", "echo here is a; exec cat")
    terminal = Terminal(world)
    terminal.run(_OUTER.format(world.root) + setting)
    terminal.see("[0] 0:mine*")
    terminal.type("sesh attach a")
    terminal.see(f"detach: {' '.join(keys)}")
    terminal.see("[a] 0:")
    terminal.press(*keys)
    terminal.see_no_more("[a] 0:")
    terminal.see("[0] 0:mine*")
    assert attached(world, "a", 0)


def test_where_no_key_reaches_the_inner_tmux_the_command_is_named(world: World) -> None:
    world.start("a", "cat")
    terminal = Terminal(world)
    terminal.run(_OUTER.format(world.root) + r" \; unbind -T prefix C-b")
    terminal.see("[0] 0:mine*")
    terminal.type("sesh attach a")
    terminal.see("detach: sesh detach a")
    plain = Terminal(world)
    plain.run("TERM=xterm sesh attach a")
    plain.see("detach: C-b d")


# --- without a terminal ------------------------------------------------------------------------


def test_a_living_session_needs_a_terminal(world: World) -> None:
    world.start("a", "cat")
    complains(world.sesh("attach", "a"), 2, "terminal", "sesh logs")


def test_an_ended_one_without_a_terminal_is_exit_3_and_the_hint(world: World) -> None:
    ended(world, "a", *FAILING)
    complains(world.sesh("attach", "a"), 3, "a failed", "exit 3", "sesh restart a")


def test_a_name_that_nobody_has(world: World) -> None:
    world.start("payments", "cat")
    complains(world.sesh("attach", "paymets"), 4, "did you mean payments?")


def test_a_session_on_its_way_down_has_no_menu(world: World) -> None:
    """It is alive until its end is confirmed."""
    world.start("a", "sh", "-c", "trap '' TERM HUP; echo up; while :; do sleep 0.1; done")
    stopping = world.popen("stop", "--grace", "60", "a")
    assert eventually(lambda: world.state_of("a") == "stopping")
    complains(world.sesh("attach", "a"), 2, "terminal")
    stopping.kill()
    stopping.wait()


def test_an_orphan_has_no_terminal_to_attach_to(world: World) -> None:
    world.start("a", "sh", "-c", "trap '' HUP; echo up; while :; do sleep 0.1; done")
    assert eventually(lambda: "up" in world.ok("logs", "a").out)
    world.tmux("kill-pane", "-t", "=a:")
    assert eventually(lambda: world.state_of("a") == "orphan")
    complains(world.sesh("attach", "a"), 8, "nothing to attach to")


def test_a_session_of_another_machine_can_not_be_told(world: World) -> None:
    world.start("a", "cat")
    move(world, "a", id="f" * 32)
    complains(world.sesh("attach", "a"), 5, "another machine")


def test_a_damaged_record(world: World) -> None:
    world.start("a", "cat")
    world.record("a").write_text("nonsense")
    complains(world.sesh("attach", "a"), 6, "damaged", "sesh show a")


# --- the menu ----------------------------------------------------------------------------------


def menu(world: World, *command: str, columns: int = 80, rows: int = 24, **env: str) -> Terminal:
    """A terminal that shows the menu of the ended session `a`."""
    ended(world, "a", *(command or FAILING))
    terminal = Terminal(world, columns=columns, rows=rows, env=env)
    terminal.type("sesh attach a; echo code $?")
    return terminal


def test_the_menu_says_why_it_ended_and_its_last_lines(world: World) -> None:
    menu(world).see_screen(f"""
        $ sesh attach a; echo code $?
        a failed …: exit 3

            │ first
            │ it broke

        {MENU}
    """)


def test_the_menu_shows_the_last_ten_lines_cut_to_the_width(world: World) -> None:
    terminal = menu(world, "sh", "-c", "seq 30; printf '%0100d\\n' 0; exit 1", columns=60)
    terminal.see("▸")
    lines = [line for line in terminal.screen().splitlines() if line.startswith("    │ ")]
    assert lines[:-1] == [f"    │ {number}" for number in range(22, 31)]
    assert lines[-1].endswith("0…")
    assert len(lines[-1]) <= 60


def test_restart_goes_on_in_the_same_place(world: World) -> None:
    flag = world.root / "flag"
    script = f"test -e {flag} && exec cat; echo it broke; touch {flag}; exit 3"
    terminal = menu(world, "sh", "-c", script)
    terminal.see(MENU)
    terminal.press("r")
    terminal.see("[a] 0:")
    terminal.type("alive again")
    terminal.see("alive again")
    assert (world.session("a")["state"], world.session("a")["generation"]) == ("running", 2)
    terminal.press("C-b", "d")
    terminal.see("code 0")


def test_nothing_is_restarted_with_settings_that_cannot_be_read(world: World) -> None:
    ended(world, "a", *FAILING)
    world.configure("[stop]\ngrce = 1\n")
    terminal = Terminal(world)
    terminal.type("sesh attach a; echo code $?")
    terminal.see(MENU)
    assert "unknown key stop.grce" in terminal.screen().replace("\n", "")
    terminal.press("r")
    terminal.see("code 6")


def test_capital_letters_are_the_same_keys(world: World) -> None:
    terminal = menu(world)
    terminal.see(MENU)
    terminal.press("C")
    terminal.see("code 3")


def test_restart_of_one_that_fails_again_shows_its_menu_again(world: World) -> None:
    terminal = menu(world, "sh", "-c", "echo it broke; sleep 0.3; exit 3")
    terminal.see(MENU)
    terminal.press("r")
    assert eventually(lambda: terminal.screen().count(MENU) == 2, 15), terminal.screen()
    assert world.session("a")["generation"] == 2
    terminal.press("c")
    terminal.at_the_shell()


def test_delete_forgets_the_session(world: World) -> None:
    terminal = menu(world)
    terminal.see(MENU)
    terminal.press("d")
    terminal.see("delete a: its record and its transcript? [y/N] ▸")
    terminal.press("y")
    terminal.see("removed a\ncode 0")
    assert world.ls() == []
    assert not list((world.state / "transcripts").iterdir())


@pytest.mark.parametrize("key", ["n", "Enter", "Escape", "t"])
def test_delete_deletes_nothing_without_a_yes(world: World, key: str) -> None:
    terminal = menu(world)
    terminal.see(MENU)
    before = world.record("a").read_bytes()
    terminal.press("d")
    terminal.see("[y/N] ▸")
    terminal.press(key)
    assert eventually(lambda: terminal.screen().count(MENU) == 2), terminal.screen()
    terminal.press("c")
    terminal.see("code 3")
    assert world.record("a").read_bytes() == before


def test_a_yes_that_was_typed_before_the_question_is_none(world: World) -> None:
    terminal = menu(world)
    terminal.see(MENU)
    terminal.press("d", "y")
    terminal.see("[y/N] ▸")
    terminal.press("n")
    assert eventually(lambda: terminal.screen().count(MENU) == 2), terminal.screen()
    assert world.state_of("a") == "failed"
    terminal.press("c")


def test_logs_shows_all_and_the_menu_again(world: World) -> None:
    terminal = menu(world, "sh", "-c", "seq 15; exit 3", rows=50)
    terminal.see(MENU)
    assert "    │ 5" not in terminal.screen()
    terminal.press("l")
    assert eventually(lambda: terminal.screen().count(MENU) == 2), terminal.screen()
    assert [line for line in terminal.screen().splitlines() if line.isdigit()] == [
        str(number) for number in range(1, 16)
    ]
    terminal.press("c")
    terminal.see("code 3")


@pytest.mark.parametrize("key", ["c", "Escape", "Enter", "q"])
def test_cancel_leaves_it_as_it_is(world: World, key: str) -> None:
    terminal = menu(world)
    terminal.see(MENU)
    before = world.record("a").read_bytes()
    terminal.press(key)
    terminal.see("code 3")
    terminal.at_the_shell()
    assert world.record("a").read_bytes() == before


def test_an_arrow_key_leaves_no_rubbish_behind(world: World) -> None:
    terminal = menu(world)
    terminal.see(MENU)
    terminal.press("Up")
    terminal.press("c")
    terminal.see("code 3")
    assert "[A" not in terminal.screen()
    terminal.at_the_shell()


def test_a_key_right_behind_an_arrow_key_counts(world: World) -> None:
    terminal = menu(world)
    terminal.see(MENU)
    terminal.press("Up", "é", "F5", "c")
    terminal.see("code 3")
    terminal.at_the_shell()


def test_what_was_typed_ahead_in_the_menu_is_not_for_the_agent(world: World) -> None:
    agent = ("sh", "-c", "[ -e again ] && exec cat; touch again; exit 3")
    terminal = menu(world, *agent)
    terminal.see(MENU)
    terminal.type("restart")
    assert eventually(lambda: clients(world, "a"))
    terminal.type("hello")
    terminal.see("hello\nhello")
    assert "estart" not in terminal.screen()


def test_ctrl_c_in_the_menu(world: World) -> None:
    terminal = menu(world)
    terminal.see(MENU)
    terminal.press("C-c")
    terminal.see("code 130")
    assert "Traceback" not in terminal.screen()
    terminal.at_the_shell()
    assert world.state_of("a") == "failed"


def test_another_key_asks_again(world: World) -> None:
    terminal = menu(world)
    terminal.see(MENU)
    terminal.press("x")
    assert eventually(lambda: terminal.screen().count(MENU) == 2), terminal.screen()
    terminal.press("c")
    terminal.see("code 3")


def test_a_hangup_in_the_menu_leaves_nothing_behind(world: World) -> None:
    terminal = menu(world)
    terminal.see(MENU)
    assert [pid for pid in world.processes() if b"attach" in _argv(pid)]
    terminal.hang_up()
    assert eventually(lambda: not [p for p in world.processes() if b"attach" in _argv(p)], 10)
    assert world.state_of("a") == "failed"
    assert not (world.state / "bugs.log").exists(), (world.state / "bugs.log").read_text()


def test_a_terminal_that_is_gone_cancels_the_menu(world: World) -> None:
    """It may be seen before the hangup is heard."""
    ended(world, "a", *FAILING)
    ours, theirs = os.openpty()
    with subprocess.Popen(
        ["setsid", SESH, "attach", "a"],
        env=world.env,
        cwd=world.cwd,
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as attach:
        os.close(theirs)
        said = b""
        while "▸".encode() not in said:
            said += os.read(ours, 4096)
        os.close(ours)
        assert attach.wait(pace.seconds(60)) == 3
    assert not (world.state / "bugs.log").exists(), (world.state / "bugs.log").read_text()


def test_the_menu_on_a_terminal_of_20_by_5(world: World) -> None:
    terminal = menu(world, columns=20, rows=5)
    terminal.see("▸")
    terminal.press("c")
    terminal.see("code 3")
    terminal.type("pwd")
    terminal.see("$ pwd")


def test_the_menu_on_a_dumb_terminal(world: World) -> None:
    terminal = menu(world, TERM="dumb")
    terminal.see(MENU)
    terminal.press("l")
    assert eventually(lambda: terminal.screen().count("it broke") == 2), terminal.screen()
    terminal.press("c")
    terminal.see("code 3")


def test_a_session_that_was_stopped_has_the_menu_too(world: World) -> None:
    world.start("a", "sh", "-c", "echo working; exec cat")
    assert eventually(lambda: "working" in world.ok("logs", "a").out)
    world.ok("stop", "a")
    terminal = Terminal(world)
    terminal.type("sesh attach a")
    terminal.see("a stopped")
    terminal.see("    │ working")
    terminal.see(MENU)


# --- an end while somebody is attached ---------------------------------------------------------


def test_an_agent_that_fails_shows_its_menu_to_whoever_is_attached(world: World) -> None:
    world.start("a", "sh", "-c", "read word; echo cannot $word; exit 3")
    terminal = Terminal(world)
    terminal.type("sesh attach a")
    terminal.see("[a] 0:")
    terminal.type("work")
    terminal.see_screen(f"""
        $ sesh attach a
        a failed …: exit 3

            │ work
            │ cannot work

        {MENU}
    """)
    terminal.press("c")
    terminal.at_the_shell()


def test_each_of_two_terminals_gets_the_menu(world: World) -> None:
    world.start("a", "sh", "-c", "read word; exit 3")
    one, other = Terminal(world), Terminal(world)
    for terminal in (one, other):
        terminal.type("sesh attach a")
    assert attached(world, "a", 2)
    one.type("go")
    for terminal in (one, other):
        terminal.see(MENU)
    one.press("c")
    other.press("c")
    one.at_the_shell()
    other.at_the_shell()


def test_an_agent_that_completes_gives_the_shell_back_with_one_line(world: World) -> None:
    world.start("a", "sh")
    terminal = Terminal(world)
    terminal.type("sesh attach a")
    terminal.see("[a] 0:")
    terminal.type("exit")
    terminal.see_screen("""
        $ sesh attach a
        a completed …: exit 0
        $
    """)
    terminal.at_the_shell()


def test_a_stop_elsewhere_gives_the_shell_back(world: World) -> None:
    world.start("a", "cat")
    terminal = Terminal(world)
    terminal.type("sesh attach a")
    assert attached(world, "a")
    world.ok("stop", "a")
    terminal.see_no_more("[a] 0:")
    terminal.at_the_shell()


def test_a_killed_tmux_server_shows_the_menu_on_a_terminal_that_is_right_again(
    world: World,
) -> None:
    """Its client alone leaves the terminal raw, in its alternate screen."""
    world.start("a", "cat")
    terminal = Terminal(world)
    terminal.type("sesh attach a; echo code $?")
    assert attached(world, "a")
    os.kill(world.server_pid(), 9)
    terminal.see("a lost")
    terminal.see(MENU)
    terminal.press("c")
    terminal.see("code 3")
    terminal.at_the_shell()


# --- start --attach ----------------------------------------------------------------------------


def test_start_attach_is_in_it_at_once(world: World) -> None:
    terminal = Terminal(world)
    terminal.type("sesh start new --attach -- cat")
    terminal.see("[new] 0:")
    terminal.press("C-b", "d")
    terminal.see("[detached (from session new)]")
    assert world.state_of("new") == "running"


def test_start_attach_of_one_that_fails_at_once_is_back_and_says_so(world: World) -> None:
    terminal = Terminal(world)
    terminal.type("sesh start new --attach -- false")
    terminal.see("exit 1")
    assert world.state_of("new") == "failed"


def test_start_attach_without_a_terminal_starts_nothing(world: World) -> None:
    complains(world.sesh("start", "new", "--attach", "--", "cat"), 2, "terminal")
    assert world.ls() == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "just now"), (0.9, "just now"), (1.5, "1 second ago"), (7201, "2 hours ago")],
)
def test_the_headline_of_the_menu_names_when_it_ended(seconds: float, words: str) -> None:
    from sesh.commands import _menu

    assert _menu.since(seconds) == words
