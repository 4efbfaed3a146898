"""Dialogs as they stand on real screens (Claude Code 2.1.327, Codex 0.169.0, aider 0.86.2, Gemini
CLI 0.61.0): what is asked, which answers there are, and what is none."""

from __future__ import annotations

import pytest

from sesh.agents import dialogs, questions
from sesh.agents.dialogs import Dialog
from sesh.model.record import Answers

BASH = """
❯ run rm -rf build

● Rm -rf build
  ⎿  $ rm -rf build

────────────────────────────────────────────────────────────
 Bash command
 Tip: auto mode handles these prompts for you — choose "switch to auto mode" below
 rm -rf build
╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌
 rm -rf build
╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌
 Do you want to proceed?
 ❯ 1. Yes
   2. Yes, and always allow access to /home/ada/work from this project
   3. Yes, and switch to auto mode · auto mode handles these prompts for you
   4. No

 Esc to cancel · Tab to amend
"""
WRITE = """
────────────────────────────────────────────────────────────
 Create file
 new.txt
╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌
  1 hello
╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌
 Do you want to create new.txt?
 ❯ 1. Yes
   2. Yes, and switch to accept edits (auto-approve file edits and common file commands) for this
      session (shift+tab)
   3. No

 Esc to cancel · Tab to amend
"""
ASK = """
────────────────────────────────────────────────────────────
 ☐ Color

Which color?

  1. Red
     warm
❯ 2. Blue
     cold
  3. Type something.
────────────────────────────────────────────────────────────
  4. Chat about this

Enter to select · ↑/↓ to navigate · Esc to cancel
"""
MODE = """
────────────────────────────────────────────────────────────
  Make auto mode your default permission mode?

  Auto mode lets Claude handle permission prompts automatically.

  ❯ Yes, set auto mode as my default permission mode
    No, keep manual mode
"""
EXEC = """
• Running touch made

  Would you like to run the following command?

  Environment: local

  Reason: May I?

  $ touch made


› 1. Yes, proceed (y)
  2. Yes, and don't ask again for commands that start with `touch made` (p)
  3. No, and tell Codex what to do differently (esc)

  Press enter to confirm or esc to cancel
"""
WHERE = """
  Where should the new conversation run?


› 1. Use current Git worktree  Keep using the current working directory
  2. Create new Git worktree   Create a separate checkout of this repository in another directory

  enter select · esc back
"""
GEMINI = """
╭──────────────────────────────────────────╮
│ Do you trust the files in this folder?   │
│                                          │
│ ● 1. Trust folder (work)                 │
│   2. Trust parent folder (ada)           │
│   3. Don't trust                         │
╰──────────────────────────────────────────╯
"""
AIDER = """
Add README.md to the chat? (Y)es/(N)o/(D)on't ask again [Yes]:
"""
CLAUDE = Answers(
    always=("Yes, and always", "Yes, and switch to accept edits"), text=("Type something",)
)


def read(screen: str) -> Dialog:
    found = dialogs.read(screen)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("screen", "text", "count", "marked"),
    [
        (BASH, "Do you want to proceed?", 4, "1"),
        (WRITE, "Do you want to create new.txt?", 3, "1"),
        (ASK, "Which color?", 4, "2"),
        (MODE, "Make auto mode your default permission mode?", 2, "1"),
        (EXEC, "Would you like to run the following command?", 3, "1"),
        (WHERE, "Where should the new conversation run?", 2, "1"),
        (GEMINI, "Do you trust the files in this folder?", 3, "1"),
        (AIDER, "Add README.md to the chat?", 3, ""),
    ],
    ids=["bash", "write", "ask", "mode", "exec", "where", "gemini", "aider"],
)
def test_what_is_asked(screen: str, text: str, count: int, marked: str) -> None:
    found = read(screen)
    assert (found.text, len(found.options), found.marked) == (text, count, marked)
    assert found.numbered == (screen != MODE)


IDLE = """
❯ 1. fix the test
  2. then stop

● Done: 1. the test, 2. the stop

────────────────────────────────────────────────────────────
❯
────────────────────────────────────────────────────────────
  ? for shortcuts
"""
BUSY = """
› 1. fix the test
  2. then stop

• Working (3s • esc to interrupt)

› Ask Codex to do anything

  stub default · /home/ada/work
  ← for agents · ? for shortcuts
"""


@pytest.mark.parametrize(
    "screen",
    [
        *("", "\n\n", "$ ls\n1. one\n2. two\n", "❯ 1. only one\n", IDLE, BUSY, "> "),
        "❯ Is it?\n  no\n────────────\n  ? for shortcuts\n",
        "(Y)es or (N)o, said somebody\n",
        "~/src\n❯ ls\n  what?\n  a  b\n❯ git status\n",
        "────────────\n which?\n a\n❯\n",
    ],
)
def test_screens_without_a_dialog(screen: str) -> None:
    assert dialogs.read(screen) is None


@pytest.mark.parametrize(
    ("screen", "word", "key"),
    [
        *((BASH, "yes", "1"), (BASH, "no", "4"), (BASH, "always", "2"), (BASH, "3", "3")),
        *((BASH, "5", None), (BASH, "0", None), (BASH, "no, fix it", None), (BASH, "²", None)),
        *((WRITE, "always", "2"), (EXEC, "yes", "1"), (EXEC, "no", "3")),
        *((ASK, "2", "2"), (ASK, "yes", None), (ASK, "green", "3")),
        *((MODE, "yes", "1"), (MODE, "no", "2"), (MODE, "always", None)),
        *((WHERE, "yes", None), (WHERE, "2", "2"), (AIDER, "yes", "y"), (AIDER, "no", "n")),
    ],
)
def test_the_option_that_an_answer_means(screen: str, word: str, key: str | None) -> None:
    found = dialogs.choose(read(screen), CLAUDE, word)
    assert (found.option.key if found else None) == key


def test_another_command_is_another_question() -> None:
    other = BASH.replace("rm -rf build", "rm -rf /")
    assert dialogs.same(
        read(BASH), read(BASH.replace("❯ 1. Yes", "  1. Yes").replace("  4", "❯ 4"))
    )
    assert not dialogs.same(read(BASH), read(other))
    assert not dialogs.same(read(EXEC), read(EXEC.replace("$ touch made", "$ touch more")))


@pytest.mark.parametrize(
    ("command", "source"),
    [("rm -rf build", "hook"), ("rm -rf build && echo done\n", "screen"), ("make", "screen")],
)
def test_a_hook_is_believed_only_of_what_the_screen_shows(command: str, source: str) -> None:
    """Of two tools that want to run, it may have told of the other."""
    told = questions.of_tool("Bash", {"command": command}, questions.HOOK)
    asked = dialogs.question(read(BASH), told)
    assert asked.source == source
    assert len(asked.options) == 4
    if source == "hook":
        assert questions.subject(asked, 100) == "Bash (rm -rf build)"
        assert questions.subject(asked, 7) == "Bash (rm -rf…)"
