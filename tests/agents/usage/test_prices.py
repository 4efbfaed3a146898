"""The price table: which price a model has, and what an error in the user's table does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sesh.agents.usage import prices
from sesh.agents.usage.prices import Prices
from sesh.model.agents.turns import Tokens
from sesh.model.errors import StateError
from sesh.system import paths
from tests.world import World


def table(text: str) -> Prices:
    return prices.decode("prices.toml", text.encode())


@pytest.fixture
def own(here: World) -> Path:
    path = Path(paths.prices_file())
    path.parent.mkdir(parents=True)
    return path


def test_the_table_that_comes_with_sesh_is_valid_and_dated() -> None:
    found = prices.load()
    assert found.trouble is None
    assert found.date
    assert len({name for one in found.models for name in one.names}) == sum(
        len(one.names) for one in found.models
    )


@pytest.mark.parametrize(
    ("model", "output"),
    [
        ("claude-opus-5-5", 20.0),
        ("claude-opus-5-5[1m]", 20.0),
        ("claude-opus-4-20250514", 75.0),
        ("claude-sonnet-4-5-20250929", 15.0),
        ("gpt-5.2-codex", 14.0),
        ("gemini-2.5-flash", 2.5),
        ("claude-opus-99", None),
        ("gpt-5.2-pro", None),
        ("", None),
        ("stub", None),
    ],
)
def test_the_price_of_a_model(model: str, output: float | None) -> None:
    found = prices.load().of(model)
    assert (found.output if found else None) == output


def test_the_cost_of_tokens() -> None:
    tokens = [Tokens("claude-opus-5-5", 1_000_000, 100_000, 2_000_000, 400_000, 100_000)]
    assert prices.load().cost(tokens) == (9.2, False)


def test_an_unknown_model_has_no_cost() -> None:
    known, unknown = Tokens("gpt-5", 100, 100), Tokens("stub", 1)
    assert prices.load().cost([known, unknown]) == (None, False)
    assert prices.load().cost([known, Tokens("stub")])[0] is not None


def test_long_prompts_cost_more_than_is_known() -> None:
    short, long = (Tokens("gemini-2.5-pro", 1000, 0, longest=size) for size in (1000, 300_000))
    assert prices.load().cost([short]) == (0.00125, False)
    assert prices.load().cost([long]) == (0.00125, True)


def test_a_price_that_is_missing() -> None:
    found = table('[[model]]\nname = "x"\ninput = 1\noutput = 2')
    assert found.cost([Tokens("x", 1_000_000, 1_000_000)]) == (3.0, False)
    assert found.cost([Tokens("x", 1, 1, cached=1)]) == (None, False)


def test_the_users_prices_come_first(own: Path) -> None:
    own.write_text('date = "today"\n[[model]]\nname = "claude-*"\ninput = 7\noutput = 8.5\n')
    found = prices.load()
    assert found.date == "today"
    assert found.cost([Tokens("claude-opus-5-5", 1_000_000)]) == (7.0, False)
    assert found.cost([Tokens("gpt-5", 1_000_000)]) == (1.25, False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = ", "not valid TOML: Invalid value (at end of document)"),
        ("\n\nname = 3", "unknown key name"),
        ("model = 3", "model should be tables"),
        ('\n[[model]]\nname = "a"\ninput = 1', "prices.toml:2: model 1: output is missing"),
        ("[[model]]\ninput = 1\noutput = 1", "prices.toml:1: model 1: name should be the name"),
        (
            '[[model]]\nname = "a"\ninput = 1\noutput = 1\n\n[[model]]\nname = "b"\ninput = -1',
            "prices.toml:6: model 2: input should be a price",
        ),
        ('[[model]]\nname = "a"\ninput = nan\noutput = 1', "input should be a price"),
        ('[[model]]\nname = "a"\ninput = true\noutput = 1', "input should be a price"),
        ('[[model]]\nname = "a"\ninput = 1\noutput = 1\ncontext = 0', "context should be a number"),
        ('[[model]]\nname = "a"\ninput = 1\noutput = 1\nfoo = 0', "unknown key foo"),
    ],
)
def test_an_error_in_a_table_names_its_line(text: str, why: str) -> None:
    with pytest.raises(StateError) as raised:
        table(text)
    assert why in str(raised.value)
    assert str(raised.value).startswith("prices.toml")


def test_with_an_error_there_is_no_cost(own: Path) -> None:
    own.write_text('[[model]]\nname = "a"')
    found = prices.load()
    assert f"{own}:1: model 1: input is missing" in (found.trouble or "")
    assert found.cost([Tokens("gpt-5", 100)]) == (None, False)


def test_a_table_that_is_no_file(own: Path) -> None:
    os.mkfifo(own)
    assert "cannot read" in (prices.load().trouble or "")
