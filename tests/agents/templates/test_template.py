"""Templates: what a session gets where nothing else is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.agents.templates import template
from sesh.model.errors import StateError
from sesh.model.record import Answers, BreakerLimits, Kit
from sesh.model.value_object import Value
from tests.surroundings import complains, read_record
from tests.world import World, eventually


@pytest.fixture(autouse=True)
def nobodys_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules of whoever runs the tests do not count."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


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


def _plain(value: Value) -> dict[str, object]:
    """What JSON shows of it."""
    return {
        name: _plain(one) if isinstance(one, Value) else list(one) if type(one) is tuple else one
        for name, one in ((name, getattr(value, name)) for name in value.fields)
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("command = 3\n", "command should be a list of strings"),
        ("comand = []\n", "unknown key comand; did you mean command?"),
        ("retries = 3\n", "unknown key retries; put it below [start]"),
        ("[start]\nretrys = 3\n", "unknown key start.retrys"),
        ("[start]\nnotify = ['faild']\n", "start.notify: faild: unknown event or end"),
        ('[start]\ntimeout = "soon"\n', "start.timeout should be a number of seconds"),
        ("start = 3\n", "start should be a table"),
        ("[start", "not valid TOML"),
        ("[start]\nretries = 1001\n", "start.retries should be a whole number, 0 to 1000"),
        ('[start]\nretry_on = ["never"]\n', "start.retry_on: never: use failure, "),
        ('image = "a"\ncontainer = "b"\n', "use only one of them"),
        ("agent = 3\n", "agent should be a table"),
    ],
)
def test_a_wrong_template_is_reported_and_nothing_is_done(
    world: World, text: str, told: str
) -> None:
    write(world, "bad", text)
    complains(world.sesh("start", "one", "-t", "bad"), 6, told)
    assert not world.state.exists()


def agent(**changes: str) -> str:
    """An [agent] table that is right, but for the changes; the values are TOML."""
    right = {
        "kind": '"claude"',
        "conversation": '"minted"',
        "start": '["--session-id", "{conversation}", "--settings={hooks}"]',
        "resume": '["--resume", "{conversation}"]',
        "prompt": '["{prompt}"]',
        "transcript": '"~/.claude/{conversation}.jsonl"',
        "rules": '"claude"',
    }
    return "[agent]\n" + "".join(f"{key} = {one}\n" for key, one in {**right, **changes}.items())


def test_a_valid_agent_table() -> None:
    kit = template.decode("x", agent().encode()).agent
    assert kit == Kit(
        "claude",
        "minted",
        ("--session-id", "{conversation}", "--settings={hooks}"),
        ("--resume", "{conversation}"),
        ("{prompt}",),
        "~/.claude/{conversation}.jsonl",
        "claude",
    )
    assert template.decode("x", b'[agent]\nkind = "a"\n').agent == Kit("a", "none")


def test_answers_of_an_agent() -> None:
    text = agent() + '[agent.answers]\nkeys = ["{option}", "Enter"]\nno = ["Reject"]\n'
    kit = template.decode("x", text.encode()).agent
    assert kit is not None
    assert kit.answers == Answers(keys=("{option}", "Enter"), no=("Reject",))


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ('keys = ["Enter"]', r"agent.answers.keys lacks \{option\}"),
        ('keys = ["{option}", "kill-server"]', "keys: kill-server: unknown key"),
        ('marked = ["Entr"]', "keys: Entr: unknown key"),
        ('yes = [""]', "yes: an empty text matches every option"),
        ('maybe = ["Perhaps"]', "unknown key agent.answers.maybe; see sesh-template"),
        ('no = "No"', "agent.answers.no should be a list of strings"),
    ],
)
def test_invalid_answers(answers: str, told: str) -> None:
    with pytest.raises(StateError, match=told):
        template.decode("x", f"{agent()}[agent.answers]\n{answers}\n".encode())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"kind": '""'}, "kind should be a name"),
        ({"kind": "3"}, "kind should be a string"),
        ({"conversation": '"guessed"'}, "should be one of minted, learned, none"),
        ({"start": '["{conversation}", "{name}"]'}, r"start: unknown placeholder \{name\}"),
        ({"start": '["{conversation}", "{prompt}"]'}, r"start: unknown placeholder \{prompt\}"),
        ({"start": '["{conversation}", "{ hooks }"]'}, r"unknown placeholder \{ hooks \}"),
        ({"start": '["{conversation}", "{hooks"]'}, r"unknown placeholder \{; available: "),
        ({"start": '["{{conversation}}"]'}, "unknown placeholder"),
        ({"transcript": '"~/{hooks}"'}, r"transcript: unknown placeholder \{hooks\}"),
        ({"transcript": '"here/{conversation}"'}, "transcript should begin with"),
        ({"start": '["--new"]'}, r"start lacks \{conversation\}, which is minted"),
        ({"resume": '["--again"]'}, r"resume lacks \{conversation\}"),
        ({"conversation": '"learned"'}, "start has .conversation., but it is not known yet"),
        ({"conversation": '"none"'}, "start has .conversation., but there is none"),
        ({"prompt": '["-p"]'}, r"prompt lacks \{prompt\}"),
        ({"fork": '["{conversation}"]'}, r"fork lacks \{parent\}, the conversation to copy"),
        ({"fork": '["{parent}"]'}, r"fork lacks \{conversation\}, which is minted"),
        ({"resume": '["{parent}", "{conversation}"]'}, r"unknown placeholder \{parent\}"),
        ({"rules": '"nobodys"'}, "rules: no rules named nobodys"),
        ({"rules": '"../claude"'}, "rules: invalid name for rules"),
        ({"start": '"x"'}, "agent.start should be a list of strings"),
        ({"hooks": '"x"'}, "unknown key agent.hooks"),
        ({"start": '["{conversation}", "\\u0000"]'}, "agent.start contains a NUL byte"),
    ],
)
def test_an_invalid_agent_table(changes: dict[str, str], told: str) -> None:
    with pytest.raises(StateError, match=told):
        template.decode("x", agent(**changes).encode())


def test_every_problem_is_reported() -> None:
    text = agent(kind='""', start='["{a}", "{b}"]', rules='"nobodys"')
    assert len(template.examine("x", text.encode())[1]) == 5


@given(st.text() | st.binary())
def test_any_bytes_are_a_template_or_a_line(some: str | bytes) -> None:
    raw = some.encode("utf-8", "surrogatepass") if isinstance(some, str) else some
    found, wrong = template.examine("x", raw)
    assert isinstance(found, template.Template)
    assert all(line.startswith("x: ") for line in wrong)


@pytest.mark.parametrize("name", ["aider", "claude", "codex", "gemini", "opencode"])
def test_an_agent_by_its_name_alone(world: World, name: str) -> None:
    """A stand-in of the agent's name: what is started, and what the record knows of it."""
    stand_in = world.root / "bin" / name
    stand_in.parent.mkdir()
    stand_in.write_text("#!/bin/sh\nexec sleep 99\n")
    stand_in.chmod(0o755)
    world.env["PATH"] = f"{stand_in.parent}:{world.env['PATH']}"
    shown = start(world, "one", "-t", name)
    assert (shown["state"], shown["template"], shown["command"][0]) == ("running", name, name)
    kit = read_record(world, "one").spec.kit
    said = world.ok("template", "show", name, "--json").json["template"]["agent"]
    assert kit is not None
    assert _plain(kit) == said
    assert kit.kind == kit.rules == name
    if name == "opencode":  # which never says what conversation it is in
        complains(world.sesh("restart", "one", "-y"), 1, "never reported", "--fresh")
    world.ok("restart", "one", "-y", *(["--fresh"] if name == "opencode" else []))
    assert read_record(world, "one").spec.kit == kit


def test_an_agent_that_is_not_there(world: World) -> None:
    world.env["PATH"] = "/usr/bin:/bin"
    complains(world.sesh("start", "one", "-t", "opencode"), 1, "opencode: command not found")


def test_a_shell_by_template(world: World) -> None:
    shown = start(world, "one", "-t", "shell")
    assert shown["command"] == ["/bin/sh"]
    assert read_record(world, "one").spec.kit is None


def test_an_unknown_template(night: World) -> None:
    complains(night.sesh("start", "one", "-t", "day"), 1, "no template named day", "gemini, night")
    complains(night.sesh("start", "one", "-t", "../night"), 2, "invalid template name")


def test_a_breaker_of_a_template(world: World) -> None:
    world.configure("[breaker]\nfailures = 1\nwithin = 60\ncooldown = 60\n")
    write(world, "bad", 'command = ["false"]\n[start]\nretries = 5\nretry_delay = 0.2\n')
    start(world, "one", "-t", "bad")
    assert eventually(lambda: world.session("one")["attention"], within=20)
    assert "retries of template bad are paused" in world.session("one")["attention"]
    assert "retries of template bad are paused" in world.ok("restart", "one").err
    (event,) = (one for one in world.events() if one["kind"] == "breaker-opened")
    assert event["template"] == "bad"


def test_the_limits_of_a_breaker_in_a_template(world: World) -> None:
    """Those of the settings would never open it."""
    limits = "[breaker]\nfailures = 1\nwithin = 60\ncooldown = 60\n"
    bad = 'command = ["false"]\n[start]\nretries = 5\nretry_delay = 0.2\n'
    write(world, "bad", f"{bad}{limits}")
    start(world, "one", "-t", "bad")
    assert eventually(lambda: world.session("one")["attention"], within=20)
    assert "retries of template bad are paused" in world.session("one")["attention"]
    told = "opens for 1m after more than 1 failure of template bad in 1m"
    assert told in world.ok("show", "one").out
    assert world.session("one")["breaker"] == {"failures": 1, "within": 60, "cooldown": 60}


@pytest.mark.parametrize(
    ("flags", "variable", "template", "settings", "expected"),
    [
        ((), None, None, None, None),  # as the settings say, also those of tomorrow
        ((), None, None, 5, None),
        ((), None, 4, 5, 4),
        ((), "3", 4, 5, 3),
        (("--breaker-failures", "2"), "3", 4, 5, 2),
        (("--breaker-failures", "0"), None, 4, None, 0),
        (("--breaker-within", "9s"), None, None, 5, 5),  # one of them, and the rest as set today
    ],
)
def test_the_origin_of_the_limits_of_a_breaker(
    world: World,
    flags: tuple[str, ...],
    variable: str | None,
    template: int | None,
    settings: int | None,
    expected: int | None,
) -> None:
    if variable is not None:
        world.env["SESH_BREAKER_FAILURES"] = variable
    if settings is not None:
        world.configure(f"[breaker]\nfailures = {settings}\n")
    table = "" if template is None else f"[breaker]\nfailures = {template}\n"
    write(world, "some", f'command = ["sleep", "99"]\n{table}')
    start(world, "one", "-t", "some", *flags)
    limits = read_record(world, "one").spec.breaker
    assert (limits.failures if limits else None) == expected
    if "--breaker-within" in flags:
        assert limits == BreakerLimits(5, 9.0, 1800.0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[breaker]\nfailures = -1\n", "breaker.failures should be a whole number"),
        ("[breaker]\nwithin = 0\n", "breaker.within should be a number of seconds above 0"),
        ("[breaker]\ncooldowm = 9\n", "breaker.cooldowm; did you mean breaker.cooldown?"),
        ("breaker = 3\n", "breaker should be a table"),
    ],
)
def test_wrong_limits_of_a_breaker(world: World, text: str, told: str) -> None:
    write(world, "bad", text)
    complains(world.sesh("start", "one", "-t", "bad", "--", "true"), 6, told)
    complains(world.sesh("template", "check", "bad"), 6, told)


def test_limits_of_a_breaker_that_no_option_takes(world: World) -> None:
    complains(world.sesh("start", "one", "--breaker-within", "0", "--", "true"), 2, "above 0")
    complains(world.sesh("start", "one", "--breaker-failures", "-1", "--", "true"), 2, "from 0")
