"""The user's settings: variables override config.toml, which overrides defaults.

A setting that cannot be read is an error, and nothing is done. Only passes, and commands that show
or end sessions, ignore such a setting (`forgive`): a typing error must not end the supervision of
sessions. The file is read once, and again when it has changed: a watch lives long.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from sesh.model import progress
from sesh.model.configuration import HIGHEST, SECTIONS, Config, Count
from sesh.model.errors import SeshError, StateError
from sesh.model.text import units
from sesh.model.value_object import Any, Value
from sesh.state import events, freshness
from sesh.system import paths
from sesh.system.files import jot, read_regular

LIMIT = 64 << 10
SMALLEST = 64 << 10  # of what is kept on disk
LARGEST = 1 << 50
DEFAULT, FILE = "default", "config.toml"


class Setting(Value):
    """One value, and where it comes from."""

    value: Any
    origin: str


# Used instead of a setting that could not be read, where the default could kill too early or delete
# too much.
_HARMLESS = {
    "stop.grace": Setting(60.0, DEFAULT),
    "logs.max_size": Setting(1 << 60, DEFAULT),
}


class _Forgiven:
    """Whether this process ignores settings that cannot be read, and the first error."""

    forgiving = False
    trouble: StateError | None = None
    warn: Callable[[str], None] | None = None


def forgive(warn: Callable[[str], None] | None = None) -> None:
    """From now on, this process ignores settings that cannot be read; `warn` is called with the
    first error. Earlier errors are forgotten: the user may have fixed them."""
    _Forgiven.forgiving, _Forgiven.trouble, _Forgiven.warn = True, None, warn


def trouble() -> StateError | None:
    """The first error that was ignored."""
    return _Forgiven.trouble


def _refuse(error: StateError) -> None:
    if not _Forgiven.forgiving:
        raise error from None
    if _Forgiven.trouble is None:
        _Forgiven.trouble = error
        if _Forgiven.warn:
            _Forgiven.warn(f"{error}; ignored for this command")


def load() -> Config:
    """The settings of the environment and the file; defaults for all others."""
    given = {**_from_file(), **from_environment()}
    if _Forgiven.trouble:
        given = {**_HARMLESS, **given}
    sections: dict[str, dict[str, Any]] = {}
    for key, setting in given.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, {})[name] = setting.value
    made: dict[str, Any] = {name: SECTIONS[name](**values) for name, values in sections.items()}
    return Config(**made)


def resolve() -> dict[str, Setting]:
    """Every setting by its name (`stop.grace`), with its origin."""
    given = {**_from_file(), **from_environment()}
    return {
        f"{section}.{name}": given.get(f"{section}.{name}") or Setting(getattr(kind, name), DEFAULT)
        for section, kind in SECTIONS.items()
        for name in kind.fields
    }


def variable(key: str) -> str:
    """The environment variable that sets `stop.grace`: SESH_STOP_GRACE."""
    return f"SESH_{key.replace('.', '_').upper()}"


# --- where values come from ----------------------------------------------------------------------


class _Read:
    """The file as it was read last, without errors."""

    identity: object = None
    settings: Mapping[str, Setting] | None = None


def _from_file() -> Mapping[str, Setting]:
    try:
        path = paths.config_file()
    except StateError:
        return {}  # without a home there is no file
    try:
        of = os.stat(path)  # before it is read: it may change meanwhile
        identity = path, of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns
        if identity == _Read.identity and _Read.settings is not None:
            return _Read.settings
        found = _decode(path, read_regular(path, LIMIT))
        if _Forgiven.trouble is None:
            _Read.settings, _Read.identity = found, identity
            _note_valid(of)
        return found
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        _refuse(StateError(f"cannot read {path}: {error.strerror}"))
    except StateError as error:
        _refuse(error)
    return {}


def _note_valid(of: os.stat_result) -> None:
    """Note for the fast lanes that the file has no errors. Where that cannot be written, they leave
    the answer to commands that read the file."""
    with suppress(SeshError, OSError):
        ours = os.stat(paths.state_dir()).st_uid == os.getuid()
        if ours and not freshness.settings_valid():
            jot(paths.settings_file(), freshness.settings_mark(of))


def parse(path: str, raw: bytes) -> dict[str, Any]:
    """Parse a TOML file that the user wrote."""
    import tomllib

    try:
        return tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:  # also a number of five thousand digits
        raise StateError(f"{path}: not valid TOML: {error}") from None


def brief(key: str) -> str:
    """A key as an error message shows it."""
    return key if len(key) <= 40 else f"{key[:39]}…"


def _decode(path: str, raw: bytes) -> dict[str, Setting]:
    found = {}
    for section, table in parse(path, raw).items():
        try:
            kind = _section(section, table)
        except StateError as error:
            _refuse(StateError(f"{path}{_line(raw, section)}: {error}"))
            continue
        for name, value in table.items():
            try:
                found[f"{section}.{name}"] = _setting(section, name, value, kind)
            except StateError as error:
                _refuse(StateError(f"{path}{_line(raw, section, name)}: {error}"))
    return found


def _section(section: str, table: Any) -> type[Value]:
    kind = SECTIONS.get(section)
    if kind is None and isinstance(table, dict):
        near = similar(section, SECTIONS)
        meant = f"did you mean [{near}]?" if near else "see sesh-config(5)"
        raise StateError(f"unknown section [{brief(section)}]; {meant}")
    if kind is None:
        raise StateError(f"unknown key {brief(section)}; {_meant(section)}")
    if not isinstance(table, dict):
        raise StateError(f"{section} should be a table")
    return kind


def _meant(key: str) -> str:
    known = [f"{section}.{one}" for section, kind in SECTIONS.items() for one in kind.fields]
    return meant_by(key, known, "sesh-config(5)")


def meant_by(key: str, known: Iterable[str], page: str) -> str:
    """What to do about an unknown key among `known` ones: the table where its name is known, a
    similar key of its own table, or the page of the manual."""
    table, _, name = key.rpartition(".")
    tables: dict[str, list[str]] = {}
    for one in known:
        owner, _, word = one.rpartition(".")
        tables.setdefault(owner, []).append(word)
    owners = [owner for owner, words in tables.items() if name in words]
    if owners and not table:
        return f"put it below {' or '.join(f'[{owner}]' for owner in owners)}"
    near = name if len(owners) == 1 else similar(name, tables.get(table, ()))
    where = owners[0] if len(owners) == 1 else table
    return f"did you mean {f'{where}.{near}'.lstrip('.')}?" if near else f"see {page}"


def not_notifiable(word: str) -> str | None:
    """What is wrong with a word of `notify.on`; None: nothing."""
    if word in events.NOTIFIABLE:
        return None
    near = similar(word, events.NOTIFIABLE)
    meant = f"did you mean {near}?" if near else "see sesh-json(5)"
    return f"{brief(word)}: unknown event or end; {meant}"


def similar(word: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word[:80], sorted(known), 1)), None)


def _setting(section: str, name: str, value: Any, kind: type[Value]) -> Setting:
    key = f"{section}.{name}"
    if name not in kind.fields:
        raise StateError(f"unknown key {brief(key)}; {_meant(key)}")
    return Setting(_known(key, checked(value, getattr(kind, name), key), key), FILE)


def _line(raw: bytes, section: str, name: str | None = None) -> str:
    """Where a section, or a key in it, is in the file: `:3`; empty where it is written in a way
    that is not recognised here. (The TOML parser keeps no line numbers.)"""
    table = ""
    for number, line in enumerate(raw.decode().splitlines(), 1):
        word = line.split("#")[0].strip()
        if word.startswith("["):
            table = word.strip("[] ")
            key = table if name is None else ""
        else:
            key = word.partition("=")[0].strip()
            if table:
                key = f"{table}.{key}"
        if key == (section if name is None else f"{section}.{name}"):
            return f":{number}"
    return ""


def from_environment() -> dict[str, Setting]:
    """The settings in variables. Lists are separated by commas."""
    mine = {name for name in os.environ if name.startswith("SESH_")}
    if not mine - {"SESH_ID", "SESH_NAME", "SESH_RUN"}:
        return {}
    found = {}
    for section, kind in SECTIONS.items():
        for name in kind.fields:
            key, given = f"{section}.{name}", variable(f"{section}.{name}")
            if given in mine:
                default = getattr(kind, name)
                try:
                    value = checked(_read(os.environ[given], default), default, given)
                    found[key] = Setting(_known(key, value, given), f"${given}")
                except StateError as error:
                    _refuse(error)
    return found


def _read(text: str, default: Any) -> Any:
    """The text of a variable as a value of TOML."""
    if isinstance(default, bool):
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if isinstance(default, tuple):
        return [word.strip() for word in text.split(",") if word.strip()]
    if isinstance(default, Count) and text.isdecimal():
        return int(text)
    return text


# --- values --------------------------------------------------------------------------------------


def checked(value: Any, default: Any, where: str) -> Any:
    """A value of the same type as the default; `where` begins the error message."""
    if isinstance(default, bool):
        if type(value) is not bool:
            raise StateError(f"{where} should be true or false")
        return value
    if isinstance(default, float):
        return _seconds(value, default, where)
    if isinstance(default, Count):
        if type(value) is not int or not default.lowest <= value <= default.highest:
            # The highest number of all is shown only if the value is above it.
            bounded = default.highest < HIGHEST or (type(value) is int and value > default.highest)
            most = f"to {default.highest}" if bounded else "or more"
            raise StateError(f"{where} should be a whole number, {default.lowest} {most}")
        return Count(value)
    if isinstance(default, int):
        return _size(value, default, where)
    if isinstance(default, tuple):
        if type(value) is not list or not all(type(word) is str for word in value):
            raise StateError(f"{where} should be a list of strings")
        return tuple(value)
    if type(value) is not str:
        raise StateError(f"{where} should be a string")
    return value


def _known(key: str, value: Any, where: str) -> Any:
    """Check words that must be known."""
    if key == "resume.phases":
        for word in value:
            if word not in progress.WORKING:
                choices = ", ".join(progress.WORKING)
                raise StateError(f"{where}: {brief(word)}: should be one of {choices}")
    return value


def _seconds(value: Any, default: float, where: str) -> float:
    """A time above 0; or 0 if that is the default and means never."""
    number: Any = units.seconds(value) if type(value) is str else value
    lowest = 0.0 if default == 0 else 1e-9
    if type(number) in (int, float) and number >= HIGHEST:
        raise StateError(f"{where} should be below {HIGHEST:.0f} seconds")
    if type(number) not in (int, float) or not lowest <= number < HIGHEST:
        above = "0 or more" if default == 0 else "above 0"
        raise StateError(f'{where} should be a number of seconds {above}, or a text like "5m"')
    return float(number)


def _size(value: Any, default: int, where: str) -> int:
    """A number of bytes, or a text such as "32 MB"; or 0 if that is the default and means none."""
    count = units.size(str(value)) if type(value) in (int, str) else None
    if count is None or (count < SMALLEST and not (count == default == 0)):
        raise StateError(f'{where} should be a size, for example "32 MB", at least "64 KB"')
    if count > LARGEST:
        raise StateError(f"{where} is more than {units.amount(LARGEST)}")
    return count
