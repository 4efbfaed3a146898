"""Times and sizes as people write them."""

from __future__ import annotations

import pytest

from sesh.model.text import units


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("90", 90.0),
        ("1.5m", 90.0),
        ("250ms", 0.25),
        ("1h30m", 5400.0),
        ("1m30s", 90.0),
        (" 1d 2h ", 93600.0),
        ("1s500ms", 1.5),
    ],
)
def test_times(text: str, meant: float) -> None:
    assert units.seconds(text) == pytest.approx(meant)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((60, "1m"), (90, "90s"), (300, "5m"), (5400, "90m"), (3600, "1h"), (86400, "1d")),
        *((61.5, "61.5s"), (1234567, "1234567s"), (0.25, "0.25s")),
    ],
)
def test_times_as_people_write_them(seconds: float, text: str) -> None:
    assert units.time(seconds) == text
    assert units.seconds(text) == seconds


def test_every_time_can_be_read_again() -> None:
    for seconds in (1e-9, 0.001, 59.999, 1234567.5, 1e9 - 1):
        assert units.seconds(units.time(seconds)) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "-1", "30m1h", "1m1m", "1h30", "soon", "1h x", "x1h"])
def test_no_times(text: str) -> None:
    assert units.seconds(text) is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [("5", 5), ("64K", 65536), ("1.5G", 3 << 29), ("32 MB", 32 << 20), ("0.5MiB", 1 << 19)],
)
def test_sizes(text: str, meant: int) -> None:
    assert units.size(text) == meant


@pytest.mark.parametrize("text", ["", "M", "-1M", "1.M", ".5M", "1e3", "9" * 5000, "lots"])
def test_no_sizes(text: str) -> None:
    assert units.size(text) is None
