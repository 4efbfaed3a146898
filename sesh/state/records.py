"""The records: one TOML file per session, written so that no crash, race or full disk loses one.

One flock on `sessions/.lock` protects all records. The lock file is never deleted: an unlinked lock
file lets two holders in. The lock is held for milliseconds, never while a program runs or sleeps;
it is close-on-exec, or a tmux server would hold it for ever. Readers take no lock. Every change is:
lock, read again, compare with the bytes that were decided on, temp file in the same directory,
fsync, replace, fsync the directory. A change that fails leaves the old record. On a full disk a
change uses a reserve that is kept for that: sessions can be stopped then, but not started.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, suppress

from sesh.model import digest
from sesh.model.codec import DecodeError, decode, encode
from sesh.model.errors import ConflictError, StateError
from sesh.model.observation import Verdict
from sesh.model.record import Damaged, Record, name_of, valid_name
from sesh.model.session_json import guard, view
from sesh.model.text import quick_json
from sesh.model.value_object import Value, replace
from sesh.state import freshness
from sesh.system import files, paths

RECORD_LIMIT = 1 << 20
EDITED_LIMIT = 64 << 10  # of records that sesh did not write itself: a TOML parser can be slow
_LONGEST_STEM = 200  # bytes of a damaged record's name that its name in quarantine keeps
_ROOM = 64 << 10  # bytes, more than the files of most launches need
_MOST_NAMES = 50  # of a session, that are remembered
_NAMES_LIMIT = 64 << 10
_MOST_KNOWN = 256
_known: dict[bytes, Record] = {}  # the bytes of a file → the record, to decode each once


class Entry(Value):
    """A record file as it was read: the record, and its bytes to compare with later."""

    path: str
    raw: bytes
    record: Record | Damaged

    @property
    def readable(self) -> Record | None:
        """The record; None: it is damaged."""
        return self.record if isinstance(self.record, Record) else None


# --- directories -------------------------------------------------------------------------------


def prepare() -> None:
    """Make the state directories, private under any umask. Another user's are refused."""
    state = paths.state_dir()
    check_owner(state)
    with files.writing(state):
        files.make_parents(os.path.dirname(state))
        for directory in (
            state,
            paths.history_dir(),
            paths.transcripts_dir(),
            f"{state}/run",
            paths.sessions_dir(),  # the last: if it exists, all do
        ):
            files.make_private(directory)
    keep_reserve()


def exists() -> bool:
    """Has anything ever been recorded here?"""
    directory = paths.sessions_dir()
    try:
        os.stat(directory)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StateError(f"cannot use {directory}: {error.strerror}") from None
    check_owner(paths.state_dir())
    return True


def check_owner(state: str) -> None:
    try:
        owner = os.stat(state).st_uid
    except FileNotFoundError:
        return
    except OSError as error:
        raise StateError(f"cannot use {state}: {error.strerror}") from None
    if owner != os.getuid():
        raise StateError(f"{state} belongs to uid {owner}, not to you; set XDG_STATE_HOME")


# --- reading -----------------------------------------------------------------------------------


def entries(leaving_out: Collection[str] = ()) -> list[Entry]:
    """All records, sorted by name. A damaged record does not affect the others."""
    return entries_in(paths.sessions_dir(), leaving_out)


def entries_in(directory: str, leaving_out: Collection[str] = ()) -> list[Entry]:
    """All record files of a directory, sorted by name."""
    check_owner(paths.state_dir())
    try:
        names = sorted(
            name.removesuffix(".toml")
            for name in os.listdir(directory)
            if name.endswith(".toml") and not name.startswith(".")
        )
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(f"cannot read {directory}: {error.strerror}") from None
    found = (read_file(f"{directory}/{name}.toml") for name in names if name not in leaving_out)
    return [entry for entry in found if entry is not None]


def entry(name: str) -> Entry | None:
    """The record of a session; None when there is none."""
    if not valid_name(name):
        return None
    check_owner(paths.state_dir())
    return read_file(_path(name))


def names_of(session_id: str) -> list[str]:
    """The names that the record of a session may have, the latest last: that in its id, and those
    that it was given later."""
    return [name_of(session_id), *_later_names(session_id)]


def _later_names(session_id: str) -> list[str]:
    try:
        raw = files.read_regular(paths.renamed(session_id), _NAMES_LIMIT)
    except OSError:
        return []
    return [name for name in raw.decode("ascii", "replace").split() if valid_name(name)]


def _possible(session_id: str) -> Iterator[str]:
    """These names. One that is given in this moment is among them: it is noted before the record
    moves."""
    known: list[str] = []
    while len(names := names_of(session_id)) > len(known):
        yield from names[len(known) :]
        known = names


def of_id(session_id: str) -> Record | None:
    """The record in the list that has this id."""
    for name in _possible(session_id):
        found = entry(name)
        record = found.readable if found else None
        if record and record.id == session_id:
            return record
    return None


def claimed(session_id: str) -> bool:
    """Does a record in the list have this id? A damaged record may."""
    return any(_may_be(name, session_id) for name in _possible(session_id))


def _may_be(name: str, session_id: str) -> bool:
    raw = _bytes(_path(name))
    line = digest.parse(raw) if raw else None
    if line is not None:
        return line.id == session_id
    found = entry(name)
    record = found.record if found else None
    return isinstance(record, Damaged) or (record is not None and record.id == session_id)


def having(field: str, text: str) -> list[tuple[Record, Entry]]:
    """The records with this text in a field of their session JSON. The digest lines are compared;
    only records that match, or whose line is not intact, are parsed."""
    found = []
    for name in freshness.names(paths.sessions_dir()):
        line = digest.parse(_bytes(_path(name)) or b"")
        if line is None or digest.text(line.view, field) == text:
            found.append(entry(name))
    return [(one.readable, one) for one in found if one and one.readable]


def again(before: Entry) -> Entry | None:
    """Read a record file again; None when it is gone."""
    return read_file(before.path)


def unchanged(before: Entry) -> bool:
    return _bytes(before.path) == before.raw


def _path(name: str) -> str:
    return f"{paths.sessions_dir()}/{name}.toml"


def read_file(path: str) -> Entry | None:
    """Read one record file; None when there is none."""
    name = os.path.basename(path).removesuffix(".toml")
    try:
        raw = files.read_regular(path, RECORD_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Entry(path, b"", Damaged(name, path, error.strerror or str(error)))
    return Entry(path, raw, _understand(name, path, raw))


def _bytes(path: str) -> bytes | None:
    """The current bytes of a record file; None: no file, b"": it cannot be read."""
    try:
        return files.read_regular(path, RECORD_LIMIT)
    except FileNotFoundError:
        return None
    except OSError:
        return b""


def _know(raw: bytes, record: Record) -> Record:
    """A command reads most records several times, a watch every second. Records are immutable, so
    the same bytes may share one."""
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[raw] = record
    return record


def _understand(name: str, path: str, raw: bytes) -> Record | Damaged:
    if not raw.strip(b"\0 \n"):
        return Damaged(name, path, "empty file")
    if len(raw) > EDITED_LIMIT and not digest.intact(raw):
        return Damaged(name, path, f"checksum wrong and larger than {EDITED_LIMIT >> 10} KiB")
    try:
        record = _known.get(raw) or _know(raw, decode(raw))
    except DecodeError as error:
        return Damaged(name, path, str(error))
    if name == record.name or path == f"{paths.history_dir()}/{record.id}.toml":
        return record
    if _later_names(record.id)[-1:] == [name]:  # `rename` was killed
        return replace(record, name=name)
    return Damaged(name, path, f"the record inside is of {record.name}")


# --- writing -----------------------------------------------------------------------------------


def lock() -> AbstractContextManager[None]:
    """The one lock of all records. Never run a program or sleep while it is held."""
    return files.locked(f"{paths.sessions_dir()}/.lock")


def claim(record: Record, verdict: Verdict, over: Entry | None) -> Entry:
    """Create a record, which claims its name. `over` is the ended record that it replaces, if any;
    that moves to the history. Raises ConflictError when the name is not as it was seen."""
    raw, path = render(record, verdict), _path(record.name)
    with lock():
        if _bytes(path) != (over.raw if over else None):
            raise ConflictError(f"{record.name} was taken by another sesh just now")
        with files.temp_file(path, raw) as temp:
            if over is not None and isinstance(over.record, Record):
                to_history(over)
                files.sync_directory(paths.history_dir())
            os.replace(temp, path)
            files.sync_directory(os.path.dirname(path))
    return Entry(path, raw, _know(raw, record))


def swap(old: Entry, record: Record, verdict: Verdict) -> Entry | None:
    """Replace a record; None when another process has changed it since it was read."""
    raw, directory = render(record, verdict), paths.sessions_dir()
    with files.locked(f"{directory}/.lock"):
        if _bytes(old.path) != old.raw:
            return None
        reserve = f"{directory}/.reserve"
        with files.temp_file(old.path, raw, reserve=reserve) as temp:
            os.replace(temp, old.path)
            files.sync_directory(os.path.dirname(old.path))
        if not os.path.exists(reserve):  # the change was made of it
            files.keep_reserve(reserve)
    return Entry(old.path, raw, _know(raw, record))


def rename(old: Entry, record: Record, verdict: Verdict, over: Entry | None) -> Entry | None:
    """Replace a record by one with another name; None when another process has changed it. `over`
    is the ended record of that name, if any; that moves to the history. Raises ConflictError when
    the new name is not as it was seen.

    The file moves in one step, between the note of the name, which makes it valid under that, and
    the new text: whenever this is killed, the record has one of both names."""
    raw, path, directory = render(record, verdict), _path(record.name), paths.sessions_dir()
    with lock():
        if _bytes(old.path) != old.raw:
            return None
        if _bytes(path) != (over.raw if over else None):
            raise ConflictError(f"{record.name} was taken by another sesh just now")
        note = paths.renamed(record.id)
        with files.writing(note), files.temp_file(path, raw) as temp:
            files.make_private(os.path.dirname(note))
            names = [*_later_names(record.id)[-_MOST_NAMES:], record.name]
            files.write_private(note, "".join(f"{name}\n" for name in names).encode())
            if over is not None:
                to_history(over)
                files.sync_directory(paths.history_dir())
            os.rename(old.path, path)
            os.replace(temp, path)
            files.sync_directory(directory)
    return Entry(path, raw, _know(raw, record))


def check_room() -> None:
    """Raise when the disk has no room for the files of a launch."""
    with files.temp_file(f"{paths.sessions_dir()}/room", bytes(_ROOM), durable=False) as temp:
        os.unlink(temp)


def keep_reserve() -> None:
    """Make sure that there is a reserve of the right size."""
    files.keep_reserve(_reserve())


def _reserve() -> str:
    """The file that gives its space to a change on a full disk."""
    return f"{paths.sessions_dir()}/.reserve"


def to_history(old: Entry) -> bool:
    """Move a record to the history, under the lock; False when it has changed since it was read.
    The time of the file is from now on the time at which the record left the list."""
    assert isinstance(old.record, Record)
    if _bytes(old.path) != old.raw:
        return False
    target = f"{paths.history_dir()}/{old.record.id}.toml"
    with files.writing(old.path):
        os.replace(old.path, target)
        os.utime(target)
    forget_names(old.record.id)
    return True


def forget_names(session_id: str) -> None:
    """Forget the later names of a session whose record has left the list."""
    with suppress(OSError):
        os.unlink(paths.renamed(session_id))


def quarantine(old: Entry, stamp: str) -> str | None:
    """Move a damaged record, whatever kind of file it is, to quarantine and return its new path;
    None when it has changed since it was read."""
    assert isinstance(old.record, Damaged)
    directory = paths.quarantine_dir()
    with lock(), files.writing(old.path):
        if not os.path.lexists(old.path) or _bytes(old.path) != old.raw:
            return None
        files.make_private(directory)
        target = _free_name(directory, old.record.name, stamp)
        os.rename(old.path, target)
        files.sync_directory(directory)
        files.sync_directory(os.path.dirname(old.path))
        if os.path.isfile(target) and not os.path.islink(target):
            os.chmod(target, 0o600)
    return target


def _free_name(directory: str, name: str, stamp: str) -> str:
    """A path that does not exist yet, with a name that is short enough for the file system."""
    stem = os.fsdecode(os.fsencode(name)[:_LONGEST_STEM])
    numbers = ("", *(f"-{number}" for number in range(2, 10000)))
    candidates = (f"{directory}/{stem}.{stamp}{number}.toml" for number in numbers)
    return next(path for path in candidates if not os.path.lexists(path))


def remove(old: Entry) -> bool:
    """Delete a record, unless it has changed since it was read."""
    with lock():
        now = _bytes(old.path)
        if now is None:
            return True
        if now != old.raw:
            return False
        with files.writing(old.path):
            os.unlink(old.path)
            files.sync_directory(os.path.dirname(old.path))
    if old.readable:
        forget_names(old.readable.id)
    return True


def render(record: Record, verdict: Verdict) -> bytes:
    """The bytes of a record file."""
    raw = digest.encode(guard(record, verdict), _summary(record, verdict), encode(record))
    if len(raw) > RECORD_LIMIT:
        if sum(map(len, record.spec.command)) < RECORD_LIMIT // 2:
            raise StateError(f"the record of {record.name} would be larger than 1 MiB")
        raise StateError(f"the command of {record.name} is too long for a record; use a file")
    return raw


def up_to_date(entry: Entry, record: Record, verdict: Verdict) -> bool:
    """Is the digest line of an unchanged record what it would be now?"""
    return digest.says(entry.raw, guard(record, verdict), _summary(record, verdict))


def _summary(record: Record, verdict: Verdict) -> str:
    return quick_json.dumps(view(record, verdict), separators=(",", ":"))
