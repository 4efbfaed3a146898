"""sesh resumable: may its work be gone on with?"""

from __future__ import annotations

import os
import re
import signal
from datetime import UTC, datetime, timedelta

import pytest

from tests.world import World, eventually

FIELDS = ["name", "id", "resumable", "reason", "phase", "idle", "errors", "conversation"]


def heard_before(world: World, minutes: int) -> None:
    """As if so much time had passed: its record is made older, as an editor would do it."""
    path = world.record("one")
    for key in ("updated", "created"):
        then = datetime.now(UTC) - timedelta(minutes=minutes)
        path.write_text(re.sub(rf"{key} = .*", f"{key} = {then.isoformat()}", path.read_text()))


def asked(world: World, code: int, *args: str) -> str:
    done = world.sesh("resumable", "one", *args)
    assert done.code == code, done.out + done.err
    return done.out


@pytest.mark.parametrize("phase", ["approval", "investigating", "planning"])
def test_yes(world: World, phase: str) -> None:
    world.ok("start", "one", "--record-only")
    world.ok("update", "one", "--phase", phase)
    assert asked(world, 0).startswith(f"yes: in phase {phase}, last sign of life ")
    found = world.ok("resumable", "one", "--json").json
    assert list(found) == FIELDS
    assert (found["resumable"], found["phase"], found["errors"]) == (True, phase, 0)


def test_31_minutes(world: World) -> None:
    world.ok("start", "one", "--record-only")
    world.ok("update", "one", "--phase", "approval")
    heard_before(world, 29)
    asked(world, 0)
    heard_before(world, 31)
    assert asked(world, 1) == "no: idle for 31 minutes, of at most 30 minutes\n"
    world.configure('[resume]\nmax_idle = "1h"\n')
    asked(world, 0)


def test_errors(world: World) -> None:
    world.ok("start", "one", "--record-only")
    world.ok("update", "one", "--phase", "planning", "--error", "a")
    world.ok("update", "one", "--error", "b")
    asked(world, 0)
    world.ok("update", "one", "--error", "\x1b[31mc")
    assert asked(world, 1).startswith("no: 3 errors, of at most 2; the last: ")
    assert "\x1b" not in asked(world, 1)
    world.configure("[resume]\nmax_errors = 4\n")
    asked(world, 0)


def test_other_reasons(world: World) -> None:
    assert asked(world, 1) == "no: no session named one\n"
    world.ok("start", "one", "--record-only")
    assert asked(world, 1).startswith("no: in phase initializing, not in approval, ")
    world.configure('[resume]\nphases = ["initializing"]\n')
    asked(world, 0)
    world.ok("update", "one", "--resume-ready", "no")
    assert "not ready" in asked(world, 1)
    world.ok("update", "one", "--resume-ready", "yes")
    asked(world, 0)
    world.ok("finish", "one", "completed")
    assert asked(world, 1) == "no: it has finished: completed\n"
    world.record("one").write_text("")
    assert asked(world, 1) == "no: its record is damaged: empty file\n"
    found = world.sesh("resumable", "one", "--json").json
    assert (found["resumable"], found["id"], found["idle"]) == (False, None, None)


def test_a_living_process_needs_no_conversation_and_an_ended_one_does(world: World) -> None:
    pid = world.start("one")["pid"]
    world.ok("update", "one", "--phase", "approval")
    assert asked(world, 0).startswith("yes: ")
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: world.state_of("one") == "failed")
    assert asked(world, 1) == "no: it has no conversation to resume\n"
    world.ok("update", "one", "--conversation", "5b1e-77")
    asked(world, 0)
    assert world.ok("resumable", "5b1e-77").out.startswith("yes: ")


def test_its_output_is_a_sign_of_life(world: World) -> None:
    world.start("one", "sh", "-c", "echo hello; sleep 99")
    world.ok("update", "one", "--phase", "approval", "--conversation", "c")
    (found,) = world.state.glob("run/*/one-*.beat")
    found.unlink()
    heard_before(world, 31)
    asked(world, 0)


def test_it_changes_nothing(world: World) -> None:
    world.ok("start", "one", "--record-only")
    before = world.record("one").read_bytes()
    asked(world, 1)
    assert world.record("one").read_bytes() == before


def test_usage(world: World) -> None:
    assert world.sesh("resumable").code == 2
    assert world.sesh("resumable", "../etc").code == 2


def test_settings_are_checked(world: World) -> None:
    world.configure('[resume]\nphases = ["thinking"]\n')
    done = world.sesh("config", "check")
    assert (done.code, "resume.phases: thinking" in done.err) == (6, True)
