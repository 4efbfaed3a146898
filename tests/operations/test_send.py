"""Typing into a session, where the screen changes between two looks: injected, as no program does
it at the right moment by itself."""

from __future__ import annotations

import pytest

from sesh.agents import dialogs, screen
from sesh.agents.screen import OpenQuestion
from sesh.model.errors import ConflictError
from sesh.model.record import Answers
from sesh.operations import send
from sesh.operations.send import Terminal
from sesh.places import agent_files
from tests.agents.test_dialogs import BASH, MODE


class Changing(Terminal):
    """Shows one screen after another, and keeps what is pressed."""

    def __init__(self, *shown: str) -> None:
        self.name = "a"
        self.answers = Answers()
        self.slowness = 1.0
        self.launch = None  # type: ignore[assignment]  # nobody has said anything
        self.shown = [*shown]
        self.pressed: list[str] = []

    def asked(self) -> OpenQuestion | None:
        return screen.menu_question(self.screen())

    def screen(self) -> str:
        return self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]

    def printed(self) -> int:
        return 0

    def press(self, *keys: str) -> None:
        self.pressed += keys

    def lives(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_files, "last_hook", lambda _: None)


@pytest.mark.parametrize(
    "after",
    ["", MODE, BASH.replace("rm -rf build", "rm -rf /"), BASH.replace("4. No", "4. Never")],
    ids=["gone", "another", "another command", "other answers"],
)
def test_a_question_that_changes_before_the_key_is_not_answered(after: str) -> None:
    terminal = Changing(BASH, after)
    with pytest.raises(ConflictError, match="its question has changed; nothing was typed"):
        send.answer(terminal, "yes")
    assert terminal.pressed == []


def test_a_half_drawn_screen_does_not_confirm() -> None:
    terminal = Changing(BASH, BASH, "", BASH, "", "")
    assert send.answer(terminal, "no") == "denied Do you want to proceed?"
    assert terminal.pressed == ["4"]
    assert terminal.shown == [""]


def test_an_option_without_a_number_is_marked_before_it_is_taken() -> None:
    marked = MODE.replace("❯ Yes", "  Yes").replace("  No", "❯ No")
    read = dialogs.read(marked)
    assert read is not None
    assert read.marked == "2"
    terminal = Changing(MODE, MODE, MODE, marked, "")
    send.answer(terminal, "no")
    assert terminal.pressed == ["Down", "Enter"]


def test_a_mark_that_does_not_move_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send, "GONE", 0.1)
    terminal = Changing(MODE)
    with pytest.raises(ConflictError, match="it was not answered"):
        send.answer(terminal, "no")
    assert terminal.pressed == ["Down"]
