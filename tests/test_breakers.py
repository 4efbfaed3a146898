"""Breakers, as the event log tells of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sesh import breakers, duties, events, paths
from sesh.config import Config
from sesh.model import BreakerLimits, Record
from sesh.values import replace
from sesh.view import timestamp
from tests import samples

LIMITS = BreakerLimits(10, 600.0, 1800.0)


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """One of a group, with a state directory of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    Path(paths.state_dir()).mkdir(mode=0o700)
    plain = samples.record()
    return replace(plain, spec=replace(plain.spec, group="g", breaker=LIMITS))


def log(*moments: datetime, **details: Any) -> None:
    """Failures of others in the group."""
    for number, moment in enumerate(moments):
        when = {"time": timestamp(moment), "kind": "ended", "name": "b", "id": "b"}
        how = {"generation": number, "state": "failed", "cause": "exit", "group": "g"}
        with open(paths.events_file(), "a") as file:
            file.write(json.dumps(when | how | details, separators=(",", ":")) + "\n")


def until(record: Record) -> datetime | None:
    return breakers.open_for([record], Config()).get(record.id, (None, None))[1]


@pytest.mark.parametrize("every", [10, 30, 50])
def test_steady_failures_of_others_do_not_keep_it_open(record: Record, every: int) -> None:
    """Whether it is open follows from the whole log, so its end does not move while others fail."""
    now = datetime.now(UTC).replace(microsecond=0)
    moments = [now - timedelta(seconds=ago) for ago in range(4 * 3600, 0, -every)]
    log(*moments)
    assert until(record) == duties.open_until(moments, LIMITS, datetime.now(UTC))


def test_more_than_so_many_open_it(record: Record) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    log(*[now - timedelta(seconds=60)] * 10)
    assert until(record) is None
    log(now)
    assert until(record) is None, "the generation is one that has failed before"
    log(now, generation=99)
    assert until(record) == now + timedelta(seconds=1800)


@pytest.mark.parametrize("cause", ["reboot", "terminal-gone", "container-gone", "unknown"])
def test_what_was_lost_and_given_up_has_not_failed(record: Record, cause: str) -> None:
    log(*[datetime.now(UTC)] * 20, cause=cause)
    assert until(record) is None


def test_lines_of_others_do_no_harm(record: Record) -> None:
    log(datetime.now(UTC), state=["failed"], cause={"a": 1}, group=["g"])
    assert until(record) is None
    assert len(list(events.read())) == 1
