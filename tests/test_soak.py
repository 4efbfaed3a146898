"""`make soak`, for a few seconds: that it works and finds nothing, and that it could."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import Soak, wrong
from tests.world import World


@pytest.mark.timeout(600)
def test_a_short_soak() -> None:
    argv = [sys.executable, "-m", "tests.soak", "--seconds", "6", "--seed", "1"]
    done = subprocess.run(argv, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrong states: 0" in done.stdout


def test_the_soak_sees_what_is_wrong(world: World) -> None:
    soak = Soak(world, 1)
    for name in ("lost", "twice"):
        soak.command(random.Random(2), ("start", name, "--json", "--", "sleep", "1000"))
    assert ([*soak.differences()], soak.tally.wrong) == ([], {})
    world.ok("stop", "--all", "-y")
    soak.check_events()
    assert soak.tally.wrong == {}
    world.record("lost").unlink()
    assert [kind for kind, _ in soak.differences()] == ["lost sessions"]
    log = world.state / "events.jsonl"
    log.write_text(log.read_text() * 2)
    for code in (2, 70):
        soak.judge(("ls",), code, b"", b"", doomed=False)
    soak.check_events()
    assert {*soak.tally.wrong} == {"wrong exit codes", "exit 70", "wrong events"}


@pytest.mark.parametrize("state", ["running", "unknown", "starting", "stopping", "damaged"])
def test_states_that_can_not_be_true(state: str) -> None:
    session = {"name": "a", "id": "a-1", "state": state, "pid": None, "reason": None}
    assert len([*wrong(session, {})]) == 1
