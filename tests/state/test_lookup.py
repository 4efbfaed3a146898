"""A look at records that other commands change meanwhile."""

from __future__ import annotations

import os
import signal

import pytest

from sesh.state import lookup, records
from sesh.state.records import Entry
from sesh.terminal import attention
from tests.world import World, eventually


def known_as_running(world: World) -> Entry:
    """The record of a session that runs, as somebody has read it who then takes his time."""
    world.start("one")
    entry = records.entry("one")
    assert entry is not None
    return entry


def kill(world: World) -> None:
    os.kill(world.session("one")["pid"], signal.SIGKILL)
    assert eventually(lambda: world.state_of("one") == "failed")


def restart(world: World) -> None:
    world.ok("restart", "one")


def forget(world: World) -> None:
    world.ok("rm", "one")


def test_what_was_launched_again_meanwhile_is_not_lost(here: World) -> None:
    """The word of its end is gone with the launch that it was of."""
    entry = known_as_running(here)
    kill(here)
    restart(here)
    (found,) = lookup.judge([entry])
    assert found.session is not None
    assert (found.state, found.session.record.place.generation) == ("running", 2)
    assert not found.overtaken


def test_an_end_that_was_written_down_meanwhile_is_that_end(here: World) -> None:
    """Also when nothing but the record says any more how it was."""
    entry = known_as_running(here)
    kill(here)
    for word in (here.state / "run").glob("*/*.1.exit"):
        word.unlink()
    (found,) = lookup.judge([entry])
    assert found.session is not None
    assert (found.state, found.session.verdict.signal) == ("failed", signal.SIGKILL)


def test_what_was_removed_meanwhile_is_shown_as_it_was_seen(here: World) -> None:
    entry = known_as_running(here)
    kill(here)
    forget(here)
    (found,) = lookup.judge([entry])
    assert found.overtaken
    assert here.ls() == []


def test_a_prompt_does_not_call_lost_what_was_launched_again(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = known_as_running(here)
    kill(here)
    restart(here)
    monkeypatch.setattr(records, "entries", lambda leaving_out: [entry])
    assert attention.words((), set()) == []
