"""The table of states: whatever a new state needs, one of these tests asks for."""

from __future__ import annotations

import inspect

import pytest

from sesh.model import reconcile
from sesh.model.state_table import STATES
from sesh.model.states import ALIVE, ENDED, ENDED_WELL, FAILURES, OUTCOMES, State
from sesh.stats import launches
from sesh.supervision.notify import message
from sesh.terminal import output, prompt


def test_the_table_has_a_row_for_every_state() -> None:
    assert sorted(STATES) == sorted(State)


@pytest.mark.parametrize("state", State)
def test_every_state_is_decided(state: State) -> None:
    assert f"State.{state.name}" in inspect.getsource(reconcile)


def test_every_rank_is_taken_once() -> None:
    assert len(prompt.words()) == len(set(prompt.words())) >= len(State)
    assert len({row.rank for row in STATES.values()}) == len(STATES)
    assert not {row.rank for row in STATES.values()} & {*range(10, 20)}


def test_no_state_is_alive_and_ended() -> None:
    assert not ALIVE & ENDED
    assert set(State) - ALIVE - ENDED == {State.DAMAGED, State.UNKNOWN, State.ORPHAN}
    assert set(ENDED) == {State.STALE, *OUTCOMES}
    assert set(OUTCOMES) == {*FAILURES, *ENDED_WELL}
    assert set(ENDED_WELL) == {State.COMPLETED, State.STOPPED}


@pytest.mark.parametrize("state", State)
def test_advice_names_the_session(state: State) -> None:
    row = STATES[state]
    assert "{" not in row.remedy.format("one")
    assert row.remedy.startswith("sesh ")
    assert " one" in row.remedy.format("one")
    assert "{" not in row.next.format("one")
    assert state in ("starting", "unknown") or "one" in row.next.format("one")


@pytest.mark.parametrize("state", sorted(OUTCOMES))
def test_every_end_can_be_notified(state: State) -> None:
    assert state in message._SENTENCES


def test_an_unknown_state_has_no_colour() -> None:
    assert output.paint("x", "failed", colour=True) == "\033[31mx\033[0m"
    assert output.paint("x", "failed", colour=False) == "x"
    assert output.paint("x", "running away", colour=True) == "x"


def test_failures_are_counted() -> None:
    assert launches.Launch(None, None, None, None, "lost", None).failed
    assert not launches.Launch(None, None, None, None, "stale", None).failed
