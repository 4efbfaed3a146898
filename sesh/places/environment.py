"""The environment an agent gets: what `sesh start` was called with, plus -e, minus what belongs to
the terminal or session around the caller. Values are only ever in the snapshot, a 0600 file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

from sesh.model.errors import UsageError
from sesh.model.text.pattern import lazy
from sesh.system import paths
from sesh.system.files import make_parents, open_binary, write_private

_EXPORTABLE = lazy(rb"[A-Za-z_][A-Za-z0-9_]*")
# Of an outer tmux, screen, terminal or systemd unit: wrong or harmful in the new place.
_OUTER = lazy(
    rb"TMUX.*|SESH_.*|STY|WINDOW|TERM|TERMCAP|TERM_PROGRAM.*|COLUMNS|LINES|"
    rb"INVOCATION_ID|JOURNAL_STREAM|NOTIFY_SOCKET|LISTEN_.*|MAINPID|WATCHDOG_.*|"
    rb"SYSTEMD_EXEC_PID|MANAGERPID"
)
# What the shell sets itself, holds read-only, or dies of (dash of an OPTIND that is no number).
_SHELLS_OWN = frozenset(
    rb"_ PWD OLDPWD SHLVL PPID UID EUID GROUPS BASHOPTS SHELLOPTS BASH_VERSINFO OPTIND".split()
)

_EXPORT = lazy(rb"^export ([A-Za-z_][A-Za-z0-9_]*)='((?:[^']|'\"'\"')*)'$", re.M)

Environment = dict[bytes, bytes]


def caller() -> Environment:
    """The caller's environment without what belongs to the terminal around it."""
    return clean(os.environb)


def clean(environment: Mapping[bytes, bytes]) -> Environment:
    """An environment without what belongs to the terminal around it, or to the shell."""
    return {
        name: value
        for name, value in environment.items()
        if not _OUTER.fullmatch(name) and name not in _SHELLS_OWN
    }


def unexportable(environment: Mapping[bytes, bytes]) -> list[str]:
    """Names that sh cannot export; they are reported, not passed on."""
    return sorted(os.fsdecode(name) for name in environment if not _EXPORTABLE.fullmatch(name))


def parse_options(options: Sequence[str]) -> Environment:
    """-e K=V sets, -e K takes the caller's value."""
    found: Environment = {}
    for option in options:
        name, equals, value = option.partition("=")
        if refused := why_not(name):
            raise UsageError(f"-e {refused}")
        if not equals:
            if name not in os.environ:
                raise UsageError(f"-e {name}: not set here; give a value with -e {name}=VALUE")
            value = os.environ[name]
        found[os.fsencode(name)] = os.fsencode(value)
    return found


def why_not(name: str) -> str | None:
    """Why a variable can't be given to a session; None: it can."""
    raw = os.fsencode(name)
    if not _EXPORTABLE.fullmatch(raw):
        return f"{name!r}: not a name that a shell can export"
    if raw in _SHELLS_OWN or _OUTER.fullmatch(raw):
        return f"{name}: the shell or sesh sets it itself"
    return None


def parse_files(paths_given: Sequence[str]) -> Environment:
    """Files of NAME=VALUE lines, as docker reads them; NAME alone takes the caller's value."""
    found: Environment = {}
    for path in paths_given:
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                lines = [line.strip("\n").lstrip() for line in file]
        except OSError as error:
            raise UsageError(f"--env-file {path}: {error.strerror}") from None
        for line in lines:
            if line and not line.startswith("#") and ("=" in line or line in os.environ):
                found.update(parse_options([line]))
    return found


def snapshot_path(session_id: str, run: str) -> str:
    directory = paths.runtime_dir() or run
    return f"{directory}/{session_id}.env"


def save(path: str, environment: Mapping[bytes, bytes]) -> None:
    """Write the snapshot: an sh file of exports, for the launch file to read."""
    text = exports(environment)
    if b"PATH" not in environment:
        text += b"unset PATH\n"
    save_text(path, text)


def save_text(path: str, text: bytes) -> None:
    make_parents(os.path.dirname(path))
    write_private(path, text, durable=False)


def exports(environment: Mapping[bytes, bytes]) -> bytes:
    """These variables as lines of sh."""
    return b"".join(
        b"export %s=%s\n" % (name, _quote(value))
        for name, value in sorted(environment.items())
        if _EXPORTABLE.fullmatch(name)
    )


def load(path: str) -> Environment:
    """The variables of a snapshot."""
    with open_binary(path) as file:
        found = _EXPORT.findall(file.read())
    return {name: value.replace(b"'\"'\"'", b"'") for name, value in found}


def known(path: str) -> Environment:
    """The same, or the caller's where it is gone."""
    try:
        return load(path)
    except OSError:
        return caller()


def _quote(value: bytes) -> bytes:
    return b"'" + value.replace(b"'", b"'\"'\"'") + b"'"


def forget(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
