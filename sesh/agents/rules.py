"""Rules that derive an agent's activity from its title or screen. The first rule that matches wins.

Rules only compare text, so that fast lanes can use them. `agents/rule_files` loads them.
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
LINES = 8  # of a screen, unless a rule sets another number
MOST_LINES = 100


class Rule(Value):
    """All tests of a rule must hold. Spaces around the text and empty lines do not count."""

    name: str  # of its file
    version: int  # of its file
    place: str  # mark (an escape sequence for terminals), title or screen
    number: int  # within its place, from 1
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
        """How output refers to the rule."""
        return f"{self.name}/{self.version} {self.place} {self.number}"


def match(rules: Iterable[Rule], place: str, text: str) -> Rule | None:
    """The first rule that matches the text of a place."""
    lines = [line.rstrip() for line in text.split("\n") if line.strip()]
    for rule in rules:
        if rule.place == place and _fits(rule, _part(rule, lines)):
            return rule
    return None


def _part(rule: Rule, lines: list[str]) -> str:
    """The part of the text that a rule tests."""
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


# --- as JSON, for a file that fast lanes read ----------------------------------------------------


def to_plain(rule: Rule) -> dict[str, object]:
    values = {name: getattr(rule, name) for name in rule.fields}
    return {key: list(one) if isinstance(one, tuple) else one for key, one in values.items()}


def from_plain(values: Mapping[str, object]) -> Rule:
    """The inverse of `to_plain`; raises ValueError or TypeError for invalid values."""
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
