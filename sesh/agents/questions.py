"""What an agent asks: as JSON, and in a line for people. PURE, and light: fast lanes show it.

Which tool it wants to use, and with what, its permission hook says, or its own transcript; which
answers there are, only its screen (see dialogs.py).
"""

from __future__ import annotations

from sesh.model.value_object import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

HOOK, TRANSCRIPT, SCREEN = "hook", "transcript", "screen"
USES = "wants to use"  # a file
# What matters of a tool's input: the first of these that it has, and what the tool does with it.
_MATTERS = {
    "command": "wants to run",
    "cmd": "wants to run",
    "file_path": USES,
    "notebook_path": USES,
    "path": USES,
    "url": "wants to fetch",
    "pattern": "wants to search for",
    "query": "wants to search for",
    "input": USES,
}


class Option(Value):
    """One answer that the screen offers, and the key or number in front of it."""

    key: str
    label: str


class Question(Value):
    """What is asked. `input` is as the agent gave it."""

    text: str
    source: str
    tool: str | None = None
    input: Mapping[str, Any] | None = None
    options: tuple[Option, ...] = ()


def of_tool(tool: str | None, given: Mapping[str, Any] | None, source: str) -> Question | None:
    """What is asked by an agent that wants to use a tool."""
    if tool is None:
        return None
    return Question(_sentence(tool, given or {}), source, tool, given)


def _sentence(tool: str, given: Mapping[str, Any]) -> str:
    asked = given.get("questions")
    first = asked[0] if isinstance(asked, list) and asked else None
    if isinstance(first, dict) and isinstance(first.get("question"), str):
        return str(first["question"])
    found = matter(given)
    return f"{tool} {found[0]}: {found[1]}" if found else f"{tool} asks for permission"


def matter(given: Mapping[str, Any]) -> tuple[str, str] | None:
    """The part of a tool's input that a person decides by: what is done, and with what."""
    for name, verb in _MATTERS.items():
        value = given.get(name)
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return verb, " ".join(value)
        if isinstance(value, str) and value:
            return verb, value
    return None


def is_about(asked: Question, words: str) -> bool:
    """Does it ask about that: a part of the command, the file, the question?"""
    parts = (asked.text, *(part for part in (asked.input or {}).values() if isinstance(part, str)))
    return any(words in part for part in parts)


def subject(asked: Question, longest: int) -> str:
    """`Bash (rm -rf build)`: what an answer was about, in a line."""
    found = matter(asked.input or {})
    told = line(found[1] if asked.tool and found else asked.text)
    short = told if len(told) <= longest else f"{told[: longest - 1]}…"
    return f"{asked.tool} ({short})" if asked.tool and found else short


def line(text: str) -> str:
    """A text in one line."""
    return " ".join(text.split())


def plain(asked: Question) -> dict[str, Any]:
    """As JSON shows it."""
    return {
        "tool": asked.tool,
        "input": dict(asked.input) if asked.input is not None else None,
        "text": asked.text,
        "options": [{"key": one.key, "label": one.label} for one in asked.options],
        "source": asked.source,
    }


def of_plain(values: Mapping[str, Any]) -> Question:
    """The inverse."""
    options = tuple(Option(one["key"], one["label"]) for one in values["options"])
    return Question(**{**values, "options": options})
