"""How old launches and lives are: whatever is done to the clock, and after a reboot."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from sesh.model.place import Agent, Process
from sesh.model.record import Record, Supervision
from sesh.model.value_object import replace
from sesh.state import clocks
from sesh.system import processes
from tests.samples import record


def ago(seconds: float) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds)


def launched(seconds: float, **status: object) -> Record:
    """On this machine, its agent began so long ago; the time of day says otherwise."""
    ticks = int((processes.uptime() - seconds) * 100)
    made = record()
    status = {"started": ago(9e6), "launched": ago(9e6), **status}
    made = replace(made, status=replace(made.status, **status))
    agent = Agent(Process(4711, ticks), keeper=2, leader=2, tty=0)
    return replace(made, place=replace(made.place, machine=processes.here(), agent=agent))


def test_the_kernel_counts_the_age_of_a_launch() -> None:
    assert clocks.launch_age(launched(30.0)) == pytest.approx(30.0, abs=1)
    assert clocks.launch_age(launched(30.0), processes.uptime() + 70) == pytest.approx(100.0, abs=1)


@pytest.mark.parametrize("field", ["id", "boot", "pidns"])
def test_elsewhere_and_before_a_reboot_only_the_time_of_day_counts(field: str) -> None:
    one = launched(30.0, started=ago(50.0))
    there = replace(one.place.machine, **{field: "another"})
    one = replace(one, place=replace(one.place, machine=there))
    assert clocks.launch_age(one) == pytest.approx(50.0, abs=1)


def test_an_unseen_launch_is_as_old_as_its_claim() -> None:
    one = record(launched=False)
    one = replace(one, status=replace(one.status, launched=ago(20.0)))
    assert clocks.launch_age(one) == pytest.approx(20.0, abs=1)


def test_nothing_is_younger_than_0() -> None:
    one = record(launched=False)
    one = replace(one, status=replace(one.status, launched=ago(-20.0)))
    assert clocks.launch_age(one) == 0
    assert clocks.life_age(replace(one, status=replace(one.status, held=50.0))) == 0


def test_a_life_is_all_launches_without_the_pauses() -> None:
    assert clocks.life_age(launched(30.0, lived=100.0, held=20.0)) == pytest.approx(110.0, abs=1)
    paused = launched(30.0, lived=100.0, held=20.0, paused=ago(5.0))
    assert clocks.life_age(paused) == pytest.approx(105.0, abs=1)


def test_the_time_of_a_launch_counts_for_the_life() -> None:
    times = {"launched": ago(33.0), "started": ago(30.0)}
    assert clocks.life_age(launched(30.0, lived=100.0, **times)) == pytest.approx(133.0, abs=1)
    first = launched(30.0, **times)
    assert clocks.life_age(first) == pytest.approx(30.0, abs=1)
    times["launched"] = ago(9e6)  # the clock was set in the middle
    assert clocks.life_age(launched(30.0, lived=100.0, **times)) == pytest.approx(140.0, abs=1)


@pytest.mark.parametrize(
    ("timeout", "left"), [(0.0, clocks.FOR_EVER), (200.0, 70.0), (9.0, -121.0)]
)
def test_the_time_left_of_a_timeout(timeout: float, left: float) -> None:
    one = launched(30.0, lived=100.0)
    one = replace(one, spec=replace(one.spec, supervision=Supervision(timeout=timeout)))
    assert clocks.time_left(one) == pytest.approx(left, abs=1)
    time.sleep(0.01)
    assert clocks.time_left(one) <= left + 1
