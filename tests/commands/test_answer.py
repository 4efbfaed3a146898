"""sesh answer: the question that is open now, and nothing else."""

from __future__ import annotations

import sys

import pytest

from tests import dialog
from tests.surroundings import complains
from tests.world import World, eventually

# --- answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "answer", "decided", "said"),
    [
        ("run rm -rf build", "yes", "run 1", "allowed Do you want to proceed?"),
        ("run rm -rf build", "no", "run 3", "denied Do you want to proceed?"),
        ("run rm -rf build", "always", "run 2", "always allowed Do you want to proceed?"),
        ("run rm -rf build", "2", "run 2", "answered 2 (Yes, and don't ask again for it)"),
        ("trust it", "no", "trust 2", "denied Is this a project you trust?"),
        ("where now", "2", "where 2", "answered 2 (Make a new one)"),
        ("ask me", "a nice green", "ask 3 a nice green", "answered a nice green: Which color?"),
    ],
    ids=lambda value: value.replace(" ", "_"),
)
def test_takes_the_option_that_is_meant(
    world: World, what: str, answer: str, decided: str, said: str
) -> None:
    dialog.begin(world)
    dialog.asks(world, what)
    done = world.ok("answer", "a", answer)
    assert done.out.startswith(f"a: {said}")
    assert dialog.lines(world, "decided") == [decided]
    assert "Esc to cancel" not in dialog.screen(world)


def test_the_next_question_is_not_answered_with_it(world: World) -> None:
    dialog.begin(world)
    dialog.asks(world, "where twice")
    world.ok("answer", "a", "1")
    assert dialog.lines(world, "decided") == ["where 1"]
    assert "Do you want to proceed?" in dialog.screen(world)


# --- refused, and nothing typed ----------------------------------------------------------------


def test_answers_that_the_question_does_not_have(world: World) -> None:
    dialog.begin(world)
    dialog.asks(world, "where now")
    for word in ("yes", "no", "always", "3", "0", "green", "Enter"):
        complains(world.sesh("answer", "a", word), 8, "no option", "1 Use this directory")
    assert dialog.lines(world, "decided") == []


def test_no_question(world: World) -> None:
    dialog.begin(world)
    complains(world.sesh("answer", "a", "yes"), 8, "no open question")
    assert "yes" not in dialog.screen(world)


def test_another_question_than_the_one_that_was_decided(world: World) -> None:
    dialog.begin(world)
    dialog.asks(world, "where now")
    complains(world.sesh("answer", "a", "1", "--about", "proceed"), 8, "does not match", "Where")
    assert dialog.lines(world, "decided") == []
    world.ok("answer", "a", "1", "--about", "should it run")
    assert dialog.lines(world, "decided") == ["where 1"]


def test_a_dialog_of_a_program_without_a_template(world: World) -> None:
    """An agent that was started by its command alone: nothing but its screen is known."""
    dialog.begin(world, "b")
    world.start("a", sys.executable, str(world.root / "asker.py"))
    assert eventually(lambda: "? for shortcuts" in dialog.screen(world))
    dialog.asks(world, "run rm -rf build")
    done = world.sesh("send", "a", "no")
    assert done.code == 8
    assert "answer it: sesh answer a yes|no" in done.err
    assert dialog.lines(world, "decided") == []
    assert world.ok("answer", "a", "no").out == "a: denied Do you want to proceed?\n"
    assert dialog.lines(world, "decided") == ["run 3"]


def test_a_program_that_sesh_does_not_know(world: World) -> None:
    world.start("a", "cat")
    complains(world.sesh("answer", "a", "yes"), 8, "no open question")
    assert world.ok("logs", "a").out == ""


def test_a_dialog_that_stays_is_not_confirmed(world: World) -> None:
    dialog.begin(world)
    dialog.asks(world, "stuck now")
    complains(world.sesh("answer", "a", "yes"), 1, "not confirmed", "be stuck?")


def test_an_ended_session_and_an_unknown_name(world: World) -> None:
    world.start("a", "false")
    assert eventually(lambda: world.state_of("a") == "failed")
    complains(world.sesh("answer", "a", "yes"), 3, "ended")
    complains(world.sesh("answer", "nobody", "yes"), 4, "nobody")
    complains(world.sesh("answer", "a", ""), 2, "missing answer")


# --- what is asked -----------------------------------------------------------------------------


def test_show_and_json_carry_the_question(world: World) -> None:
    dialog.begin(world)
    assert world.session("a")["question"] is None
    dialog.asks(world, "run rm -rf build")
    question = world.session("a")["question"]
    assert question["text"] == "Do you want to proceed?"
    assert question["source"] == "screen"
    assert [one["key"] for one in question["options"]] == ["1", "2", "3"]
    assert question["options"][2]["label"] == "No"
    assert world.ok("show", "--json", "a").json["question"] == question
    shown = world.ok("show", "a").out
    assert "asks" in shown
    assert "3. No" in shown
    assert "Do you want to proceed?" in world.ok("ls").out
    world.ok("answer", "a", "no")
    assert world.session("a")["question"] is None
