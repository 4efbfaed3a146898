"""The README: what it names exists, and its tour is what one sees."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import socket
import subprocess
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from sesh.model import errors
from sesh.system import paths
from sesh.terminal import command_table
from tests import pace
from tests.conftest import need
from tests.schedulers import no_manager, put_first
from tests.test_docs import CHECKOUT, README, command_of, examples, section, source
from tests.world import SESH, World, eventually


def test_the_readme_names_only_commands_that_exist() -> None:
    named = set(re.findall(r"`sesh ([a-z][a-z-]*)", README))
    named |= {words[1] for words in examples(README)}
    assert named
    assert named <= set(command_table.COMMANDS)


def blocks(kind: str) -> list[list[str]]:
    """The lines of the README's blocks of one kind, without their comments."""
    found = re.findall(rf"^```{kind}\n(.*?)^```", README, re.S | re.M)
    return [[line.partition(" # ")[0].rstrip() for line in one.splitlines()] for one in found]


def test_the_first_screen_has_installation_commands_and_the_two_for_contributors() -> None:
    before, _, after = README.partition("<picture>")
    assert re.fullmatch(r"# sesh\n\n[^.]+\.\n\n", before), "one sentence"
    install, commands, contributors = blocks("sh")[:3]
    assert install == ["make install PREFIX=$HOME/.local"]
    assert [line.split()[1] for line in commands] == ["start", "ls", "attach", "restart"]
    assert contributors == ["make demo", "make test"]
    assert after.index("make test") < after.index("\n## ")
    makefile = (CHECKOUT / "Makefile").read_text()
    for target in re.findall(r"`?make ([a-z-]+)", README):
        assert re.search(rf"^{target}:", makefile, re.M), target


COMMAND_LINES = "".join(f"$ {line}\n" for block in blocks("sh") for line in block)


@pytest.mark.parametrize("words", sorted({*examples(COMMAND_LINES)}), ids=shlex.join)
def test_a_command_of_the_readme_is_one_that_sesh_takes(words: tuple[str, ...]) -> None:
    name, *arguments = words[1:]
    command_of(name).make_context(f"sesh {name}", arguments)


@pytest.mark.parametrize("page", ["README.md", "man/prose/start"])
def test_agents_are_started_by_their_templates(page: str) -> None:
    """Without one, nobody would know what they do, or go on with their conversation."""
    text = (CHECKOUT / page).read_text()
    assert not re.findall(r"^.*sesh start .*-- (?:claude|codex)\b.*$", text, re.M)


def test_the_template_for_the_night_is_one_of_an_agent(world: World) -> None:
    added = re.search(r"^```toml\n(# at the end of night.*?)^```", README, re.S | re.M)
    assert added
    path = Path(world.ok("template", "new", "night", "--from", "claude").out.strip())
    path.write_text(path.read_text() + added[1])
    world.ok("template", "check", "night")
    shown = world.ok("template", "show", "night", "--json").json["template"]
    assert (shown["agent"]["kind"], shown["start"]["retries"]) == ("claude", 5)


def test_the_manual_names_every_file() -> None:
    table = section(source("sesh.1"), "FILES")
    for name in (
        *(paths.trusted_file, paths.templates_dir, paths.rules_dir, paths.config_file),
        *(paths.sessions_dir, paths.history_dir, paths.notices_dir, paths.bug_log),
        *(paths.transcripts_dir, paths.quarantine_dir, paths.events_file, paths.breakers_file),
        paths.settings_file,
    ):
        assert os.path.basename(name()) in table


class Shell:
    """Runs command lines in a terminal of 120 columns, as a person would who follows the tour."""

    def __init__(self, world: World) -> None:
        need("git")
        self.home = world.root / "home"
        self.cwd = self.home / "shop"
        path = f"{Path(SESH).parent}:{world.env['PATH']}"
        self.env = {**world.env, "PATH": path, "NO_COLOR": "1", "LANG": "C.UTF-8"}
        self.cwd.mkdir()
        for command in ("init -q -b main", f"{_AUTHOR} commit -q --allow-empty -m first"):
            subprocess.run(["git", *command.split()], cwd=self.cwd, env=self.env, check=True)

    def run(self, line: str, keys: bytes = b"", code: int = 0) -> str:
        """What a command line prints; the keys are pressed when it has drawn its screen."""
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, 120))
        shell = subprocess.Popen(
            ["bash", "-c", line],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=self.cwd,
            env=self.env,
            start_new_session=True,
        )
        os.close(slave)
        shown = b""
        with suppress(OSError):  # EIO: the last of them has closed the terminal
            while True:
                if select.select([master], [], [], 1)[0]:
                    shown += os.read(master, 1 << 16)
                elif keys and shown:
                    os.write(master, keys)
        status = shell.wait(
            pace.seconds(20)
        )  # first: closing the terminal would hang up on a program that ends
        os.close(master)
        assert status == code, shown
        return _CONTROLS.sub("", shown.decode().rpartition("\x1b[?1049l")[2])


CTRL_B_D = b"\x02d"
_AUTHOR = "-c user.name=me -c user.email=me@example.org"
# With the progress of what takes long, which is erased at the end.
_CONTROLS = re.compile(r"[^\n]*\r\x1b\[K|\x1b\[[\d;?]*[a-zA-Z]|\r")
# What differs from one time to the next.
_TIMES = re.compile(
    r"\b\d+(ms|[smhd]| (second|minute)s?)( ago)?\b|\b(just )?now\b|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
)
_NUMBERS = re.compile(r"(?<=pid )\d+|(?<=%)\d+|\d+(\.\d+)? [KM]?B\b")


def essence(text: str) -> list[str]:
    """Lines without times, process ids, sizes, and the widths of columns that follow from them."""
    plain = _NUMBERS.sub("N", _TIMES.sub("T", text))
    return [" ".join(line.split()) for line in plain.strip().splitlines()]


def screens(kind: str) -> list[tuple[str, str]]:
    """The command lines of the README's blocks of one kind, and what they print there."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```", README, re.S | re.M)
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.M)


def test_the_tour_of_the_readme_is_what_one_sees(world: World) -> None:
    shell = Shell(world)
    with socket.create_server(("", 0)) as free:
        port = str(free.getsockname()[1])
    for line, expected in screens("console"):
        keys = CTRL_B_D if "sesh attach" in line else b""
        shown = shell.run(line.replace("8123", port), keys).replace(port, "8123")
        assert essence(shown) == essence(expected), f"$ {line}\n{shown}"


def test_the_menu_of_the_readme_is_what_one_sees(world: World) -> None:
    shell = Shell(world)
    start = next(line for line, _ in screens("console") if line.startswith("sesh start tests"))
    shell.run(f"{start}; sesh wait tests")
    ((line, expected),) = screens("text")
    shown = shell.run(line, keys=b"c", code=errors.ENDED)
    assert essence(shown.removesuffix("c\n")) == essence(expected), shown


def test_the_four_commands_of_the_first_screen(world: World) -> None:
    put_first(world, "npm", "echo ready; exec sleep 1000")
    shell = Shell(world)
    start, ls, attach, restart = blocks("sh")[1]
    assert shell.run(start) == "web\n"
    assert re.search(r"^web +running .* npm run dev$", shell.run(ls), re.M)
    assert shell.run(attach, CTRL_B_D) == "[detached (from session web)]\n"
    os.kill(world.server_pid(), signal.SIGKILL)
    assert eventually(lambda: world.state_of("web") == "lost")
    assert shell.run(restart) == "web\n"
    assert world.state_of("web") == "running"


def test_removing_everything_leaves_nothing(world: World) -> None:
    """With the directories that the README names: the defaults."""
    (commands,) = (block for block in blocks("sh") if block[-1].startswith("rm -rf"))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        del world.env[name]
    put_first(world, "crontab", "echo no crontab for me >&2; exit 1")
    no_manager(world)
    shell = Shell(world)
    (shell.home / ".config" / "sesh").mkdir(parents=True)
    world.start("web")
    world.start("done", "true")
    assert (shell.home / ".local" / "state" / "sesh").is_dir()
    for line in commands:
        shell.run(line.replace("make ", f"make -C {CHECKOUT} "))
    assert eventually(lambda: not world.processes())
    assert [path.name for path in shell.home.rglob("*") if path.name == "sesh"] == []
    assert [*(world.root / "run").iterdir()] == []
