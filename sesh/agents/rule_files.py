"""The files that rules come from: the user's own before those that come with sesh. Strict.

version = 1                   counts up when what is below changes: `show` names it

[[title]]                     tried in this order; all tests of a rule must hold
between = ["⠀", "⣿"]          its first character; or starts, contains, ends
means = "busy"                or idle, or waiting; then also:
what = "permission"           or input, login, rate limit …

[[mark]]                      the same for what it tells terminals: the text of OSC 7501
starts = "state=working"
means = "busy"

[[screen]]                    the same for the last lines of the screen
contains = ["Do you want to", "❯ 1. Yes"]
lacks = "? for shortcuts"       # or a list: none of these
lines = 12
means = "waiting"
what = "permission"
"""

from __future__ import annotations

import os
from typing import Any

from sesh.agents import rules
from sesh.agents.rules import Rule
from sesh.model.errors import SeshError, StateError
from sesh.model.record import valid_name
from sesh.state import settings
from sesh.system import paths
from sesh.system.files import read_regular

_KEYS = ("starts", "between", "contains", "lacks", "ends", "lines", "means", "what")
_TESTS = ("starts", "between", "contains", "ends")


def load(name: str) -> tuple[Rule, ...]:
    """The rules of a name; raises when there are none, or when they can't be understood."""
    path, raw = read(name)
    found, wrong = decode(name, path, raw)
    if wrong:
        raise StateError(wrong[0])
    return found


def read(name: str) -> tuple[str, bytes]:
    """The file that a name means, and what is in it."""
    if not valid_name(name):
        raise SeshError(f"{name!a}: no valid name for rules")
    for directory in (paths.rules_dir(), paths.builtin_rules_dir()):
        path = f"{directory}/{name}.toml"
        try:
            return path, read_regular(path, settings.LIMIT)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise StateError(f"cannot read {path}: {error.strerror}") from None
    raise SeshError(f"no rules named {name}; there are {', '.join(names())}")


def names() -> list[str]:
    """All that exist."""
    found = {stem for one in (paths.rules_dir(), paths.builtin_rules_dir()) for stem in stems(one)}
    return sorted(found)


def stems(directory: str) -> list[str]:
    """The names of the TOML files in a directory that could be somebody's; none where it can't be
    read."""
    try:
        found = os.listdir(directory)
    except OSError:
        return []
    named = (name.removesuffix(".toml") for name in found if name.endswith(".toml"))
    return sorted(stem for stem in named if valid_name(stem))


# --- decoding ------------------------------------------------------------------------------------


def decode(name: str, path: str, raw: bytes) -> tuple[tuple[Rule, ...], list[str]]:
    """The rules in a file, and everything that is wrong with it, a line each."""
    try:
        table = settings.parse(path, raw)
    except StateError as error:
        return (), [str(error)]
    version = table.pop("version", None)
    wrong = []
    if type(version) is not int or not 0 < version < 1 << 31:
        wrong.append(f"{path}: version should be a whole number, 1 or more")
        version = 0
    wrong += [
        f"{path}: unknown key {settings.brief(key)}" for key in table.keys() - {*rules.PLACES}
    ]
    found = []
    for place in rules.PLACES:
        given = table.get(place, [])
        if type(given) is not list or not all(type(one) is dict for one in given):
            wrong.append(f"{path}: {place} should be tables: [[{place}]]")
            continue
        for number, one in enumerate(given, 1):
            where = f"{path}: {place} {number}"
            problems = _problems(one, place, where)
            wrong += problems
            if not problems:
                found.append(Rule(name, version, place, number, **_values(one)))
    return tuple(found), wrong


def _values(one: dict[str, Any]) -> dict[str, Any]:
    lists = {key: _list(one.get(key, [])) for key in ("contains", "lacks", "between")}
    return {**one, **lists}


def _list(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _problems(one: dict[str, Any], place: str, where: str) -> list[str]:
    wrong = [f"{where}: unknown key {settings.brief(key)}" for key in one.keys() - {*_KEYS}]
    wrong += [f"{where}: {key} {told}" for key, told in _wrong_values(one, place).items()]
    if not any(one.get(key) for key in _TESTS):
        wrong.append(f"{where}: it has no test: give starts, between, contains or ends")
    return wrong


def _wrong_values(one: dict[str, Any], place: str) -> dict[str, str]:
    """Key → what it should be."""
    wrong: dict[str, str] = {}
    for key in ("starts", "ends"):
        if key in one and not _text(one[key]):
            wrong[key] = "should be a string"
    for key, told in (("contains", "all there"), ("lacks", "not there")):
        if key in one and not _texts(one[key]):
            wrong[key] = f"should be a string, or a list of strings that are {told}"
    between = one.get("between", ["x", "x"])
    if not (
        type(between) is list
        and len(between) == 2
        and all(type(end) is str and len(end) == 1 for end in between)
        and between[0] <= between[1]
    ):
        wrong["between"] = "should be a list of two characters, the lower one first"
    lines = one.get("lines", 1)
    if type(lines) is not int or not 0 < lines <= rules.MOST_LINES:
        wrong["lines"] = f"should be a whole number from 1 to {rules.MOST_LINES}"
    if place != rules.SCREEN and "lines" in one:
        wrong["lines"] = f"is for screens: a {place} has one"
    return {**wrong, **_wrong_meaning(one)}


def _wrong_meaning(one: dict[str, Any]) -> dict[str, str]:
    means, what = one.get("means"), one.get("what")
    if means not in rules.MEANINGS:
        return {"means": f"should be one of {', '.join(rules.MEANINGS)}"}
    if means == rules.WAITING and what not in rules.WHATS:
        return {"what": f"should be one of {', '.join(rules.WHATS)}"}
    if means != rules.WAITING and what is not None:
        return {"what": 'says what is waited for: it goes with means = "waiting"'}
    return {}


def _texts(value: Any) -> bool:
    return _text(value) or (type(value) is list and bool(value) and all(map(_text, value)))


def _text(value: Any) -> bool:
    return type(value) is str and value != ""
