"""The fast lanes: answers that need no look at tmux, because nothing has changed.

A lane only ever says "as recorded": every record intact, every guard of its digest line true. At
any other sight it returns None, and the full path looks. Imports next to nothing, on purpose.
"""

from __future__ import annotations

import os
import time

from sesh import guards, paths
from sesh.errors import SeshError

_SILENT = b',"activity":null,"waiting_for":null,"activity_since":null,"activity_source":null'


def ls_json() -> bytes | None:
    """The output of `ls --json`, spliced from digest lines; None when somebody has to look."""
    views = unchanged()
    if views is None:
        return None
    return b"[" + b",\n".join(views) + b"]\n"


def ls_table() -> tuple[bytes, str | None] | None:
    """The output of `ls`, and the closing line; None when somebody has to look."""
    views = unchanged()
    if not views:
        return None
    import json

    from sesh import output, tables

    sessions = [json.loads(view) for view in views]
    return tables.ls_text(sessions, wide=False, colour=output.use_colour("auto"))


def unchanged() -> list[bytes] | None:
    """The JSON object of every session that `ls` shows, or None."""
    try:
        return _unchanged()
    except (OSError, ValueError, IndexError, SeshError):
        return None


def _unchanged() -> list[bytes] | None:
    state = paths.state_dir()
    if os.stat(state).st_uid != os.getuid():
        return None
    directory = state + "/sessions"
    names = guards.names(directory)
    survey = guards.Survey()
    now = time.time()
    checked = b',"checked_at":"%s"}' % _stamp(now)
    views = []
    known: dict[int, bytes] = {}
    records = guards.directory(directory)  # not closed: a lane ends with its process
    transcripts = guards.directory(f"{state}/transcripts")
    for name in names:
        found = guards.digest_of(name, records)
        if found is None or not survey.holds(found):
            return None
        if found.hide != "-" and now >= int(found.hide):
            continue
        output = _last_output(f"{found.id}.log", transcripts, known)
        views.append(found.view[:-1] + _SILENT + b',"last_output":' + output + checked)
    # A launch without a record may be an orphan; and where no record is left at all, only tmux
    # could know of sessions.
    if survey.unclaimed or (not names and os.path.exists(survey.run + "/tmux.sock")):
        return None
    return views


def _last_output(name: str, directory: int, known: dict[int, bytes]) -> bytes:
    """When the transcript grew; `known` are the times that were written out before: many agents
    speak in the same second."""
    try:
        seconds = int(os.stat(name, dir_fd=directory).st_mtime)
    except OSError:
        return b"null"
    text = known.get(seconds)
    if text is None:
        text = known[seconds] = b'"%s"' % _stamp(seconds)
    return text


def _stamp(seconds: float) -> bytes:
    return b"%04d-%02d-%02dT%02d:%02d:%02dZ" % time.gmtime(seconds)[:6]
