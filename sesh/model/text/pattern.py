"""Regular expressions that are compiled at their first use: a command uses few of the expressions
in its modules, and compiling all of them takes as long as starting Python."""

from __future__ import annotations

from sesh.model.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from typing import Any, AnyStr


class _Pattern:
    """Compiles itself at the first use of an attribute."""

    def __init__(self, source: Any, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        import re

        value = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, value)
        return value


def lazy(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like re.compile, but lazy."""
    return _Pattern(source, flags)  # type: ignore[return-value]


MATCHED = 4096  # characters at the beginning of a line; a pattern can take long for many


def given(option: str, text: str) -> Callable[[str], bool]:
    """Tells whether a line matches the expression that the user gave for an option."""
    import re
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about nested sets, which other tools allow
            search = re.compile(text).search
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{option} {text}: invalid regular expression: {error}") from None
    return lambda line: search(line[:MATCHED]) is not None
