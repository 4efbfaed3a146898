"""sesh man: show the manual, also where man(1) does not find it."""

from __future__ import annotations

import os
import signal

from sesh.commands._declare import argument, declare
from sesh.model.errors import SeshError, UsageError
from sesh.system import paths

_SECTIONS = ("1", "5")
# Programs that show a page; the first that is installed is used.
_VIEWERS = (("man", "-l"), ("mandoc", "-a"), ("groff", "-mdoc", "-Tutf8"))


@declare("man", examples={"sesh man start": "sesh-start(1)"})
def command(page: str | None = argument(required=False, metavar="[COMMAND]")) -> int:
    """Show the manual page of sesh or of a command."""
    found = _file(page)
    for viewer, *options in _VIEWERS:
        program = paths.which(viewer)
        if program:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it; exec passes that on
            os.execv(program, [viewer, *options, found])
    raise SeshError(f"no manual page viewer found: install man-db, or read {found}")


def _file(page: str | None) -> str:
    """The file of a page: `start`, `sesh-start`, `config.5`; none: that of sesh itself."""
    name, _, section = (page or "sesh").removeprefix("sesh-").partition(".")
    title = "sesh" if name == "sesh" else f"sesh-{name}"
    for directory in paths.manual_dirs():
        for number in (section,) if section else _SECTIONS:
            for file in (
                f"{directory}/man{number}/{title}.{number}",
                f"{directory}/{title}.{number}",
            ):
                if "/" not in title + number and os.path.isfile(file):
                    return file
    if not any(map(os.path.isdir, paths.manual_dirs())):
        raise SeshError("the manual is not installed; next: sesh --help")
    raise UsageError(f"no manual page for {page}; next: sesh --help")
