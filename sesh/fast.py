"""The fast lanes: answers that need no look at tmux, because nothing has changed.

A lane only ever says "as recorded": every record intact, every guard of its digest line true. At
any other sight it returns None, and the full path looks. Imports next to nothing, on purpose.
"""

from __future__ import annotations

import os
import time

from sesh import digest, guards, paths
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
        view, doing = found.view, _SILENT
        if digest.agent(view) is not None:
            told = _doing(found, survey.run)
            if told is None:
                return None
            view, doing = told
        views.append(view[:-1] + doing + b',"last_output":' + output + checked)
    # A launch without a record may be an orphan; and where no record is left at all, only tmux
    # could know of sessions.
    if survey.unclaimed or (not names and os.path.exists(survey.run + "/tmux.sock")):
        return None
    return views


def _doing(found: digest.Digest, run: str) -> tuple[bytes, bytes] | None:
    """The view of an agent, and what to add to it; None when only its screen could tell."""
    from sesh.agents import activity

    launch = activity.launch_in(found, run)
    if launch is None:
        return found.view, _SILENT
    doing, look = activity.known(launch)
    if look:
        return None
    import json

    added = b"," + json.dumps(activity.fields(doing), separators=(",", ":"))[1:-1].encode()
    return _with_attention(found.view, activity.attention(doing)), added


def _with_attention(view: bytes, why: str | None) -> bytes:
    """The view, with a reason to look where its record has none."""
    if why is None or digest.needs_attention(view):
        return view
    import json

    return view.replace(b'"attention":null,', b'"attention":%s,' % json.dumps(why).encode(), 1)


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
