"""The records: one TOML file a session, written so that no crash, race or full disk loses one.

The lock's contract: one flock on `sessions/.lock` for all records; the file is never deleted (a
lock file that is unlinked lets two holders in); held for milliseconds, never while a program
runs or sleeps; close-on-exec, or a tmux server would hold it for ever. Readers take no lock. Every
change is: lock, read again, compare with what was decided upon, temp file in the same directory,
fsync, replace, fsync the directory. What fails leaves the old record. On a full disk a change is
made with a reserve that is kept for that: a session can be stopped then, but none started.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import lru_cache

from sesh.model import digest
from sesh.model.codec import DecodeError, decode, encode
from sesh.model.digest import Digest
from sesh.model.errors import ConflictError, StateError
from sesh.model.observation import Verdict
from sesh.model.record import ID_PATTERN, Damaged, Record, valid_name
from sesh.model.session_json import view
from sesh.model.states import ENDED_WELL, OUTCOMES, State
from sesh.model.value_object import Value
from sesh.state import freshness
from sesh.system import files, paths, quick_read

RECORD_LIMIT = 1 << 20
EDITED_LIMIT = 64 << 10  # of what sesh did not write itself: a TOML parser can be made to crawl
_AT_ONCE = 50  # records that are moved under one lock: for milliseconds
_SWEPT_AT_ONCE = 200  # each is only read and renamed
_LONGEST_STEM = 200  # bytes of a damaged record's name that its name in quarantine keeps
_ROOM = 64 << 10  # bytes, more than the files of most launches have
KEEP_IN_LIST = timedelta(hours=1)  # how long `ls` shows what ended well


class Entry(Value):
    """A record file as it was read: what it means, and its bytes to compare with later."""

    path: str
    raw: bytes
    record: Record | Damaged


# --- directories -------------------------------------------------------------------------------


def prepare() -> None:
    """Make the state directories, private under any umask; refuse another user's."""
    state = paths.state_dir()
    check_owner(state)
    with files.writing(state):
        files.make_parents(os.path.dirname(state))
        for directory in (
            state,
            paths.history_dir(),
            paths.transcripts_dir(),
            f"{state}/run",
            paths.sessions_dir(),  # the last: where it exists, all do
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
    """All records, by name; a damaged one is reported and never in the way of the others."""
    return _entries(paths.sessions_dir(), leaving_out)


def history(leaving_out: Collection[str] = ()) -> list[Entry]:
    """The records that left the list, by id."""
    return _entries(paths.history_dir(), leaving_out)


def _entries(directory: str, leaving_out: Collection[str] = ()) -> list[Entry]:
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
    found = (_read(f"{directory}/{name}.toml") for name in names if name not in leaving_out)
    return [entry for entry in found if entry is not None]


def holding(text: str) -> list[tuple[Record, Entry]]:
    """The records in which a text stands, as a value. Only these are parsed: of very many, that
    would take long."""
    wanted = json.dumps(text, ensure_ascii=False).encode(errors="surrogatepass")
    names = freshness.names(paths.sessions_dir())
    found = [entry(name) for name in names if wanted in (_bytes(_path(name)) or b"")]
    return [(one.record, one) for one in found if one and isinstance(one.record, Record)]


def entry(name: str) -> Entry | None:
    """One session's record, or None when there is none."""
    if not valid_name(name):
        return None
    check_owner(paths.state_dir())
    return _read(_path(name))


def again(before: Entry) -> Entry | None:
    """A record file as it is by now, or None when it is gone."""
    return _read(before.path)


def unchanged(before: Entry) -> bool:
    return _bytes(before.path) == before.raw


def archived(session_id: str) -> Entry | None:
    """The record of an id that left the list."""
    if not re.fullmatch(ID_PATTERN, session_id):
        return None
    check_owner(paths.state_dir())
    return _read(f"{paths.history_dir()}/{session_id}.toml")


def _path(name: str) -> str:
    return f"{paths.sessions_dir()}/{name}.toml"


def _read(path: str) -> Entry | None:
    name = os.path.basename(path).removesuffix(".toml")
    try:
        raw = files.read_regular(path, RECORD_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Entry(path, b"", Damaged(name, path, error.strerror or str(error)))
    return Entry(path, raw, _understand(name, path, raw))


def _bytes(path: str) -> bytes | None:
    """What a record file holds right now; None when there is none, b"" when it can't be read."""
    try:
        return files.read_regular(path, RECORD_LIMIT)
    except FileNotFoundError:
        return None
    except OSError:
        return b""


@lru_cache(maxsize=256)
def _decoded(raw: bytes) -> Record:
    """A command reads most records several times, a watch each second: the same bytes are the same
    record, which nobody can change."""
    return decode(raw)


def _understand(name: str, path: str, raw: bytes) -> Record | Damaged:
    if not raw.strip(b"\0 \n"):
        return Damaged(name, path, "empty file")
    if len(raw) > EDITED_LIMIT and not digest.intact(raw):
        return Damaged(name, path, f"checksum wrong and larger than {EDITED_LIMIT >> 10} KiB")
    try:
        record = _decoded(raw)
    except DecodeError as error:
        return Damaged(name, path, str(error))
    in_history = os.path.dirname(path) == paths.history_dir()
    if name != (record.id if in_history else record.name):
        return Damaged(name, path, f"the record inside is of {record.name}")
    return record


# --- writing -----------------------------------------------------------------------------------


def lock() -> AbstractContextManager[None]:
    """The one lock of all records. Never run a program or sleep while it is held."""
    return files.locked(f"{paths.sessions_dir()}/.lock")


def claim(record: Record, verdict: Verdict, over: Entry | None) -> Entry:
    """Create a record: the claim on its name. `over` is the ended one it replaces, if any.

    The old one moves to the history. Raises ConflictError when the name is not as it was seen.
    """
    raw = render(record, verdict)
    with lock():
        if _bytes(_path(record.name)) != (over.raw if over else None):
            raise ConflictError(f"{record.name} was taken by another sesh just now")
        with files.temp_file(_path(record.name), raw) as temp:
            if over is not None and isinstance(over.record, Record):
                _to_history(over)
                files.sync_directory(paths.history_dir())
            os.replace(temp, _path(record.name))
            files.sync_directory(paths.sessions_dir())
    return Entry(_path(record.name), raw, record)


def swap(old: Entry, record: Record, verdict: Verdict) -> Entry | None:
    """Replace a record, unless somebody else has changed it since it was read: then None."""
    raw = render(record, verdict)
    with lock():
        if _bytes(old.path) != old.raw:
            return None
        with files.temp_file(old.path, raw, reserve=_reserve()) as temp:
            os.replace(temp, old.path)
            files.sync_directory(os.path.dirname(old.path))
        keep_reserve()
    return Entry(old.path, raw, record)


def check_room() -> None:
    """Raise when the disk has no room for the files of a launch."""
    with files.temp_file(f"{paths.sessions_dir()}/room", bytes(_ROOM), durable=False) as temp:
        os.unlink(temp)


def keep_reserve() -> None:
    """See that there is a reserve, and that it has room."""
    files.keep_reserve(_reserve())


def _reserve() -> str:
    """With it a record can be changed on a full disk: what fills it can be stopped."""
    return f"{paths.sessions_dir()}/.reserve"


def archive(old: Sequence[Entry]) -> list[Entry]:
    """Move ended records to the history, except those that have changed since they were read.
    Returns those that were moved."""
    moved: list[Entry] = []
    for begin in range(0, len(old), _AT_ONCE):
        with lock():
            moved += [one for one in old[begin : begin + _AT_ONCE] if _to_history(one)]
            files.sync_directory(paths.history_dir())
            files.sync_directory(paths.sessions_dir())
    return moved


def sweep(wanted: Callable[[Digest], bool]) -> list[Digest]:
    """Move to the history, by their digest lines alone, the records that have ended and are wanted.
    What is damaged or has to be looked at stays. Returns those that were moved."""
    check_owner(paths.state_dir())
    moved: list[Digest] = []
    with files.writing(paths.sessions_dir()):
        here, there = (
            quick_read.directory(paths.sessions_dir()),
            quick_read.directory(paths.history_dir()),
        )
        try:
            names = freshness.names(paths.sessions_dir())
            for begin in range(0, len(names), _SWEPT_AT_ONCE):
                with lock():
                    some = names[begin : begin + _SWEPT_AT_ONCE]
                    moved += [one for name in some if (one := _sweep(name, wanted, here, there))]
            for directory in (there, here) if moved else ():
                files.sync_open_directory(directory)
        finally:
            os.close(here)
            os.close(there)
    return moved


def _sweep(name: str, wanted: Callable[[Digest], bool], here: int, there: int) -> Digest | None:
    """Under the lock."""
    try:
        found = freshness.digest_of(name, here)
    except OSError:
        return None
    if found is None or found.mode != "ended" or not found.id.startswith(f"{name}-"):
        return None
    if "/" in found.id or not wanted(found):
        return None
    os.rename(f"{name}.toml", f"{found.id}.toml", src_dir_fd=here, dst_dir_fd=there)
    os.utime(f"{found.id}.toml", dir_fd=there)
    return found


def _to_history(old: Entry) -> bool:
    """Under the lock. Its time says from now on when it left the list."""
    assert isinstance(old.record, Record)
    if _bytes(old.path) != old.raw:
        return False
    target = f"{paths.history_dir()}/{old.record.id}.toml"
    with files.writing(old.path):
        os.replace(old.path, target)
        os.utime(target)
    return True


def quarantine(old: Entry, stamp: str) -> str | None:
    """Move a damaged record out of the way, whatever kind of file it is; returns where to. None
    when it has changed since it was read."""
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
    """A name that nothing has yet, and that the file system takes."""
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
    return True


def render(record: Record, verdict: Verdict) -> bytes:
    """The bytes of a record file."""
    raw = digest.encode(_guard(record, verdict), _summary(record, verdict), encode(record))
    if len(raw) > RECORD_LIMIT:
        if sum(map(len, record.spec.command)) < RECORD_LIMIT // 2:
            raise StateError(f"the record of {record.name} would be larger than 1 MiB")
        raise StateError(f"the command of {record.name} is too long for a record; use a file")
    return raw


def up_to_date(entry: Entry, record: Record, verdict: Verdict) -> bool:
    """Does the digest line of an unchanged record say what is true now?"""
    return digest.says(entry.raw, _guard(record, verdict), _summary(record, verdict))


def _summary(record: Record, verdict: Verdict) -> str:
    return json.dumps(view(record, verdict), separators=(",", ":"))


def _guard(record: Record, verdict: Verdict) -> tuple[str, ...]:
    agent = record.place.agent
    pid = start = tty = hide = "-"
    asked_for = verdict.state is State.RUNNING or record.status.paused is not None
    alive = verdict.state in (State.RUNNING, State.PAUSED)
    # Of the branch that its directory is on, no guard knows.
    as_it_should = alive and asked_for and not (verdict.attention or record.spec.branch)
    init = record.place.init
    if as_it_should and agent is not None and record.place.pids_here:
        mode = record.place.guard
        pid, start, tty = str(agent.process.pid), str(agent.process.start), str(agent.tty)
    elif verdict.state is State.STALE and init is not None:
        mode, pid, start = "up", str(init.pid), str(init.start)
    elif verdict.state in OUTCOMES:
        mode = "ended"
    elif not record.place.has_process:
        mode = "word"
    else:
        mode = "look"
    hides = hide_after(record, verdict)
    if hides is not None:
        hide = str(hides)
    generation = str(record.place.generation)
    return (record.id, generation, record.place.machine.key, mode, pid, start, tty, hide)


def hide_after(record: Record, verdict: Verdict) -> int | None:
    """The moment from which `ls` needs --all to show it: what ended well, after a while."""
    ended = verdict.ended or record.status.ended
    if verdict.state not in ENDED_WELL or ended is None:
        return None
    return int((ended + KEEP_IN_LIST).timestamp())
