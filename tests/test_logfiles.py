"""Transcripts on the disk: what is kept of them when they grow too large."""

from __future__ import annotations

from pathlib import Path

import pytest

from sesh import logfiles

KILO = 1 << 10


@pytest.mark.parametrize("size", [0, 1, 64, 65, 111, 112, 113, 127, 128, 129, 1000])
def test_any_size_can_be_trimmed_and_the_last_part_is_kept(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.log"
    content = bytes(range(1, 252)) * (size * KILO // 251 + 1)
    path.write_bytes(content[: size * KILO])
    for _ in range(2):
        logfiles.trim(str(path), 64 * KILO)
        begin = logfiles.begin(str(path))
        assert path.stat().st_size == size * KILO
        assert path.read_bytes()[begin:] == content[begin : size * KILO]
        assert size * KILO - begin >= min(size, 48) * KILO
        assert size * KILO - begin <= (48 + 64) * KILO
