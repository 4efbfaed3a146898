"""sesh init: what needs attention in the prompt, in real shells on real terminals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.conftest import need
from tests.emulator import Terminal
from tests.surroundings import as_stranger, give_to_stranger, run, settle_fish
from tests.terminal.test_prompt import prompt_file
from tests.world import SESH, World, eventually

SHELLS = ("bash", "zsh", "fish")
LOAD = {
    "bash": 'eval "$(sesh init bash)"',
    "zsh": 'eval "$(sesh init zsh)"',
    "fish": "sesh init fish | source",
}
PROMPT = {
    "bash": "PS1='$ '",
    "zsh": "PS1='$ '",
    "fish": "function fish_prompt; echo -n '$ '; end",
}
# A prompt that shows the exit status of the last command.
STATUS_PROMPT = {
    "bash": "PS1='$? $ '",
    "zsh": "PS1='%? $ '",
    "fish": "function fish_prompt; set -l all $pipestatus; echo -n $status, $all '$ '; end",
}
FLAG = "⚑ 1 failed $"
_marks = count()


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    need(request.param)
    return str(request.param)


def at(world: World, shell: str, *lines: str, env: dict[str, str] | None = None) -> Terminal:
    """A terminal in which that shell has read these lines at its start."""
    text = "\n".join((*lines, ""))
    home = Path(world.env["HOME"])
    if shell == "bash":
        (home / "rc").write_text(f"bind 'set enable-bracketed-paste off'\n{text}")
        command = f"bash --noprofile --rcfile {home}/rc -i"
    elif shell == "zsh":
        (home / ".zshrc").write_text(f"unsetopt prompt_sp\n{text}")
        command = f"env ZDOTDIR={home} zsh -o no_global_rcs -i"
    else:
        config = world.root / "config" / "fish" / "config.fish"
        config.parent.mkdir(parents=True, exist_ok=True)
        settle_fish(world)
        config.write_text(f"set -g fish_greeting\n{text}")
        command = "fish"
    terminal = Terminal(world, env={"PS1": "outer $ ", **(env or {})})
    terminal.run(f"clear; exec {command}")
    terminal.see_no_more("outer")
    terminal.see("$")
    return terminal


def fail(world: World, name: str = "api") -> None:
    """Kill a session's agent, and wait until that is known."""
    os.kill(world.session(name)["pid"], signal.SIGKILL)
    assert eventually(lambda: world.state_of(name) == "failed")


def clear(terminal: Terminal, shows: str = "$") -> None:
    """An empty screen but for a new prompt."""
    mark = f"({next(_marks)})"
    terminal.run(f"clear; echo '{mark}'")
    assert eventually(lambda: terminal.screen() == f"{mark}\n{shows}", 20), terminal.screen()


def prompts_until(
    terminal: Terminal,
    shows: str,
    within: float = 20,
    before: Callable[[], None] = lambda: None,
) -> bool:
    """Press Enter until the newest prompt is this one."""

    def pressed() -> bool:
        before()
        terminal.press("Enter")
        return bool(eventually(lambda: terminal.screen().rpartition("\n")[2] == shows, 0.5))

    return bool(eventually(pressed, within))


# --- what is printed -----------------------------------------------------------------------------


def test_anything_but_one_known_shell_is_refused(world: World) -> None:
    for arguments in ((), ("tcsh",), ("bash", "zsh")):
        done = world.sesh("init", *arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("sesh: ")


def test_names_are_quoted_for_the_shell(world: World, shell: str) -> None:
    """The file and the command, whatever their directories are called."""
    place = world.root / "it's a $(dir) \\ here"
    place.mkdir(mode=0o700)
    env = {**world.env, "XDG_RUNTIME_DIR": str(place)}
    (world.root / "code").write_text(world.ok("init", shell, env=env).out)
    script = f". {world.root}/code; printf '%s\\n' \"$__sesh_file\""
    done = subprocess.run([shell, "-c", script], env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{place}/sesh/{world.runtime.name}/prompt\n", "")


def test_a_path_that_is_no_text_is_no_trouble(world: World) -> None:
    place = os.fsencode(world.root) + b"/\xff"
    os.mkdir(place, 0o700)
    env = {**world.env, "XDG_RUNTIME_DIR": os.fsdecode(place)}
    done = subprocess.run([SESH, "init", "bash"], env=env, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    name = world.runtime.name.encode()
    assert b"__sesh_file='" + place + b"/sesh/" + name + b"/prompt'\n" in done.stdout


def test_the_full_path_prints_the_same(world: World, shell: str) -> None:
    assert world.ok("init", "--", shell).out == world.ok("init", shell).out


def test_without_a_home_it_says_why(world: World) -> None:
    give_to_stranger(world)
    done = run(world, *as_stranger(SESH, "init", "bash"), env={"PATH": world.env["PATH"]}, cwd="/")
    assert (done.code, done.out) == (6, "")
    assert "no home directory" in done.err


# --- a person's view -----------------------------------------------------------------------------


def test_a_death_shows_on_the_next_prompts_and_a_restart_takes_it_away_at_once(
    world: World, shell: str
) -> None:
    world.start("api")
    terminal = at(world, shell, PROMPT[shell], LOAD[shell])
    assert terminal.screen() == "$"
    assert eventually(prompt_file(world).exists, 20)
    fail(world)
    assert prompts_until(terminal, FLAG), terminal.screen()
    terminal.run("clear; sesh restart api")
    assert eventually(lambda: terminal.screen() == "api\n$", 20), terminal.screen()


def test_a_death_that_only_a_look_finds_shows_too(world: World, shell: str) -> None:
    """No pass follows: the refresh in the background has to find it."""
    world.start("api")
    terminal = at(world, shell, PROMPT[shell], LOAD[shell])
    assert eventually(prompt_file(world).exists, 20)
    os.kill(world.session("api")["pid"], signal.SIGSTOP)
    assert prompts_until(terminal, "⚑ 1 frozen $"), terminal.screen()


@pytest.mark.parametrize("well", [True, False], ids=["well", "failed"])
def test_the_prompt_sees_the_last_exit_status(world: World, shell: str, well: bool) -> None:
    world.start("api", *(() if well else ("false",)))
    eventually(lambda: world.state_of("api") == ("running" if well else "failed"))
    world.ok("doctor", "--prompt", "--refresh")
    terminal = at(world, shell, STATUS_PROMPT[shell], LOAD[shell])
    front = "" if well else "⚑ 1 failed "
    shown = "7, 7 $" if shell == "fish" else "7 $"
    terminal.run("clear; sh -c 'exit 7'")
    assert eventually(lambda: terminal.screen() == front + shown, 20), terminal.screen()
    if shell == "fish":
        terminal.run("clear; sh -c 'exit 7' | true")
        assert eventually(lambda: terminal.screen() == f"{front}0, 7 0 $", 20), terminal.screen()


def test_loaded_twice_it_shows_once(world: World, shell: str) -> None:
    world.start("api", "false")
    eventually(lambda: world.state_of("api") == "failed")
    world.ok("doctor", "--prompt", "--refresh")
    terminal = at(world, shell, PROMPT[shell], LOAD[shell], LOAD[shell])
    clear(terminal, FLAG)


OWN_PLACE = {
    "bash": "PS1='[$SESH_PROMPT] $ '",
    "zsh": "setopt prompt_subst; PS1='[$SESH_PROMPT] $ '",
    "fish": 'function fish_prompt; echo -n "[$SESH_PROMPT] \\$ "; end',
}


def test_a_prompt_that_has_its_own_place_for_it_is_left_alone(world: World, shell: str) -> None:
    world.start("api", "false")
    eventually(lambda: world.state_of("api") == "failed")
    world.ok("doctor", "--prompt", "--refresh")
    terminal = at(world, shell, OWN_PLACE[shell], LOAD[shell])
    clear(terminal, "[⚑ 1 failed] $")


@pytest.mark.parametrize(
    ("env", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False)],
    ids=["colour", "no colour"],
)
def test_yellow_where_colour_is_allowed(
    world: World, shell: str, env: dict[str, str], coloured: bool
) -> None:
    world.start("api", "false")
    eventually(lambda: world.state_of("api") == "failed")
    world.ok("doctor", "--prompt", "--refresh")
    terminal = at(world, shell, PROMPT[shell], LOAD[shell], env=env)
    clear(terminal, FLAG)
    assert ("\x1b[33m⚑ 1 failed" in terminal.coloured()) == coloured


def test_plain_characters_where_the_locale_has_no_others(world: World, shell: str) -> None:
    world.start("api", "false")
    eventually(lambda: world.state_of("api") == "failed")
    (world.record("broken")).write_text("")
    world.ok("doctor", "--prompt", "--refresh")
    env = {"LANG": "C", "LC_ALL": "C"}
    terminal = at(world, shell, PROMPT[shell], LOAD[shell], env=env)
    clear(terminal, "! 1 damaged, 1 failed $")


# --- options and hooks of the shells ------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "shown"),
    [
        ("PROMPT_COMMAND='mine=$?;'", "5"),
        ("PROMPT_COMMAND=('mine=$?' 'other=$?')", "5 5"),
        ("PROMPT_COMMAND='mine=$? # last'", "5"),
    ],
)
def test_bash_keeps_its_prompt_command(world: World, before: str, shown: str) -> None:
    need("bash")
    terminal = at(world, "bash", PROMPT["bash"], before, LOAD["bash"])
    terminal.run("clear; (exit 5)")
    terminal.run("clear; echo $mine ${other-}; declare -p SESH_PROMPT")
    wanted = f'{shown}\ndeclare -- SESH_PROMPT=""\n$'
    assert eventually(lambda: terminal.screen() == wanted), terminal.screen()


def test_bash_gives_the_status_on_to_what_comes_behind(world: World) -> None:
    need("bash")
    late = "PROMPT_COMMAND+=$'\\n''mine=$?'"
    terminal = at(world, "bash", PROMPT["bash"], LOAD["bash"], late)
    terminal.run("clear; (exit 5)")
    terminal.run("echo $mine.")
    terminal.see("5.")


STRICT = {
    "bash": ("set -eu", "set -o noclobber", "shopt -s nullglob failglob extglob"),
    "zsh": (
        *("setopt no_unset err_exit", "setopt ksh_arrays", "setopt sh_word_split"),
        *("setopt prompt_subst", "setopt no_clobber extended_glob", "setopt no_prompt_subst"),
    ),
}


@pytest.mark.parametrize(
    ("shell", "options"), [(shell, options) for shell in STRICT for options in STRICT[shell]]
)
def test_strict_options_are_survived(world: World, shell: str, options: str) -> None:
    need(shell)
    world.start("api", "false")
    eventually(lambda: world.state_of("api") == "failed")
    terminal = at(world, shell, PROMPT[shell], options, LOAD[shell])
    assert prompts_until(terminal, FLAG), terminal.screen()
    assert prompts_until(terminal, "$", before=lambda: all_is_well(world)), terminal.screen()
    terminal.run("! true")
    assert prompts_until(terminal, FLAG, within=90), terminal.screen()


def all_is_well(world: World) -> None:
    """For a moment: until the truth is written again, which the next prompt asks for."""
    prompt_file(world).unlink(missing_ok=True)


HOSTILE = [
    "a[$(touch pwned)] 1 failed",
    "1 $(touch pwned) `touch pwned`",
    "1 %F{red}%1v \\u \\e[31m",
    "1 \x1b[2J\x1b]0;title\x07",
    "99999999999999999999999999 ok",
    "0x10 1 failed",
    "",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_the_file_is_data(world: World, shell: str, text: str) -> None:
    """Whatever stands in it, nothing runs, nothing but words and counts is shown."""
    lines = ["setopt prompt_subst"] if shell == "zsh" else []
    terminal = at(world, shell, PROMPT[shell], LOAD[shell], *lines)
    load_without_sesh(terminal)
    prompt_file(world).parent.mkdir(parents=True, exist_ok=True)
    prompt_file(world).write_text(text + "\n")
    for _ in range(3):
        clear(terminal)
    assert not (world.cwd / "pwned").exists()


def load_without_sesh(terminal: Terminal) -> None:
    """From now on nobody writes the file anew, as if sesh had been uninstalled."""
    terminal.run("set __sesh_command /nowhere/sesh; __sesh_command=/nowhere/sesh")
    clear(terminal)


# --- in the background ---------------------------------------------------------------------------


def test_an_uninstalled_sesh_is_no_nuisance(world: World, shell: str) -> None:
    code = world.ok("init", shell).out.replace(SESH, "/nowhere/sesh")
    (world.root / "code").write_text(code)
    terminal = at(world, shell, PROMPT[shell], f". {world.root}/code")
    for _ in range(3):
        clear(terminal)


def test_no_noise_no_job_no_zombie(world: World, shell: str) -> None:
    terminal = at(world, shell, PROMPT[shell], LOAD[shell])
    for _ in range(3):
        assert eventually(prompt_file(world).exists, 20)
        clear(terminal)  # this prompt sees it; the one after it asks again
        prompt_file(world).unlink()
        clear(terminal)
    terminal.run(f"clear; jobs; echo pid {'$fish_pid' if shell == 'fish' else '$$'}")
    alone = re.compile(r"(?:jobs: There are no jobs\n)?pid (\d+)\n\$")  # fish says so
    found = eventually(lambda: alone.fullmatch(terminal.screen()), 20)
    assert found, terminal.screen()
    assert eventually(lambda: not left(int(found[1]))), left(int(found[1]))


def left(pid: int) -> list[str]:
    """Zombies of the shell, and children that are ours. (fish has others, when its home is new.)"""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            command = (path / "cmdline").read_text()
        except OSError:
            continue
        if int(fields[1]) == pid and (fields[0] == "Z" or "--prompt" in command):
            found.append(f"{path.name} {fields[0]} {command}")
    return found


def test_it_is_asked_for_once_and_not_again_while_nothing_comes(world: World, shell: str) -> None:
    asked = world.root / "asked"
    slow = world.root / "slow"
    slow.write_text(f'#!/bin/sh\necho "$@" >>{asked}\nexec sleep 1000\n')
    slow.chmod(0o755)
    (world.root / "code").write_text(world.ok("init", shell).out.replace(SESH, str(slow)))
    terminal = at(world, shell, PROMPT[shell], f". {world.root}/code")
    for _ in range(10):
        clear(terminal)
    assert eventually(asked.exists, 20)
    assert asked.read_text() == "doctor --prompt --refresh\n"


# --- no fork -------------------------------------------------------------------------------------

# How many pids were taken by prompts while no refresh was due; and was one taken when it was?
COUNT = {
    "bash": """
newest() { local a b c d; read -r a b c d newest </proc/loadavg; }
. {code}; __sesh_prompt; newest; first=$newest
for ((i = 0; i < 50; i++)); do __sesh_prompt; done
newest; taken=$((newest - first))
rm {file}; newest; first=$newest; __sesh_prompt; newest
echo $taken $((newest > first))
""",
    "zsh": """
newest() { local a b c d; read -r a b c d newest </proc/loadavg; }
. {code}; __sesh_prompt; newest; first=$newest
for ((i = 0; i < 50; i++)); do __sesh_prompt; done
newest; taken=$((newest - first))
rm {file}; newest; first=$newest; __sesh_prompt; newest
echo $taken $((newest > first))
""",
    "fish": """
function newest; read -g -d ' ' a b c d newest </proc/loadavg; end
. {code}; __sesh_prompt; newest; set first $newest
for i in 1 2 3 4 5 6 7 8 9 10; __sesh_prompt; end
newest; set taken (math $newest - $first)
rm {file}; newest; set first $newest; __sesh_prompt; newest
test $newest -gt $first; and set more 1
echo $taken $more
""",
}


def test_no_process_is_made_unless_a_refresh_is_due(world: World, shell: str) -> None:
    """Counted by pids, in a pid namespace where nobody else takes any."""
    unshare = ["unshare", "--pid", "--fork"] + (["--map-root-user"] if os.getuid() else [])
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("may not make a pid namespace here")
    code = world.root / "code"
    code.write_text(world.ok("init", shell).out)
    world.ok("doctor", "--prompt", "--refresh")
    text = prompt_file(world).read_text()
    script = COUNT[shell].replace("{code}", str(code)).replace("{file}", str(prompt_file(world)))
    (world.root / "script").write_text(script)

    def counted() -> str:
        prompt_file(world).write_text(re.sub(r"^\d+", f"{time.time():.0f}", text))
        done = subprocess.run(
            [*unshare, shell, str(world.root / "script")],
            env=world.env,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.stderr == ""
        return done.stdout

    # A machine that stands still for 5 seconds in the middle makes a refresh due.
    assert eventually(lambda: counted() == "0 1\n", 30), counted()
