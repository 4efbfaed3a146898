"""A person at a terminal with a session in a container: attach, detach, and the menu when the agent
is gone. The screens are as that person sees them; `…` is what differs from run to run."""

from __future__ import annotations

from tests.emulator import Terminal
from tests.engine import Engine
from tests.places.docker.boxes import (
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
from tests.world import World, eventually

# An agent that remembers in its container, and ends as it is told.
AGENT = """\
echo "$((1 + $(cat /tmp/starts 2>/dev/null || echo 0)))" >/tmp/starts
echo "start $(cat /tmp/starts)"
read -r word
echo "told to $word"
exit "$word"
"""
MENU = "[R]estart   [L]ogs   [D]elete   [C]ancel ▸"


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


def cleared(terminal: Terminal, line: str) -> None:
    """Run a line on an empty screen: what is seen then is not of before."""
    terminal.run("clear")
    assert eventually(lambda: "sesh" not in terminal.screen())
    terminal.run(line)


# --- in and out ----------------------------------------------------------------------------------


def test_attach_type_and_detach_by_a_key_a_command_or_a_pause(boxed: World, engine: Engine) -> None:
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
    cleared(terminal, "sesh attach a; echo again $?")
    terminal.see("[a] 0:")
    boxed.ok("detach", "a")
    terminal.see("again 0")
    terminal.at_the_shell()
    cleared(terminal, "sesh attach a")
    terminal.see("[a] 0:")
    boxed.ok("pause", "--hold", "a")  # a frozen container cannot be asked for its clients
    terminal.see("sesh resume a")
    terminal.at_the_shell()
    assert clients(engine, boxed, "a") == []


def test_start_attach_attaches_at_once_and_passes_keys_and_sizes(boxed: World) -> None:
    script = "trap 'echo caught' INT; trap 'stty size' WINCH; while :; do sleep 0.1; done"
    (boxed.cwd / "agent").write_text(script)
    terminal = Terminal(boxed, columns=76, rows=16)
    terminal.run("sesh start a --image sesh-test --network none --attach -- sh agent")
    terminal.see("[a] 0:")
    terminal.see("15 76")  # a line is tmux's own
    terminal.press("C-c")
    terminal.see("caught")
    terminal.resize(61, 12)
    terminal.see("11 61")
    assert boxed.state_of("a") == "running"


def test_terminals_of_many_kinds(boxed: World, engine: Engine) -> None:
    """In another tmux, of an unknown type, two at once, and one that is closed: a killed docker
    exec leaves its process inside, which would hold the window small for ever."""
    start(boxed, "a")
    nested = Terminal(boxed, nested=True)
    nested.run("sesh attach a; echo back with $?")
    nested.see("[a] 0:")
    assert nested.windows()[1:] == ["a"]
    nested.press("C-b", "d")
    nested.see("back with 0")
    kitty = Terminal(boxed, env={"TERM": "xterm-kitty"})
    kitty.run("sesh attach a")
    kitty.see("[a] 0:")
    kitty.type("all the same")
    kitty.see("all the same")
    other = Terminal(boxed)
    other.run("sesh attach a")
    other.see("[a] 0:")
    kitty.type("seen by both")
    other.see("seen by both")
    assert len(clients(engine, boxed, "a")) == 2
    for closed in (kitty, other):
        closed.hang_up()
    assert boxed.state_of("a") == "running"
    again = Terminal(boxed)
    again.run("sesh attach a")
    again.see("[a] 0:")
    assert eventually(lambda: len(clients(engine, boxed, "a")) == 1, PATIENCE)
    again.type("still there")
    again.see("still there")


# --- the agent is gone ---------------------------------------------------------------------------


def test_an_agent_that_fails_shows_the_menu(boxed: World, engine: Engine) -> None:
    """The log brings it again; cancel leaves all as it is; delete leaves nothing."""
    terminal = attach(boxed)
    terminal.type("3")
    terminal.see_screen(f"""
        $ sesh attach a; echo code $?
        [detached (from session a)]
        a failed …: exit 3

            │ start 1
            │ 3
            │ told to 3

        {MENU}
    """)
    assert boxed.state_of("a") == "failed"
    identity, before = boxed.session("a")["id"], boxed.record("a").read_bytes()
    terminal.press("l")
    terminal.see_screen(f"""
        …
        {MENU} l
        start 1
        3
        told to 3
        {MENU}
    """)
    terminal.press("c")
    terminal.see("code 3")
    terminal.at_the_shell()
    cleared(terminal, "sesh attach a; echo again $?")
    terminal.see("    │ told to 3")
    terminal.see(MENU)
    terminal.press("Escape")
    terminal.see("again 3")
    terminal.at_the_shell()
    assert boxed.record("a").read_bytes() == before
    assert engine.containers(all=False) == ["sesh-a"]
    cleared(terminal, "sesh attach a; echo gone $?")
    terminal.see(MENU)
    terminal.press("d")
    terminal.see("delete a: its record, its transcript and container sesh-a? [y/N] ▸")
    terminal.press("y")
    terminal.see("gone 0")
    terminal.at_the_shell()
    assert boxed.ls() == []
    assert engine.containers() == []
    assert not [path for path in boxed.root.rglob("*") if identity in path.name]


def test_leaving_the_agent_instead_of_detaching_shows_the_menu(
    boxed: World, engine: Engine
) -> None:
    """The case that all began with: the container runs on, and nobody takes the agent for alive. A
    restart goes on in the same container, with its files."""
    terminal = attach(boxed)
    terminal.type("0")
    terminal.see(MENU)
    terminal.see("a stale")
    terminal.see("exit 0, its container still up")
    assert engine.containers(all=False) == ["sesh-a"]
    before = id_of(engine, "sesh-a")
    terminal.press("r")
    terminal.see("start 2")
    terminal.see("[a] 0:")
    assert told(boxed.session("a"), "state", "generation") == ("running", 2)
    assert id_of(engine, "sesh-a") == before
    terminal.press("C-b", "d")
    terminal.see("code 0")
    cleared(terminal, "sesh attach a")
    terminal.see("start 2")
    terminal.type("4")
    terminal.see(MENU)
    terminal.press("r")
    terminal.see("start 3")


def test_a_container_that_is_removed_while_a_client_is_attached(
    boxed: World, engine: Engine
) -> None:
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


def test_the_user_of_the_container_is_the_one_at_the_terminal(boxed: World, engine: Engine) -> None:
    """From the first prompt to the menu; and a stop elsewhere gives the shell back."""
    for path in (boxed.root, boxed.cwd):
        path.chmod(0o755)
    pid = start_also(boxed, "a", "--user", "dev", command=("sh",))["pid"]
    terminal = Terminal(boxed)
    terminal.run("sesh attach a; echo code $?")
    terminal.see("[a] 0:")
    terminal.type("whoami")
    terminal.see("\ndev\n")
    terminal.type("exit 0")
    terminal.see(MENU)
    assert not lives(pid)
    assert logged(boxed, "a", "dev")
    terminal.press("r")
    terminal.see("[a] 0:")
    boxed.ok("stop", "a")
    terminal.see("a stopped")
    terminal.see("code 0")
    terminal.at_the_shell()
    assert engine.containers() == []
