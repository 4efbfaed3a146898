"""What tokens cost: a table in `prices.toml`, and one of the user that comes first.

An unknown model has no price, and an error in the user's table leaves all models without one: no
cost is better than a wrong cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from sesh.model.agents.turns import Tokens
from sesh.model.errors import StateError
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Any, Value
from sesh.state import settings
from sesh.system import paths
from sesh.system.files import read_regular

_MILLION = 1e6
_PRICES = ("input", "output", "cache_read", "cache_write", "cache_write_long")
_NUMBERS = ("context", "long_prompt")
_KEYS = {"name", *_PRICES, *_NUMBERS}
_VARIANT = lazy(r"(?:\[\w+\]|-\d{8}|@\d{8}|-\d{4}-\d{2}-\d{2}|-latest)$")  # of the same model
_DEAREST = 1e6


class Price(Value):
    """USD per million tokens of some models."""

    names: tuple[str, ...]
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_long: float | None = None
    context: int | None = None
    long_prompt: int | None = None


class Prices(Value):
    """The price table."""

    date: str | None = None
    models: tuple[Price, ...] = ()
    trouble: str | None = None  # the error because of which there are no prices

    def of(self, model: str) -> Price | None:
        name = model
        while (plain := _VARIANT.sub("", name)) != name:
            name = plain
        for one in self.models:
            if any(fnmatchcase(name, known) or fnmatchcase(model, known) for known in one.names):
                return one
        return None

    def window(self, model: str | None) -> int | None:
        """How many tokens fit into the context of a model."""
        found = self.of(model) if model else None
        return found.context if found else None

    def cost(self, tokens: Iterable[Tokens]) -> tuple[float | None, bool]:
        """What tokens cost, and whether that is only a lower bound. None: a price is missing."""
        whole, lower = 0.0, False
        for one in tokens:
            if not any(one.counts):
                continue
            found = None if self.trouble else self.of(one.model)
            part = _cost(found, one) if found else None
            if found is None or part is None:
                return None, False
            whole += part
            lower |= bool(found.long_prompt and one.longest > found.long_prompt)
        return round(whole, 6), lower


def _cost(price: Price, used: Tokens) -> float | None:
    """None when a price is missing that is needed."""
    to_cache = price.input if price.cache_write is None else price.cache_write
    each = (price.input, price.output, price.cache_read, to_cache, price.cache_write_long)
    if any(number and known is None for number, known in zip(used.counts, each, strict=True)):
        return None
    return sum(n * (known or 0.0) for n, known in zip(used.counts, each, strict=True)) / _MILLION


# --- the files -----------------------------------------------------------------------------------


def load() -> Prices:
    """The prices of the user, then those that come with sesh. Never raises."""
    try:
        own = _read(paths.prices_file(), missing=True)
        builtin = _read(paths.builtin_prices_file())
    except StateError as error:
        return Prices(trouble=str(error))
    return Prices(own.date or builtin.date, (*own.models, *builtin.models))


def _read(path: str, *, missing: bool = False) -> Prices:
    try:
        raw = read_regular(path, settings.LIMIT)
    except (FileNotFoundError, NotADirectoryError) as error:
        if missing:
            return Prices()
        raise StateError(f"cannot read {path}: {error.strerror}") from None
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from None
    return decode(path, raw)


def decode(path: str, raw: bytes) -> Prices:
    """The table in a file. Raises at the first error, with its line."""
    table = settings.parse(path, raw)
    date, models = table.pop("date", None), table.pop("model", [])
    if table:
        raise StateError(f"{path}: unknown key {settings.brief(min(table))}")
    if date is not None and not isinstance(date, str):
        date = str(date)
    if not isinstance(models, list) or not all(isinstance(one, dict) for one in models):
        raise StateError(f"{path}: model should be tables: [[model]]")
    lines = [at for at, line in enumerate(raw.splitlines(), 1) if _begins_model(line)]
    found = []
    for number, one in enumerate(models):
        where = f"{path}:{lines[number]}" if len(lines) == len(models) else path
        if wrong := _problem(one):
            raise StateError(f"{where}: model {number + 1}: {wrong}")
        names = one.pop("name")
        found.append(Price((names,) if isinstance(names, str) else tuple(names), **one))
    return Prices(date, tuple(found))


def _begins_model(line: bytes) -> bool:
    return line.replace(b" ", b"").startswith(b"[[model]]")


def _problem(given: dict[str, Any]) -> str | None:
    """What is wrong with a table; None: nothing."""
    names = given.get("name")
    several = names if isinstance(names, list) else [names]
    if not several or not all(isinstance(one, str) and one for one in several):
        return "name should be the name of a model, or a list of names"
    for key, value in given.items():
        if key not in _KEYS:
            return f"unknown key {settings.brief(key)}"
        if key in _PRICES and not (type(value) in (int, float) and 0 <= value <= _DEAREST):
            return f"{key} should be a price in USD per million tokens"
        if key in _NUMBERS and not (type(value) is int and 0 < value <= 1e9):
            return f"{key} should be a number of tokens"
    lacking = [key for key in ("input", "output") if key not in given]
    return f"{lacking[0]} is missing" if lacking else None
