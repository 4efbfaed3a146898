"""Trusted files of projects, by path and content: any change of the content ends the trust.

`trusted.jsonl` has a line {"path", "sha256", "at"} for each. It is replaced as a whole under its
own lock, so that concurrent changes are not lost.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

from sesh.model.errors import StateError
from sesh.model.text import quick_json
from sesh.model.value_object import Value
from sesh.state import records
from sesh.system import files, paths

MOST = 1000  # the oldest are forgotten; the user can trust them again
_LIMIT = 8 << 20


class Trusted(Value):
    path: str
    sha256: str
    at: str


def fingerprint(raw: bytes) -> str:
    from hashlib import sha256

    return sha256(raw).hexdigest()


def trusted(path: str, raw: bytes) -> bool:
    """Is the file with exactly this content trusted?"""
    mark = fingerprint(raw)
    return any((entry.path, entry.sha256) == (path, mark) for entry in _read())


def add(path: str, raw: bytes) -> None:
    """Trust a file with this content."""
    new = Trusted(path, fingerprint(raw), f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    records.prepare()
    with files.locked(_lock()):
        others = [
            entry for entry in _read() if (entry.path, entry.sha256) != (new.path, new.sha256)
        ]
        _write([*others, new][-MOST:])


def remove(path: str) -> bool:
    """Forget a path with any content; False when it was not trusted."""
    if not any(entry.path == path for entry in _read()):
        return False
    with files.locked(_lock()):
        _write([entry for entry in _read() if entry.path != path])
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
        return [_parse(line) for line in raw.splitlines()]
    except (ValueError, TypeError, RecursionError):
        raise StateError(
            f"{path} is damaged; next: rm {path} (then no project is trusted)"
        ) from None


def _parse(line: bytes) -> Trusted:
    entry = Trusted(**quick_json.loads(line))
    if not all(type(getattr(entry, name)) is str for name in entry.fields):
        raise ValueError(line)
    return entry


def _write(entries: list[Trusted]) -> None:
    lines = [
        quick_json.dumps({name: getattr(entry, name) for name in entry.fields}) for entry in entries
    ]
    path = paths.trusted_file()
    files.write_private(path, "".join(f"{line}\n" for line in lines).encode())
    with files.writing(path):
        files.sync_directory(os.path.dirname(path))
