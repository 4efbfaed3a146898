"""The output of a session, as a person would read it.

While its pane exists, it comes from tmux (capture-pane); after that from the saved capture; after a
crash from the raw transcript, which a scratch tmux replays, because only a terminal interprets
escape sequences completely.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError
from sesh.model.record import Record
from sesh.model.text.pattern import lazy
from sesh.places import panes, registry
from sesh.state import log_files
from sesh.system import files, paths, processes, tmux
from sesh.system.tmux import Tmux

REPLAY_LIMIT = 8 << 20  # bytes at the end of a transcript: more than the scrollback holds
REPLAY_PATIENCE = 10.0  # seconds without a sign that the replay continues
_LONGEST_REPLAY = 100.0
POLL = 0.1
LONGEST_LINE = 1 << 16  # bytes; a longer one is broken
_CHUNK = 1 << 16
_DEAD = lazy(r"Pane is dead \(")
_ESCAPES = lazy(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    rb"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?"  # OSC, DCS and the like
    rb"|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1b\x7f]"
    rb"|\xc2[\x80-\x9f]"  # C1 controls in UTF-8: some terminals obey them
)
_UNFINISHED = lazy(rb"(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]{0,4096}\x1b?|[ -/]*)?|\xc2)\Z")


def text(record: Record, config: Config) -> str:
    """Screen and scrollback, from the best available source."""
    captured = _captured(record, config)
    if captured is None:
        captured = _saved(record)
    if captured is None:
        captured = _replayed(record)
    return _tidy(captured)


def text_from(record: Record, offset: int) -> str:
    """The output after an offset of the transcript."""
    return _tidy(_replayed(record, offset))


def _tidy(captured: str) -> str:
    lines = captured.rstrip().splitlines()
    if lines and _DEAD.match(lines[-1]):  # tmux's own remark below the last screen
        lines = "\n".join(lines[:-1]).rstrip().splitlines()
    return "".join(line.rstrip() + "\n" for line in lines)


def _captured(record: Record, config: Config) -> str | None:
    """From the pane, while it exists."""
    if record.place.pane is None or record.place.machine != processes.here():
        return None
    place = registry.of(record)
    if not place.has_screen(record):
        return None
    server = place.tmux(record, config)
    if panes.find(record, server.panes()) is None:
        return None
    reply = server.capture(record.place.pane)
    return reply.out if reply.ok else None


def _saved(record: Record) -> str | None:
    """From the capture that was saved when the pane was closed, unless an older launch made it."""
    try:
        if os.stat(paths.screen(record.id)).st_mtime < record.status.launched.timestamp():
            return None
        with files.open_binary(paths.screen(record.id)) as file:
            return file.read().decode(errors="replace")
    except OSError:
        return None


def _replayed(record: Record, offset: int = 0) -> str:
    """From the raw transcript, replayed in a pane of a separate tmux server."""
    path = paths.transcript(record.id)
    if not os.path.exists(path):
        return ""
    offset = max(offset, log_files.begin(path), size(record) - REPLAY_LIMIT)
    run = record.place.private_run  # private: its socket lets others run anything
    socket = f"{run}/replay-{os.getpid()}.sock"
    tmux.check_socket(socket)
    scratch = Tmux(tmux.find_binary(), socket, run, own=False, timeout=5)
    # The pane ends by itself if we are killed. A title at the end of the stream (after a string
    # terminator, which ends a truncated sequence) shows that tmux has read everything.
    mark = r"\033\\\033]2;played\007"
    play = f"tail -c +{offset + 1} \"$1\"; printf '{mark}'; exec sleep {_LONGEST_REPLAY * 2:g}"
    width, height = tmux.DEFAULT_SIZE
    try:
        reply = scratch.ask(
            *("-f", os.devnull, "start-server", ";", "set-option", "-g", "history-limit", "50000"),
            *(";", "new-session", "-d", "-s", "replay", "-x", str(width), "-y", str(height)),
            *("/bin/sh", "-c", play, "replay", path),
        )
        if not reply.ok:
            raise CannotTellError(f"{record.name}: its transcript cannot be replayed: {reply.text}")
        return _play(scratch)
    finally:
        scratch.ask("kill-session", "-t", "=replay")
        with suppress(FileNotFoundError):
            os.unlink(socket)


def _play(scratch: Tmux) -> str:
    """Wait while the shell of the pane plays and tmux answers: a busy machine takes its time."""
    begin = last_sign = time.monotonic()
    running = ("display-message", "-p", "-t", "=replay:", "#{pane_current_command} #{pane_title}")
    while time.monotonic() <= min(last_sign + REPLAY_PATIENCE, begin + _LONGEST_REPLAY):
        command, _, title = scratch.ask(*running).out.strip().partition(" ")
        if title == "played":
            break
        if command == "sh":
            last_sign = time.monotonic()
        time.sleep(0.02)
    return scratch.ask("capture-pane", "-p", "-J", "-S", "-", "-t", "=replay:").out


def size(record: Record) -> int:
    """The size of the output so far."""
    return os.stat(paths.transcript(record.id)).st_size


def text_and_size(record: Record, config: Config) -> tuple[str, int]:
    """The output, and the offset in the transcript where it ends, so that a follower can continue
    there. During heavy output the capture may hold more: lines come twice rather than never."""
    for _ in range(10):
        before = size(record)
        captured = text(record, config)
        if size(record) == before:
            break
    return captured, before


def unfinished(record: Record) -> str | None:
    """If the last line is incomplete, the blanks at its end (for example after a prompt): captured
    text lacks them. Else None."""
    with files.open_binary(paths.transcript(record.id)) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 256))
        end = Plain().feed(file.read()).decode(errors="replace")
    return None if end.endswith("\n") else end[len(end.rstrip()) :]


def raw(record: Record, offset: int = 0) -> Iterator[bytes]:
    """The raw transcript, as far as it is kept."""
    path = paths.transcript(record.id)
    with files.open_binary(path) as file:
        file.seek(max(offset, log_files.begin(path)))
        while chunk := file.read(_CHUNK):
            yield chunk


class Tail:
    """Reads what is appended to a transcript."""

    def __init__(self, record: Record, offset: int) -> None:
        self._path = paths.transcript(record.id)
        self.offset = offset

    def read(self) -> Iterator[bytes]:
        """All that was appended since the last time."""
        with files.open_binary(self._path) as file:
            if os.fstat(file.fileno()).st_size < self.offset:
                self.offset = 0  # it was trimmed
            self.offset = max(self.offset, log_files.begin(self._path))
            file.seek(self.offset)
            while chunk := file.read(_CHUNK):
                self.offset += len(chunk)
                yield chunk


class Plain:
    """Removes escape sequences from a stream, also those that are split between two chunks."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        data = self._rest + chunk
        unfinished = _UNFINISHED.search(data)
        self._rest = data[unfinished.start() :] if unfinished else b""
        whole = data[: unfinished.start()] if unfinished else data
        return _ESCAPES.sub(b"", whole).replace(b"\r", b"")


class Lines:
    """Splits a stream into lines without escape sequences."""

    def __init__(self, begun: bytes = b"") -> None:
        self._plain = Plain()
        self._begun = begun  # a line without its end

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that this chunk completes."""
        *whole, self._begun = (self._begun + self._plain.feed(chunk)).split(b"\n")
        if len(self._begun) > LONGEST_LINE:
            whole.append(self._begun)
            self._begun = b""
        return [line.decode(errors="replace") for line in whole]

    @property
    def begun(self) -> str:
        """The last line, which has no end yet."""
        return self._begun.decode(errors="replace")

    def rest(self) -> list[str]:
        """The last line, if it has no end."""
        left, self._begun = self._begun, b""
        return [left.decode(errors="replace")] if left else []


def lines_with_ends(tail: Tail, lines: Lines) -> Iterator[tuple[str, int]]:
    """New lines, each with the offset of its end in the transcript."""
    for chunk in tail.read():
        end = tail.offset - len(chunk)
        for piece in chunk.splitlines(keepends=True):
            end += len(piece)
            for line in lines.feed(piece):
                yield line, end
