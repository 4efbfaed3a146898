"""sesh hook: valid answers to whatever comes in."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.world import SESH, World

ANSWER = ["should_resume", "reason", "agent_id", "resume_metadata", "original_context"]
CONTEXT = ["agent_name", "task_id", "task_description", "metadata"]
PAST = ["previous_phase", "created_at", "history", "session_metadata"]


def asked(world: World, data: bytes | str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """What pre-delegate answers: one line of JSON, exit 0, nothing else."""
    done = hook(world, "pre-delegate", data, env)
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1
    answer: dict[str, Any] = json.loads(done.stdout, parse_constant=pytest.fail)
    assert list(answer) == ANSWER
    assert list(answer["original_context"]) == CONTEXT
    assert answer["resume_metadata"] is None or list(answer["resume_metadata"]) == PAST
    return answer


def hook(
    world: World, kind: str, data: bytes | str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [SESH, "hook", kind],
        input=data if isinstance(data, bytes) else data.encode(),
        env=env or world.env,
        cwd=world.cwd,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done


def approving(world: World, name: str = "one") -> dict[str, Any]:
    world.ok("start", name, "--record-only")
    said = ("--phase", "approval", "--meta", 'plan:={"steps": [1, {}]}', "--conversation", "conv-1")
    shown: dict[str, Any] = world.ok("update", name, *said, "--json").json
    return shown


@pytest.mark.parametrize("kind", ["claude", "codex", "pre-delegate", "subagent-stop"])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_is_for_people(world: World, kind: str, option: str) -> None:
    done = world.ok("hook", kind, option)
    assert done.out.startswith("Usage: sesh hook")
    assert done.err == ""


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_an_agent_hears_nothing_whatever_it_says(world: World, kind: str) -> None:
    for words in (["--nonsense"], ["--help", "{}"], ["{}", "--help"], ["-x", "-h"], []):
        done = world.ok("hook", kind, *words, stdin="{}")
        assert (done.out, done.err) == ("", ""), words


@pytest.mark.parametrize("kind", ["pre-delegate", "subagent-stop"])
def test_an_answer_that_nobody_can_take_breaks_nothing(world: World, kind: str) -> None:
    script = f'echo \'{{"agent_id": "one"}}\' | {SESH} hook {kind} >/dev/full'
    done = subprocess.run(["sh", "-c", script], env=world.env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    closed = script.replace(">/dev/full", ">&-")
    assert subprocess.run(["sh", "-c", closed], env=world.env, capture_output=True).returncode == 0


# --- pre-delegate --------------------------------------------------------------------------------


def test_yes_with_what_is_known(world: World) -> None:
    shown = approving(world)
    given = {
        "agent_name": "planner",
        "task_id": "t-1",
        "agent_id": "one",
        "task_description": "go on\n\x1b[31m",
        "metadata": {"a": [1, None, "ü\ud800"]},
    }
    answer = asked(world, json.dumps(given))
    assert (answer["should_resume"], answer["agent_id"]) == (True, "one")
    assert answer["resume_metadata"] == {
        "previous_phase": "approval",
        "created_at": shown["created"],
        "history": shown["history"],
        "session_metadata": {"plan": {"steps": [1, {}]}},
    }
    assert answer["original_context"] == {name: given[name] for name in CONTEXT}


@pytest.mark.parametrize("key", ["name", "id", "conversation"])
def test_named_by(world: World, key: str) -> None:
    shown = approving(world)
    answer = asked(world, json.dumps({"agent_id": shown[key]}))
    assert (answer["should_resume"], answer["agent_id"]) == (True, shown[key])


def test_an_id_is_not_the_later_session_of_that_name(world: World) -> None:
    shown = approving(world)
    world.ok("finish", "one", "completed")
    world.ok("start", "one", "--record-only")
    answer = asked(world, json.dumps({"agent_id": shown["id"]}))
    assert (answer["should_resume"], answer["reason"]) == (False, "it has finished: completed")
    assert hook(world, "subagent-stop", json.dumps({"agent_id": shown["id"]})).stderr == b""
    assert world.session("one")["phase"] == "initializing"


HOSTILE = {
    "nothing": b"",
    "blank": b" \n",
    "truncated": b'{"agent_id": "one", "task_id": "t',
    "not an object": b'["one"]',
    "a text": b'"one"',
    "null": b"null",
    "no utf-8": b'{"agent_id": "\xff\xfe"}',
    "nan": b'{"agent_id": "one", "metadata": NaN}',
    "deep": b'{"agent_id": ' + b"[" * 100_000,
    "deep and closed": b'{"metadata": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "many digits": b'{"agent_id": "one", "metadata": ' + b"9" * 10_000 + b"}",
    "2 MB": b'{"agent_id": "one", "metadata": "' + b"x" * (2 << 20) + b'"}',
    "zeros": b"\0" * 5000,
    "id of a wrong type": b'{"agent_id": {"a": 1}}',
    "id that is a path": b'{"agent_id": "../../../../etc/passwd"}',
    "empty id": b'{"agent_id": ""}',
    "a long id": b'{"agent_id": "' + b"a" * 500_000 + b'"}',
    "an id of controls": b'{"agent_id": "\\u001b[31m\\u0000\\ud800"}',
    "an unknown id": b'{"agent_id": "two"}',
    "an unknown long id": b'{"agent_id": "two-20261115-231502-3f9a2c1d"}',
}


@pytest.mark.parametrize("case", HOSTILE)
def test_no_to_whatever_else(world: World, case: str) -> None:
    approving(world)
    before = world.record("one").read_bytes()
    answer = asked(world, HOSTILE[case])
    assert answer["should_resume"] is False
    assert answer["reason"]
    assert answer["resume_metadata"] is None
    hook(world, "subagent-stop", HOSTILE[case])
    assert world.record("one").read_bytes() == before


def test_a_number_beyond_all_numbers_is_not_echoed(world: World) -> None:
    approving(world)
    answer = asked(world, b'{"agent_id": "one", "metadata": [1e999]}')
    assert (answer["should_resume"], answer["original_context"]["metadata"]) == (True, None)


def test_a_damaged_record(world: World) -> None:
    shown = approving(world)
    world.record("one").write_bytes(b"\xff" * 300)
    for key in ("name", "id"):
        answer = asked(world, json.dumps({"agent_id": shown[key]}))
        assert answer["should_resume"] is False
        assert answer["reason"].startswith("its record is damaged")
    assert asked(world, json.dumps({"agent_id": "conv-1"}))["should_resume"] is False
    done = hook(world, "subagent-stop", json.dumps({"agent_id": "one", "exit_code": 0}))
    assert b"damaged" in done.stderr
    assert world.record("one").read_bytes() == b"\xff" * 300


def test_a_broken_config_and_no_state_at_all(world: World) -> None:
    assert asked(world, '{"agent_id": "one"}')["should_resume"] is False
    assert not world.state.exists()
    approving(world)
    world.configure("what?")
    answer = asked(world, '{"agent_id": "one"}')
    assert (answer["should_resume"], "cannot tell" in answer["reason"]) == (False, True)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_state_directory_that_cannot_be_read(world: World) -> None:
    approving(world)
    sessions = world.state / "sessions"
    sessions.chmod(0)
    try:
        assert asked(world, '{"agent_id": "one"}')["should_resume"] is False
        hook(world, "subagent-stop", '{"agent_id": "one", "exit_code": 1}')
    finally:
        sessions.chmod(0o700)
    assert world.session("one")["phase"] == "approval"


def test_a_full_disk(world: World) -> None:
    """No file may grow: the answer is the same, and the record stays whole."""
    approving(world)
    before = world.record("one").read_bytes()

    def full(kind: str, data: str) -> subprocess.CompletedProcess[bytes]:
        script = f'ulimit -f 0; trap "" XFSZ; exec {SESH} hook {kind}'
        return subprocess.run(
            ["sh", "-c", script],
            input=data.encode(),
            env=world.env,
            capture_output=True,
            timeout=60,
        )

    done = full("pre-delegate", '{"agent_id": "one"}')
    assert (done.returncode, json.loads(done.stdout)["should_resume"]) == (0, True)
    done = full("subagent-stop", '{"agent_id": "one", "exit_code": 0}')
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"nothing was changed" in done.stderr
    assert world.record("one").read_bytes() == before


# --- subagent-stop -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "phase"),
    [
        ({"exit_code": 0}, "completed"),
        ({"exitCode": 0}, "completed"),
        ({"exit_code": "0"}, "completed"),
        ({}, "completed"),
        ({"exit_code": None, "error": None}, "completed"),
        ({"exit_code": 0, "error": "a warning"}, "completed"),
        ({"exit_code": 1}, "failed"),
        ({"exitCode": 130}, "failed"),
        ({"exit_code": -9}, "failed"),
        ({"exit_code": "what", "exitCode": 2}, "failed"),
        ({"error": "no disk"}, "failed"),
        ({"error": {"kind": "rate_limit"}}, "failed"),
    ],
)
def test_finished_by_the_exit_code(world: World, more: dict[str, Any], phase: str) -> None:
    approving(world)
    done = hook(world, "subagent-stop", json.dumps({"agent_id": "one", "summary": "s", **more}))
    assert (done.stdout, done.stderr) == (b"", b"")
    shown = world.session("one")
    assert (shown["phase"], shown["state"], shown["summary"]) == (phase, phase, "s")
    assert (shown["last_error"] is None) is (phase == "completed")


def test_twice_is_once(world: World) -> None:
    approving(world)
    for code in (0, 1):
        done = hook(world, "subagent-stop", json.dumps({"agent_id": "one", "exit_code": code}))
        assert (done.stdout, done.stderr) == (b"", b"")
    assert world.session("one")["phase"] == "completed"


def test_nobody_is_named(world: World) -> None:
    approving(world)
    for data in ("{}", '{"agent_id": null, "exit_code": 1}'):
        done = hook(world, "subagent-stop", data)
        assert (done.stdout, done.stderr) == (b"", b"")
    assert world.session("one")["phase"] == "approval"


def test_somebody_unknown_is_named(world: World) -> None:
    done = hook(world, "subagent-stop", '{"agent_id": "two\\u001b[31m", "exit_code": 1}')
    assert b"no session of agent_id" in done.stderr
    assert b"\x1b" not in done.stderr


# --- the command ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pre-delegate", "subagent-stop"])
def test_trying_it_out_touches_nothing(world: World, kind: str, tmp_path: Path) -> None:
    env = {**world.env, "TMPDIR": str(tmp_path)}
    out = world.ok("hook", kind, "--test", env=env).out
    assert "comes in" in out
    phase = "approval" if kind == "pre-delegate" else "completed"
    assert f"the session is in phase {phase}" in out
    assert not world.state.exists()
    assert not list(tmp_path.iterdir())


def test_no_such_hook(world: World) -> None:
    done = world.sesh("hook", "post-delegate")
    assert (done.code, len(done.err.splitlines())) == (2, 1)


def test_standard_input_that_is_closed(world: World) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {SESH} hook pre-delegate <&-"], env=world.env, capture_output=True
    )
    assert (done.returncode, json.loads(done.stdout)["should_resume"]) == (0, False)
