"""The incremental reader of transcripts: what it reads, what it remembers, what it cannot read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.agents import transcripts
from sesh.agents.transcripts import Files, Read
from sesh.model.agents.turns import Tokens, Turn
from tests.world import count

_DATA = Path(__file__).parents[1] / "data" / "transcripts"
OPUS = "claude-opus-5-5"


def message(key: str, given: int = 1, written: int = 1, *, main: bool = True) -> bytes:
    used = {"input_tokens": given, "output_tokens": written}
    said = {"id": key, "model": OPUS, "role": "assistant", "content": [], "usage": used}
    entry = {"isSidechain": not main, "type": "assistant", "message": said}
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


class Conversation:
    """A transcript of Claude, and the state of its reader."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "0c6a9a7e-1f5b-4a35-9a9e-0d1b6f0a7c11.jsonl"
        self.state = str(directory / "run" / "mine.usage.one")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        (directory / "run").mkdir()

    def write(self, *lines: bytes) -> None:
        self.path.write_bytes(b"".join(lines))

    def append(self, *lines: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(b"".join(lines))

    def read(self, *subagents: Path) -> Read:
        found = Files((str(self.path),), tuple(map(str, subagents)))
        return transcripts.advance(self.state, "claude", found)

    @property
    def counts(self) -> tuple[int, int]:
        """Tokens in and out."""
        found = self.read().usage
        assert found is not None
        return sum(one.input for one in found.tokens), sum(one.output for one in found.tokens)


@pytest.fixture
def talk(tmp_path: Path) -> Conversation:
    return Conversation(tmp_path)


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes of transcripts were read."""
    found: list[int] = []
    pread = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        found.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    return found


# --- reading on ----------------------------------------------------------------------------------


def test_only_what_was_appended_is_read(talk: Conversation, bytes_read: list[int]) -> None:
    talk.write(*(message(f"m{number}", 10, 5) for number in range(1000)))
    assert talk.counts == (10_000, 5000)
    bytes_read.clear()
    assert talk.counts == (10_000, 5000)
    assert bytes_read == []
    more = message("more", 7, 3)
    talk.append(more)
    assert talk.counts == (10_007, 5003)
    assert sum(bytes_read) <= len(more) + 2 * 4096 + 1  # and the beginning, to know it again


def test_half_a_line_waits_for_its_end(talk: Conversation) -> None:
    line = message("b", 2, 2)
    for cut in range(len(line)):
        talk.write(message("a"), line[:cut])
        assert talk.counts == (1, 1)
        assert talk.counts == (1, 1)
        talk.append(line[cut:])
        assert talk.counts == (3, 3)


def test_a_rewritten_or_truncated_file_is_read_from_its_beginning(talk: Conversation) -> None:
    talk.write(*(message(f"m{number}") for number in range(100)))
    assert talk.counts == (100, 100)
    talk.write(message("other", 5, 6))
    assert talk.counts == (5, 6)
    talk.write(message("third", 7, 8), message("fourth", 1, 1))  # larger, another beginning
    assert talk.counts == (8, 9)
    talk.path.unlink()
    talk.write(message("fifth", 2, 3), message("sixth"), message("seventh"))
    assert talk.counts == (4, 5)


def test_the_same_messages_again_count_once(talk: Conversation) -> None:
    talk.write(message("a", 10, 1), message("b"))
    talk.counts  # noqa: B018 (it reads)
    talk.append(message("a", 10, 30), message("c"))
    assert talk.counts == (12, 32)


def test_a_damaged_state_is_made_again(talk: Conversation) -> None:
    talk.write(message("a", 10, 1))
    assert talk.counts == (10, 1)
    whole = Path(talk.state).read_bytes()
    for cut in range(0, len(whole), 7):
        Path(talk.state).write_bytes(whole[:cut])
        assert talk.counts == (10, 1)
        Path(talk.state).write_bytes(whole[:cut] + b"\xff" + whole[cut:])
        talk.append(b"\n")
        assert talk.counts == (10, 1)


def test_the_state_is_private(talk: Conversation) -> None:
    talk.write(message("a"))
    talk.read()
    assert Path(talk.state).stat().st_mode & 0o777 == 0o600


def test_subagents_count(talk: Conversation) -> None:
    talk.write(message("a", 10, 1))
    other = talk.path.parent / "agent-x.jsonl"
    other.write_bytes(message("b", 100, 50, main=False))
    found = talk.read(other).usage
    assert found is not None
    assert found.tokens == (Tokens(OPUS, 110, 51, longest=100),)
    assert found.context == 11
    with other.open("ab") as file:
        file.write(message("c", 1, 1, main=False))
    found = talk.read(other).usage
    assert found is not None
    assert found.tokens[0].counts[:2] == (111, 52)
    other.unlink()
    assert talk.counts == (111, 52)


def test_two_readers_at_once(talk: Conversation) -> None:
    talk.write(message("a"))
    wrong: list[Any] = []

    def look() -> None:
        last = 0
        for _ in range(60):
            found = talk.read()
            now = sum(one.input for one in found.usage.tokens) if found.usage else -1
            if now < last:
                wrong.append(found)
            last = now

    readers = [threading.Thread(target=look) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(200):
        talk.append(message(f"m{number}"))
    for reader in readers:
        reader.join()
    assert wrong == []
    assert talk.counts == (201, 201)


# --- long lines ----------------------------------------------------------------------------------


def test_a_line_that_is_too_long_is_skipped(
    talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcripts, "LONGEST", 3000)
    monkeypatch.setattr(transcripts, "CHUNK", 1000)
    long = b'{"type":"assistant","x":"' + b"x" * 10_000
    talk.write(message("a"), long)
    assert talk.counts == (1, 1)
    talk.append(b"y" * 5000)
    assert talk.counts == (1, 1)
    talk.append(b'"}\n', message("b", 2, 2))
    assert talk.counts == (3, 3)
    talk.append(long, b'"}\n', message("c", 3, 3))
    assert talk.counts == (6, 6)


_MEMORY = """
import resource, sys
from sesh.agents import transcripts
found = transcripts.advance(sys.argv[1], "claude", transcripts.Files((sys.argv[2],)))
used = [line for line in open("/proc/self/status") if line.startswith("VmHWM")][0].split()[1]
print(found.usage.tokens[0].input, found.usage.tokens[0].output, used)
"""


@pytest.mark.long
def test_a_large_transcript_is_read_within_30_mb(talk: Conversation) -> None:
    megabytes = count(60, 500)
    result = {"type": "tool_result", "tool_use_id": "t", "content": "some output\n" * 500}
    bulk = {"isSidechain": False, "type": "user", "message": {"content": [result]}}
    noise = json.dumps(bulk, separators=(",", ":")).encode() + b"\n"
    wide = json.dumps({"type": "assistant", "text": "\u00fc\U0001f600" * 450_000}).encode() + b"\n"
    written = number = 0
    with talk.path.open("wb") as file:
        while written < megabytes << 20:
            some = [message(f"m{number}", 3, 2), noise] + ([wide] if number % 2000 == 99 else [])
            written += sum(map(file.write, some))
            number += 1
    args = (sys.executable, "-c", _MEMORY, talk.state, str(talk.path))
    done = subprocess.run(args, capture_output=True, text=True, check=True)
    given, made, used = map(int, done.stdout.split())
    assert (given, made) == (3 * number, 2 * number)
    assert used < 30 << 10, f"{used} kB"


# --- what cannot be read -------------------------------------------------------------------------


def _reason(found: Read) -> str:
    assert found.usage is None
    assert found.reason is not None
    return found.reason


def test_a_missing_transcript(talk: Conversation) -> None:
    assert "No such file" in _reason(talk.read())
    assert "no transcript" in _reason(
        transcripts.advance(talk.state, "claude", Files(reason="no transcript"))
    )


def test_a_transcript_that_is_gone_keeps_its_sums(talk: Conversation) -> None:
    talk.write(message("a"))
    assert talk.counts == (1, 1)
    talk.path.unlink()
    assert talk.counts == (1, 1)


def test_a_fifo_is_never_waited_for(talk: Conversation) -> None:
    os.mkfifo(talk.path)
    assert "not a regular file" in _reason(talk.read())


def test_a_directory(talk: Conversation) -> None:
    talk.path.mkdir()
    assert "not a regular file" in _reason(talk.read())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_transcript_of_another_user(talk: Conversation) -> None:
    talk.write(message("a"))
    os.chown(talk.path, 12345, 12345)
    assert "another user" in _reason(talk.read())


def test_nonsense(talk: Conversation) -> None:
    talk.write(b"\xff\x00{{{\n" * 1000)
    found = talk.read()
    assert found.usage is not None
    assert found.usage.empty


def test_an_agent_without_a_reader() -> None:
    assert transcripts.why_none("claude") is None
    assert transcripts.why_none("aider") == (
        "sesh cannot read the transcripts of aider, only those of claude, codex and gemini"
    )


# --- turns ---------------------------------------------------------------------------------------


def test_turns_of_a_file() -> None:
    for kind, first in (("claude", "hello there"), ("codex", "hello there")):
        said = [*transcripts.turns(kind, [str(_DATA / f"{kind}.jsonl")])]
        assert (said[0].role, said[0].text) == ("user", first)


def test_gemini_replaces_messages_and_goes_back() -> None:
    said = [*transcripts.turns("gemini", [str(_DATA / "gemini.jsonl")])]
    assert [(one.role, one.text) for one in said] == [
        ("user", "hello there"),
        ("assistant", "hi"),
        ("user", "again"),
        ("assistant", ""),
    ]
    assert said[1].tokens == 5
    assert said[3] == Turn("assistant", error="quota exceeded", at=1795057261.0)


def test_the_last_line_may_have_no_end(talk: Conversation) -> None:
    talk.write(b'{"type":"user","message":{"content":"hello"}}')
    said = [*transcripts.turns("claude", [str(talk.path)])]
    assert [one.text for one in said] == ["hello"]


@given(
    st.lists(st.binary(max_size=40).map(lambda one: one.replace(b"\n", b"")), max_size=8), st.data()
)
def test_lines_are_the_same_in_pieces_of_any_size(lines: list[bytes], data: st.DataObject) -> None:
    chunk, longest = data.draw(st.integers(1, 30)), data.draw(st.integers(5, 30))
    raw = b"".join(line + b"\n" for line in lines)
    with tempfile.TemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
        file.write(raw + b"half")
        file.flush()
        patch.setattr(transcripts, "CHUNK", chunk)
        patch.setattr(transcripts, "LONGEST", longest)
        offset, skipping, found = 0, False, []
        cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=3)))
        for end in (*cuts, len(raw) + 4):
            some = transcripts.Lines(file.fileno(), offset, end, skipping=skipping)
            found += [*some]
            offset, skipping = some.offset, some.skipping
    assert [one for one in found if len(one) <= longest] == [
        one for one in lines if len(one) <= longest
    ]
    assert offset == len(raw)
