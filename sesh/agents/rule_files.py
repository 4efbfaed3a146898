"""Files with activity rules: the user's own, then the built-in ones. Parsing is strict.

version = 1                   increase it with every change; `show` prints it

[[title]]                     tried in this order; all tests of a rule must hold
between = ["⠀", "⣿"]          range of the first character; or starts, contains, ends
means = "busy"                or idle, or waiting, which also needs:
what = "permission"           or input, login, rate limit …

[[mark]]                      the same for the text of the escape sequence OSC 7501
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

from sesh.agents import rules
from sesh.agents.rules import Rule
from sesh.model.errors import SeshError, StateError
from sesh.model.record import valid_name
from sesh.model.value_object import Any
from sesh.state import settings
from sesh.system import paths
from sesh.system.files import read_regular

_KEYS = ("starts", "between", "contains", "lacks", "ends", "lines", "means", "what")
_TESTS = ("starts", "between", "contains", "ends")


def load(name: str) -> tuple[Rule, ...]:
    """The rules with this name; raises when there are none, or when they are not valid."""
    path, raw = read(name)
    found, wrong = decode(name, path, raw)
    if wrong:
        raise StateError(wrong[0])
    return found


def read(name: str) -> tuple[str, bytes]:
    """The path and the content of the file with this name."""
    if not valid_name(name):
        raise SeshError(f"invalid name for rules: {name!a}")
    for directory in (paths.rules_dir(), paths.builtin_rules_dir()):
        path = f"{directory}/{name}.toml"
        try:
            return path, read_regular(path, settings.LIMIT)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise StateError(f"cannot read {path}: {error.strerror}") from None
    raise SeshError(f"no rules named {name}; available: {', '.join(names())}")


def names() -> list[str]:
    """The names of all rule files."""
    return sorted({*stems(paths.rules_dir()), *stems(paths.builtin_rules_dir())})


def stems(directory: str) -> list[str]:
    """The names of the TOML files in a directory; none when it cannot be read."""
    try:
        found = os.listdir(directory)
    except OSError:
        return []
    named = (name.removesuffix(".toml") for name in found if name.endswith(".toml"))
    return sorted(stem for stem in named if valid_name(stem))


# --- decoding ------------------------------------------------------------------------------------


def decode(name: str, path: str, raw: bytes) -> tuple[tuple[Rule, ...], list[str]]:
    """The rules in a file, and a message for each error in it."""
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
        if type(given) is not list or not all(type(rule) is dict for rule in given):
            wrong.append(f"{path}: {place} should be tables: [[{place}]]")
            continue
        for number, rule in enumerate(given, 1):
            where = f"{path}: {place} {number}"
            problems = _problems(rule, place, where)
            wrong += problems
            if not problems:
                lists = {key: _list(rule.get(key, [])) for key in ("contains", "lacks", "between")}
                found.append(Rule(name, version, place, number, **{**rule, **lists}))
    return tuple(found), wrong


def _list(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _problems(rule: dict[str, Any], place: str, where: str) -> list[str]:
    wrong = [f"{where}: unknown key {settings.brief(key)}" for key in rule.keys() - {*_KEYS}]
    wrong += [f"{where}: {key} {problem}" for key, problem in _wrong_values(rule, place).items()]
    if not any(rule.get(key) for key in _TESTS):
        wrong.append(f"{where}: has no test: add starts, between, contains or ends")
    return wrong


def _wrong_values(rule: dict[str, Any], place: str) -> dict[str, str]:
    """Invalid key → what it should be."""
    wrong: dict[str, str] = {}
    for key in ("starts", "ends"):
        if key in rule and not _text(rule[key]):
            wrong[key] = "should be a string"
    for key in ("contains", "lacks"):
        if key in rule and not _texts(rule[key]):
            wrong[key] = "should be a string, or a list of strings"
    between = rule.get("between", ["x", "x"])
    if not (
        type(between) is list
        and len(between) == 2
        and all(type(end) is str and len(end) == 1 for end in between)
        and between[0] <= between[1]
    ):
        wrong["between"] = "should be a list of two characters, the lower one first"
    lines = rule.get("lines", 1)
    if type(lines) is not int or not 0 < lines <= rules.MOST_LINES:
        wrong["lines"] = f"should be a whole number from 1 to {rules.MOST_LINES}"
    if place != rules.SCREEN and "lines" in rule:
        wrong["lines"] = f"is only for screens: a {place} has one line"
    return {**wrong, **_wrong_meaning(rule)}


def _wrong_meaning(rule: dict[str, Any]) -> dict[str, str]:
    means, what = rule.get("means"), rule.get("what")
    if means not in rules.MEANINGS:
        return {"means": f"should be one of {', '.join(rules.MEANINGS)}"}
    if means == rules.WAITING and what not in rules.WHATS:
        return {"what": f"should be one of {', '.join(rules.WHATS)}"}
    if means != rules.WAITING and what is not None:
        return {"what": 'needs means = "waiting"'}
    return {}


def _texts(value: Any) -> bool:
    return _text(value) or (type(value) is list and bool(value) and all(map(_text, value)))


def _text(value: Any) -> bool:
    return type(value) is str and value != ""
