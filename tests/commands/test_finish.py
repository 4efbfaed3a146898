"""sesh finish: the last word."""

from __future__ import annotations

import pytest

from tests import pace
from tests.world import SESH, World, eventually


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("completed", "completed"), ("failed", "failed"), ("abandoned", "stopped")],
)
def test_it_ends_a_record_without_a_process(world: World, outcome: str, state: str) -> None:
    world.ok("start", "one", "--record-only")
    done = world.ok("finish", "one", outcome, "--summary", "so it is")
    assert done.out.startswith(f"one {outcome} after ")
    shown = world.session("one")
    assert (shown["state"], shown["phase"], shown["summary"]) == (state, outcome, "so it is")
    assert shown["ended"] == shown["finished"] is not None
    assert shown["attention"] is None
    assert world.ok("doctor", "--prompt").out == ""
    kinds = [one["kind"] for one in world.events()]
    assert kinds == ["started", "phase", "finished", "stopped" if state == "stopped" else "ended"]
    told = world.events()[2]
    assert (told["outcome"], told["summary"]) == (outcome, "so it is")
    assert 0 <= told["duration"] < 60


def test_once(world: World) -> None:
    world.ok("start", "one", "--record-only")
    world.ok("finish", "one", "failed")
    done = world.sesh("finish", "one", "completed")
    assert (done.code, done.out) == (8, "")
    assert "one has already finished (failed at" in done.err
    assert world.session("one")["phase"] == "failed"


def test_one_of_many_reports_at_once_wins(world: World) -> None:
    world.ok("start", "one", "--record-only")
    many = [world.popen("finish", "one", "completed") for _ in range(8)]
    assert sorted(one.wait(pace.seconds(60)) for one in many) == [0, *[8] * 7]
    assert [one["kind"] for one in world.events()].count("finished") == 1


def test_a_process_goes_on(world: World) -> None:
    world.start("one")
    shown = world.ok("finish", "one", "completed", "--json").json
    assert (shown["state"], shown["phase"]) == ("running", "completed")
    assert isinstance(shown["duration"], float)
    assert world.session("one")["pid"]


def test_inside_a_session_the_name_is_known(world: World) -> None:
    world.start("one", "sh", "-c", f"{SESH} finish completed; sleep 99")
    assert eventually(lambda: world.session("one")["phase"] == "completed", within=10)


@pytest.mark.parametrize(
    "words", [(), ("one",), ("one", "well"), ("one", "two", "failed"), ("failed",)]
)
def test_usage(world: World, words: tuple[str, ...]) -> None:
    world.ok("start", "one", "--record-only")
    done = world.sesh("finish", *words)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert world.session("one")["phase"] == "initializing"


def test_no_such_session(world: World) -> None:
    assert world.sesh("finish", "none", "failed").code == 4
