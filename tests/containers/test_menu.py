"""A person at a terminal with a session in a container: attach, detach, and the menu when the agent
is gone. The screens are as that person sees them; `…` is what differs from run to run."""

from __future__ import annotations

import pytest

from tests.containers.boxes import (
    PATIENCE,
    becomes,
    id_of,
    inside,
    lives,
    logged,
    start,
    start_also,
    told,
)
from tests.engine import Engine
from tests.terminal import Terminal
from tests.world import World, eventually

# An agent that remembers in its container, and ends as it is told.
AGENT = """\
echo "$((1 + $(cat /tmp/starts 2>/dev/null || echo 0)))" >/tmp/starts
echo "start $(cat /tmp/starts)"
read -r word
echo "told to $word"
exit "$word"
"""
MENU = "[R]estart in the same place   [T]ear down   [L]ogs   [C]ancel ▸"


def clients(engine: Engine, world: World, name: str) -> list[str]:
    """The terminals that are attached inside."""
    socket = world.session(name)["socket"]
    return inside(engine, name, f"tmux -S {socket} list-clients -F '#{{client_tty}}'").split()


def attach(world: World, *command: str, name: str = "a") -> Terminal:
    """A terminal that shows a new session."""
    start(world, name, *(command or ("sh", "-c", AGENT)))
    terminal = Terminal(world, columns=76, rows=16)
    terminal.run(f"sesh attach {name}; echo code $?")
    terminal.see(f"[{name}] 0:")
    return terminal


def ended(world: World, code: int) -> Terminal:
    """A terminal whose agent has just ended under it."""
    terminal = attach(world)
    terminal.type(str(code))
    terminal.see(MENU)
    return terminal


# --- in and out ----------------------------------------------------------------------------------


def test_attach_type_and_detach(boxed: World) -> None:
    terminal = attach(boxed, "cat")
    terminal.type("through the container")
    terminal.see("through the container\nthrough the container")
    terminal.press("C-b", "d")
    terminal.see_screen("""
        $ sesh attach a; echo code $?
        [detached (from session a)]
        code 0
        $
    """)
    terminal.at_the_shell()
    assert boxed.state_of("a") == "running"


def test_ctrl_c_goes_to_the_agent(boxed: World) -> None:
    terminal = attach(boxed, "sh", "-c", "trap 'echo caught' INT; while :; do sleep 0.1; done")
    terminal.press("C-c")
    terminal.see("caught")
    assert boxed.state_of("a") == "running"


def test_a_resize_reaches_the_agent(boxed: World) -> None:
    script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.1; done"
    terminal = attach(boxed, "sh", "-c", script)
    terminal.see("15 76")  # a line is tmux's own
    terminal.resize(61, 12)
    terminal.see("11 61")


def test_start_attach_is_in_it_at_once(boxed: World) -> None:
    terminal = Terminal(boxed)
    terminal.run("sesh start a --image sesh-test --network none --attach -- cat")
    terminal.see("[a] 0:")


def test_detach_and_pause_send_a_person_home(boxed: World, engine: Engine) -> None:
    terminal = attach(boxed, "cat")
    boxed.ok("detach", "a")
    terminal.see("code 0")
    terminal.at_the_shell()
    terminal.run("sesh attach a")
    terminal.see("[a] 0:")
    boxed.ok("pause", "a")
    terminal.see("sesh resume a")
    terminal.at_the_shell()
    assert clients(engine, boxed, "a") == []


def test_inside_another_tmux_it_is_a_window_there(boxed: World) -> None:
    start(boxed, "a")
    terminal = Terminal(boxed, nested=True)
    terminal.run("sesh attach a; echo back with $?")
    terminal.see("[a] 0:")
    assert terminal.windows()[1:] == ["a"]
    terminal.press("C-b", "d")
    terminal.see("back with 0")


def test_an_unknown_terminal_is_shown_as_one_that_is_known_inside(boxed: World) -> None:
    start(boxed, "a")
    terminal = Terminal(boxed, env={"TERM": "xterm-kitty"})
    terminal.run("sesh attach a")
    terminal.see("[a] 0:")
    terminal.type("all the same")
    terminal.see("all the same")


def test_a_terminal_that_is_closed_is_dropped_at_the_next_attach(
    boxed: World, engine: Engine
) -> None:
    """A killed docker exec leaves its process inside; it would hold the window small for ever."""
    terminal = attach(boxed, "cat")
    assert len(clients(engine, boxed, "a")) == 1
    terminal.hang_up()
    assert boxed.state_of("a") == "running"
    again = Terminal(boxed)
    again.run("sesh attach a")
    again.see("[a] 0:")
    assert eventually(lambda: len(clients(engine, boxed, "a")) == 1, PATIENCE)
    again.type("still there")
    again.see("still there")


def test_two_terminals_share_a_session(boxed: World, engine: Engine) -> None:
    one = attach(boxed, "cat")
    other = Terminal(boxed)
    other.run("sesh attach a")
    other.see("[a] 0:")
    one.type("seen by both")
    other.see("seen by both")
    assert len(clients(engine, boxed, "a")) == 2


# --- the agent is gone ---------------------------------------------------------------------------


def test_an_agent_that_fails_shows_the_menu(boxed: World) -> None:
    terminal = ended(boxed, 3)
    terminal.see_screen(f"""
        $ sesh attach a; echo code $?
        [detached (from session a)]
        a failed … ago: exit 3

            │ start 1
            │ 3
            │ told to 3

        {MENU}
    """)
    assert boxed.state_of("a") == "failed"


def test_leaving_the_agent_instead_of_detaching_shows_the_menu(
    boxed: World, engine: Engine
) -> None:
    """The case that all began with: the container runs on, and nobody takes the agent for alive."""
    terminal = ended(boxed, 0)
    terminal.see("a stale")
    terminal.see("exit 0, its container still up")
    assert engine.containers(all=False) == ["sesh-a"]


def test_restart_goes_on_in_the_same_container_with_its_files(boxed: World, engine: Engine) -> None:
    terminal = ended(boxed, 0)
    before = id_of(engine, "sesh-a")
    terminal.press("r")
    terminal.see("start 2")
    terminal.see("[a] 0:")
    assert told(boxed.session("a"), "state", "generation") == ("running", 2)
    assert id_of(engine, "sesh-a") == before
    terminal.press("C-b", "d")
    terminal.see("code 0")
    terminal.run("clear; sesh attach a")
    terminal.see("start 2")
    terminal.type("4")
    terminal.see(MENU)
    terminal.press("r")
    terminal.see("start 3")


def test_tear_down_leaves_nothing(boxed: World, engine: Engine) -> None:
    terminal = ended(boxed, 3)
    identity = boxed.session("a")["id"]
    terminal.press("t")
    terminal.see("code 0")
    terminal.at_the_shell()
    assert boxed.ls() == []
    assert engine.containers() == []
    assert not [path for path in boxed.root.rglob("*") if identity in path.name]


def test_logs_shows_all_and_the_menu_again(boxed: World) -> None:
    terminal = ended(boxed, 3)
    terminal.press("l")
    terminal.see_screen(f"""
        …
        {MENU} l
        start 1
        3
        told to 3
        {MENU}
    """)


@pytest.mark.parametrize("key", ["c", "Escape"])
def test_cancel_leaves_it_as_it_is(boxed: World, engine: Engine, key: str) -> None:
    terminal = ended(boxed, 3)
    before = boxed.record("a").read_bytes()
    terminal.press(key)
    terminal.see("code 3")
    terminal.at_the_shell()
    assert boxed.record("a").read_bytes() == before
    assert engine.containers(all=False) == ["sesh-a"]


def test_attach_to_what_has_ended_is_the_menu(boxed: World) -> None:
    start(boxed, "a", "sh", "-c", "echo it broke; exit 3")
    becomes(boxed, "a", "failed")
    terminal = Terminal(boxed, columns=76)
    terminal.run("sesh attach a; echo code $?")
    terminal.see("    │ it broke")
    terminal.see(MENU)
    terminal.press("c")
    terminal.see("code 3")


def test_a_container_that_is_removed_under_a_person(boxed: World, engine: Engine) -> None:
    terminal = attach(boxed, "cat")
    terminal.type("some words")
    terminal.see("some words\nsome words")
    engine.docker("rm", "--force", "sesh-a")
    terminal.see("a lost")
    terminal.see("its container")
    terminal.see("    │ some words")
    terminal.see(MENU)
    terminal.press("r")
    assert becomes(boxed, "a", "running")["generation"] == 2
    terminal.see_no_more(MENU)
    terminal.type("more words")
    terminal.see("more words\nmore words")


def test_a_stop_elsewhere_gives_the_shell_back(boxed: World, engine: Engine) -> None:
    terminal = attach(boxed, "cat")
    boxed.ok("stop", "a")
    terminal.see("a stopped")
    terminal.see("code 0")
    terminal.at_the_shell()
    assert engine.containers() == []


def test_the_user_of_the_container_is_the_one_at_the_terminal(boxed: World) -> None:
    for path in (boxed.root, boxed.cwd):
        path.chmod(0o755)
    pid = start_also(boxed, "a", "--user", "dev", command=("sh",))["pid"]
    terminal = Terminal(boxed)
    terminal.run("sesh attach a")
    terminal.see("[a] 0:")
    terminal.type("whoami")
    terminal.see("\ndev\n")
    terminal.type("exit 0")
    terminal.see(MENU)
    assert not lives(pid)
    assert logged(boxed, "a", "dev")
