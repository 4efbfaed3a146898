"""The fast lanes: answers that need no look at tmux, because nothing has changed.

A lane only answers what is recorded, when every record is intact and every guard of its digest line
holds. Otherwise it returns None, or raises an error, and the full path looks; also when config.toml
has changed, so that an error in it is reported. Imports next to nothing, on purpose.
"""

from __future__ import annotations

import posix
import time

from sesh.model import digest
from sesh.state import freshness
from sesh.system import paths, quick_read

_SILENT = (
    b',"activity":null,"waiting_for":null,"activity_since":null,"activity_source":null'
    b',"background":null,"question":null'
)


def ls_json() -> bytes | None:
    """The output of `ls --json`, spliced from digest lines; None when a session must be judged."""
    views = unchanged()
    if views is None:
        return None
    if not views:
        return b"[]\n"
    views[0] = b"[" + views[0]  # here, and not around it all, which may be long to copy
    views[-1] += b"]\n"
    return b",\n".join(views)


def ls_table() -> tuple[bytes, str | None] | None:
    """The output of `ls`, and the closing line; None when a session must be judged."""
    if posix.isatty(1) and freshness.breaker_open(paths.breakers_file(), time.time()):
        return None  # the event log would have to be read
    views = unchanged()
    if not views:
        return None
    from sesh.model.text import quick_json
    from sesh.terminal import output, session_table

    sessions = [quick_json.loads(view.decode()) for view in views]
    return session_table.ls_text(sessions, wide=False, colour=output.use_colour("auto"))


def status(name: str) -> tuple[bytes, int] | None:
    """The output of `status NAME`, and its exit code; None when the full path has to look."""
    if not freshness.settings_valid():
        return None
    if "/" in name or posix.stat(paths.state_dir()).st_uid != posix.getuid():
        return None
    found = freshness.digest_of(name, quick_read.directory(paths.sessions_dir()))
    if found is None or not freshness.Survey().holds(found):
        return None
    from sesh.model.state_table import STATES
    from sesh.model.text import quick_json
    from sesh.terminal import session_table

    view = quick_json.loads(found.view.decode())
    text = session_table.status_line(view, time.time())
    return text.encode("utf-8", "backslashreplace"), STATES[view["state"]].exit_code


def unchanged() -> list[bytes] | None:
    """The JSON object of every session that `ls` shows, or None."""
    state = paths.state_dir()
    if posix.stat(state).st_uid != posix.getuid() or not freshness.settings_valid():
        return None
    names = freshness.names(f"{state}/sessions")
    survey = freshness.Survey()
    views = _Lane(state, survey).views(names)
    # A launch without a record may be an orphan; and where no record is left at all, only tmux
    # could know of sessions.
    if survey.unclaimed or (not names and quick_read.exists(survey.run + "/tmux.sock")):
        return None
    return views


class _Lane:
    """The data that all sessions share."""

    def __init__(self, state: str, survey: freshness.Survey) -> None:
        self.survey = survey
        self.now = time.time()
        self.checked = b',"checked_at":"%s"}' % _stamp(self.now)
        self.records = quick_read.directory(
            f"{state}/sessions"
        )  # not closed: ends with the process
        self.transcripts = quick_read.directory(f"{state}/transcripts")
        self.known: dict[int, bytes] = {}  # times that were written out before

    def views(self, names: list[str]) -> list[bytes] | None:
        """Their JSON objects, without hidden ones; None when a session must be judged."""
        views = []
        for name in names:
            found = freshness.digest_of(name, self.records)
            if found is None or not self.survey.holds(found):
                return None
            if found.hide != "-" and self.now >= int(found.hide):
                continue
            view, doing = found.view, _SILENT
            if digest.agent(view) is not None:
                answer = _doing(found, self.survey.run)
                if answer is None:
                    return None
                view, doing = answer
            output = self._last_output(f"{found.id}.log")
            views.append(b'%b%b,"last_output":%b%b' % (view[:-1], doing, output, self.checked))
        return views

    def _last_output(self, name: str) -> bytes:
        """When the transcript grew. Many agents print in the same second."""
        try:
            status = posix.stat(name, dir_fd=self.transcripts)
        except OSError:
            return b"null"
        if not status.st_size:  # it has printed nothing
            return b"null"
        seconds = int(status.st_mtime)
        text = self.known.get(seconds)
        if text is None:
            text = self.known[seconds] = b'"%s"' % _stamp(seconds)
        return text


def _doing(found: digest.Digest, run: str) -> tuple[bytes, bytes] | None:
    """The view of an agent, and its activity; None when only its screen shows that."""
    from sesh.agents import activity
    from sesh.places import agent_files

    launch = agent_files.launch_in(found, run)
    if launch is None:
        return found.view, _SILENT
    doing, look = activity.examine(launch)
    if look:
        return None
    from sesh.model.text import quick_json

    added = b"," + quick_json.dumps(activity.fields(doing), separators=(",", ":"))[1:-1].encode()
    return _with_attention(found.view, activity.attention(doing)), added


def _with_attention(view: bytes, why: str | None) -> bytes:
    """The view, with a reason for attention where its record has none."""
    if why is None or digest.needs_attention(view):
        return view
    return digest.with_attention(view, why)


def _stamp(seconds: float) -> bytes:
    return b"%04d-%02d-%02dT%02d:%02d:%02dZ" % time.gmtime(seconds)[:6]
