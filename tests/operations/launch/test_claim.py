"""A name is claimed over the ended session that had it, however busy the others are with that."""

from __future__ import annotations

import pytest

from sesh.model.errors import ConflictError
from sesh.model.record import Record
from sesh.model.value_object import replace
from sesh.operations.launch import claim
from sesh.state import history, records
from sesh.state.judge import Seen
from tests.surroundings import read_record, write_record
from tests.world import World

NEW = "one-20261116-120000-ffffffff"


@pytest.fixture
def before(world: World, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """An ended session, as one who wants its name has seen it."""
    monkeypatch.setenv("XDG_STATE_HOME", world.env["XDG_STATE_HOME"])
    world.ok("start", "one", "--record-only")
    world.ok("finish", "one", "completed")
    found = claim.free_name("one")
    assert found is not None
    return found


def next_one(found: Seen) -> Record:
    assert isinstance(found.entry.record, Record)
    return replace(found.entry.record, id=NEW)


def claimed(record: Record, found: Seen) -> records.Entry:
    return claim.claim_name(record, claim.starting(record), found)


def test_a_look_that_wrote_more_of_its_end_takes_nothing(world: World, before: Seen) -> None:
    ended = read_record(world, "one")
    write_record(world, replace(ended, spec=replace(ended.spec, tags=("seen",))), before.state)
    assert claimed(next_one(before), before).record == next_one(before)
    (kept,) = history.entries()
    assert isinstance(kept.record, Record)
    assert kept.record.spec.tags == ("seen",)


def test_an_archived_session_frees_its_name(before: Seen) -> None:
    history.archive([before.entry])
    claimed(next_one(before), before)
    assert len(list(history.entries())) == 1


def test_another_session_of_the_name_is_not_replaced(world: World, before: Seen) -> None:
    """Its end is nobody's yet, and its container, say, still stands."""
    world.ok("start", "one", "--record-only")
    world.ok("finish", "one", "failed")
    raw = world.record("one").read_bytes()
    with pytest.raises(ConflictError, match="taken by another sesh"):
        claimed(next_one(before), before)
    assert world.record("one").read_bytes() == raw


def test_a_session_that_lives_again_is_named(world: World, before: Seen) -> None:
    world.ok("start", "one", "--record-only")
    with pytest.raises(ConflictError, match="already"):
        claimed(next_one(before), before)
