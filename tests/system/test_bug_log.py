"""The log of bugs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sesh.system import bug_log


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "sesh").mkdir(mode=0o700)
    return tmp_path / "sesh"


def test_a_bug_that_comes_back_for_ever_does_not_fill_the_disk(state: Path) -> None:
    error = ValueError("x" * (300 << 10))
    assert {bug_log.write(error) for _ in range(20)} == {str(state / "bugs.log")}
    logs = sorted(state.iterdir())
    assert [log.name for log in logs] == ["bugs.log", "bugs.log.1"]
    assert sum(log.stat().st_size for log in logs) < 3 << 20
    assert logs[0].read_text().startswith("sesh ")
    assert logs[0].stat().st_mode & 0o777 == 0o600
