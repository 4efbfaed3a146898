"""Records as TOML and back. Strict: a wrong type or an unknown key is an error, never a guess.

The classes of `record` and `place` are the table of fields: name, type and default of each. This
module adds how a value of each type is written and read, and the rules that a type cannot express.
A field of a type that is known here needs no line here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from math import isfinite

from sesh.model import digest
from sesh.model.place import (
    KINDS,
    Agent,
    Container,
    ContainerRequest,
    Engine,
    InContainer,
    Machine,
    Place,
    Process,
)
from sesh.model.record import (
    ID_PATTERN,
    SCHEMA,
    AgentReport,
    AgentUsage,
    Answers,
    BreakerLimits,
    Kit,
    Origin,
    Record,
    Spec,
    Status,
    Step,
    Supervision,
    Worktree,
    valid_name,
)
from sesh.model.states import OUTCOMES, Cause, Desired, Health, Retry, State
from sesh.model.text import quick_toml
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T", bound=Value)
    Read = Callable[[Any, str], Any]  # a value of TOML and its path; raises DecodeError
    Write = Callable[[Any], Any]
    Flat = tuple[type[Value], tuple[str, ...]]
    # One field as a key of the table of its class: name, how it is read and written (None: as it
    # is), whether it is left out when it has its default, whether it must be there, and its keys if
    # it has no table of its own. A plain tuple: every command that changes a record encodes it.
    Field = tuple[str, str, Read, Write | None, bool, bool, Flat | None]


_STRING = lazy(rb'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_MAX_DOTS = 200  # tomllib takes seconds for a key of some thousand parts
_LONGEST = 2e9  # seconds: more than any option accepts, with the time for an engine

# --- what types cannot express -------------------------------------------------------------------

_ENUMS = (Cause, Desired, Health, State)
_TABLES = (
    *(Agent, AgentReport, AgentUsage, Answers, BreakerLimits, Container, ContainerRequest, Engine),
    *(Kit, Origin, Place, Process, Spec, Status, Step, Supervision, Worktree),
)
# Left out when they have their default; every other field is written, unless it is None.
_LEFT_OUT: Mapping[type[Value], tuple[str, ...]] = {
    Spec: ("supervision",),
    Supervision: Supervision.fields,
    Place: ("since",),
    Status: ("stop_tries", "remains", "keep", "lived", "printed", "held", "frozen"),
    AgentReport: ("history", "errors", "resume_ready", "earlier", "prompted", "metadata"),
    AgentUsage: ("cost_is_lower_bound",),
    Kit: ("fork",),
}
# Must be there although the class has a default.
_NEEDED: Mapping[type[Value], tuple[str, ...]] = {
    ContainerRequest: ("mount",),
    Kit: ("conversation", "transcript", "rules"),
    Worktree: ("made_branch",),
    BreakerLimits: BreakerLimits.fields,
}
# Values whose fields are keys of the table around them.
_FLAT: Mapping[tuple[type[Value], str], Flat] = {
    (Place, "machine"): (Machine, ("machine", "boot", "pidns")),
    (Agent, "process"): (Process, ("pid", "start")),
}
# Fields whose key is another one.
_KEYS: Mapping[tuple[type[Value], str], str] = {(Spec, "supervision"): "care"}
_FREE = {(Status, "stop_grace"), (Status, "held")}  # times without bounds
_LOWEST = {(Place, "generation"): 1, (Process, "pid"): 2}  # of other numbers: 0
_MAY_BE_FIRST = {(Status, "stopper"), (Status, "starter")}  # a sesh, which may have pid 1


# Each with the key that it is about, and the problem if it does not hold.
_RULES: Mapping[type[Value], tuple[tuple[Callable[[Any], object], str, str], ...]] = {
    Record: (
        (lambda r: valid_name(r.name), "name", "not a valid name"),
        (lambda r: re.fullmatch(ID_PATTERN, r.id), "id", "not a valid id"),
        (lambda r: r.spec.command or not r.place.has_process, "spec.command", "missing"),
        (
            lambda r: (r.spec.box is not None) == isinstance(r.place, InContainer),
            *("spec.box", "should be there for a container, and only then"),
        ),
    ),
    Spec: (
        (lambda s: s.cwd.startswith("/"), "cwd", "should be an absolute path"),
        (lambda s: s.launch_timeout > 0, "launch_timeout", "out of range"),
    ),
    ContainerRequest: (
        (
            lambda b: (b.image is None) != (b.existing is None),
            *("image", "either image or existing should be there"),
        ),
    ),
    Supervision: ((lambda c: set(c.retry_on) <= set(Retry), "retry_on", "unknown word"),),
    Place: (
        (
            lambda p: p.has_process or not (p.server or p.agent or p.pane),
            *("kind", "nothing can run there"),
        ),
        (
            lambda p: p.pane is None or re.fullmatch(r"%\d+", p.pane),
            *("pane", "not a tmux pane id"),
        ),
    ),
    Container: ((lambda c: re.fullmatch(r"[0-9a-f]{64}", c.id), "id", "not a container id"),),
    Status: ((lambda s: s.outcome is None or s.outcome in OUTCOMES, "outcome", "not an end"),),
    AgentReport: (
        (
            lambda w: _plain(w.metadata),
            *("metadata", "should hold texts, numbers, true, false, lists and tables"),
        ),
    ),
}


def _plain(value: object) -> bool:
    """Can JSON hold it too? It has neither times nor infinities."""
    if isinstance(value, Mapping):
        return all(map(_plain, value.values()))
    if isinstance(value, list):
        return all(map(_plain, value))
    return isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


# --- records -------------------------------------------------------------------------------------


class DecodeError(Exception):
    """Why a record cannot be read, in a few words."""


def decode(raw: bytes) -> Record:
    data = _parse(raw)
    schema = _take(data, "schema", _typed(int), "")
    if schema != SCHEMA:
        newer = schema > SCHEMA
        raise DecodeError(f"schema {schema} is newer than this sesh" if newer else "unknown schema")
    return _decode(Record, data, "")


def encode(record: Record) -> bytes:
    import tomli_w

    return tomli_w.dumps({"schema": record.schema, **tree(record)}).encode()


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise DecodeError("not UTF-8") from None
    found = quick_toml.loads(text) if digest.intact(raw) else None
    return _parse_any(raw, text) if found is None else found


def _parse_any(raw: bytes, text: str) -> dict[str, Any]:
    """A record that was edited by hand, or that `quick_toml` does not know."""
    import tomllib

    bare = _STRING.sub(b"", raw)
    if any(line.count(b".") > _MAX_DOTS for line in bare.splitlines()):
        raise DecodeError("not a record: a key of too many parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise DecodeError("nested too deep") from None
    except ValueError as error:  # a TOMLDecodeError, or a number of thousands of digits
        raise DecodeError(f"not valid TOML: {error}") from None


# --- values as tables ----------------------------------------------------------------------------


def tree(value: Value) -> dict[str, Any]:
    """A value as a table of TOML, which JSON can hold too but for its times. TOML has no null: what
    is None is left out."""
    kind = type(value)
    table: dict[str, Any] = {"kind": value.kind} if isinstance(value, Place) else {}
    for name, key, _, write, left_out, _, flat in _fields(kind):
        one = getattr(value, name)
        usual = getattr(kind, name) if left_out else None
        if one is usual or one is None or (left_out and one == usual):
            continue
        if flat is not None:
            table.update(zip(flat[1], one._values(), strict=True))
        else:
            table[key] = one if write is None else write(one)
    return table


def _decode(kind: type[T], data: dict[str, Any], where: str) -> T:
    """A value from its table. Raises at the first key that is missing, unknown or invalid."""
    values: dict[str, Any] = {}
    keys: set[str] = set()
    for name, key, read, _, _, needed, flat in _fields(kind):
        if flat is not None:
            inner, names = flat
            parts = zip(names, _fields(inner), strict=True)
            values[name] = inner(*(_take(data, one, part[2], where) for one, part in parts))
            keys.update(names)
        else:
            if needed or key in data:
                values[name] = _take(data, key, read, where)
            keys.add(key)
    for key in data:
        if key not in keys:
            raise DecodeError(f"{where}{key}: unknown key")
    value = kind(**values)
    for base in kind.__mro__:
        for holds, key, problem in _RULES.get(base, ()):
            if not holds(value):
                raise DecodeError(f"{where}{key}: {problem}")
    return value


def _take(data: dict[str, Any], key: str, read: Read, where: str) -> Any:
    if key not in data:
        raise DecodeError(f"{where}{key}: missing")
    return read(data[key], where + key)


def _place(data: Any, where: str) -> Place:
    """The kind of a place decides its class."""
    table = dict(_typed(dict)(data, where))
    kind = _take(table, "kind", _typed(str), f"{where}.")
    del table["kind"]
    if kind not in KINDS:
        raise DecodeError(f"{where}.kind: unknown word")
    if (kind == InContainer.kind) != ("engine" in table):
        raise DecodeError(f"{where}.engine: should be there for a container, and only then")
    return _decode(KINDS[kind], table, f"{where}.")


def _fields(kind: type[Value]) -> tuple[Field, ...]:
    if kind not in _known:
        _known[kind] = (*_fields_of(kind),)
    return _known[kind]


_known: dict[type[Value], tuple[Field, ...]] = {}


def _fields_of(kind: type[Value]) -> Iterator[Field]:
    for base in reversed(kind.__mro__):
        if base is Value or not issubclass(base, Value):
            continue
        for name, of in base.__annotations__.items():
            which = (base, name)
            read, write = _as(of.removesuffix(" | None"), which, optional=of.endswith(" | None"))
            left_out = name in _LEFT_OUT.get(base, ())
            needed = name in _NEEDED.get(base, ()) or not hasattr(kind, name)
            yield name, _KEYS.get(which, name), read, write, left_out, needed, _FLAT.get(which)


def _as(of: str, which: tuple[type[Value], str], *, optional: bool) -> tuple[Read, Write | None]:
    """How a field of that type is read and written."""
    if which == (Record, "place"):
        return _place, tree
    if of in _TYPES:
        return _TYPES[of]
    if of == "int":
        return _number(None if optional else _LOWEST.get(which, 0)), None
    if of == "float":
        return _typed(float) if which in _FREE else _limited, None
    many = of.startswith("tuple[")
    inner = {one.__name__: one for one in _TABLES}.get(of.removeprefix("tuple[").partition(",")[0])
    if inner is None:
        return _typed(object), None  # read and written as a part of the table around it
    if many:
        return _tables(inner), lambda values: [tree(one) for one in values]
    return _first if which in _MAY_BE_FIRST else _table(inner), tree


# --- types ---------------------------------------------------------------------------------------


def _typed(kind: type) -> Read:
    def read(value: Any, where: str) -> Any:
        if type(value) is not kind:  # not isinstance: `pid = true` must not pass as 1
            raise DecodeError(f"{where}: should be of type {kind.__name__}")
        return value

    return read


def _number(lowest: int | None) -> Read:
    def read(value: Any, where: str) -> Any:
        if type(value) is not int:
            raise DecodeError(f"{where}: should be of type int")
        if lowest is not None and value < lowest:
            raise DecodeError(f"{where}: should be at least {lowest}")
        return value

    return read


def _limited(value: Any, where: str) -> float:
    number: float = _typed(float)(value, where)
    if not 0 <= number < _LONGEST:
        raise DecodeError(f"{where}: out of range")
    return number


def _moment(value: Any, where: str) -> datetime:
    moment: datetime = _typed(datetime)(value, where)
    if moment.tzinfo is None:
        raise DecodeError(f"{where}: should have a time zone")
    return moment


def _texts(value: Any, where: str) -> tuple[str, ...]:
    if not all(type(item) is str for item in _typed(list)(value, where)):
        raise DecodeError(f"{where}: should be a list of strings")
    return tuple(value)


def _choice(kind: type[StrEnum]) -> Read:
    def read(value: Any, where: str) -> StrEnum:
        try:
            return kind(_typed(str)(value, where))
        except ValueError:
            raise DecodeError(f"{where}: unknown word") from None

    return read


def _table(kind: type[Value]) -> Read:
    return lambda value, where: _decode(kind, _typed(dict)(value, where), f"{where}.")


def _tables(kind: type[Value]) -> Read:
    def read(value: Any, where: str) -> tuple[Value, ...]:
        if not all(type(item) is dict for item in _typed(list)(value, where)):
            raise DecodeError(f"{where}: should be a list of tables")
        return tuple(_decode(kind, item, f"{where}.") for item in value)

    return read


def _first(value: Any, where: str) -> Process:
    """A process that may have pid 1: sesh in a container."""
    table = _typed(dict)(value, where)
    if table.get("pid") == 1 and type(table["pid"]) is int:
        return Process(1, _decode(Process, {**table, "pid": 2}, f"{where}.").start)
    return _decode(Process, table, f"{where}.")


_TYPES: dict[str, tuple[Read, Write | None]] = {
    "str": (_typed(str), None),
    "bool": (_typed(bool), None),
    "datetime": (_moment, None),
    "tuple[str, ...]": (_texts, list),
    "Mapping[str, object]": (_typed(dict), dict),
    **{kind.__name__: (_choice(kind), str) for kind in _ENUMS},
}
