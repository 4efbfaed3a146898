"""The question that an agent asks, for JSON and for people. PURE, and light for fast lanes.

The tool and its input come from the permission hook or the agent's transcript. The possible answers
come from the screen (`agents/dialogs`).
"""

from __future__ import annotations

from sesh.model.value_object import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

HOOK, TRANSCRIPT, SCREEN = "hook", "transcript", "screen"
USES = "wants to use"  # a file
# The part of a tool's input that matters: the first of these keys, and what the tool does with it.
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
    """An answer that the screen offers, with its key or number."""

    key: str
    label: str


class Question(Value):
    """A question. `input` is the tool's input as the agent gave it."""

    text: str
    source: str
    tool: str | None = None
    input: Mapping[str, Any] | None = None
    options: tuple[Option, ...] = ()


def of_tool(tool: str | None, given: Mapping[str, Any] | None, source: str) -> Question | None:
    """The question of an agent that wants to use a tool."""
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
    """The part of a tool's input that matters for a decision: a verb and its object."""
    for name, verb in _MATTERS.items():
        value = given.get(name)
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return verb, " ".join(value)
        if isinstance(value, str) and value:
            return verb, value
    return None


def is_about(asked: Question, words: str) -> bool:
    """Do the words occur in the question or in the tool's input?"""
    parts = (asked.text, *(part for part in (asked.input or {}).values() if isinstance(part, str)))
    return any(words in part for part in parts)


def subject(asked: Question, longest: int) -> str:
    """The subject of a question in a line: `Bash (rm -rf build)`."""
    found = matter(asked.input or {})
    text = line(found[1] if asked.tool and found else asked.text)
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return f"{asked.tool} ({short})" if asked.tool and found else short


def line(text: str) -> str:
    """A text as one line."""
    return " ".join(text.split())


def plain(asked: Question) -> dict[str, Any]:
    """The question as in JSON."""
    return {
        "tool": asked.tool,
        "input": dict(asked.input) if asked.input is not None else None,
        "text": asked.text,
        "options": [{"key": one.key, "label": one.label} for one in asked.options],
        "source": asked.source,
    }


def of_plain(values: Mapping[str, Any]) -> Question:
    """The inverse of `plain`."""
    options = tuple(Option(one["key"], one["label"]) for one in values["options"])
    return Question(**{**values, "options": options})
