"""The help of sesh and of its commands, aliases, and what is suggested for misspelt words."""

from __future__ import annotations

import string
from collections.abc import Iterator

import click
import pytest

from sesh.__main__ import main
from sesh.commands import _help
from sesh.terminal import command_table
from sesh.terminal import main as cli
from sesh.terminal.command_table import ALIASES, COMMANDS, GROUPS, LISTED, PLUMBING
from tests.surroundings import Terminal, complains
from tests.terminal.test_fast_answers import loaded
from tests.test_docs import examples
from tests.world import SESH, World

HEADINGS = ["Run:", "Look:", "Talk:", "Clean up:", "Set up:", "For agents and scripts:"]
DANGEROUS = {"rm", "remove", "delete", "stop", "kill", "gc", "pass", "hook"}


def command_of(name: str) -> _help.Command:
    found = cli.group.get_command(click.Context(cli.group), name)
    assert isinstance(found, _help.Command)
    return found


def printed(capfd: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(list(argv)) == 0
    return capfd.readouterr().out


# --- the list of commands ----------------------------------------------------------------------


def test_the_commands_are_in_groups_each_with_what_it_does(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(capfd, "--help").splitlines()
    assert [line for line in lines if line in HEADINGS] == HEADINGS
    assert "Options:" in lines
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80
    for name, what in LISTED.items():
        assert f"  {name:<{max(map(len, LISTED))}}  {what}" in lines
    assert not [line for line in lines if line.split()[:1] in (["pass"], ["hook"])]
    assert sum(line.startswith("  sesh ") for line in lines) == 3
    assert any("-v, " in line and "sesh version" in line for line in lines)
    aliases = " ".join(lines).partition("Aliases: ")[2].partition(" Options:")[0]
    assert "start: new, run; stop --force: kill; attach: a, open;" in aliases
    assert {*ALIASES} <= {*aliases.replace(",", " ").replace(";", " ").split(), "version"}


def test_every_command_is_in_one_group_or_plumbing() -> None:
    grouped = [name for group in GROUPS.values() for name in group]
    assert sorted([*grouped, *PLUMBING]) == sorted(COMMANDS)
    assert not ALIASES.keys() & COMMANDS.keys()


@pytest.mark.parametrize("columns", [80, 40])
def test_no_help_is_wider_than_the_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    calls = [["--help"], ["help", "scripting"], *([name, "--help"] for name in COMMANDS)]
    wide = [
        (call, line)
        for call in calls
        for line in printed(capfd, *call).splitlines()
        if len(line) > columns and " " in line.strip()
    ]
    assert wide == []


def test_help_in_a_pager_is_as_wide_as_the_terminal(world: World) -> None:
    """Also where the output is a pipe, and only the errors go to the terminal."""
    screen = Terminal(world, "sh", "-c", f"{SESH} help gc | cat", columns=40)
    code, text = screen.finish()
    assert code == 0
    assert "  --older-than TIME\n      Archive sessions" in text


def test_on_a_narrow_terminal_an_option_is_above_its_explanation(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = printed(capfd, "gc", "--help").splitlines()
    at = lines.index("  --older-than TIME")
    assert lines[at + 1].startswith("      Archive sessions")


# --- sesh help ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*LISTED, "pass"])
def test_help_of_a_command_is_its_help(capfd: pytest.CaptureFixture[str], name: str) -> None:
    assert printed(capfd, "help", name) == printed(capfd, name, "--help")


CALLS = sorted({call for name in COMMANDS for call in command_of(name).examples})


@pytest.mark.parametrize("call", CALLS)
def test_an_example_is_a_call_that_sesh_takes(call: str) -> None:
    found = examples("$ " + call.replace('"', " "))
    assert found
    for _, name, *arguments in found:
        command_of(name).make_context(name, arguments)


# --- aliases -----------------------------------------------------------------------------------


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_its_command(capfd: pytest.CaptureFixture[str], alias: str) -> None:
    name = ALIASES[alias][0]
    if name == "--version":
        assert printed(capfd, alias) == printed(capfd, name)
        return
    text = printed(capfd, name, "--help")
    assert printed(capfd, alias, "--help") == printed(capfd, "help", alias) == text
    shown = " ".join(text.split())
    assert alias in shown.partition(" Aliases: ")[2].partition(" Options: ")[0].partition(":")[0]


def test_what_people_try_first(world: World) -> None:
    assert world.ok("new", "one", "--", "sleep", "1000").out == "one\n"
    assert world.ok("run", "two", "--", "sleep", "1000").out == "two\n"
    for alias in ("list", "ps"):
        assert [one["name"] for one in world.ok(alias, "--json").json] == ["one", "two"]
    for alias in ("info", "inspect"):
        assert world.ok(alias, "one", "--json").json["name"] == "one"
    for alias in ("log", "tail"):
        world.ok(alias, "one")
    for alias in ("a", "open"):
        complains(world.sesh(alias, "one"), 2, "terminal")
    world.ok("kill", "one")
    world.ok("stop", "-f", "two")
    assert [world.state_of(name) for name in ("one", "two")] == ["stopped", "stopped"]
    world.ok("remove", "one")
    world.ok("delete", "two")
    assert world.ls() == []


def test_a_forced_stop_does_not_wait(world: World) -> None:
    """The grace of the settings would be longer than the test may take."""
    world.configure("[stop]\ngrace = 3000\n")
    world.start("one", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
    world.ok("kill", "one")
    assert world.state_of("one") == "stopped"


@pytest.mark.parametrize(
    "argv",
    [["ps", "--json"], ["list"], ["info", "one"], ["tail", "-n", "1", "one"], ["kill", "one"]],
    ids=" ".join,
)
def test_an_alias_goes_without_click_like_its_command(world: World, argv: list[str]) -> None:
    world.start("one")
    _, modules = loaded(world, argv)
    assert not modules & {"click", "psutil", "sh", "sesh.terminal.main"}
    assert "sesh.commands.ls" not in modules  # but the fast lane


# --- did you mean ------------------------------------------------------------------------------


def misspelt(word: str) -> Iterator[str]:
    """All words that differ from this one by one letter, or by the order of two."""
    parts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    for before, after in parts:
        yield from (before + letter + after for letter in string.ascii_lowercase)
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in string.ascii_lowercase)
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]


def test_no_harmless_typo_is_answered_by_a_dangerous_command() -> None:
    known = {*COMMANDS, *ALIASES}
    typos = {typo for word in DANGEROUS for typo in misspelt(word) if typo not in known}
    for typo in (typos - {""}) | {
        "top",
        "store",
        "stap",
        "halt",
        "hooks",
        "past",
        "run-all",
        "destroy",
    }:
        near = command_table.hint(typo).removeprefix("did you mean ").rstrip("?")
        assert near not in DANGEROUS or sorted(near) == sorted(typo), typo


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("top", "next: sesh --help"),
        ("stpo", "did you mean stop?"),
        ("klil", "did you mean kill?"),
        ("sow", "did you mean show?"),
        ("strat", "did you mean start?"),
        ("restat", "did you mean restart?"),
        ("lits", "did you mean list?"),
        ("atach", "did you mean attach?"),
        ("delet", "next: sesh --help"),
        ("conf", "did you mean config?"),
        ("complation", "did you mean completion?"),
        ("nope", "next: sesh --help"),
    ],
)
def test_did_you_mean(capfd: pytest.CaptureFixture[str], typed: str, hint: str) -> None:
    assert main([typed]) == 2
    assert capfd.readouterr().err == f"sesh: no command named {typed}; {hint}\n"


@pytest.mark.parametrize("topic", ["nonsense", "nope", "scriptin", "stpo"])
def test_help_on_what_does_not_exist(capfd: pytest.CaptureFixture[str], topic: str) -> None:
    near = {"scriptin": "scripting", "stpo": "stop"}
    hint = f"did you mean {near[topic]}?" if topic in near else "next: sesh --help"
    assert main(["help", topic]) == 2
    assert capfd.readouterr().err == f"sesh: no help for {topic}; {hint}\n"


def test_no_misspelt_option_is_answered_by_a_dangerous_or_hidden_one(
    capfd: pytest.CaptureFixture[str],
) -> None:
    careful = cli._CAREFUL
    for name in COMMANDS:
        options = [one for one in command_of(name).params if isinstance(one, click.Option)]
        hidden = {word for one in options if one.hidden for word in one.opts}
        known = {word for one in options for word in (*one.opts, "--help")}
        for word in sorted(word for word in known if word.startswith("--") and name != "hook"):
            for typo in {word[:-1], word[:2] + word[3:], f"{word}s"} - known - {"--", "-"}:
                assert main([name, typo]) == 2
                said = capfd.readouterr().err
                near = said.partition("did you mean ")[2].rstrip("?\n")
                assert near not in careful | hidden or sorted(near) == sorted(typo), said


def test_a_misspelt_option_names_the_one_that_was_meant(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "--quite"]) == 2
    assert capfd.readouterr().err == "sesh: no such option --quite; did you mean --quiet?\n"
    assert main(["rm", "--forc", "x"]) == 2
    assert "--force" not in capfd.readouterr().err
    assert main(["rm", "--froce", "x"]) == 2
    assert "did you mean --force?" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("rm --all", "next: sesh rm --help"),
        ("pause --all", "next: sesh pause --help"),
        ("logs --color", "next: sesh logs --help"),
        ("show --colur never", "did you mean --color?"),
        ("events --follw", "did you mean --follow?"),
        ("gc --dry", "did you mean --dry-run?"),
        ("--json", "next: sesh --help"),
        ("remove --all", "next: sesh rm --help"),
    ],
)
def test_an_option_that_does_not_exist(
    capfd: pytest.CaptureFixture[str], call: str, hint: str
) -> None:
    assert main(call.split()) == 2
    assert capfd.readouterr().err.endswith(f"; {hint}\n")


# --- other mistakes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("show --nope", "no such option --nope; next: sesh show --help"),
        ("show --sesh", "no such option --sesh; next: sesh show --help"),
        ("ls --sort", "option '--sort' requires an argument; next: sesh ls --help"),
        ("logs -n", "option '-n' requires an argument; next: sesh logs --help"),
        ("tail -n", "option '-n' requires an argument; next: sesh logs --help"),
        (
            "start --retries 5000 a b",
            "invalid value for '--retries': 5000 should be a whole number from 0 to 1000; "
            "next: sesh start --help",
        ),
        (
            "start --health-retries x a b",
            "invalid value for '--health-retries': x should be a whole number from 1 to 1000; "
            "next: sesh start --help",
        ),
        (
            "events -n -1",
            "invalid value for '-n' / '--lines': -1 should be a whole number, 0 or more; "
            "next: sesh events --help",
        ),
    ],
)
def test_a_mistake_names_the_help_of_the_command(
    capfd: pytest.CaptureFixture[str], call: str, said: str
) -> None:
    assert main(call.split()) == 2
    assert capfd.readouterr().err == f"sesh: {said}\n"
