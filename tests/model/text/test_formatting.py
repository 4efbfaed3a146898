"""What people see: texts in lines that fit."""

from __future__ import annotations

from calendar import timegm
from shlex import join
from time import gmtime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.model.text import formatting


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("short", ["short"]),
        ("exactly twenty chars", ["exactly twenty chars"]),
        ("exactly twenty chars and more", ["exactly twenty chars", "and more"]),
        ("sesh attach a   ·   sesh stop a", ["sesh attach a   ·", "sesh stop a"]),
        ("see " + "x" * 45, ["see", "x" * 20, "x" * 20, "xxxxx"]),
        ("x" * 25 + " end", ["x" * 20, "xxxxx end"]),
        ("日本語日本語日本語 日本語", ["日本語日本語日本語", "日本語"]),
        ("語" * 11, ["語" * 10, "語"]),
    ],
)
def test_wrapped(text: str, lines: list[str]) -> None:
    assert formatting.wrapped(text, 20) == lines


def test_lines_are_not_wrapped_without_a_terminal() -> None:
    assert formatting.wrapped("word " * 100, None) == ["word " * 100]


@given(st.text("ab 語é", max_size=200), st.integers(20, 60))
def test_lines_fit_and_no_word_is_lost(text: str, width: int) -> None:
    lines = formatting.wrapped(text, width)
    assert all(formatting.display_width(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(
    ("seconds", "units", "text"),
    [
        (-5, 1, "0 seconds"),
        (0.9, 2, "0 seconds"),
        (1, 1, "1 second"),
        (59.9, 1, "59 seconds"),
        (119, 1, "1 minute"),
        (119, 2, "1 minute 59 seconds"),
        (7199, 1, "1 hour"),
        (7199, 2, "1 hour 59 minutes"),
        (7200, 2, "2 hours"),
        (86400 * 3 + 3600 + 5, 2, "3 days 1 hour"),
    ],
)
def test_times_in_words(seconds: float, units: int, text: str) -> None:
    assert formatting.long_time(seconds, units) == text


@given(st.integers(0, 250_000_000_000))
def test_a_stamp_is_read_back(seconds: int) -> None:
    assert formatting.epoch(formatting.stamp(seconds)) == timegm(gmtime(seconds)) == seconds


@given(st.lists(st.text(max_size=6), min_size=1, max_size=3))
def test_a_command_line_is_quoted_as_shlex_does(words: list[str]) -> None:
    assert formatting.command_line(words) == formatting.escape(join(words))
