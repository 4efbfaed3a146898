"""What a title or a screen says of an agent: rules, tried in their order; the first that fits wins.

Plain comparisons of text and nothing else, so that a fast lane can try them. Where rules come from
is not known here: see rulefiles.
"""

from __future__ import annotations

from sesh.model.value_object import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

MARK, TITLE, SCREEN = "mark", "title", "screen"
PLACES = (MARK, TITLE, SCREEN)
BUSY, WAITING, IDLE = "busy", "waiting", "idle"
MEANINGS = (BUSY, WAITING, IDLE)
WHATS = ("permission", "input", "login", "rate limit", "help: it met an error")
LINES = 8  # of a screen, where a rule does not say how many
MOST_LINES = 100


class Rule(Value):
    """All of its tests must hold. Spaces around the text, and empty lines, do not count."""

    name: str  # of the rules that it is one of
    version: int  # of these
    place: str  # mark (an escape sequence for terminals), title or screen
    number: int  # among those of its place, from 1
    means: str
    what: str = ""  # what it waits for
    starts: str = ""
    between: tuple[str, ...] = ()  # the first character is one of these, or between them
    contains: tuple[str, ...] = ()  # all of them
    lacks: tuple[str, ...] = ()  # none of them
    ends: str = ""
    lines: int = 0  # of a screen, from its end

    @property
    def label(self) -> str:
        """How it is named when it has spoken."""
        return f"{self.name}/{self.version} {self.place} {self.number}"


def match(rules: Iterable[Rule], place: str, text: str) -> Rule | None:
    """The first rule that fits what stands in a place."""
    lines = [line.rstrip() for line in text.split("\n") if line.strip()]
    for rule in rules:
        if rule.place == place and _fits(rule, _part(rule, lines)):
            return rule
    return None


def _part(rule: Rule, lines: list[str]) -> str:
    """What a rule looks at."""
    if rule.place == SCREEN:
        lines = lines[-(rule.lines or LINES) :]
    return "\n".join(lines).strip()


def _fits(rule: Rule, text: str) -> bool:
    if not text or not (rule.starts or rule.between or rule.contains or rule.ends):
        return False
    return (
        text.startswith(rule.starts)
        and text.endswith(rule.ends)
        and (not rule.between or rule.between[0] <= text[0] <= rule.between[1])
        and all(part in text for part in rule.contains)
        and not any(part in text for part in rule.lacks)
    )


# --- as plain values, for a file that a fast lane reads ------------------------------------------


def to_plain(rule: Rule) -> dict[str, object]:
    """What JSON can hold."""
    values = {name: getattr(rule, name) for name in rule.fields}
    return {key: list(one) if isinstance(one, tuple) else one for key, one in values.items()}


def from_plain(values: Mapping[str, object]) -> Rule:
    """The inverse; raises ValueError or TypeError when it is not what `to_plain` gives."""
    made: dict[str, Any] = {
        key: tuple(one) if isinstance(one, list) else one for key, one in values.items()
    }
    rule = Rule(**made)
    for name in rule.fields:
        _check(name, getattr(rule, name))
    if rule.between and len(rule.between) != 2:
        raise ValueError("between")
    return rule


def _check(name: str, value: object) -> None:
    if name in ("between", "contains", "lacks"):
        right = isinstance(value, tuple) and all(isinstance(part, str) for part in value)
    else:
        right = type(value) is (int if name in ("version", "number", "lines") else str)
    if not right:
        raise ValueError(name)
