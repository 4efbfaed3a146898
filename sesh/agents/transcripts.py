"""Reads the transcripts that agents write, as far as they have grown since the last time.

`run/MACHINE/ID.usage.CONVERSATION` remembers how far each file of a conversation was read, and what
its lines sum up to. Its first line is enough while nothing was appended; the second one has what is
needed to continue. A file that was rewritten is read from its beginning. Sums follow from the files
alone, so it does not matter which of two readers writes last.

Files are read in pieces, lines of more than LONGEST bytes are skipped, and half a line waits for
its end. What cannot be read gives no usage, but a reason.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from binascii import crc32
from collections.abc import Iterator
from contextlib import suppress

from sesh.model.agents import turns as transcript
from sesh.model.agents.hook_event import conversation_id
from sesh.model.agents.turns import Turn, Usage
from sesh.model.errors import SeshError
from sesh.model.text import quick_json
from sesh.model.value_object import Any, Value
from sesh.places import agent_files, environment, registry
from sesh.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sesh.model.record import Kit, Record
    from sesh.places.agent_files import Variables

LONGEST = 8 << 20  # bytes of a line: longer ones are skipped
CHUNK = 1 << 20
READERS = ("claude", "codex", "gemini")
_VERSION = 1  # of the state: another one is read anew
_HEAD = 1 << 12  # bytes at the beginning by which a file is known again
_LARGEST = 64 << 20  # of a state
_MOST_FILES = 1000  # of one conversation, with its subagents
_writing = allocate_lock()  # threads would use the same temporary file


class Place(Value):
    """How far a file was read."""

    path: str
    device: int = 0
    inode: int = 0
    size: int = 0  # when it was read
    changed: int = 0  # its mtime then
    offset: int = 0  # where the next line begins
    head: int = 0  # checksum of its first bytes
    skipping: bool = False  # the offset is within a line that is too long


class Read(Value):
    """The usage of a conversation; `reason`: why it is not known."""

    usage: Usage | None = None
    reason: str | None = None
    paths: tuple[str, ...] = ()


def reader(kind: str) -> Any:
    """The module that knows an agent's transcripts."""
    module = f"sesh.model.agents.{kind}_transcript"
    return __import__(module, fromlist=["Sums"])


def why_none(kind: str | None) -> str | None:
    """Why transcripts of an agent cannot be read; None: they can."""
    if kind in READERS:
        return None
    have = f"{', '.join(READERS[:-1])} and {READERS[-1]}"
    return f"sesh cannot read the transcripts of {kind}, only those of {have}"


# --- where they are ------------------------------------------------------------------------------


class Files(Value):
    """The transcripts of a conversation; `reason`: why there are none."""

    main: tuple[str, ...] = ()
    subagents: tuple[str, ...] = ()
    reason: str | None = None
    follow: bool = True  # links: not where another system writes


def find(record: Record, conversation: str, variables: Variables) -> Files:
    """The transcripts of a session's conversation."""
    kit = record.spec.kit
    assert kit is not None
    if reason := why_none(kit.kind):
        return Files(reason=reason)
    if conversation_id(conversation) is None:
        return Files(reason="its conversation has an invalid id")
    if record.place.agent_files_here:
        return _found(agent_files.conversation_files(kit, conversation, variables), kit)
    within = registry.of(record).shared(
        record, agent_files.home(kit.kind, variables, explicit=True)
    )
    if within is None:
        return Files(reason="its transcripts are in its container, outside of what is mounted")
    variables = {**variables, **agent_files.moved_home(kit.kind, within)}
    here = agent_files.conversation_files(kit, conversation, variables)
    real = os.path.realpath(within)
    here = [path for path in here if os.path.realpath(path).startswith(f"{real}/")]
    found = _found(here, kit)
    return Files(found.main, found.subagents, found.reason, follow=False)


def _found(main: Sequence[str], kit: Kit) -> Files:
    if not main:
        return Files(reason="there is no transcript of its conversation yet")
    some = [path for one in main for path in _subagents(one)] if kit.kind == "claude" else []
    return Files((*main,), (*some[:_MOST_FILES],))


def _subagents(main: str) -> list[str]:
    """Where Claude keeps the transcripts of the subagents of a conversation."""
    directory = f"{main.removesuffix('.jsonl')}/subagents"
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [f"{directory}/{name}" for name in sorted(names) if name.endswith(".jsonl")]


# --- what they sum up to -------------------------------------------------------------------------


def state_path(run: str, session_id: str, conversation: str) -> str:
    return f"{run}/{session_id}.usage.{conversation}"


def states(run: str, session_id: str) -> list[str]:
    """The conversations of a session that were read before."""
    start = f"{session_id}.usage."
    try:
        return sorted(n.removeprefix(start) for n in os.listdir(run) if n.startswith(start))
    except OSError:
        return []


def read(record: Record, conversation: str, variables: Variables | None = None) -> Read:
    """The usage of a conversation, up to now. Reads only what was appended since the last time."""
    kit = record.spec.kit
    assert kit is not None
    path = state_path(record.place.private_run, record.id, conversation)
    known = variables if variables is not None else environment.known(record.place.snapshot)
    return advance(path, kit.kind, find(record, conversation, known))


def advance(path: str, kind: str, found: Files) -> Read:
    """The usage of a conversation with these files; `path` is that of the state."""
    if conversation_id(path.rpartition(".usage.")[2]) is None:
        return Read(reason=found.reason)
    header = _header(path, kind)
    places, usage = (header.places, header.usage) if header else ((), None)
    old = {place.path: place for place in places}
    now, problems = _look((*found.main, *found.subagents))
    if not any(main in now for main in found.main):
        why = next(iter(problems.values()), found.reason)
        return Read(usage, None if usage else why, tuple(old))
    new = [place for place in now.values() if not _same(place, old.get(place.path))]
    if usage is not None and not new:
        return Read(usage, None, found.main)
    sums = _sums(path, kind, header) if header else None
    if sums is None or any(_rewritten(one, old.get(one.path), found.follow) for one in new):
        old, new, sums = {}, [*now.values()], reader(kind).Sums()
    for place in new:
        try:
            old[place.path] = _read_on(old.get(place.path), place.path, found.follow, sums.add)
        except OSError as error:
            problems[place.path] = _why(place.path, error)
    if not any(main in old for main in found.main):
        return Read(reason=next(iter(problems.values()), found.reason))
    _save(path, kind, [*old.values()], sums)
    return Read(sums.usage, None, found.main)


def _look(wanted: Sequence[str]) -> tuple[dict[str, Place], dict[str, str]]:
    """These files as they are now, and why some cannot be read."""
    found, problems = {}, {}
    seen = set()
    for path in wanted:
        try:
            status = os.stat(path)
        except OSError as error:
            problems[path] = _why(path, error)
            continue
        identity = status.st_dev, status.st_ino
        if status.st_uid != os.geteuid():
            problems[path] = f"its transcript {path} belongs to another user"
        elif identity not in seen:
            seen.add(identity)
            found[path] = Place(path, *identity, status.st_size, status.st_mtime_ns)
    return found, problems


def _why(path: str, error: OSError) -> str:
    return f"its transcript {path} cannot be read: {error.strerror or 'it has changed'}"


def _same(now: Place, before: Place | None) -> bool:
    """Is a file as it was when it was read?"""
    return before is not None and _identity(now) == _identity(before)


def _identity(place: Place) -> tuple[int, ...]:
    return place.device, place.inode, place.size, place.changed


def _rewritten(now: Place, before: Place | None, follow: bool) -> bool:
    """Was anything but lines appended to a file?"""
    if before is None:
        return False
    same = (now.device, now.inode) == (before.device, before.inode)
    if not same or now.size < before.offset:
        return True
    try:
        with files.open_binary(now.path, follow=follow) as file:
            if _checksum(file.fileno(), before.offset) != before.head:
                return True
            ends = not before.offset or os.pread(file.fileno(), 1, before.offset - 1) == b"\n"
            return not (ends or before.skipping)
    except OSError:
        return False  # it cannot be read: what is known stays


def _checksum(fd: int, size: int) -> int:
    return crc32(os.pread(fd, min(size, _HEAD), 0))


def _read_on(
    before: Place | None, path: str, follow: bool, add: Callable[[bytes], object]
) -> Place:
    """Read what was appended."""
    with files.open_binary(path, follow=follow) as file:
        fd = file.fileno()
        status = os.fstat(fd)
        if status.st_uid != os.geteuid():
            raise OSError(0, "it belongs to another user")
        place = before or Place(path)
        lines = Lines(fd, place.offset, status.st_size, skipping=place.skipping)
        for line in lines:
            add(line)
        head = _checksum(fd, lines.offset)
        identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        return Place(path, *identity, lines.offset, head, lines.skipping)


class Lines:
    """The whole lines of a file up to `end`, without those that are too long."""

    def __init__(self, fd: int, offset: int, end: int, *, skipping: bool = False) -> None:
        self._fd, self._end = fd, end
        self.offset = offset  # where the next line begins, once all were read
        self.skipping = skipping  # it is within a line that is too long

    def __iter__(self) -> Iterator[bytes]:
        position = self.offset  # of what is read next
        while position < self._end:
            chunk = os.pread(self._fd, min(CHUNK, self._end - position), position)
            if not chunk:
                break
            end = chunk.find(b"\n")
            if self.skipping or self.offset < position:  # within a line
                if end < 0:
                    position += len(chunk)
                    self.skipping |= position - self.offset > LONGEST
                    if self.skipping:
                        self.offset = position
                    continue
                if not self.skipping and position + end - self.offset <= LONGEST:
                    yield self._at(self.offset, position + end)
                self.skipping, begin = False, end + 1
            else:
                begin = 0
            last = chunk.rfind(b"\n") + 1
            if last > begin:
                yield from chunk[begin : last - 1].split(b"\n")
            self.offset = position + max(begin, last)
            position += len(chunk)

    def _at(self, begin: int, end: int) -> bytes:
        """A long line, read at once: to put it together would take twice the memory."""
        found = os.pread(self._fd, end - begin, begin)
        return found if len(found) == end - begin else b""


# --- the state -----------------------------------------------------------------------------------


class _Header(Value):
    """The first line of a state."""

    places: tuple[Place, ...]
    usage: Usage
    size: int  # of the line
    rest: int  # checksum of the other one


def _header(path: str, kind: str) -> _Header | None:
    """None when there is no state that can be used."""
    try:
        with files.open_binary(path) as file:
            first = file.readline(_LARGEST)
        plain = quick_json.loads(first)
        if plain["version"] != _VERSION or plain["kind"] != kind:
            return None
        places = tuple(Place(*one) for one in plain["files"])
        usage = transcript.usage_of_plain(plain["usage"])
        return _Header(places, usage, len(first), plain["rest"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _sums(path: str, kind: str, header: _Header) -> Any | None:
    """What is needed to continue; None when that cannot be used."""
    try:
        with files.open_binary(path) as file:
            file.seek(header.size)
            rest = file.read(_LARGEST)
        if crc32(rest) != header.rest:
            return None
        return reader(kind).Sums.load(quick_json.loads(rest), header.usage)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _save(path: str, kind: str, places: Sequence[Place], sums: Any) -> None:
    """A state that cannot be written (a full disk) only makes the next look slower."""
    rest = quick_json.dumps(sums.dump(), separators=(",", ":")).encode()
    header = {
        "version": _VERSION,
        "kind": kind,
        "rest": crc32(rest),
        "files": [[getattr(one, field) for field in one.fields] for one in places],
        "usage": transcript.usage_plain(sums.usage),
    }
    first = quick_json.dumps(header, separators=(",", ":")).encode()
    with suppress(SeshError, OSError), _writing:
        files.make_private(os.path.dirname(path))
        files.write_private(path, first + b"\n" + rest, durable=False)


# --- turns ---------------------------------------------------------------------------------------


def turns(kind: str, paths: Sequence[str], *, follow: bool = True) -> Iterator[Turn]:
    """The turns of a conversation, from the files of its main agent."""
    known = reader(kind)
    for path in paths:
        if kind == "gemini":
            yield from _replaced(path, follow, known)
            continue
        for line in lines(path, follow=follow):
            yield from known.turns(line)


def lines(path: str, *, follow: bool = True) -> Iterator[bytes]:
    """The lines of a transcript, the last one also without its end."""
    with files.open_binary(path, follow=follow) as file:
        fd = file.fileno()
        status = os.fstat(fd)
        if status.st_uid != os.geteuid():
            raise OSError(0, "it belongs to another user", path)
        found = Lines(fd, 0, status.st_size)
        yield from found
        if not found.skipping and found.offset < status.st_size:
            yield os.pread(fd, status.st_size - found.offset, found.offset)


def _replaced(path: str, follow: bool, known: Any) -> Iterator[Turn]:
    """Gemini writes a message again when it has changed, and may go back to one."""
    found: dict[str, list[Turn]] = {}
    for line in lines(path, follow=follow):
        back = known.rewound_to(line)
        if back is not None:
            keys = [*found]
            for key in keys[keys.index(back) if back in found else 0 :]:
                del found[key]
        elif key := known.message_id(line):
            found[key] = known.turns(line)
    for some in found.values():
        yield from some
