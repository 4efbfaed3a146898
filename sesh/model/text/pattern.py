"""Regular expressions that are compiled at their first use: a command uses few of those that its
modules have, and to compile all of them costs as much as a start of Python."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any, AnyStr


class _Pattern:
    """Compiles itself when it is asked for anything."""

    def __init__(self, source: Any, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        import re

        value = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, value)
        return value


def lazy(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The same as re.compile, for the methods of a pattern."""
    return _Pattern(source, flags)  # type: ignore[return-value]
