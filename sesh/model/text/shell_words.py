"""Words quoted for sh. (shlex does the same; it imports `re` and compiles a pattern.)"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_SAFE = frozenset("%+,-./0123456789:=@ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")


def quote(word: str) -> str:
    """The word, safe in a command line of sh; unchanged where it needs no quotes."""
    if word and _SAFE.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def join(words: Iterable[str]) -> str:
    return " ".join(map(quote, words))
