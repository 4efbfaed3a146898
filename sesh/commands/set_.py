"""sesh set: change labels, limits, retries and health checks of a session."""

from __future__ import annotations

from difflib import get_close_matches

import click

from sesh.commands import _types
from sesh.commands._declare import argument, declare
from sesh.commands._supervision_options import OPTIONS, notified
from sesh.model.errors import UsageError
from sesh.model.states import Retry
from sesh.model.text import formatting
from sesh.model.value_object import Any
from sesh.operations import change
from sesh.operations.change import KEYS, OFFERED, shown
from sesh.state import lookup, settings
from sesh.terminal import output

_TYPES = {one.name: one.more.get("type") for one in OPTIONS}
_TYPES |= {"max_age": "duration", "max_idle": "duration"}
_WORDS = ("tags", "retry_on")  # separated by commas
_SWITCH = {"yes": True, "true": True, "no": False, "false": False}
_FIXED = {
    *("command", "dir", "env", "template", "prompt", "branch", "worktree", "image", "container"),
    *("mount", "no_mount", "user", "network", "cpus", "env_file", "docker_opt"),
}
_OLDER = {"memory": "max_memory"}


@declare(
    "set",
    examples={
        "sesh set web timeout=2h retries=3": "new limits",
        "sesh set web group=": "remove the group",
    },
)
def command(
    name: str = argument(),
    values: tuple[str, ...] = argument(nargs=-1, required=True, metavar="KEY=VALUE..."),
) -> int:
    """Change tags, group, limits, retries, health checks or notifications of a session.

    KEY is an option of sesh start: tags, group, timeout, retries … KEY= removes the value.
    """
    given: dict[str, Any] = {}
    for word in values:
        key, equals, text = word.partition("=")
        key = key.replace("-", "_")
        key = _OLDER.get(key, key)
        _check(name, key, given=bool(equals))
        if key in given:
            raise UsageError(f"{shown(key)} is given twice")
        given[key] = _read(key, text)
    change.change(lookup.one(name), given, settings.load(), output.note)
    output.succeeded(f"changed {', '.join(map(shown, given))} of {name}")
    return 0


def _check(name: str, key: str, *, given: bool) -> None:
    if key == "name":
        raise UsageError(f"cannot set name; next: sesh rename {name} NEW")
    if key in _FIXED:
        raise UsageError(f"{shown(key)} cannot be changed after the start; start a new session")
    if key not in KEYS:
        near = get_close_matches(shown(key), map(shown, OFFERED), 1)
        hint = f"did you mean {near[0]}?" if near else "next: sesh man set"
        raise UsageError(f"unknown key {shown(key)!a}; {hint}")
    if not given:
        raise UsageError(f"{shown(key)} needs a value: {shown(key)}=VALUE, or {shown(key)}=")


def _read(key: str, text: str) -> Any:
    """The value of a key; None: it is removed."""
    if not text:
        return None
    if key == "notify":
        return notified(text, key)
    if key in _WORDS:
        words = tuple(word.strip() for word in text.split(",") if word.strip())
        if key == "retry_on" and not (words and set(words) <= set(Retry)):
            raise UsageError(f"retry-on {text}: use {formatting.either(Retry)}")
        return words
    if key == "scope":
        if text not in _SWITCH:
            raise UsageError(f"scope {text}: should be yes or no")
        return _SWITCH[text]
    kind = _TYPES.get(key)
    if kind is None:
        return text
    try:
        return (_types.named(kind) if isinstance(kind, str) else kind).convert(text, None, None)
    except click.BadParameter as error:
        raise UsageError(f"{shown(key)}: {error.message.rstrip('.')}") from None
