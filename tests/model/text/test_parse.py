"""Numbers and times as others write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.model.text import parse
from sesh.places import launch_files


@pytest.mark.parametrize("text", ["", "²", "٣", "+1", "-1", " 1", "1 ", "1_0", "0x1", "1.0", "256"])
def test_no_number(text: str) -> None:
    assert parse.number(text, parse.STATUS) is None


@given(st.text())
def test_any_text_is_a_number_in_its_range_or_none(text: str) -> None:
    found = parse.number(text, parse.PID)
    assert found is None or 0 <= found <= parse.PID


@given(st.integers(0, parse.TICKS))
def test_every_number_in_its_range_is_one(number: int) -> None:
    assert parse.number(str(number), parse.TICKS) == number


def test_no_number_is_longer_than_the_largest() -> None:
    assert parse.number("9" * 5000, parse.TICKS) is None
    assert parse.number(str(parse.PID + 1), parse.PID) is None


def test_a_time_is_between_the_launch_and_now() -> None:
    assert parse.moment(5.0, now=9.0, since=3.0) == 5.0
    assert parse.moment(1 << 40, now=9.0) == 9.0
    assert parse.moment(-1e30, now=9.0, since=3.0) == 3.0


def test_launches_are_known_by_plain_numbers_only(tmp_path: Path) -> None:
    for generation in ("1", "²", "٣", "9" * 100, "", "-1"):
        (tmp_path / f"a.{generation}.pid").touch()
    assert launch_files.known(str(tmp_path)) == {("a", 1)}
    launch_files.remove(str(tmp_path), "a", below=2)
    assert not (tmp_path / "a.1.pid").exists()


@pytest.mark.parametrize("word", ["99999 here", "256 here", "² here", "-1 here", "0 there", "0"])
def test_no_exit_report(tmp_path: Path, word: str) -> None:
    (tmp_path / "a.1.exit").write_text(word)
    assert launch_files.read_exit(str(tmp_path), "a", 1) is None
