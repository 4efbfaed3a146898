"""Options of `ls`: filter, sort and format the JSON objects of sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from sesh.model.agents.hook_event import ACTIVITIES
from sesh.model.errors import UsageError
from sesh.model.place import KINDS
from sesh.model.progress import PHASES
from sesh.model.session_json import FIELDS, USAGE_FIELDS, View
from sesh.model.states import Health, State
from sesh.model.text import formatting, quick_json
from sesh.model.value_object import Any

FILTER_KEYS = (
    *("state", "group", "tag", "name", "place", "template", "activity", "health", "phase"),
    "attention",
)
# Keys with fixed values. An empty value is allowed too: the session has none.
_VALUES: dict[str, tuple[str, ...]] = {
    "state": tuple(state.value for state in State),
    "place": tuple(KINDS),
    "activity": ACTIVITIES,
    "health": tuple(health.value for health in Health),
    "phase": PHASES,
    "attention": ("yes", "no"),
}
# Words that stand for KEY=VALUE.
WORDS = {word: key for key in ("state", "activity", "health") for word in _VALUES[key]}
_NEVER_EMPTY = ("state", "attention")
SORT_KEYS = (
    *("name", "state", "group", "created", "started", "ended", "last_output"),
    *("memory_bytes", "cpu_seconds", "tokens_in", "tokens_out", "cost_usd"),
)
OF_USAGE = frozenset(USAGE_FIELDS) - {"reason"}  # of `usage`; they can be named without it


def parse(options: Sequence[str]) -> dict[str, list[str]]:
    """`key=value` or a word of `WORDS`, repeatable: values of one key are alternatives, and all
    keys must match."""
    found: dict[str, list[str]] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals and key in WORDS:
            key, value = WORDS[key], key
        elif not equals or key not in FILTER_KEYS:
            word = "" if equals else f"{', '.join(WORDS)}; or "
            pairs = f"KEY=VALUE with {', '.join(FILTER_KEYS)}"
            raise UsageError(f"--filter {option}: should be {word}{pairs}")
        _check_value(key, value)
        found.setdefault(key, []).append(value)
    return found


def _check_value(key: str, value: str) -> None:
    """Reject a value that no session can have: nothing would ever match."""
    possible = _VALUES.get(key)
    if possible is None or value in possible or (not value and key not in _NEVER_EMPTY):
        return
    raise UsageError(f"--filter {key}={value}: should be one of {', '.join(possible)}")


def matches(shown: View, filters: dict[str, list[str]]) -> bool:
    return all(
        any(_match(shown, key, value) for value in values) for key, values in filters.items()
    )


def _match(shown: View, key: str, value: str) -> bool:
    if key == "name":
        return fnmatchcase(shown["name"], value)
    if key == "tag":
        return value in (shown.get("tags") or [])
    if key == "attention":
        return bool(shown.get("attention")) == (value == "yes")
    return (shown.get(key) or "") == value


def sort(views: list[View], key: str) -> list[View]:
    """By a field, in reverse with `-` in front; sessions without a value come last."""
    reverse = key.startswith("-")
    field = key.removeprefix("-")
    if field not in SORT_KEYS:
        raise UsageError(f"--sort {key}: should be one of {', '.join(SORT_KEYS)}")
    known = [v for v in views if _value(v, field) is not None]
    unknown = [v for v in views if _value(v, field) is None]
    return sorted(known, key=lambda v: _value(v, field), reverse=reverse) + unknown


def _value(shown: View, field: str) -> Any:
    if field in OF_USAGE:
        return (shown.get("usage") or {}).get(field)
    return shown.get(field)


def needs_tokens(template: str | None, sort_key: str) -> bool:
    """Does a template or an order need what agents have used?"""
    if sort_key.removeprefix("-") in OF_USAGE:
        return True
    return template is not None and any(f"{{{name}}}" in template for name in ("usage", *OF_USAGE))


def formatter(template: str) -> Callable[[View], str]:
    """`{name} {state}`: plain fields only; `\\t` and `\\n` as usual."""
    import string

    pieces = []
    text = template.replace("\\t", "\t").replace("\\n", "\n")
    try:
        for literal, field, spec, conversion in string.Formatter().parse(text):
            known = field in FIELDS or field in OF_USAGE
            if field is not None and (not known or spec or conversion):
                raise UsageError(f"--format: no field named {field!r}; see sesh-json(5)")
            pieces.append((literal, field))
    except ValueError as error:
        raise UsageError(f"--format: {error}") from None
    return lambda shown: "".join(
        literal + (_shown(_value(shown, field)) if field is not None else "")
        for literal, field in pieces
    )


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return formatting.command_line(value)
    if isinstance(value, dict):
        return quick_json.dumps(value)
    return formatting.escape(str(value))
