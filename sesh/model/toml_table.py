"""A TOML table, read strictly: every key is taken out with its type, and none may be left. PURE."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


class DecodeError(Exception):
    """Why a record can't be understood, in a few words."""


class Table:
    """A TOML table whose keys are taken out one by one, each with its type."""

    def __init__(self, data: dict[str, Any], where: str) -> None:
        self._data = dict(data)
        self._where = where

    def fail(self, key: str, problem: str) -> DecodeError:
        return DecodeError(f"{self._where}{key}: {problem}")

    def get(self, key: str, kind: type[T]) -> T | None:
        value = self._data.pop(key, None)
        if value is None:
            return None
        if type(value) is not kind:  # not isinstance: `pid = true` must not pass as 1
            raise self.fail(key, f"should be of type {kind.__name__}")
        return value

    def take(self, key: str, kind: type[T]) -> T:
        value = self.get(key, kind)
        if value is None:
            raise self.fail(key, "missing")
        return value

    def table(self, key: str, *, optional: bool = False) -> Table:
        data = self.get(key, dict) if optional else self.take(key, dict)
        return Table(data or {}, f"{self._where}{key}.")

    def maybe_table(self, key: str) -> Table | None:
        data = self.get(key, dict)
        return None if data is None else Table(data, f"{self._where}{key}.")

    def tables(self, key: str) -> list[Table]:
        value: list[Any] = self.get(key, list) or []
        if not all(type(item) is dict for item in value):
            raise self.fail(key, "should be a list of tables")
        return [Table(item, f"{self._where}{key}.") for item in value]

    def texts(self, key: str) -> tuple[str, ...]:
        value: list[Any] = self.get(key, list) or []
        if not all(type(item) is str for item in value):
            raise self.fail(key, "should be a list of strings")
        return tuple(value)

    def number(self, key: str, lowest: int) -> int:
        value = self.take(key, int)
        if value < lowest:
            raise self.fail(key, f"should be at least {lowest}")
        return value

    def has(self, key: str) -> bool:
        return key in self._data

    def count(self, key: str) -> int:
        return self.number(key, 0) if self.has(key) else 0

    def moment(self, key: str) -> datetime | None:
        value = self.get(key, datetime)
        if value is not None and value.tzinfo is None:
            raise self.fail(key, "should have a time zone")
        return value

    def choice(self, key: str, kind: type[E]) -> E | None:
        value = self.get(key, str)
        try:
            return None if value is None else kind(value)
        except ValueError:
            raise self.fail(key, "unknown word") from None

    def need(self, key: str, value: T | None) -> T:
        if value is None:
            raise self.fail(key, "missing")
        return value

    def done(self) -> None:
        for key in self._data:
            raise self.fail(key, "unknown key")
