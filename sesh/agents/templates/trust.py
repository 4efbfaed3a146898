"""Which files of projects may be used: by path and content. A byte that changes ends the trust.

`trusted.jsonl` has a line for each: {"path", "sha256", "at"}. It is replaced as a whole under a
lock of its own, so that two who trust something at once lose nothing.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

from sesh.model.errors import StateError
from sesh.model.value_object import Value
from sesh.state import records
from sesh.system import files, paths

MOST = 1000  # the oldest are forgotten: asked for again, if need be
_LIMIT = 8 << 20


class Trusted(Value):
    path: str
    sha256: str
    at: str


def fingerprint(raw: bytes) -> str:
    from hashlib import sha256

    return sha256(raw).hexdigest()


def trusted(path: str, raw: bytes) -> bool:
    """May a file be used that holds exactly this?"""
    mark = fingerprint(raw)
    return any((one.path, one.sha256) == (path, mark) for one in _read())


def add(path: str, raw: bytes) -> None:
    """Remember that it may."""
    new = Trusted(path, fingerprint(raw), f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    records.prepare()
    with files.locked(_lock()):
        others = [one for one in _read() if (one.path, one.sha256) != (new.path, new.sha256)]
        _write([*others, new][-MOST:])


def remove(path: str) -> bool:
    """Forget a path, whatever it held; False when nothing was known of it."""
    if not any(one.path == path for one in _read()):
        return False
    with files.locked(_lock()):
        _write([one for one in _read() if one.path != path])
    return True


def _lock() -> str:
    return f"{paths.state_dir()}/trusted.lock"


def _read() -> list[Trusted]:
    records.check_owner(paths.state_dir())
    path = paths.trusted_file()
    try:
        raw = files.read_regular(path, _LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from None
    try:
        return [_understood(line) for line in raw.splitlines()]
    except (ValueError, TypeError, RecursionError):
        raise StateError(
            f"{path} can't be understood; remove it, and no project is trusted any more"
        ) from None


def _understood(line: bytes) -> Trusted:
    one = Trusted(**json.loads(line))
    if not all(type(getattr(one, name)) is str for name in one.fields):
        raise ValueError(line)
    return one


def _write(all_of_them: list[Trusted]) -> None:
    lines = [json.dumps({name: getattr(one, name) for name in one.fields}) for one in all_of_them]
    path = paths.trusted_file()
    files.write_private(path, "".join(f"{line}\n" for line in lines).encode())
    with files.writing(path):
        files.sync_directory(os.path.dirname(path))
