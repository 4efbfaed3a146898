"""Where things are. Knows the XDG rules and nothing of what is in the files.

Fast lanes ask it, so that it imports `os` and errors only where they need neither.
"""

from __future__ import annotations

import posix
import sys
from binascii import crc32

SOCKET_LIMIT = 107  # bytes of a Unix socket's path that the kernel takes


def home() -> str:
    """The home directory; `HOME=''` and an unset HOME fall back on the password database."""
    value = _variable("HOME")
    if value.startswith("/"):
        return value
    found = account_home()
    if found is None:
        from sesh.model.errors import StateError

        raise StateError("no home directory: set HOME or XDG_STATE_HOME")
    return found


def account_home() -> str | None:
    """The home directory by the password database; None: it does not know the user."""
    import pwd

    try:
        return pwd.getpwuid(posix.getuid()).pw_dir
    except KeyError:
        return None


def _xdg(variable: str, default: str) -> str:
    """An XDG base directory; a relative value is to be ignored, says the specification."""
    value = _variable(variable)
    return value if value.startswith("/") else f"{home()}/{default}"


def _variable(name: str) -> str:
    """A variable of the environment; only where `os` is loaded can it have changed since."""
    if "os" in sys.modules:
        import os

        return os.environ.get(name, "")
    value = posix.environ.get(name.encode(), b"")
    return value.decode(sys.getfilesystemencoding(), "surrogateescape")


def state_dir() -> str:
    return _xdg("XDG_STATE_HOME", ".local/state") + "/sesh"


def key() -> str:
    """What tells this state directory from others of the same user, in names outside of it."""
    path = state_dir().encode(sys.getfilesystemencoding(), "surrogateescape")
    return f"{crc32(path):08x}"


def sessions_dir() -> str:
    return state_dir() + "/sessions"


def history_dir() -> str:
    return state_dir() + "/history"


def quarantine_dir() -> str:
    return state_dir() + "/quarantine"


def transcripts_dir() -> str:
    return state_dir() + "/transcripts"


def events_file() -> str:
    return state_dir() + "/events.jsonl"


def breakers_file() -> str:
    """Until when some breaker is open, as far as anybody has seen."""
    return f"{state_dir()}/breakers"


def settings_file() -> str:
    """Which config.toml was read without an error."""
    return f"{state_dir()}/settings"


def older_events_file() -> str:
    """What was in events.jsonl before gc rotated it."""
    return events_file() + ".1"


def notices_dir() -> str:
    """What is to be told and has not been yet, and how far the events were read for it."""
    return state_dir() + "/notices"


def config_file() -> str:
    return _config_dir() + "/config.toml"


def _config_dir() -> str:
    return _xdg("XDG_CONFIG_HOME", ".config") + "/sesh"


def templates_dir() -> str:
    return _config_dir() + "/templates"


def rules_dir() -> str:
    return _config_dir() + "/rules"


def builtin_dir() -> str:
    """The templates that come with sesh."""
    return package_file("agents/builtin")


def builtin_rules_dir() -> str:
    return builtin_dir() + "/rules"


def prices_file() -> str:
    """What models cost, as the user says."""
    return _config_dir() + "/prices.toml"


def builtin_prices_file() -> str:
    return package_file("agents/usage/prices.toml")


def trusted_file() -> str:
    """Which templates of projects may be used."""
    return state_dir() + "/trusted.jsonl"


def bug_log() -> str:
    return state_dir() + "/bugs.log"


def older_bug_log() -> str:
    return bug_log() + ".1"


def renamed(session_id: str) -> str:
    """The names that a session was given after its start, the latest last."""
    return f"{sessions_dir()}/.renamed/{session_id}"


def transcript(session_id: str) -> str:
    return f"{transcripts_dir()}/{session_id}.log"


def times(session_id: str) -> str:
    return f"{transcripts_dir()}/{session_id}.times"


def screen(session_id: str) -> str:
    return f"{transcripts_dir()}/{session_id}.screen"


def of_transcript(session_id: str) -> tuple[str, ...]:
    """All files that hold, or tell of, what a session printed, in the order of their removal: a
    pass removes the times that it has noted if the transcript is gone by then."""
    return (transcript(session_id), screen(session_id), times(session_id))


def run_dir(machine_id: str, pidns: str, initial_pidns: str = "pid:[4026531836]") -> str:
    """The per-launch directory of this machine, apart from that of a container on the same home:
    one that shares the machine id must not reach the host's tmux through a shared socket."""
    key = machine_id[:12]
    if pidns != initial_pidns:
        key += "-" + "".join(c for c in pidns if c.isdigit())
    return f"{state_dir()}/run/{key}"


def gc_stamp(run: str) -> str:
    """The file whose mtime is when gc last ran on this machine without a person."""
    return f"{run}/gc.last"


def user_units() -> str:
    """Where systemd's user manager looks for the user's own units."""
    return _xdg("XDG_CONFIG_HOME", ".config") + "/systemd/user"


def timer_stamps() -> str:
    """Where systemd's user manager remembers when timers ran."""
    return _xdg("XDG_DATA_HOME", ".local/share") + "/systemd/timers"


def runtime_dir() -> str | None:
    """A private directory that a reboot empties, or None. Each state directory has its own: what no
    record of one names may be the other's."""
    uid = posix.getuid()
    for candidate in (_variable("XDG_RUNTIME_DIR"), f"/run/user/{uid}"):
        if candidate.startswith("/") and _private(candidate, uid):
            return f"{candidate}/sesh/{key()}"
    return None


def _private(directory: str, uid: int) -> bool:
    try:
        status = posix.stat(directory)
    except OSError:
        return False
    return status.st_uid == uid and status.st_mode & 0o077 == 0


def package_file(name: str) -> str:
    """A data file shipped with the package, by its absolute path."""
    return f"{_package_dir()}/{name}"


def _package_dir() -> str:
    import os

    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def manual_dirs() -> list[str]:
    """Where the manual's pages may be: below share/ of what sesh was installed to, or in a
    checkout."""
    import os

    package = _package_dir()
    prefix = os.path.abspath(f"{package}/../../../..")  # of lib/python3.X/site-packages/sesh
    return [f"{prefix}/share/man", os.path.abspath(f"{package}/../man")]


def own_command() -> list[str]:
    """How the keeper and timers call this sesh again, from any directory and environment."""
    import os

    script = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    if os.path.basename(script) == "sesh" and os.access(script, os.X_OK):
        return [script]
    return [sys.executable, "-P", "-m", "sesh"]


def which(program: str, path: str | None = None) -> str | None:
    """The program's file, looked up in PATH. (shutil's does the same and imports compressors.)"""
    import os

    for directory in (os.environ.get("PATH", os.defpath) if path is None else path).split(":"):
        file = f"{directory or '.'}/{program}"
        if os.path.isfile(file) and os.access(file, os.X_OK):
            return file
    return None
