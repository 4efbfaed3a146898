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
_HIGHEST = 1e9  # seconds, or pieces


class Start(Value):
    launch_timeout: float = 10.0


class Stop(Value):
    grace: float = 10.0


class Logs(Value):
    max_size: int = 32 << 20  # of one transcript


class Tmux(Value):
    socket: str = ""  # "": sesh's own server; "default": the user's own; else a path
    include: str = ""  # one's own tmux settings for sesh's server
    timeout: float = 2.0


class Count(int):
    """A plain number, where other whole numbers are sizes."""


class Gc(Value):
    archive_after: float = 3600.0  # what ended well leaves the list
    archive_failed_after: float = 30 * 86400.0  # what needs a person leaves the list
    close_after: float = 3600.0  # the dead pane of what ended
    keep_history: float = 30 * 86400.0
    max_history: Count = Count(1000)
    max_transcripts: int = 1 << 30  # of all of them together
    max_events: int = 10 << 20
    max_age: float = 0.0  # limits end a session; 0: never
    max_idle: float = 0.0
    kill_orphans: bool = False


class Docker(Value):
    command: str = "docker"  # or podman
    timeout: float = 2.5  # for one question


class Config(Value):
    start: Start = Start()
    stop: Stop = Stop()
    logs: Logs = Logs()
    gc: Gc = Gc()
    tmux: Tmux = Tmux()
    docker: Docker = Docker()


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
        "gc": _section(path, data, "gc", Gc),
        "tmux": _section(path, data, "tmux", Tmux),
        "docker": _section(path, data, "docker", Docker),
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
    if isinstance(default, bool):
        if type(value) is not bool:
            raise StateError(f"{path}: {key} should be true or false")
        return value
    if isinstance(default, float):
        return _seconds(path, key, value, default)
    if isinstance(default, Count):
        if type(value) is not int or not 0 <= value <= _HIGHEST:
            raise StateError(f"{path}: {key} should be a whole number, 0 or more")
        return Count(value)
    if isinstance(default, int):
        return _size(path, key, value)
    if type(value) is not str:
        raise StateError(f"{path}: {key} should be a string")
    return value


def _seconds(path: str, key: str, value: Any, default: float) -> float:
    """A time above 0; 0 too where that is the default, and means never."""
    lowest = 0.0 if default == 0 else 1e-9
    if type(value) not in (int, float) or not lowest <= value < _HIGHEST:
        above = "0 or more" if default == 0 else "above 0"
        raise StateError(f"{path}: {key} should be a number of seconds {above}")
    return float(value)


def _size(path: str, key: str, value: Any) -> int:
    """A number of bytes, or a text such as "32 MB"."""
    found = _SIZE.fullmatch(str(value)) if type(value) in (int, str) else None
    count = int(found[1]) * _UNITS[found[2]] if found else 0
    if count < _SMALLEST:
        raise StateError(f'{path}: {key} should be a size such as "32 MB", at least "64 KB"')
    return count
