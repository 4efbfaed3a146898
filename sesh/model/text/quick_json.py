"""JSON read and written without the `json` module, whose import costs more than a fast lane's work.

Scanner and encoder are the ones that `json` itself uses. Where Python has none in C, `json` does
the work.
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


def loads(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError, or RecursionError, like json.loads."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogatepass")
    text = text.strip(" \t\n\r")
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)
    try:
        value, end = make_scanner(_Options)(text, 0)  # type: ignore[arg-type]
    except StopIteration:
        raise ValueError("not a JSON value") from None
    if end != len(text):
        raise ValueError(f"more than a JSON value: {text[end : end + 20]}")
    return value


def dumps(
    value: object, *, separators: tuple[str, str] = (", ", ": "), ensure_ascii: bool = True
) -> str:
    """The text of a value, as json.dumps writes it."""
    try:
        from _json import encode_basestring, encode_basestring_ascii, make_encoder
    except ImportError:
        import json

        return json.dumps(value, separators=separators, ensure_ascii=ensure_ascii)
    item, key = separators
    encode = encode_basestring_ascii if ensure_ascii else encode_basestring
    return "".join(make_encoder({}, _refuse, encode, None, key, item, False, False, True)(value, 0))


def _refuse(value: object) -> object:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
