"""sesh.api: the same records, for callers in Python; and as an orchestrator would use all of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sesh import api
from sesh.model.states import State
from sesh.system import paths
from tests import pace
from tests.world import SESH, World


def test_the_life_of_a_session(here: World) -> None:
    made = api.create("one", command=("agent", "-x"), group="shop", tags=("a",), metadata={"n": 1})
    assert (made.name, made.state, made.phase, made.place) == (
        *("one", State.RUNNING, "initializing", "none"),
    )
    assert (made.command, made.group, made.tags) == (("agent", "-x"), "shop", ("a",))
    assert made.cwd == str(here.cwd)
    changed = api.update("one", phase="planning", metadata={"deep": {"e": {}, "l": [[]]}})
    assert changed.metadata == {"n": 1, "deep": {"e": {}, "l": [[]]}}
    assert api.get("one") == changed
    assert [step.phase for step in changed.history] == ["initializing", "planning"]
    assert api.should_resume("one").resume
    assert api.should_resume(changed.id).resume
    assert [one.name for one in api.list(phase="planning", group="shop")] == ["one"]
    assert api.list(phase="approval") == []
    done = api.finish("one", "completed", summary="well")
    assert (done.state, done.summary) == (State.COMPLETED, "well")
    assert done.finished is not None
    assert done.created <= done.finished
    assert api.cleanup(older_than=60) == []
    assert api.cleanup() == ["one"]
    assert api.list() == []
    assert (here.state / "history" / f"{done.id}.toml").exists()
    assert here.events()[-1]["kind"] == "archived"
    assert api.cleanup() == []


def test_what_the_commands_see(here: World) -> None:
    api.create("one", phase="approval", conversation="conv", summary="s", metadata={"a": [1, {}]})
    shown = here.session("one")
    mine = api.get("one")
    for field in (
        "id",
        "state",
        "reason",
        "phase",
        "conversation",
        "summary",
        "metadata",
        "errors",
    ):
        assert getattr(mine, field) == shown[field]
    here.ok("update", "one", "--error", "x", "--resume-ready", "no")
    again = api.get("one")
    assert (again.errors, again.last_error, again.resume_ready) == (1, "x", False)
    assert "not ready" in api.should_resume("conv").reason


def test_sessions_with_a_process_too(here: World) -> None:
    here.start("one")
    assert api.update("one", phase="executing").state is State.RUNNING
    assert api.get("one").phase == "executing"
    assert [one.place for one in api.list()] == ["host"]
    api.finish("one", "completed")
    assert api.get("one").state is State.RUNNING
    assert api.cleanup() == []  # that is gc's business


def test_what_goes_wrong(here: World) -> None:
    assert api.list() == []
    assert api.cleanup() == []
    with pytest.raises(api.NoSessionError):
        api.get("one")
    with pytest.raises(api.NoSessionError):
        api.update("one", phase="planning")
    with pytest.raises(api.UsageError):
        api.get("../one")
    api.create("one")
    with pytest.raises(api.ConflictError, match="already running"):
        api.create("one")
    with pytest.raises(api.UsageError, match="use one of"):
        api.update("one", phase="thinking")
    with pytest.raises(api.UsageError, match="--force"):
        api.update("one", metadata={"token": "x"})
    with pytest.raises(api.UsageError, match="use one of"):
        api.finish("one", "planning")
    api.finish("one", "failed")
    with pytest.raises(api.ConflictError, match="has already finished"):
        api.finish("one", "completed")
    first = api.get("one").id
    assert api.create("one").id != first  # an ended one's name is used again
    here.record("one").write_text("what?")
    with pytest.raises(api.StateError, match="damaged"):
        api.get("one")
    with pytest.raises(api.StateError, match="damaged"):
        api.update("one", phase="planning")
    assert api.list() == []
    assert "damaged" in api.should_resume("one").reason
    assert api.cleanup() == []
    assert here.record("one").read_text() == "what?"


ODD: list[dict[str, Any]] = [
    *({"command": odd} for odd in ("a string", [1], 5, None, ["a\0b"], ["\udcff"], [b"x"])),
    *({"cwd": odd} for odd in (5, "", "missing", "a\0b", "\udcff", b"/")),
    *({"tags": odd} for odd in ("a string", [1], 5)),
    *({"metadata": odd} for odd in ([1], "text", {1: 2})),
    *({word: odd} for word in ("group", "phase", "summary", "conversation") for odd in (5, [1])),
    *({"force": odd} for odd in ("no", 1)),
]


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_nothing_odd_is_recorded(here: World, odd: dict[str, Any]) -> None:
    with pytest.raises(api.SeshError):
        api.create("one", **odd)
    assert api.list() == []


@pytest.mark.parametrize(
    "odd",
    [
        *({word: 5} for word in ("phase", "metadata", "error", "summary", "conversation")),
        *({"resume_ready": odd} for odd in ("no", 1, [1])),
        {"metadata": [1]},
        {"error": b"bytes"},
        {"force": "no"},
    ],
    ids=ascii,
)
def test_nothing_odd_is_said(here: World, odd: dict[str, Any]) -> None:
    before = api.create("one")
    with pytest.raises(api.UsageError, match=f"{next(iter(odd))} should be"):
        api.update("one", **odd)
    assert api.get("one") == before


def test_what_is_asked_of_it_is_checked_too(here: World) -> None:
    api.create("one")
    odd: Any
    for odd in (5, None, b"one", ["one"], "\udcff", "a\0b"):
        for call in (api.create, api.update, api.get):
            with pytest.raises(api.UsageError):
                call(odd)
        with pytest.raises(api.UsageError):
            api.finish(odd, "completed")
        with suppress(api.UsageError):
            assert not api.should_resume(odd).resume
    for odd in (5, None, ["completed"]):
        with pytest.raises(api.UsageError):
            api.finish("one", odd)
        with suppress(api.UsageError):
            assert api.list(phase=odd, group="none") == []
    with pytest.raises(api.UsageError):
        api.finish("one", "completed", summary=5)  # type: ignore[arg-type]
    for odd in (float("inf"), float("nan"), 1e300, "1h", None):
        with pytest.raises(api.UsageError, match="number of seconds"):
            api.cleanup(odd)


def test_a_directory_may_be_a_path(here: World) -> None:
    inner = here.cwd / "inner"
    inner.mkdir()
    assert api.create("one", cwd="inner").cwd == str(inner)
    assert api.create("two", cwd=inner).cwd == str(inner)


def test_the_caller_keeps_its_metadata(here: World) -> None:
    mine: dict[str, Any] = {"list": [1]}
    api.create("one", metadata=mine)
    mine["list"].append(2)
    assert api.get("one").metadata == {"list": [1]}


def test_cleanup_takes_only_what_is_over(here: World) -> None:
    for number in range(30):
        api.create(f"s{number}")
        if number % 3:
            api.finish(f"s{number}", "completed" if number % 2 else "failed")
    here.record("s1").write_bytes(here.record("s1").read_bytes() + b"# edited\n")
    moved = api.cleanup()
    assert sorted(moved) == sorted(f"s{n}" for n in range(30) if n % 3 and n != 1)
    assert {one.name for one in api.list()} == {f"s{n}" for n in range(30) if not n % 3} | {"s1"}


def test_many_processes_at_once(here: World) -> None:
    api.create("one")
    code = (
        "import sys; from sesh import api; api.update('one', metadata={sys.argv[1]: 1}, error='e')"
    )
    many = [
        subprocess.Popen([sys.executable, "-c", code, f"k{n}"], env=here.env) for n in range(10)
    ]
    assert [one.wait(pace.seconds(60)) for one in many] == [0] * 10
    assert len(api.get("one").metadata) == 10
    assert api.get("one").errors == 10


def test_it_needs_no_click() -> None:
    code = "import sys; import sesh.api; sys.exit('click' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# --- as an orchestrator would script it ----------------------------------------------------------

STEPS = "import json, sys; print('+'.join(json.load(sys.stdin)['metadata']['plan']['steps']))"
APPROVAL = f"""
set -e
{SESH} start fix --record-only -g shop >/dev/null
{SESH} update fix --phase investigating --meta issue=7
{SESH} update fix --phase planning --meta 'plan:={{"steps": ["a", "b"], "risk": {{}}}}'
{SESH} update fix --phase approval --summary 'shall I?'
"""
GO_ON = f"""
set -e
{SESH} resumable fix >&2
plan=$({SESH} show fix --json | {sys.executable} -c "{STEPS}")
{SESH} update fix --phase executing --meta approved:=true --meta "did=$plan"
{SESH} resumable fix >&2 && exit 9
{SESH} update fix --phase validating
{SESH} finish fix completed --summary done
"""


def sh(world: World, script: str) -> subprocess.CompletedProcess[str]:
    """A script of its own: another process, which knows nothing but what is recorded."""
    return subprocess.run(
        ["sh", "-c", script], env=world.env, cwd=world.cwd, capture_output=True, text=True
    )


def test_an_approval_workflow_by_commands(world: World) -> None:
    assert sh(world, APPROVAL).returncode == 0
    asked = world.ok("hook", "pre-delegate", stdin='{"agent_id": "fix", "task_id": "7"}').json
    assert asked["should_resume"] is True
    assert asked["resume_metadata"]["previous_phase"] == "approval"
    assert asked["resume_metadata"]["session_metadata"]["plan"]["steps"] == ["a", "b"]
    done = sh(world, GO_ON)
    assert done.returncode == 0, done.stderr
    shown = world.session("fix")
    assert shown["state"] == "completed"
    assert [one["phase"] for one in shown["history"]] == [
        *("initializing", "investigating", "planning", "approval", "executing", "validating"),
        "completed",
    ]
    assert shown["metadata"] == {
        "issue": "7",
        "plan": {"steps": ["a", "b"], "risk": {}},
        "approved": True,
        "did": "a+b",
    }
    times = [one["at"] for one in shown["history"]]
    assert times == sorted(times)
    late = world.ok("hook", "pre-delegate", stdin='{"agent_id": "fix"}').json
    assert (late["should_resume"], late["reason"]) == (False, "it has finished: completed")


TURN = """
import sys
from sesh import api

turn = int(sys.argv[1])
if turn == 1:
    api.create("look", phase="investigating", conversation="c-77", metadata={"found": []})
answer = api.should_resume("c-77")
assert answer.resume, answer.reason
known = api.get("look").metadata["found"]
assert known == [f"fact {n}" for n in range(1, turn)], known
known = [*known, f"fact {turn}"]
api.update("look", phase="investigating", metadata={"turn": turn, "found": known})
if turn == 3:
    api.update("look", phase="planning")
    api.finish("look", "completed", summary="three facts")
"""


def test_a_three_turn_investigation_by_the_api(here: World) -> None:
    for turn in range(1, 4):
        done = subprocess.run(
            [sys.executable, "-c", TURN, str(turn)], env=here.env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    found = api.get("look")
    assert [step.phase for step in found.history] == ["investigating", "planning", "completed"]
    assert found.metadata == {"turn": 3, "found": ["fact 1", "fact 2", "fact 3"]}
    assert (found.conversation, found.summary) == ("c-77", "three facts")


def test_refused_with_the_right_reason(here: World) -> None:
    """The same by command, by the API and by the hook."""

    def refused(why: str) -> None:
        said = here.sesh("resumable", "one")
        assert (said.code, said.out) == (1, f"no: {why}\n")
        answer = api.should_resume("one")
        assert (answer.resume, answer.reason) == (False, why)
        told = here.ok("hook", "pre-delegate", stdin=json.dumps({"agent_id": "one"})).json
        assert told["should_resume"] is False
        assert told["reason"] == (why if "no session" not in why else told["reason"])

    refused("no session named one")
    api.create("one", phase="approval")
    assert api.should_resume("one").resume
    path = here.record("one")
    whole = path.read_text()
    then = (datetime.now(UTC) - timedelta(minutes=31)).isoformat()
    path.write_text(re.sub(r"(updated|created) = .*", rf"\1 = {then}", whole))
    refused("idle for 31 minutes, of at most 30 minutes")
    path.write_text(whole)
    for _ in range(3):
        api.update("one", error="no luck")
    refused("3 errors, of at most 2; the last: no luck")
    api.finish("one", "abandoned")
    refused("it has finished: abandoned")
    path.write_text("[[[")
    refused(api.should_resume("one").reason)
    assert "damaged" in api.should_resume("one").reason
    path.unlink()
    refused("no session named one")
    assert paths.sessions_dir().startswith(str(here.root))
