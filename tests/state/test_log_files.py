"""Transcripts on the disk: what is kept of them when they grow too large."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sesh.state import log_files
from sesh.system import files, paths

KILO = 1 << 10


@pytest.mark.parametrize("size", [0, 1, 64, 65, 111, 112, 113, 127, 128, 129, 1000])
def test_any_size_can_be_trimmed_and_the_last_part_is_kept(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.log"
    content = bytes(range(1, 252)) * (size * KILO // 251 + 1)
    path.write_bytes(content[: size * KILO])
    for _ in range(2):
        log_files.trim(str(path), 64 * KILO)
        begin = log_files.begin(str(path))
        assert path.stat().st_size == size * KILO
        assert path.read_bytes()[begin:] == content[begin : size * KILO]
        assert size * KILO - begin >= min(size, 48) * KILO
        assert size * KILO - begin <= (48 + 64) * KILO


# --- trimming is no output -----------------------------------------------------------------------

LONG_AGO = 1_000_000_000.25


@pytest.fixture(params=["hole", "cut"])
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A transcript to which nothing was written for long, where holes can be made or can't."""
    if request.param == "cut":
        monkeypatch.setattr(log_files, "_punch", lambda *_: False)
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 300 * KILO)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def test_trimming_leaves_the_time_of_the_last_output(old: Path) -> None:
    before = log_files.kept(str(old))
    log_files.trim(str(old), 64 * KILO)
    assert log_files.kept(str(old)) < before
    assert old.stat().st_mtime == LONG_AGO


@pytest.mark.parametrize("step", ["_begin", "_still"])
def test_output_printed_meanwhile_counts(
    old: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Before the hole is made, or in the last moment before the old time is set again."""
    real = getattr(log_files, step)

    def late(*given: object) -> object:
        answer = real(*given)
        with old.open("ab") as file:
            file.write(b"y")
        return answer

    monkeypatch.setattr(log_files, step, late)
    log_files.trim(str(old), 64 * KILO)
    assert old.stat().st_mtime > LONG_AGO + 1


# --- the notes of its growth ---------------------------------------------------------------------

ID = "a-20261115-000000-00000001"


def test_no_note_is_left_of_a_transcript_that_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by `rm` while a pass looks."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    Path(paths.transcripts_dir()).mkdir(parents=True)
    Path(paths.transcript(ID)).write_bytes(b"x")
    real = files.append_line

    def late(path: str, line: bytes) -> bool:
        for one in paths.of_transcript(ID):
            Path(one).unlink(missing_ok=True)
        return real(path, line)

    monkeypatch.setattr(files, "append_line", late)
    log_files.mark(ID)
    assert os.listdir(paths.transcripts_dir()) == []
