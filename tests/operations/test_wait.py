"""waiting: what has not changed is not looked at again."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from sesh.model.errors import NoSessionError, StateError
from sesh.model.states import ENDED, State
from sesh.operations import wait
from sesh.operations.wait import GaveUp, Reached, Wanted
from sesh.state import judge
from sesh.state.judge import Seen
from sesh.state.records import Entry
from tests import pace
from tests.world import World, eventually


@pytest.fixture
def looks(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In this world's directories; the names that were looked at, in order."""
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    made: list[str] = []
    real = judge.judge

    def judged(entries: Sequence[Entry]) -> list[Seen]:
        made.extend(entry.record.name for entry in entries)
        return real(entries)

    monkeypatch.setattr(judge, "judge", judged)
    return made


def until(
    names: list[str], states: frozenset[State], seconds: float
) -> list[tuple[str, State, int | None]]:
    deadline = time.monotonic() + seconds
    found = wait.until(names, Wanted(states), deadline)
    return [(one.name, one.state, one.exit_code) for one in found if isinstance(one, Reached)]


def test_a_session_that_continues_is_checked_once(world: World, looks: list[str]) -> None:
    world.start("a")
    assert until(["a"], ENDED, 0.8) == []
    assert looks == ["a"]


def test_output_is_waited_for_without_looks_and_read_once(world: World, looks: list[str]) -> None:
    world.start("a", "sh", "-c", "seq 3; read -r line; seq 4 5")
    lines: list[str] = []

    def wanted(line: str) -> bool:
        lines.append(line)
        return line == "5"

    def found(seconds: float) -> list[Reached | GaveUp]:
        goal = Wanted(frozenset(), output=wanted)
        return list(wait.until(["a"], goal, time.monotonic() + seconds))

    assert eventually(lambda: world.ok("logs", "a").out.endswith("3\n"))
    assert found(0.8) == []
    assert (looks, lines) == (["a"], ["1", "2", "3"])
    world.ok("send", "a", "go")
    assert found(60) == [Reached("a", State.RUNNING, None, line="5")]


def test_an_ended_session_that_waits_to_run_is_given_up_soon(
    world: World, looks: list[str]
) -> None:
    """Not at once: a restart, too, ends it for a moment."""
    world.start("a", "true")
    assert eventually(lambda: world.state_of("a") == "completed")
    wanted = Wanted(frozenset({State.RUNNING}), words="running")
    begin = time.monotonic()
    [lost] = wait.until(["a"], wanted, begin + 60)
    assert isinstance(lost, GaveUp)
    assert lost.error.exit_code == 3
    assert len(looks) <= 2 + (time.monotonic() - begin) / wait.DOUBT
    before = len(looks)
    [lost] = wait.until(["a"], wanted, time.monotonic() + 60)  # it ended long ago
    assert len(looks) == before + 1


def test_only_a_changed_session_is_checked_again(world: World, looks: list[str]) -> None:
    world.start("a")
    world.start("b", "sh", "-c", "sleep 0.5; exit 7")
    assert until(["a", "b"], ENDED, pace.seconds(2.5)) == [("b", State.FAILED, 7)]
    assert looks.count("a") == 1


def test_conditions_that_already_hold_are_reported_at_once(world: World, looks: list[str]) -> None:
    world.start("a")
    assert until(["a"], frozenset({State.RUNNING}), 0) == [("a", State.RUNNING, None)]


def test_a_rewritten_record_is_looked_at_again(world: World, looks: list[str]) -> None:
    world.start("a")
    waiter = wait.until(["a"], Wanted(frozenset({State.STOPPED})), time.monotonic() + 10)
    world.ok("stop", "a")
    assert [one.state for one in waiter if isinstance(one, Reached)] == [State.STOPPED]


def test_a_removed_session_does_not_delay_the_others(world: World, looks: list[str]) -> None:
    gate = world.cwd / "gate"
    for name in ("damaged", "forgotten"):
        world.start(name)
    world.start("other", "sh", "-c", "until [ -e gate ]; do sleep 0.1; done")
    world.start("first", "true")
    names = ["damaged", "forgotten", "other", "first"]
    waiter = wait.until(names, Wanted(ENDED), time.monotonic() + 20)
    assert next(waiter).name == "first"
    world.record("damaged").write_text("nonsense")
    world.record("forgotten").unlink()
    gone = [next(waiter), next(waiter)]
    gate.touch()
    assert [one.name for one in waiter] == ["other"]
    problems = {one.name: type(one.error) for one in gone if isinstance(one, GaveUp)}
    assert problems == {"damaged": StateError, "forgotten": NoSessionError}


def test_no_such_session(world: World, looks: list[str]) -> None:
    with pytest.raises(NoSessionError):
        until(["nobody"], ENDED, 1)


def test_changes_during_a_wait_are_noticed(
    world: World, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is written anew between the look and the note that is made of it."""
    world.start("a", "sh", "-c", "test -e flag && exec sleep 1000; exit 1")
    assert eventually(lambda: world.state_of("a") == "failed")
    (world.cwd / "flag").touch()
    real = judge.judge

    def judged(entries: Sequence[Entry]) -> list[Seen]:
        found = real(entries)
        if len(looks) == 1:
            world.ok("restart", "a")
        return found

    monkeypatch.setattr(judge, "judge", judged)
    assert until(["a"], frozenset({State.RUNNING}), 5) == [("a", State.RUNNING, None)]
