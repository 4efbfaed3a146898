"""TOML that sesh itself has written, read without tomllib: its import takes longer than most reads.

Knows what tomli_w writes of a record. Everything else is left to tomllib, and a text by hand is not
for this module: it takes some texts that are not valid TOML.
"""

from __future__ import annotations

from datetime import datetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SCALAR_ENDS = (",", " }")  # or the end of the line
_WORDS = {"true": True, "false": False}


def loads(text: str) -> dict[str, Any] | None:
    """The table that a text is; None where tomllib has to read it."""
    try:
        return _document(text)
    except (ValueError, IndexError, KeyError, TypeError, ImportError):
        return None


def _document(text: str) -> dict[str, Any]:
    document: dict[str, Any] = {}
    table, at = document, 0
    while at < len(text):
        end = text.index("\n", at)
        if text[at] == "[":
            table = _header(document, text[at:end])
        elif end > at and text[at] != "#":
            end = _pair(table, text, at)
        if text[end] != "\n":
            raise ValueError("more than a value")
        at = end + 1
    return document


def _header(document: dict[str, Any], line: str) -> dict[str, Any]:
    """The new table that a line such as `[a.b]` or `[[a.b]]` opens."""
    many = line.startswith("[[")
    name = line[2:-2] if many else line[1:-1]
    if line != (f"[[{name}]]" if many else f"[{name}]"):
        raise ValueError("not a table")
    *outer, last = map(_bare, name.split("."))
    for part in outer:
        found = document.setdefault(part, {})
        document = found[-1] if isinstance(found, list) else found
    table: dict[str, Any] = {}
    if many:
        document.setdefault(last, []).append(table)
    else:
        _set(document, last, table)
    return table


def _pair(table: dict[str, Any], text: str, at: int) -> int:
    """Read `key = value` into a table; where it ends."""
    middle = text.index(" = ", at)
    value, end = _value(text, middle + 3)
    _set(table, _bare(text[at:middle]), value)
    return end


def _bare(key: str) -> str:
    if not (key.isascii() and key.replace("-", "a").replace("_", "a").isalnum()):
        raise ValueError("a key in quotes")
    return key


def _set(table: dict[str, Any], key: str, value: object) -> None:
    if key in table:
        raise ValueError("a key twice")
    table[key] = value


def _value(text: str, at: int) -> tuple[Any, int]:
    """The value that begins here, and where it ends."""
    if text[at] == '"':
        from _json import scanstring

        return scanstring(text, at + 1, False)
    if text[at] == "[":
        return _array(text, at + 1)
    if text[at] == "{":
        return _inline(text, at + 1)
    line = text[at : text.index("\n", at)]
    for end in _SCALAR_ENDS:
        line = line.partition(end)[0]
    return _scalar(line), at + len(line)


def _array(text: str, at: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    while True:
        while text[at] in " \n":
            at += 1
        if text[at] == "]":
            return found, at + 1
        value, at = _value(text, at)
        found.append(value)
        if text[at] == ",":
            at += 1
        elif text[at] not in "]\n":
            raise ValueError("not a list")


def _inline(text: str, at: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    while text[at] != "}":
        at = _pair(found, text, at + 1)  # behind `{ ` or `, `
        if text[at : at + 2] == " }" or text[at] == ",":
            at += 1
        else:
            raise ValueError("not a table")
    return found, at + 1


def _scalar(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if not text.isascii() or text[0] not in "-0123456789":
        raise ValueError("not a plain value")
    if text[4:5] == "-" and text[10:11] in (" ", "T"):
        return datetime.fromisoformat(text)
    if text.lstrip("-").isdecimal():
        return int(text)
    return float(text)
