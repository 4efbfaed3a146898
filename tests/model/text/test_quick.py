"""The readers and writers that replace heavy modules of the library: the same results."""

from __future__ import annotations

import json
import shlex
import tomllib
from datetime import UTC, datetime
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from sesh.model.text import quick_json, quick_toml, shell_words
from tests.world import count

texts = st.text(st.characters(exclude_categories=["Cs"]))
plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(plain, lambda one: st.lists(one) | st.dictionaries(texts, one), max_leaves=20)
moments = st.integers(0, 1 << 32).map(lambda second: datetime.fromtimestamp(second / 8, UTC))
toml_plain: st.SearchStrategy[Any] = st.one_of(
    *(st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), texts, moments),
    st.floats(allow_nan=False, allow_infinity=False),
)
bare_keys = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)
toml = st.recursive(
    toml_plain, lambda one: st.lists(one) | st.dictionaries(bare_keys, one), max_leaves=20
)


@settings(max_examples=count(15, 50), deadline=None)
@given(values)
def test_json_is_read_and_written_as_by_json(value: Any) -> None:
    for options in ({}, {"separators": (",", ":")}, {"ensure_ascii": False}):
        text = json.dumps(value, **options)
        assert quick_json.dumps(value, **options) == text
        assert quick_json.loads(f" {text}\n") == value
        assert quick_json.loads(text.encode()) == value


_NO_JSON = r"JSON|delimiter|double quotes|control|decode|value|comma"  # as Python versions put it


@pytest.mark.parametrize("text", ["", "{", "[1,]", "x", '"\n"', "1 2", b"\xff", '{"a":1}}'])
def test_invalid_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=_NO_JSON):
        quick_json.loads(text)


@settings(max_examples=count(15, 50), deadline=None)
@given(st.dictionaries(bare_keys, toml))
def test_toml_that_sesh_writes_is_read_as_by_tomllib(table: dict[str, Any]) -> None:
    text = tomli_w.dumps(table)
    assert quick_toml.loads(text) == tomllib.loads(text)


@settings(max_examples=count(15, 50), deadline=None)
@given(st.dictionaries(texts, toml))
def test_toml_with_other_keys_is_read_rightly_or_not_at_all(table: dict[str, Any]) -> None:
    text = tomli_w.dumps(table)
    assert quick_toml.loads(text) in (None, tomllib.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        *("a = 1\na = 2\n", "[a]\n[a]\n", "a = 1 b\n", "a\n", "a = [1\n", "[a\n", "a = 'x'\n"),
        *("a = 2026-11-18\n", "a = inf\n", '"a b" = 1\n', "a.b = 1\n"),
        *("a = { b = 1\n", 'a = """x"""\n', "a = 1", "a = 1 # one\n", "a =\n"),
    ],
)
def test_other_toml_is_left_to_tomllib(text: str) -> None:
    assert quick_toml.loads(text) is None


@settings(max_examples=count(15, 50), deadline=None)
@given(st.lists(st.text()))
def test_words_are_quoted_as_by_shlex(words: list[str]) -> None:
    assert shell_words.join(words) == shlex.join(words)
