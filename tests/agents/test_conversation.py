"""Back into the same conversation: never a blank one, never a second process in one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from sesh.agents import launch_kit
from tests import pace
from tests.agent import begin, install, launches, prompt, tells
from tests.conftest import need
from tests.world import SESH, World, eventually

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@pytest.fixture
def agent(world: World) -> World:
    install(world)
    return world


def kill(world: World, name: str = "one") -> None:
    os.kill(world.session(name)["pid"], signal.SIGKILL)
    assert eventually(lambda: world.session(name)["state"] == "failed")


def transcript(world: World, conversation: str) -> Path:
    return Path(world.env["HOME"]) / ".claude" / "projects" / "p" / f"{conversation}.jsonl"


def rollout(world: World, *, begun: str = "") -> tuple[str, Path]:
    """A conversation of Codex in the tests' directory, and its transcript."""
    conversation = launch_kit.new_conversation()
    day = Path(world.env["HOME"]) / ".codex" / "sessions" / "2026" / "11" / "16"
    day.mkdir(parents=True, exist_ok=True)
    path = day / f"rollout-2026-11-16T10-00-00-{conversation}.jsonl"
    head: dict[str, object] = {"timestamp": begun} if begun else {}
    head |= {"type": "session_meta", "payload": {"id": conversation, "cwd": str(world.cwd)}}
    path.write_text(json.dumps(head, separators=(",", ":")) + "\n")
    return conversation, path


def by_hand(world: World, *words: str) -> subprocess.Popen[bytes]:
    """An agent that somebody runs beside sesh."""
    return subprocess.Popen(
        words, env=world.env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=world.cwd
    )


def ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def test_ids_are_random_uuids() -> None:
    made = {launch_kit.new_conversation() for _ in range(1000)}
    assert len(made) == 1000
    assert all(UUID.fullmatch(one) for one in made)


def test_it_is_named_at_the_start_and_resumed_after_a_crash(agent: World) -> None:
    conversation = begin(agent)["conversation"]
    prompt(agent)
    kill(agent)
    agent.ok("restart", "one")
    assert eventually(lambda: len(launches(agent)) == 2)
    first, second = launches(agent)
    assert first.startswith(f"--session-id {conversation} --settings ")
    assert second.startswith(f"--resume {conversation} --settings ")
    shown = agent.session("one")
    assert (shown["state"], shown["conversation"]) == ("running", conversation)
    assert resumed(agent) == [True]
    assert agent.ok("stats", "--json").json["resume_rate"] == 1


def resumed(world: World) -> list[bool]:
    """What is told of its restarts."""
    told = [event for event in world.events() if event["kind"] == "restarted"]
    return [event["resumed_conversation"] for event in told]


def test_never_prompted_it_begins_the_same_one(agent: World) -> None:
    conversation = begin(agent)["conversation"]
    kill(agent)
    agent.ok("restart", "one")
    assert eventually(lambda: len(launches(agent)) == 2)
    assert launches(agent)[1].startswith(f"--session-id {conversation} ")
    assert resumed(agent) == [False]


def test_a_prompt_is_given_once(agent: World) -> None:
    conversation = begin(agent, "one", "--prompt", "fix the bug")["conversation"]
    assert launches(agent)[0].endswith("fix the bug")
    assert eventually(transcript(agent, conversation).exists)
    kill(agent)
    agent.ok("restart", "one")
    assert eventually(lambda: len(launches(agent)) == 2)
    assert "fix the bug" not in launches(agent)[1]


def test_a_prompt_for_an_agent_without_prompts_is_refused(agent: World) -> None:
    done = agent.sesh("start", "two", "--prompt", "hello", "--", "sleep", "9")
    assert done.code == 2
    assert "put it after --" in done.err


def test_a_conversation_that_is_gone_is_not_replaced_by_a_blank_one(agent: World) -> None:
    conversation = begin(agent)["conversation"]
    prompt(agent)
    kill(agent)
    agent.ok("restart", "one")
    kill(agent)
    transcript(agent, conversation).unlink()
    done = agent.sesh("restart", "one")
    assert done.code == 1
    assert f"its conversation {conversation} is gone" in done.err
    assert "sesh restart --fresh one" in done.err
    assert agent.session("one")["state"] == "failed"
    agent.ok("restart", "one", "--fresh")
    fresh = agent.session("one")["conversation"]
    assert fresh != conversation
    assert eventually(lambda: launches(agent)[-1].startswith(f"--session-id {fresh} "))


def test_a_transcript_without_a_message_is_no_conversation(agent: World) -> None:
    """Killed before it has written down its first prompt, Claude finds nothing to go on with."""
    conversation = begin(agent)["conversation"]
    transcript(agent, conversation).write_text('{"type":"mode","mode":"normal"}\n')
    kill(agent)
    done = agent.sesh("restart", "one")
    assert done.code == 1
    assert f"its conversation {conversation} is gone" in done.err
    agent.ok("restart", "one", "--fresh")


def test_text_printed_by_a_program_is_not_an_option(agent: World) -> None:
    begin(agent)
    agent.ok("update", "one", "--conversation=--dangerously-skip-permissions")
    kill(agent)
    done = agent.sesh("restart", "one")
    assert done.code == 1
    assert "invalid conversation" in done.err
    assert len(launches(agent)) == 1


def test_two_restarts_at_once_launch_once(agent: World) -> None:
    need("pgrep")
    conversation = begin(agent)["conversation"]
    prompt(agent)
    kill(agent)
    callers = [agent.popen("restart", "one") for _ in range(4)]
    codes = sorted(caller.wait(pace.seconds(60)) for caller in callers)
    assert codes[0] == 0
    assert eventually(lambda: agent.session("one")["state"] == "running")
    living = subprocess.run(
        ["pgrep", "-f", f"claude --resume {conversation}"], capture_output=True, text=True
    )
    assert living.stdout.split() == [str(agent.session("one")["pid"])]


def test_an_agent_started_by_hand_in_the_conversation_prevents_a_restart(agent: World) -> None:
    conversation = begin(agent)["conversation"]
    prompt(agent)
    kill(agent)
    settings = agent.root / "empty.json"
    settings.write_text("{}")
    by_hand = subprocess.Popen(
        ["claude", "--resume", conversation, "--settings", str(settings)],
        env=agent.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        done = agent.sesh("restart", "one")
        assert done.code == 8
        assert f"process {by_hand.pid} uses its conversation {conversation}" in done.err
        assert by_hand.poll() is None
    finally:
        by_hand.kill()
        by_hand.communicate()
    agent.ok("restart", "one")
    assert agent.session("one")["conversation"] == conversation


def test_a_reader_of_a_transcript_does_not_use_its_conversation(agent: World) -> None:
    conversation = begin(agent)["conversation"]
    prompt(agent)
    kill(agent)
    reader = subprocess.Popen(["tail", "-f", str(transcript(agent, conversation))], stdout=-3)
    other = subprocess.Popen(["sh", "-c", f"sleep 60 # {conversation}"])
    try:
        agent.ok("restart", "one")
    finally:
        for process in (reader, other):
            process.kill()
            process.wait()


def test_twenty_come_back_in_their_own_conversations(agent: World) -> None:
    """As after a reboot: the server is gone with all of them, the records are there."""
    names = [f"a{number:02}" for number in range(20)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: agent.ok("start", name, "-t", "claude"), names))
    before = {one["name"]: one["conversation"] for one in agent.ls()}
    assert len(set(before.values())) == 20
    for conversation in before.values():
        transcript(agent, conversation).parent.mkdir(parents=True, exist_ok=True)
        transcript(agent, conversation).write_text('{"type":"user","text":"hello"}\n')
    os.kill(agent.server_pid(), signal.SIGKILL)
    assert eventually(lambda: {one["state"] for one in agent.ls()} == {"lost"}, 20)
    agent.ok("restart", "--lost", timeout=120)
    assert {one["state"] for one in agent.ls()} == {"running"}
    assert {one["name"]: one["conversation"] for one in agent.ls()} == before
    assert eventually(lambda: len(launches(agent)) == 40, 20)
    again = {line.split()[1] for line in launches(agent) if line.startswith("--resume ")}
    assert again == set(before.values())


def test_a_retry_resumes_too(agent: World) -> None:
    conversation = begin(agent, "one", "--retries", "2", "--retry-delay", "0.2")["conversation"]
    prompt(agent)
    os.kill(agent.session("one")["pid"], signal.SIGKILL)
    assert eventually(lambda: len(launches(agent)) == 2, 20)
    assert launches(agent)[1].startswith(f"--resume {conversation} ")


def test_an_ended_session_is_resumable_only_with_its_transcript(agent: World) -> None:
    conversation = begin(agent)["conversation"]
    agent.ok("update", "one", "--phase", "planning")
    agent.ok("resumable", "one")
    kill(agent, "one")
    done = agent.sesh("resumable", "one")
    assert done.code == 1
    assert "conversation" in done.out + done.err
    transcript(agent, conversation).write_text('{"type":"user","text":"hello"}\n')
    agent.ok("resumable", "one")


def test_an_unreported_conversation_is_found_by_its_transcript(agent: World) -> None:
    """Codex names its conversations itself: killed in its first turn, nobody has heard of it."""
    install(agent, "codex")
    agent.ok("start", "two", "-t", "codex")
    day = Path(agent.env["HOME"]) / ".codex" / "sessions" / "2026" / "11" / "16"
    day.mkdir(parents=True)
    conversation = launch_kit.new_conversation()
    head = '{"type":"session_meta","payload":{"id":"x","cwd":"%s"}}\n'
    (day / f"rollout-2026-11-16T10-00-00-{conversation}.jsonl").write_text(head % agent.cwd)
    other = launch_kit.new_conversation()
    (day / f"rollout-2026-11-16T10-00-01-{other}.jsonl").write_text(head % "/elsewhere")
    kill(agent, "two")
    agent.ok("restart", "two")
    assert agent.session("two")["conversation"] == conversation
    assert eventually(lambda: launches(agent)[-1].startswith(f"resume {conversation} -c notify="))


def test_a_neighbours_conversation_is_not_taken_for_its_own(agent: World) -> None:
    """Two in one directory: one was never prompted, and must not go on with the other's."""
    install(agent, "codex")
    agent.ok("start", "x2", "-t", "codex")
    agent.ok("start", "x1", "-t", "codex")
    conversation, _ = rollout(agent)
    agent.ok("update", "x1", "--conversation", conversation)
    kill(agent, "x2")
    agent.ok("restart", "x2")
    assert agent.session("x2")["conversation"] is None
    assert eventually(lambda: len(launches(agent)) == 3)
    assert launches(agent)[-1].startswith("-c notify=")


def test_a_conversation_of_unknown_origin_is_not_resumed(agent: World) -> None:
    """Two in one directory that both never said where they were: neither gets it by chance."""
    install(agent, "codex")
    for name in ("x1", "x2"):
        agent.ok("start", name, "-t", "codex")
    conversation, _ = rollout(agent)
    for name in ("x1", "x2"):
        kill(agent, name)
    done = agent.sesh("restart", "x2")
    assert done.code == 1
    assert f"{conversation} was started in its directory while x1 ran there too" in done.err
    agent.ok("update", "x1", "--conversation", conversation)
    for name in ("x1", "x2"):
        agent.ok("restart", name)
    assert agent.session("x1")["conversation"] == conversation
    assert agent.session("x2")["conversation"] is None


def test_a_transcript_that_another_process_writes_is_not_taken(agent: World) -> None:
    install(agent, "codex")
    agent.ok("start", "x2", "-t", "codex")
    _, path = rollout(agent)
    other = by_hand(agent, "sh", "-c", f"exec codex 3>>{path}")
    try:
        assert eventually(lambda: len(launches(agent)) == 2)
        kill(agent, "x2")
        agent.ok("restart", "x2")
        assert agent.session("x2")["conversation"] is None
    finally:
        ended(other)


def test_a_conversation_from_before_the_launch_is_not_its_own(agent: World) -> None:
    """Somebody went on with it during the launch, by hand."""
    install(agent, "codex")
    agent.ok("start", "x2", "-t", "codex")
    rollout(agent, begun="2020-01-01T10:00:00.000Z")
    kill(agent, "x2")
    agent.ok("restart", "x2")
    assert agent.session("x2")["conversation"] is None


def test_a_conversation_begun_during_the_launch_belongs_to_it(agent: World) -> None:
    install(agent, "codex")
    agent.ok("start", "x2", "-t", "codex")
    conversation, _ = rollout(agent, begun=datetime.now(UTC).isoformat())
    kill(agent, "x2")
    agent.ok("restart", "x2")
    assert agent.session("x2")["conversation"] == conversation


def test_a_living_session_in_the_same_conversation_prevents_a_restart(agent: World) -> None:
    install(agent, "codex")
    conversation, _ = rollout(agent)
    for name in ("x1", "x2"):
        agent.ok("start", name, "-t", "codex")
        agent.ok("update", name, "--conversation", conversation)
    kill(agent, "x2")
    done = agent.sesh("restart", "x2")
    assert done.code == 8
    assert f"x1 uses its conversation {conversation}" in done.err
    agent.ok("stop", "x1")
    agent.ok("restart", "x2")


def test_a_writer_of_a_transcript_uses_its_conversation(agent: World) -> None:
    """Codex by hand, with `resume` and a choice from its list: no id is on the command line."""
    install(agent, "codex")
    agent.ok("start", "x1", "-t", "codex")
    conversation, path = rollout(agent)
    agent.ok("update", "x1", "--conversation", conversation)
    kill(agent, "x1")
    other = by_hand(agent, "sh", "-c", f"exec codex 3>>{path}")
    try:
        assert eventually(lambda: len(launches(agent)) == 2)
        done = agent.sesh("restart", "x1")
        assert done.code == 8
        assert f"process {other.pid} uses its conversation {conversation}" in done.err
    finally:
        ended(other)
    reader = by_hand(agent, "sh", "-c", f"exec codex 3<{path}")
    try:
        assert eventually(lambda: len(launches(agent)) == 3)
        agent.ok("restart", "x1")
    finally:
        ended(reader)


def test_a_user_of_the_conversation_is_found_by_one_argument(agent: World) -> None:
    conversation = begin(agent)["conversation"]
    prompt(agent)
    kill(agent)
    settings = agent.root / "empty.json"
    settings.write_text("{}")
    twin = by_hand(agent, "claude", f"--resume={conversation}", "--settings", str(settings))
    try:
        done = agent.sesh("restart", "one")
        assert done.code == 8
        assert f"process {twin.pid} uses its conversation" in done.err
    finally:
        ended(twin)


def test_a_living_agent_is_not_ended_when_its_restart_is_refused(agent: World) -> None:
    conversation = begin(agent)["conversation"]
    prompt(agent)
    pid = agent.session("one")["pid"]
    settings = agent.root / "empty.json"
    settings.write_text("{}")
    twin = by_hand(agent, "claude", "--resume", conversation, "--settings", str(settings))
    try:
        assert eventually(lambda: len(launches(agent)) == 2)
        done = agent.sesh("restart", "one")
        assert done.code == 8
        assert f"process {twin.pid} uses its conversation" in done.err
    finally:
        ended(twin)
    shown = agent.session("one")
    assert (shown["state"], shown["pid"]) == ("running", pid)
    kept = transcript(agent, conversation)
    kept.rename(kept.with_suffix(".away"))
    done = agent.sesh("restart", "one")
    assert done.code == 1
    assert f"its conversation {conversation} is gone" in done.err
    assert agent.session("one")["pid"] == pid
    kept.with_suffix(".away").rename(kept)
    agent.ok("restart", "one")  # it is no twin of itself
    assert eventually(lambda: launches(agent)[-1].startswith(f"--resume {conversation} "))
    assert agent.session("one")["pid"] != pid


def test_a_finished_session_restarts_with_a_new_conversation(agent: World) -> None:
    begin(agent)
    prompt(agent)
    agent.ok("finish", "one", "completed")
    kill(agent)
    agent.ok("restart", "one")
    assert agent.ok("show", "one", "--json").json["phase"] == "initializing"
    agent.ok("update", "one", "--phase", "planning")


def test_a_send_is_a_prompt_though_no_hook_was_heard(agent: World) -> None:
    conversation = begin(agent)["conversation"]
    prompt(agent)
    kill(agent)
    transcript(agent, conversation).unlink()
    done = agent.sesh("restart", "one")
    assert done.code == 1
    assert f"its conversation {conversation} is gone" in done.err


def test_after_a_clear_there_is_no_conversation_to_resume(agent: World) -> None:
    begin(agent)
    prompt(agent)
    new = launch_kit.new_conversation()
    tells(agent, {"hook_event_name": "SessionStart", "source": "clear", "session_id": new})
    assert eventually(lambda: agent.session("one")["conversation"] == new)
    kill(agent)
    agent.ok("restart", "one")
    assert eventually(lambda: launches(agent)[-1].startswith(f"--session-id {new} "))


def test_a_retry_that_waits_for_another_user_of_its_conversation_says_so(agent: World) -> None:
    options = ("--retries", "3", "--retry-delay", "2")
    conversation = begin(agent, "one", *options)["conversation"]
    prompt(agent)
    settings = agent.root / "empty.json"
    settings.write_text("{}")
    twin = by_hand(agent, "claude", "--resume", conversation, "--settings", str(settings))
    try:
        assert eventually(lambda: len(launches(agent)) == 2)
        os.kill(agent.session("one")["pid"], signal.SIGKILL)
        assert eventually(lambda: agent.session("one")["attention"])
        shown = agent.session("one")
        assert shown["state"] == "recovering"
        assert f"process {twin.pid} uses its conversation" in shown["attention"]
    finally:
        ended(twin)


def launched(world: World, times: int) -> bool:
    return len(launches(world)) == times


def stand_in(world: World, name: str, script: str = "exec sleep 99") -> None:
    """A program that says with which words it was launched."""
    install(world, name)
    path = world.root / "bin" / name
    path.write_text(f'#!/bin/sh\necho "$*" >>"$HOME/launches"\n{script}\n')


def test_gemini_without_a_prompt_starts_a_new_conversation(world: World) -> None:
    """It keeps no file that could be looked for, and can't resume what was never begun."""
    stand_in(world, "gemini", "cat")
    world.ok("start", "g", "-t", "gemini")
    conversation = world.session("g")["conversation"]
    for generation in (2, 3):
        kill(world, "g")
        world.ok("restart", "g")
        assert eventually(partial(launched, world, generation))
        assert launches(world)[-1] == f"--session-id {conversation}"
    world.ok("send", "g", "hello")
    for generation in (4, 5):
        kill(world, "g")
        world.ok("restart", "g")
        assert eventually(partial(launched, world, generation))
        assert launches(world)[-1] == f"--resume {conversation}"
    world.ok("restart", "g", "--fresh")
    assert eventually(lambda: len(launches(world)) == 6)
    fresh = world.session("g")["conversation"]
    kill(world, "g")
    world.ok("restart", "g")
    assert eventually(lambda: launches(world)[-1] == f"--session-id {fresh}")


def test_gemini_that_was_busy_resumes(world: World) -> None:
    """Somebody has typed into its terminal."""
    title = "printf '\\033]0;%s\\007' '✦  Working… (proj)' '◇  Ready (proj)'; exec sleep 99"
    stand_in(world, "gemini", title)
    world.ok("start", "g", "-t", "gemini")
    conversation = world.session("g")["conversation"]
    assert eventually(lambda: world.session("g")["activity"] == "idle")
    kill(world, "g")
    world.ok("restart", "g")
    assert eventually(lambda: launches(world)[-1] == f"--resume {conversation}")


def test_opencode_resumes_a_recorded_conversation(world: World) -> None:
    stand_in(world, "opencode")
    world.ok("start", "o", "-t", "opencode")
    kill(world, "o")
    done = world.sesh("restart", "o")
    assert done.code == 1
    assert "sesh update o --conversation ID" in done.err
    world.ok("update", "o", "--conversation", "ses_3cf7dd8d4ffeUPfE")
    world.ok("restart", "o")
    assert eventually(lambda: launches(world)[-1] == "--session ses_3cf7dd8d4ffeUPfE")


def test_codex_calls_the_hook_and_the_users_own_program(agent: World) -> None:
    """It knows one program to notify, and that is us now."""
    install(agent, "codex")
    agent.ok("start", "two", "-t", "codex")
    home = Path(agent.env["HOME"]) / ".codex"
    day = home / "sessions" / "2026" / "11" / "16"
    day.mkdir(parents=True)
    heard = agent.root / "heard"
    (home / "config.toml").write_text(f'notify = ["sh", "-c", "echo \\"$1\\" >{heard}", "x"]\n')
    conversation = launch_kit.new_conversation()
    (day / f"rollout-2026-11-16T10-00-00-{conversation}.jsonl").write_text("{}\n")
    [kit] = [path for path in agent.state.glob("run/*/*.kit") if path.name.startswith("two-")]
    event = '{"type":"agent-turn-complete","thread-id":"%s"}'
    script = agent.root / "turn"
    script.write_text(
        # The first word is of a helper thread.
        f"#!/bin/sh\n{SESH} hook codex '{event % launch_kit.new_conversation()}'\n"
        f"{SESH} hook codex '{event % conversation}'\n"
    )
    env = {**agent.env, "SESH_ID": agent.session("two")["id"], "SESH_NAME": "two"}
    subprocess.run(["sh", str(script)], env={**env, "SESH_RUN": str(kit.parent)}, check=True)
    assert eventually(heard.exists)
    assert not kit.with_suffix(".said").exists()  # no child of the agent has said so
