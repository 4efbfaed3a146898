"""Templates: what a session gets where nothing else is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.surroundings import complains
from tests.world import World, eventually


def write(world: World, name: str, text: str) -> None:
    directory = Path(world.env["XDG_CONFIG_HOME"]) / "sesh" / "templates"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.toml").write_text(text)


def start(world: World, *words: str) -> dict[str, Any]:
    return dict(world.ok("start", *words, "--json").json)


NIGHT = """\
command = ["sh", "-c", "echo $MODE; sleep 99"]
dir = "~/elsewhere"
group = "shop"
tags = ["night"]
env = ["MODE=fast"]
[start]
timeout = "8h"
retries = 5
retry_on = ["failure", "lost"]
"""


@pytest.fixture
def night(world: World) -> World:
    (Path(world.env["HOME"]) / "elsewhere").mkdir()
    write(world, "night", NIGHT)
    return world


def test_everything_comes_from_the_template(night: World) -> None:
    shown = start(night, "one", "-t", "night")
    assert (shown["template"], shown["group"], shown["tags"]) == ("night", "shop", ["night"])
    assert shown["cwd"] == f"{night.env['HOME']}/elsewhere"
    assert shown["care"] == {"timeout": 28800.0, "retries": 5, "retry_on": ["failure", "lost"]}
    assert eventually(lambda: "fast" in night.ok("logs", "one").out)
    night.ok("restart", "one")
    again = night.session("one")
    assert (again["template"], again["care"]) == ("night", shown["care"])


def test_what_is_said_goes_before_it(night: World) -> None:
    options = ("-C", str(night.cwd), "-g", "other", "--tag", "mine", "-e", "MODE=slow")
    words = ("--retries", "1", "--", "sh", "-c", "echo $MODE here; sleep 99")
    shown = start(night, "one", "-t", "night", *options, "--json", *words)
    assert (shown["group"], shown["tags"], shown["cwd"]) == (
        *("other", ["night", "mine"], str(night.cwd)),
    )
    assert shown["care"]["retries"] == 1
    assert eventually(lambda: "slow here" in night.ok("logs", "one").out)


def start_with(world: World, *options: str) -> int:
    return int(start(world, "one", "-t", "night", *options)["care"]["retries"])


def test_flag_then_variable_then_template_then_file(night: World) -> None:
    night.configure("[start]\nretries = 1\nmax_silence = 60\n")
    assert start_with(night) == 5
    assert night.session("one")["care"]["max_silence"] == 60.0
    night.ok("rm", "-f", "one")
    night.env["SESH_START_RETRIES"] = "7"
    assert start_with(night) == 7
    night.ok("rm", "-f", "one")
    assert start_with(night, "--retries", "9") == 9


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("command = 3\n", "command should be a list of strings"),
        ("comand = []\n", "unknown key comand"),
        ("[start]\nretrys = 3\n", "unknown key start.retrys"),
        ('[start]\ntimeout = "soon"\n', "start.timeout should be a number of seconds"),
        ("start = 3\n", "start should be a table"),
        ("[start", "not valid TOML"),
    ],
)
def test_a_wrong_template_is_told_and_nothing_is_done(world: World, text: str, told: str) -> None:
    write(world, "bad", text)
    complains(world.sesh("start", "one", "-t", "bad"), 6, told)
    assert not world.state.exists()


def test_one_that_does_not_exist(night: World) -> None:
    complains(night.sesh("start", "one", "-t", "day"), 1, "there are night")
    complains(night.sesh("start", "one", "-t", "../night"), 2, "no valid name")


def test_a_breaker_of_a_template(world: World) -> None:
    world.configure("[breaker]\nfailures = 1\nwithin = 60\ncooldown = 60\n")
    write(world, "bad", 'command = ["false"]\n[start]\nretries = 5\nretry_delay = 0.2\n')
    start(world, "one", "-t", "bad")
    assert eventually(lambda: world.session("one")["attention"], within=20)
    assert "the breaker of template bad is open" in world.session("one")["attention"]
    complains(world.sesh("restart", "one"), 8, "--force")
    (event,) = (one for one in world.events() if one["kind"] == "breaker-opened")
    assert event["template"] == "bad"
