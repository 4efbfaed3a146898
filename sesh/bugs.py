"""The log of bugs in sesh: where a traceback goes, which is not the user's business."""

from __future__ import annotations

import os
import sys

from sesh import __version__, paths
from sesh.errors import SeshError


def write(error: BaseException) -> str | None:
    """Write it down; the log's path, if that could be done."""
    import traceback

    try:
        path = paths.bug_log()
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(f"sesh {__version__}: {sys.argv[1:2]}\n")
            traceback.print_exception(error, file=file)
    except (OSError, SeshError):
        return None
    return path
