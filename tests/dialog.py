"""A program that asks as Claude Code and Codex do: its dialog ignores a paste, takes the marked
option at Enter, and any option by its number. (The real ones: tests/agents/.)"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.world import World, eventually

_PROGRAM = r"""
import os, tty
DIALOGS = {
    "run": ("Do you want to proceed?", ["Yes", "Yes, and don't ask again for it", "No"]),
    "trust": ("Is this a project you trust?", ["Yes, I trust this folder", "No, exit"]),
    "where": ("Where should it run?", ["Use this directory", "Make a new one"]),
    "ask": ("Which color?", ["Red", "Blue", "Type something."]),
    "stuck": ("Do you want to be stuck?", ["Yes", "No"]),
    "next": ("Do you want to proceed?", ["Yes", "No"]),
}
state = {"kind": None, "about": "", "at": 0, "text": "", "said": [], "deaf": False}

def note(name, text):
    with open(name, "a") as file:
        file.write(text + "\n")

def draw():
    lines = list(state["said"][-4:])
    if state["kind"]:
        asked, options = DIALOGS[state["kind"]]
        lines += ["─" * 60, " Bash command", "", f"   {state['about']}", "", f" {asked}"]
        for number, label in enumerate(options):
            field = state["text"] if label.startswith("Type") and state["text"] else label
            mark = "❯" if number == state["at"] else " "
            lines.append(f" {mark} {number + 1}. {field}")
        lines += ["", " Esc to cancel"]
    else:
        lines += ["─" * 60, "❯ " + state["text"], "─" * 60, "  ? for shortcuts"]
    os.write(1, ("\x1b[2J\x1b[H" + "\r\n".join(lines)).encode())

def decide(number):
    kind, options = state["kind"], DIALOGS[state["kind"]][1]
    if number >= len(options) or kind == "stuck":
        return
    if options[number].startswith("Type") and not state["text"]:
        state["at"] = number
        return
    note("decided", f"{kind} {number + 1} {state['text']}".strip())
    state.update(kind="next" if state["about"] == "twice" else None, at=0, text="", about="again")

def prompt():
    text = state["text"]
    if state["deaf"] or not text:
        return
    note("prompts", text)
    word, _, rest = text.partition(" ")
    state["said"].append("> " + text)
    state["deaf"] = word == "deaf"
    state.update(text="", at=0, kind=word if word in DIALOGS else None, about=rest)

def key(char):
    if state["kind"]:
        if char == "\r":
            decide(state["at"])
        elif char == "\x1b":
            decide(len(DIALOGS[state["kind"]][1]) - 1)
        elif char.isdigit() and not state["text"]:
            decide(int(char) - 1)
    elif char == "\r":
        prompt()

def paste(text):
    field = state["kind"] and DIALOGS[state["kind"]][1][state["at"]].startswith("Type")
    if text == "surprise":  # it asks while somebody types
        state.update(kind="run", about="rm -rf build")
    elif field or not state["kind"]:
        state["text"] += text

tty.setraw(0)
os.write(1, b"\x1b[?2004h")
draw()
while data := os.read(0, 65536).decode():
    while data:
        if data.startswith("\x1b[200~"):
            text, _, data = data[6:].partition("\x1b[201~")
            paste(text)
        else:
            key(data[0])
            data = data[1:]
    draw()
"""
_TEMPLATE = """\
[agent]
kind = "asker"
rules = "asker"

[agent.answers]
text = ["Type something"]
"""
_RULES = """\
version = 1

[[screen]]
contains = ["Do you want to", "❯ 1. Yes"]
lines = 20
means = "waiting"
what = "permission"
"""


def begin(world: World, name: str = "a", *options: str) -> None:
    """Start it by a template of the user's, and wait until it takes prompts."""
    for path, text in (("templates", _TEMPLATE), ("rules", _RULES)):
        file = world.root / "config" / "sesh" / path / "asker.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    program = world.root / "asker.py"
    program.write_text(_PROGRAM)
    world.ok("start", name, "-t", "asker", *options, "--", sys.executable, str(program))
    assert eventually(lambda: "? for shortcuts" in screen(world, name))


def screen(world: World, name: str = "a") -> str:
    return world.tmux("capture-pane", "-p", "-t", f"={name}:")


def asks(world: World, what: str, name: str = "a") -> None:
    """Have it ask, and wait for the dialog."""
    world.ok("send", name, what)
    assert eventually(lambda: "Esc to cancel" in screen(world, name)), screen(world, name)


def lines(world: World, file: str) -> list[str]:
    """What it was prompted with, or what was decided."""
    path = Path(world.cwd) / file
    return path.read_text().splitlines() if path.exists() else []
