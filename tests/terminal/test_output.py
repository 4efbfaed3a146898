"""Messages for people: wrapped where a terminal looks on, one line in a pipe."""

from __future__ import annotations

from tests.surroundings import Terminal
from tests.world import SESH, World


def test_a_note_is_wrapped_between_words_under_itself(world: World) -> None:
    code, screen = Terminal(world, SESH, "ls", columns=40).finish()
    assert code == 0
    assert screen == ("sesh: no sessions; next:\n      sesh start NAME COMMAND\n")
    world.start("a")
    _, screen = Terminal(world, SESH, "start", "a", "--", "true", columns=40).finish()
    assert all(len(line) <= 40 for line in screen.splitlines()), screen
    first, *rest = screen.splitlines()
    assert first.startswith("sesh: a ")
    assert rest
    assert all(line.startswith(" " * 6) and line[6] != " " for line in rest), screen


def test_in_a_pipe_a_note_is_one_line(world: World) -> None:
    for columns in ("20", "40"):
        done = world.sesh("ls", env={**world.env, "COLUMNS": columns})
        assert done.err == "sesh: no sessions; next: sesh start NAME COMMAND\n"


def test_a_question_is_wrapped_between_words(world: World) -> None:
    names = ["a-session-with-a-name", "another-of-these", "c"]
    for name in names:
        world.start(name)
    asked = Terminal(world, SESH, "stop", "--all", columns=40)
    assert asked.shows("[y/N]:")
    shown = asked.screen().rstrip()
    assert shown == ("stop a-session-with-a-name,\nanother-of-these and c? [y/N]:")
    asked.type("n", "Enter")
    assert asked.finish()[0] == 1


def test_a_word_that_is_longer_than_a_line_stays_whole() -> None:
    from sesh.model.text.formatting import hanging

    path = "/a/very/long/path/to/a/file/somewhere"
    assert hanging("sesh: ", f"{path}: no such file", 30) == (f"sesh: {path}:\n      no such file")
