"""sesh help: the help of sesh, of a command, of a topic."""

from __future__ import annotations

import re
import shlex

import pytest

from sesh.__main__ import main
from sesh.commands._topics import TOPICS
from sesh.model import errors
from tests.terminal.test_help import command_of


def test_without_a_topic_it_is_the_help_of_sesh(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == main(["--help"]) == 0
    first, second = capfd.readouterr().out.split("Usage: sesh")[1:]
    assert first == second


def test_the_topic_for_scripts(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "scripting"]) == 0
    text = capfd.readouterr().out
    assert [int(code) for code in re.findall(r"^  (\d+)  ", text, re.M)] == [*errors.EXIT_CODES]
    for word in ("--json", "sesh wait", "sesh update", "sesh finish"):
        assert word in text


def test_the_calls_of_topics_are_such_that_sesh_takes() -> None:
    calls = [call for topic in TOPICS.values() for rows in topic.values() for call in rows]
    parts = [part for call in calls for part in call.split(" && ") if part.startswith("sesh ")]
    for part in parts:
        _, name, *arguments = shlex.split(part)
        command_of(name).make_context(name, arguments)
