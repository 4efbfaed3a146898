"""A step is a wish, not a permission: what has changed since the plan is left alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sesh.gc import apply, plan, run, scan
from sesh.gc.plan import Options, Step, Verb
from sesh.model.errors import StateError
from sesh.state import settings
from sesh.supervision import run_pass
from sesh.supervision.run_pass import Pass
from sesh.system import processes
from tests.faults.living import look, marked
from tests.world import World, eventually

EAGER = "[gc]\narchive_after = 0.01\nclose_after = 0.01\n[stop]\ngrace = 2\n"
OPTIONS = Options(kill_orphans=True)
NOBODY = "gone-20260101-000000-00000001"


@pytest.fixture
def inside(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    world.configure(EAGER)
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    return world


def planned() -> list[Step]:
    config = settings.load()
    return plan.decide(scan.survey(config), config.gc, OPTIONS, time.time())


def test_a_failed_pass_does_not_stop_the_cleaning(
    inside: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside.start("old", "true")
    inside.start("cared", options=("--timeout", "1h"))
    assert eventually(lambda: inside.state_of("old") == "completed")
    trouble = StateError("no space left")
    monkeypatch.setattr(run_pass, "run_pass", lambda config: Pass(troubles=[trouble]))
    told, why = run.clean(settings.load(), OPTIONS, processes.run_dir())
    assert why is trouble
    assert (Verb.ARCHIVE, "old") in [(one.step.verb, one.step.subject) for one in told if one.done]


def applied(steps: list[Step]) -> list[str | None]:
    """Why each was skipped; None when it was done."""
    told = apply.apply(steps, settings.load(), OPTIONS)
    assert len(told) == len(steps)
    assert not any(one.failed for one in told)
    return [one.skipped for one in told]


def done(world: World, name: str) -> None:
    world.start(name, "true")
    assert eventually(lambda: world.state_of(name) == "completed")


def restart(world: World) -> None:
    world.ok("restart", "one")


def start_over(world: World) -> None:
    world.start("one")


@pytest.mark.parametrize("change", [restart, start_over])
def test_an_ended_session_that_runs_again(inside: World, change: Callable[[World], None]) -> None:
    inside.start("one", "sh", "-c", "test -e flag && exec sleep 1000; exit 0")
    assert eventually(lambda: inside.state_of("one") == "completed")
    steps = planned()
    assert [step.verb for step in steps] == ["close", "archive"]
    (inside.cwd / "flag").touch()
    change(inside)
    before = inside.session("one")
    assert applied(steps) == ["changed meanwhile"] * 2
    now = inside.session("one")
    assert (now["state"], now["pid"], now["id"]) == ("running", before["pid"], before["id"])
    assert "one" in inside.tmux("list-sessions")


def test_a_record_that_was_removed_or_damaged(inside: World) -> None:
    for name in ("one", "two"):
        done(inside, name)
    steps = planned()
    inside.ok("rm", "one")
    inside.record("two").write_text("[[[")
    assert applied(steps) == ["changed meanwhile"] * 4
    assert inside.record("two").read_text() == "[[["


def test_a_session_over_its_limit_that_was_restarted(inside: World) -> None:
    inside.start("one", options=("--max-age", "2s"))
    time.sleep(2.1)
    steps = planned()
    assert [step.verb for step in steps] == ["end"]
    inside.ok("restart", "one")
    before = inside.session("one")["pid"]
    if applied(steps) == ["changed meanwhile"]:  # else two seconds have passed again
        assert inside.session("one")["pid"] == before


def test_a_leftover_of_a_session_that_runs_again(inside: World) -> None:
    detached = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & sleep 0.2"
    inside.start("one", "sh", "-c", f"test -e flag && exec sleep 1000; {detached}; exit 1")
    assert eventually(lambda: inside.state_of("one") == "failed")
    inside.ok("gc")
    seen = Path(inside.socket).parent / "orphans.seen"
    boot, line = seen.read_text().splitlines()
    longer = f"{boot}\n{' '.join(line.split()[:3])} 1.0\n"

    def kills() -> list[Step]:
        """As if it had been seen long ago. (A late pass of the keeper may note it again.)"""
        seen.write_text(longer)
        return [step for step in planned() if step.verb == "kill"]

    steps = eventually(kills)
    assert len(steps) == 1
    (inside.cwd / "flag").touch()
    inside.ok("restart", "one")
    living = marked(inside)
    assert applied(steps) == ["changed meanwhile"]
    assert marked(inside) == living
    inside.ok("stop", "one")


def test_files_that_were_touched_or_are_claimed(inside: World) -> None:
    """As by an adoption, which gives an old launch a record again."""
    shown = inside.start("one")
    run = Path(inside.socket).parent
    old = time.time() - 40 * 86400
    touched = run / f"{NOBODY}.1.pid"
    history = inside.state / f"history/{NOBODY}.toml"
    claimed = run / f"{shown['id']}.1.exit.tmp"
    for path in (touched, history):
        path.write_text("x")
        os.utime(path, (old, old))
    steps = planned()
    assert len(steps) == 2
    for path in (touched, history):
        path.touch()
    wrong = plan.Step(
        *(plan.Verb.REMOVE, plan.What.LAUNCH_FILE, str(claimed), "", shown["id"]),
        paths=(str(claimed),),
        changed=claimed.stat().st_mtime,
    )
    assert applied([*steps, wrong]) == ["changed meanwhile"] * 3
    assert touched.exists()
    assert history.exists()
    assert claimed.exists()
    assert look(shown["pid"]) is not None


def test_history_goes_with_what_was_noted_since_the_plan(inside: World) -> None:
    """A pass beside gc notes how far a transcript is, and so makes a file that the plan lacks."""
    inside.start("one")
    old = time.time() - 40 * 86400
    for path in ("history/{}.toml", "transcripts/{}.log"):
        made = inside.state / path.format(NOBODY)
        made.write_text("x")
        os.utime(made, (old, old))
    steps = planned()
    assert [(step.verb, step.what) for step in steps] == [("remove", "history record")]
    (inside.state / f"transcripts/{NOBODY}.times").write_text("1 1\n")
    assert applied(steps) == [None]
    assert not list(inside.root.rglob(f"*{NOBODY}*"))


def test_one_failure_does_not_stop_the_others(inside: World) -> None:
    """A directory where a transcript should be can't be removed as a file."""
    inside.start("one")
    old = time.time() - 40 * 86400
    wrong = inside.state / f"transcripts/{NOBODY}.log"
    wrong.mkdir()
    temp = inside.state / "history/.x.4711.tmp"
    temp.write_text("x")
    for path in (wrong, temp):
        os.utime(path, (old, old))
    failing = inside.sesh("gc")
    assert failing.code == 9
    assert f"could not remove: [Errno 21] Is a directory: '{wrong}'" in failing.err
    assert not temp.exists()
    assert inside.sesh("gc").code == 1
