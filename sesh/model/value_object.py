"""The base class of value objects: frozen dataclasses without their cost at start-up.

Defining a dataclass compiles its methods, which takes about a millisecond; more than thirty of them
would take longer than the rest of `sesh start`. Type checkers treat subclasses of `Value` as
dataclasses (`dataclass_transform`). Fast lanes use this module, so it imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any  # also for other modules: importing `typing` takes long
    from typing import ClassVar, TypeVar, dataclass_transform

    T = TypeVar("T", bound="Value")
else:
    Any = object

    def dataclass_transform(**_):
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Value:
    """The fields are those of the base class, followed by the annotations of the class."""

    fields: ClassVar[tuple[str, ...]] = ()
    _known: ClassVar[frozenset[str]] = frozenset()
    _required: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        cls.fields = (*cls.fields, *cls.__annotations__)
        cls._known = frozenset(cls.fields)
        cls._required = frozenset(name for name in cls.fields if not hasattr(cls, name))

    def __init__(self, *args: Any, **given: Any) -> None:
        values = self.__dict__
        values.update(zip(self.fields, args, strict=False))
        values.update(given)
        if not self._required <= values.keys() <= self._known or len(args) > len(self.fields):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(self.fields)}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__name__}({inside})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: use replace()")

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.fields])


def replace(old: T, **changes: Any) -> T:
    """A copy with some fields changed."""
    return type(old)(**{**old.__dict__, **changes})
