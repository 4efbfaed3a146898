"""Records that other processes change while they are read and changed here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sesh.model.errors import ConflictError
from sesh.model.observation import Verdict
from sesh.model.record import Record
from sesh.model.states import Cause, State
from sesh.model.value_object import replace
from sesh.state import events, judge, lookup, records
from sesh.state.judge import Seen
from sesh.state.records import Entry
from sesh.terminal import attention
from tests.samples import record
from tests.world import World, eventually


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    records.prepare()
    return tmp_path / "sesh"


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


def test_a_session_launched_again_meanwhile_is_not_lost(here: World) -> None:
    """The word of its end is gone with the launch that it was of."""
    entry = known_as_running(here)
    kill(here)
    restart(here)
    (found,) = judge.judge([entry])
    assert found.session is not None
    assert (found.state, found.session.record.place.generation) == ("running", 2)
    assert not found.overtaken


def test_an_end_recorded_meanwhile_is_kept(here: World) -> None:
    """Also when nothing but the record says any more how it was."""
    entry = known_as_running(here)
    kill(here)
    for word in (here.state / "run").glob("*/*.1.exit"):
        word.unlink()
    (found,) = judge.judge([entry])
    assert found.session is not None
    assert (found.state, found.session.verdict.signal) == ("failed", signal.SIGKILL)


def test_a_session_removed_meanwhile_is_shown_as_it_was_seen(here: World) -> None:
    entry = known_as_running(here)
    kill(here)
    forget(here)
    (found,) = judge.judge([entry])
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


# --- changing a record --------------------------------------------------------------------------

_SAY = """
import random, sys
from sesh.model.value_object import replace
from sesh.state import events, judge, lookup, observe, records

def look(_):
    entry = records.entry("demo")
    return judge.seen_as(entry, entry.record, observe.by_files(entry.record))

me, looks = sys.argv[1], (None, look)
for number in range(15):
    def change(now):
        word, status = now.intact.record.agent, now.intact.record.status
        word = replace(word, metadata={**word.metadata, f"{me}-{number}": number})
        status = replace(status, retries=status.retries + 1)
        return replace(now.intact.record, agent=word, status=status)
    found = lookup.one("demo")
    assert lookup.update(
        found,
        change,
        lambda before, after: events.append("phase", after.record, phase=f"{me}-{number}"),
        look=random.choice(looks),
    )
    assert lookup.update(found, lambda now: None) is None
"""


def test_every_update_of_many_processes_is_kept_and_reported_once(state: Path) -> None:
    records.claim(record(), Verdict(State.RUNNING), None)
    crowd = [subprocess.Popen([sys.executable, "-c", _SAY, str(one)]) for one in range(8)]
    assert [one.wait() for one in crowd] == [0] * 8
    found = lookup.one("demo").intact.record
    wanted = {f"{one}-{number}" for one in range(8) for number in range(15)}
    assert set(found.agent.metadata) == wanted
    assert found.status.retries == len(wanted)
    assert sorted(event["phase"] for event in events.read()) == sorted(wanted)


def test_an_update_gives_up_when_another_process_is_always_faster(state: Path) -> None:
    records.claim(record(), Verdict(State.RUNNING), None)
    tries = 0

    def overtaken(now: Seen) -> Record:
        nonlocal tries
        tries += 1
        known = now.intact.record
        other = replace(known, status=replace(known.status, retries=tries))
        assert records.swap(now.entry, other, now.intact.verdict)
        return known

    with pytest.raises(ConflictError, match="demo is being changed by other processes; try again"):
        lookup.update(lookup.one("demo"), overtaken)
    assert lookup.one("demo").intact.record.status.retries == tries


def test_an_update_by_an_end_is_announced(state: Path) -> None:
    records.claim(record(), Verdict(State.RUNNING), None)

    def ended(now: Seen) -> Record:
        known = now.intact.record
        status = replace(known.status, outcome=State.FAILED, cause=Cause.EXIT, exit_code=3)
        return replace(known, status=status)

    written = lookup.update(
        lookup.one("demo"), ended, lambda _, after: events.append("phase", after.record)
    )
    assert written
    assert written.has_ended
    assert [event["kind"] for event in events.read()] == ["phase", "ended"]


def test_another_launch_is_not_changed(state: Path) -> None:
    records.claim(record(), Verdict(State.RUNNING), None)
    found = lookup.one("demo")
    known = found.intact.record
    later = replace(known, place=replace(known.place, generation=3))
    assert lookup.update(found, later)
    with pytest.raises(ConflictError, match="was changed by another sesh just now; try again"):
        lookup.update(found, lambda now: now.intact.record, look=lookup.again)
    assert lookup.update(found, known) is None
    assert lookup.one("demo").intact.record == later
