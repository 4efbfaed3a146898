"""Breakers, as the event log tells of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sesh.model import retry
from sesh.model.configuration import Config
from sesh.model.observation import Verdict
from sesh.model.record import BreakerLimits, Record
from sesh.model.session_json import timestamp, view
from sesh.model.states import Cause, State
from sesh.model.value_object import replace
from sesh.state import breakers, events, records
from sesh.system import paths
from sesh.terminal import session_list
from tests import samples

LIMITS = BreakerLimits(10, 600.0, 1800.0)


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """One of a group, with a state directory of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    Path(paths.sessions_dir()).mkdir(mode=0o700, parents=True)
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
    assert until(record) == retry.open_until(moments, LIMITS, datetime.now(UTC))


def test_more_failures_than_the_limit_open_a_breaker(record: Record) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    log(*[now - timedelta(seconds=60)] * 10)
    assert until(record) is None
    log(now)
    assert until(record) is None, "the generation is one that has failed before"
    log(now, generation=99)
    assert until(record) == now + timedelta(seconds=1800)


@pytest.mark.parametrize("cause", ["reboot", "terminal-gone", "container-gone", "unknown"])
def test_a_lost_session_that_was_given_up_has_not_failed(record: Record, cause: str) -> None:
    log(*[datetime.now(UTC)] * 20, cause=cause)
    assert until(record) is None


def test_lines_of_others_do_no_harm(record: Record) -> None:
    log(datetime.now(UTC), state=["failed"], cause={"a": 1}, group=["g"])
    assert until(record) is None
    assert len(list(events.read())) == 1


# --- the word of one that is open ----------------------------------------------------------------


def word() -> Path:
    return Path(paths.breakers_file())


def failed(record: Record, **changes: Any) -> Record:
    status = replace(record.status, outcome=State.FAILED, reason="exit 1", cause=Cause.EXIT)
    return replace(record, status=replace(status, **changes))


def test_an_open_breaker_is_noted_with_its_end(record: Record) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    breakers.note_ended([failed(record)], Config())
    assert not word().exists()
    log(*[now] * 11)
    breakers.note_ended([failed(record)], Config())
    assert int(word().read_text()) == now.timestamp() + LIMITS.cooldown
    assert word().stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "?\n", "1\n"])
def test_an_invalid_note_is_written_again(record: Record, text: str) -> None:
    word().write_text(text)
    log(*[datetime.now(UTC)] * 11)
    breakers.open_for([record], Config())
    assert int(word().read_text()) > datetime.now(UTC).timestamp()


def test_without_the_note_everything_else_works(record: Record) -> None:
    """It is for showing only."""
    word().mkdir()
    log(*[datetime.now(UTC)] * 11)
    breakers.note_ended([failed(record)], Config())
    assert until(record) is not None


def test_settings_that_can_not_be_read_keep_no_end_from_being_noted(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    Path(paths.config_file()).parent.mkdir(exist_ok=True)
    Path(paths.config_file()).write_text("[[[")
    breakers.note_ended([failed(record)])


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"outcome": State.TIMEOUT}, True),
        ({"outcome": State.COMPLETED, "gave_up": "all 2 retries are used up"}, True),
        ({"outcome": State.COMPLETED}, False),
        ({"outcome": State.LOST, "cause": Cause.REBOOT}, False),
        ({"outcome": State.LOST, "cause": Cause.REBOOT, "gave_up": "no time"}, False),
    ],
)
def test_only_failures_open_a_breaker(
    record: Record, changes: dict[str, Any], counts: bool
) -> None:
    log(*[datetime.now(UTC)] * 11)
    breakers.note_ended([failed(record, **changes)], Config())
    assert word().exists() == counts


def test_a_breaker_that_is_open_only_for_other_groups(record: Record) -> None:
    """A session of the group has limits of its own, and is not the one that has failed."""
    strict = replace(record, spec=replace(record.spec, breaker=BreakerLimits(1, 600.0, 60.0)))
    records.claim(strict, Verdict(State.RUNNING), None)
    log(*[datetime.now(UTC)] * 3)
    other = failed(replace(record, id="other-20261118-000000-00000001", name="other"))
    breakers.note_ended([other], Config())
    assert word().exists()


def test_all_breakers_are_shown_with_their_groups(record: Record) -> None:
    log(*[datetime.now(UTC)] * 11, template="t")
    strict = replace(record, spec=replace(record.spec, template="t"))
    lax = replace(record, id="lax", spec=replace(record.spec, breaker=BreakerLimits(99, 9.0, 9.0)))
    shown = [view(one, Verdict(State.RUNNING)) for one in (strict, lax)]
    found = breakers.open_among(shown, Config())
    assert {circle: opened.ids for circle, opened in found.items()} == {
        ("group", "g"): {strict.id},
        ("template", "t"): {strict.id},
    }
    lines = session_list.open_breakers(shown)
    assert [f"only {strict.name}" in line for line in lines] == [True, False]
