"""Calls that need no click: parsed as click would, or left to it."""

from __future__ import annotations

from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesh.terminal import command_table
from tests.terminal.test_fast_answers import loaded
from tests.world import World, count

# Calls of every day, which must not need click.
EVERYDAY = [
    "status one",
    "status --json one",
    "show one",
    "show one --json --color never",
    "logs one",
    "logs -n 5 one",
    "logs --lines=5 one --raw",
    "send one some text",
    "send one --key Enter -k Up --no-enter",
    "send -g web hello",
    "attach one",
    "attach -r one",
    "detach one",
    "stop one",
    "stop one two --keep",
    "stop --all -y",
    "stop -g web -y",
    "restart one",
    "rm one",
    "pause one",
    "resume one",
    "wait one",
    "ls -q",
    "ls -w",
    "ls -a --json",
    "ls -f state=running --filter=group=web --sort name",
    "ls --format {name} --exit-code",
]
ODD = [
    "",
    "-",
    "--",
    "-h",
    "--help",
    "--js",
    "-x",
    "-qw",
    "--json=1",
    "-n5",
    "-n",
    "a=b",
    "-1",
    "é",
]
USED_BY_CLICK = ["start", "finish"]  # they read their words in their own way


def by_click(name: str, argv: list[str]) -> dict[str, Any]:
    command: click.Command = command_table.load(name).click()
    return command.make_context(name, list(argv)).params


@pytest.mark.parametrize("call", EVERYDAY)
def test_an_everyday_call_needs_no_click(call: str) -> None:
    name, *argv = call.split()
    parsed = command_table.load(name).parse(argv)
    assert parsed is not None
    assert parsed == by_click(name, argv)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A command, with words that it knows, and others."""
    name = draw(st.sampled_from(sorted(command_table.COMMANDS)))
    switches = [word for one in command_table.load(name).parameters for word in one.switches]
    values = ["one", "two", "5", "05", "5s", "10m", "yes", "always", "bash", *ODD]
    words = st.sampled_from(values)
    if switches:
        known = st.sampled_from(switches)
        words |= known | st.builds("{}={}".format, known, words) | known.map(lambda one: one[:-1])
    return name, draw(st.lists(words, max_size=5))


@settings(max_examples=count(300, 1500), deadline=None)
@given(calls())
def test_whatever_is_accepted_click_reads_the_same_way(call: tuple[str, list[str]]) -> None:
    name, argv = call
    parsed = command_table.load(name).parse(argv)
    if parsed is not None:
        assert name not in USED_BY_CLICK
        assert parsed == by_click(name, argv)


@pytest.mark.parametrize("word", ODD)
def test_anything_else_is_left_to_click(word: str) -> None:
    assert command_table.load("attach").parse(["one", word]) is None


@pytest.mark.parametrize(
    "call",
    ["status one", "show one", "logs -n 1 one", "send one hi", "ls -q", "stop one"],
)
def test_no_click_is_imported(world: World, call: str) -> None:
    world.start("one")
    _, modules = loaded(world, call.split())
    assert not modules & {"click", "psutil", "sh", "sesh.terminal.main"}


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["status", "none"], 4, "none"),
        (["attach", "one", "two"], 2, "unexpected extra argument"),
        (["rename"], 2, "missing argument"),
        (["show", "one", "--colour", "pink"], 2, "pink"),
        (["logs", "-n", "x", "one"], 2, "x"),
        (["ls", "--no-such-option"], 2, "no such option"),
        (["ls", "--sort", "nonsense"], 2, "nonsense"),
    ],
)
def test_mistakes_are_told_as_ever(world: World, argv: list[str], code: int, said: str) -> None:
    world.start("one")
    done = world.sesh(*argv)
    assert (done.code, done.out) == (code, "")
    assert said in done.err.lower()
