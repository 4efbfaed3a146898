"""What a command did, in one line for a person who looks on; nothing where a program reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.emulator import Terminal
from tests.schedulers import Cron, cron
from tests.world import SESH, World

__all__ = ["cron"]  # a fixture
COMMANDS = [
    ("rename web api", "renamed web to api"),
    ("set web group=shop max-memory=1G", "changed group, max-memory of web"),
    ("config check", "config/sesh/config.toml: no problems found"),
    ("template check", "no problems found"),
    ("template check mine", "no problems found"),
    ("template trust dev -y", "trusted dev"),
    ("template trust dev --remove", "dev is no longer trusted"),
    ("timer install", "gc runs every 5m, by cron"),
    ("timer remove", "removed the timer"),
]


def person(world: World) -> Terminal:
    path = f"{world.root}/bin:{os.path.dirname(SESH)}:{world.env['PATH']}"
    return Terminal(world, columns=100, env={"PATH": path})


def prepare(world: World, words: str) -> None:
    """What the command works on."""
    world.start("web")
    world.configure("[stop]\ngrace = 3\n")
    world.ok("template", "new", "mine")
    project = Path(world.cwd) / ".sesh" / "templates"
    project.mkdir(parents=True)
    (project / "dev.toml").write_text('command = ["sleep", "9"]\n')
    if words.endswith("--remove"):
        world.ok("template", "trust", "dev", "-y")
    if words == "timer remove":
        world.ok("timer", "install")


@pytest.mark.parametrize(("words", "told"), COMMANDS)
def test_a_person_sees_what_was_done(world: World, cron: Cron, words: str, told: str) -> None:
    prepare(world, words)
    terminal = person(world)
    terminal.run(f"sesh {words}; echo code $?")
    terminal.see(f"{told}\ncode 0")


@pytest.mark.parametrize("words", [words for words, _ in COMMANDS])
def test_a_program_gets_nothing(world: World, cron: Cron, words: str) -> None:
    prepare(world, words)
    done = world.ok(*words.split())
    shown_before_it_is_trusted = words.endswith("-y")
    assert (done.out, bool(done.err)) == ("", shown_before_it_is_trusted)
    assert "trusted dev" not in done.err
