"""The user's settings: config.toml, strict, with a default for everything."""

from __future__ import annotations

import re
from typing import Any

from sesh import paths
from sesh.errors import StateError
from sesh.files import read_regular
from sesh.values import Value

LIMIT = 64 << 10
_SIZE = re.compile(r"(\d+)\s*([KMG]?)B?")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SMALLEST = 64 << 10


class Start(Value):
    launch_timeout: float = 10.0


class Stop(Value):
    grace: float = 10.0


class Logs(Value):
    max_size: int = 32 << 20  # of one transcript


class Tmux(Value):
    socket: str = ""  # "": sesh's own server; "default": the user's own; else a path
    include: str = ""  # one's own tmux settings for sesh's server
    timeout: float = 3.0


class Config(Value):
    start: Start = Start()
    stop: Stop = Stop()
    logs: Logs = Logs()
    tmux: Tmux = Tmux()


def load() -> Config:
    """The settings; a missing file is all defaults."""
    try:
        path = paths.config_file()
    except StateError:
        return Config()  # nobody's home: there can be no file either
    try:
        raw = read_regular(path, LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return Config()
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from None
    return _decode(path, raw)


def _decode(path: str, raw: bytes) -> Config:
    import tomllib

    try:
        data = tomllib.loads(raw.decode())
    except (UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError) as error:
        raise StateError(f"{path}: not valid TOML: {error}") from None
    sections: dict[str, Any] = {
        "start": _section(path, data, "start", Start),
        "stop": _section(path, data, "stop", Stop),
        "logs": _section(path, data, "logs", Logs),
        "tmux": _section(path, data, "tmux", Tmux),
    }
    for unknown in data.keys() - sections.keys():
        raise StateError(f"{path}: unknown section [{unknown}]; see sesh-config(5)")
    return Config(**sections)


def _section(path: str, data: dict[str, Any], name: str, kind: type[Value]) -> Any:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise StateError(f"{path}: {name} should be a table")
    allowed = {field: getattr(kind, field) for field in kind.fields}
    values = {}
    for key, value in table.items():
        if key not in allowed:
            raise StateError(f"{path}: unknown key {name}.{key}; see sesh-config(5)")
        values[key] = _value(path, f"{name}.{key}", value, allowed[key])
    return kind(**values)


def _value(path: str, key: str, value: Any, default: Any) -> Any:
    if isinstance(default, float):
        if type(value) not in (int, float) or not 0 < value < 1e6:
            raise StateError(f"{path}: {key} should be a number of seconds above 0")
        return float(value)
    if isinstance(default, int):
        return _size(path, key, value)
    if type(value) is not str:
        raise StateError(f"{path}: {key} should be a string")
    return value


def _size(path: str, key: str, value: Any) -> int:
    """A number of bytes, or a text such as "32 MB"."""
    found = _SIZE.fullmatch(str(value)) if type(value) in (int, str) else None
    count = int(found[1]) * _UNITS[found[2]] if found else 0
    if count < _SMALLEST:
        raise StateError(f'{path}: {key} should be a size such as "32 MB", at least "64 KB"')
    return count
