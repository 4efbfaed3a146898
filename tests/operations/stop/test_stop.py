"""Bringing sessions down beside others who launch, stop and look: real agents, in this process."""

from __future__ import annotations

import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sesh.model.observation import Session
from sesh.model.place import Process
from sesh.model.reconcile import reconcile
from sesh.model.record import Record
from sesh.model.states import Cause, State
from sesh.model.value_object import replace
from sesh.operations.stop import stop
from sesh.operations.stop.request import Ending, ask
from sesh.state import lookup, records, settings
from sesh.state.judge import Seen
from sesh.system import processes
from tests.engine import Engine
from tests.places.docker.boxes import start_also
from tests.world import World, eventually

LIMIT = Ending("it was over a limit", Cause.LIMIT)


@pytest.fixture
def inside(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    return entered(world, monkeypatch)


def entered(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    return world


def asked(name: str, grace: float = 5.0, *, mine: bool = True) -> Seen:
    """What a pass has asked to stop, and will bring down later."""
    found = ask(lookup.one(name), grace, LIMIT, keep=False, mine=mine)
    assert found is not None
    return found


def bring_down(*found: Seen) -> None:
    stop.terminate(found, settings.load(), datetime.now(UTC))


def test_a_session_launched_again_before_its_end_lives(inside: World) -> None:
    inside.start("one")
    one = asked("one")
    inside.ok("restart", "one")
    bring_down(one)
    shown = inside.session("one")
    assert (shown["state"], shown["generation"]) == ("running", 2)


def test_the_same_in_a_container(
    boxed: World, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered(boxed, monkeypatch)
    start_also(boxed, "one")
    one = asked("one")
    boxed.ok("restart", "one")
    bring_down(one)
    shown = boxed.session("one")
    assert (shown["state"], shown["generation"]) == ("running", 2)
    assert len(engine.containers()) == 1


def polite(world: World, name: str, word: Path) -> None:
    """One that says goodbye when it is asked to end."""
    script = f'trap "echo bye >>{word}; exit 3" TERM; while :; do sleep 0.05; done'
    world.start(name, "sh", "-c", script)


def test_the_grace_begins_with_the_first_stop(inside: World) -> None:
    """A watch only asks; who brings it down may come late."""
    word = inside.root / "word"
    polite(inside, "one", word)
    asked("one", grace=0.5, mine=False)
    time.sleep(0.7)
    inside.ok("pass")
    assert (inside.state_of("one"), word.read_text()) == ("timeout", "bye\n")


def test_an_early_second_stop_does_not_shorten_the_grace(inside: World) -> None:
    word = inside.root / "word"
    polite(inside, "one", word)
    asked("one", grace=0.5, mine=False)
    time.sleep(0.7)
    inside.ok("stop", "one")
    assert (inside.state_of("one"), word.read_text()) == ("stopped", "bye\n")


def test_containers_do_not_wait_for_the_grace_of_each_other(boxed: World, engine: Engine) -> None:
    script = "trap : TERM; while :; do sleep 0.1; done"
    boxed.start("stubborn", "sh", "-c", script)
    polite = 'trap "sleep 1; exit 3" TERM; while :; do sleep 0.1; done'
    start_also(boxed, "polite", command=("sh", "-c", polite))
    boxed.ok("stop", "stubborn", "polite", "--grace", "3s", "-y")
    assert boxed.session("polite")["exit_code"] == 3


def by(found: Seen, stopper: Process | None) -> Seen:
    """The same stop, brought down by somebody else."""
    assert found.session is not None
    record, sight = found.session.record, found.session.seen
    record = replace(record, status=replace(record.status, stopper=stopper))
    verdict = reconcile(record, sight, datetime.now(UTC))
    entry = records.swap(found.entry, record, verdict)
    assert entry is not None
    return Seen(entry, Session(record, sight, verdict))


def test_a_slower_process_does_not_undo_a_stop(inside: World) -> None:
    inside.start("one", "sh", "-c", "trap : TERM; while :; do sleep 0.1; done")
    before = asked("one")
    with subprocess.Popen(["sleep", "99"]) as other:
        stat = processes.look(other.pid)
        assert stat is not None
        by(before, stat.process)
        (after,) = stop.continue_stops([before], settings.load())
        record = after.entry.record
        assert after.state is State.STOPPING
        assert isinstance(record, Record)
        assert (record.status.stopper, record.status.stop_tries) == (stat.process, 0)
        other.kill()
    inside.ok("stop", "one", "--grace", "0.1")
    assert eventually(lambda: inside.state_of("one") == "stopped")
