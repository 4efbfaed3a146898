"""The log of bugs in sesh: where a traceback goes, which is not the user's business."""

from __future__ import annotations

import os
import sys

from sesh import __version__
from sesh.model.errors import SeshError
from sesh.system import files, paths

_ENOUGH = 1 << 20  # bytes; what is older is in a second file, until there is as much again


def write(error: BaseException) -> str | None:
    """Log a traceback; returns the log's path, if that could be done."""
    import traceback

    try:
        path = paths.bug_log()
        _make_room(path)
        fd = files.open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(f"sesh {__version__}: {sys.argv[1:2]}\n")
            traceback.print_exception(error, file=file)
    except (OSError, SeshError):
        return None
    return path


def _make_room(path: str) -> None:
    """A bug that comes back every minute must not fill the disk."""
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        return
    if size > _ENOUGH:
        os.replace(path, paths.older_bug_log())
