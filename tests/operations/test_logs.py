"""transcripts: escape sequences out of a stream, and a stream that is followed."""

from __future__ import annotations

import shutil
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.operations import logs
from sesh.operations.logs import Plain
from tests.surroundings import read_record
from tests.world import World, eventually

SEQUENCES = [
    b"\x1b[0m",
    b"\x1b[1;31m",
    b"\x1b[?1049h",
    b"\x1b[2J",
    b"\x1b[10;20H",
    b"\x1b[ q",
    b"\x1b]0;a title\x07",
    b"\x1b]8;;http://example.org\x1b\\",
    b"\x1bP1$r0m\x1b\\",
    b"\x1b_hidden\x1b\\",
    b"\x1b(B",
    b"\x1b=",
    b"\x1b7",
    b"\x1bM",
    b"\r",
    b"\x07",
    b"\x00",
    b"\x7f",
]


def fed(*chunks: bytes) -> bytes:
    plain = Plain()
    return b"".join(plain.feed(chunk) for chunk in chunks)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_sequence_vanishes_and_the_text_around_it_stays(sequence: bytes) -> None:
    assert fed(b"before" + sequence + b"after\n") == b"beforeafter\n"


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_wherever_a_chunk_ends(sequence: bytes) -> None:
    data = b"before" + sequence + b"after\n"
    for cut in range(len(data)):
        assert fed(data[:cut], data[cut:]) == b"beforeafter\n", cut


def test_text_with_tabs_newlines_and_unicode_is_untouched() -> None:
    text = "a\tb\n\nünï € 漢字 🙂 [0m ]0; \\\n".encode()
    assert fed(text) == text
    assert fed(*(text[i : i + 1] for i in range(len(text)))) == text


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_give_the_same_in_one_chunk_or_two(data: bytes, cut: int) -> None:
    assert fed(data[:cut], data[cut:]) == fed(data)


@given(st.lists(st.sampled_from([*SEQUENCES, b"\x1b", b"[", b"]", b"\\", b"x"])))
def test_no_control_byte_is_left(pieces: list[bytes]) -> None:
    left = fed(b"".join(pieces))
    assert not [byte for byte in left if byte < 32 and byte not in b"\t\n"]


def test_control_characters_beyond_ascii_do_not_pass_either() -> None:
    """U+009B is `ESC [` to a terminal that reads UTF-8."""
    assert "\u009b" not in fed("a\u009b2Jb".encode()).decode()
    both = "a\u009b2Jb".encode()
    assert b"\xc2\x9b" not in fed(both[:2], both[2:])


@pytest.mark.parametrize("hostile", [b"\x1b]", b"\x1bP", b"\x1b[", b"\x1b]0;x", b"\x1b"])
def test_sequences_without_an_end_cost_no_time(hostile: bytes) -> None:
    begin = time.process_time()
    plain = Plain()
    for _ in range(4):
        plain.feed(hostile * (65536 // len(hostile)))
    assert time.process_time() - begin < 2


def test_an_unfinished_sequence_does_not_swallow_the_rest() -> None:
    lines = b"".join(b"line %d\n" % number for number in range(10000))
    assert fed(b"\x1b]0;never closed", lines).endswith(b"line 9999\n")


def test_a_replay_that_takes_long_is_whole(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for a tmux that does not answer, not for a busy machine."""
    here.start("a", "sh", "-c", "echo words; exec sleep 1000")
    record = read_record(here, "a")
    assert eventually(lambda: logs.size(record) > 0)
    slow = here.root / "slow" / "tail"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\nsleep 1\nexec {shutil.which("tail")} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{here.env['PATH']}")
    monkeypatch.setattr(logs, "REPLAY_PATIENCE", 0.3)
    assert logs.text_from(record, 0) == "words\n"
