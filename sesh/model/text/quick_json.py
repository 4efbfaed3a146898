"""JSON read without the `json` module, whose import costs a fast lane more than all its work.

The scanner is the one that `json` itself uses; where Python has none in C, `json` reads the text.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Options:
    """What json.JSONDecoder says to its scanner."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


def loads(text: str) -> Any:
    """The value of a JSON text with no space around it."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)
    value, end = make_scanner(_Options)(text, 0)  # type: ignore[arg-type]
    if end != len(text):
        raise ValueError(f"more than a JSON value: {text[end : end + 20]}")
    return value
