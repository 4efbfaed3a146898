"""The fast lanes: answers that need no look at tmux, because nothing has changed.

A lane only ever says "as recorded": every record intact, every guard of its digest line true. At
any other sight it returns None, and the full path looks. Imports next to nothing, on purpose.
"""

from __future__ import annotations

import os
import time

from sesh import digest, paths
from sesh.errors import SeshError

_CHUNK = 1 << 14  # a large buffer costs more than the read itself
_STATE_FIELD, _TTY_FIELD, _START_FIELD = 0, 4, 19


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

    from sesh import output

    sessions = [json.loads(view) for view in views]
    return output.ls_text(sessions, wide=False, colour=output.use_colour("auto"))


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
    names = sorted(n[:-5] for n in os.listdir(directory) if n.endswith(".toml") and n[0] != ".")
    here, run = _here()
    try:
        launches = {name for name in os.listdir(run) if name.endswith((".pid", ".exit"))}
    except FileNotFoundError:
        launches = set()
    now = time.time()
    checked = _stamp(now)
    transcripts = state + "/transcripts/"
    views = []
    for name in names:
        found = digest.parse(_read(f"{directory}/{name}.toml"))
        if found is None or not _as_recorded(found, here, launches):
            return None
        if not found.view.startswith(b'{"name":"%s",' % name.encode()):
            return None
        if found.hide != "-" and now >= int(found.hide):
            continue
        output = _last_output(f"{transcripts}{found.id}.log")
        views.append(b'%s,"last_output":%s,"checked_at":"%s"}' % (found.view[:-1], output, checked))
    # What is left has files and no record: an orphan, perhaps. (Or there are no records at all,
    # and only tmux could know of sessions.)
    if any(launch.endswith(".pid") for launch in launches):
        return None
    if not names and os.path.exists(run + "/tmux.sock"):
        return None
    return views


def _as_recorded(found: digest.Digest, here: str, launches: set[str]) -> bool:
    """Do the guards hold? Takes the session's own files out of `launches`."""
    launch = f"{found.id}.{found.generation}"
    launches.discard(launch + ".pid")
    if found.mode == "ended":
        launches.discard(launch + ".exit")
        return True
    if found.mode != "pid" or found.machine != here or launch + ".exit" in launches:
        return False
    line = _read(f"/proc/{found.pid}/stat")
    field = line[line.rindex(b")") + 2 :].split(None, 20)
    return (
        field[_STATE_FIELD] not in (b"Z", b"X", b"x", b"T", b"t")
        and field[_START_FIELD] == found.start.encode()
        and field[_TTY_FIELD] == found.tty.encode()
    )


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        data = os.read(fd, _CHUNK)
        while len(data) % _CHUNK == 0 and (more := os.read(fd, _CHUNK)):
            data += more
        return data
    finally:
        os.close(fd)


def _here() -> tuple[str, str]:
    """This machine's key, and its per-launch directory."""
    machine = _read("/etc/machine-id").split(b"\n", 1)[0].strip().decode()
    boot = _read("/proc/sys/kernel/random/boot_id").strip().decode()
    pidns = os.readlink("/proc/self/ns/pid")
    return f"{machine}/{boot}/{pidns}", paths.run_dir(machine, pidns)


def _last_output(path: str) -> bytes:
    try:
        return b'"%s"' % _stamp(os.stat(path).st_mtime)
    except OSError:
        return b"null"


def _stamp(seconds: float) -> bytes:
    return b"%04d-%02d-%02dT%02d:%02d:%02dZ" % time.gmtime(seconds)[:6]
