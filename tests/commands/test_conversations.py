"""sesh conversations, and sessions that continue one that was begun elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.agent import begin, install, launches, prompt, tells
from tests.surroundings import complains
from tests.world import World, eventually

A = "aaaaaaaa-1111-4222-8333-444444444444"
B = "aaaaaaaa-5555-4222-8333-444444444444"
C = "cccccccc-1111-4222-8333-444444444444"


@pytest.fixture
def agent(world: World) -> World:
    install(world)
    return world


def project(world: World) -> Path:
    path = Path(world.env["HOME"]) / ".claude" / "projects" / "p"
    path.mkdir(parents=True, exist_ok=True)
    return path


def transcript(
    world: World, name: str, text: str = "hello", *, age: float = 60.0, cwd: str | None = None
) -> Path:
    """A conversation that was begun without sesh."""
    where = str(world.cwd) if cwd is None else cwd
    entry = {"type": "user", "message": {"content": text}, "cwd": where}
    path = project(world) / f"{name}.jsonl"
    path.write_text(json.dumps(entry, separators=(",", ":")) + "\n")
    os.utime(path, (time.time() - age,) * 2)
    return path


def rollout(world: World, name: str, text: str, *, age: float = 60.0) -> Path:
    day = Path(world.env["HOME"]) / ".codex" / "sessions" / "2026" / "11" / "16"
    day.mkdir(parents=True, exist_ok=True)
    path = day / f"rollout-2026-11-16T10-00-00-{name}.jsonl"
    entries = (
        {"type": "session_meta", "payload": {"id": name, "cwd": str(world.cwd)}},
        {"type": "event_msg", "payload": {"type": "task_started"}},
        {"type": "event_msg", "payload": {"type": "user_message", "message": text}},
    )
    path.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in entries))
    os.utime(path, (time.time() - age,) * 2)
    return path


def listed(world: World, *words: str) -> list[str]:
    return [one["id"] for one in world.ok("conversations", "--json", *words).json]


# --- the list ------------------------------------------------------------------------------------


def test_those_of_this_directory_newest_first(agent: World) -> None:
    transcript(agent, A, "fix the login", age=100)
    transcript(agent, B, "write tests", age=200)
    transcript(agent, C, "of another directory", cwd="/src/other")
    rollout(agent, "dddddddd-1111-4222-8333-444444444444", "search it", age=150)
    (project(agent) / "agent-0123456789abcdef0.jsonl").write_text('{"cwd":"/"}\n')
    done = agent.ok("conversations")
    rows = [re.split(r" {3,}", line) for line in done.out.splitlines()]
    assert rows == [
        ["ID", "AGENT", "TITLE", "CHANGED", "TURNS", "IN IT"],
        ["aaaaaaaa-1", "claude", "fix the login", "1m ago", "1", "–"],
        ["dddddddd", "codex", "search it", "2m ago", "1", "–"],
        ["aaaaaaaa-5", "claude", "write tests", "3m ago", "1", "–"],
    ]
    assert listed(agent, "-t", "claude") == [A, B]
    assert listed(agent, "-C", "/") == []
    assert "DIRECTORY" in agent.ok("conversations", "-a").out
    assert C in listed(agent, "--all")
    [one] = [one for one in agent.ok("conversations", "--json").json if one["id"] == A]
    assert (one["title"], one["turns"], one["in_use"]) == ("fix the login", 1, False)
    assert one["path"].endswith(f"{A}.jsonl")


def test_none(world: World) -> None:
    done = world.ok("conversations")
    assert (done.out, "no conversation was begun in" in done.err) == ("", True)
    assert world.ok("conversations", "--json").json == []


def test_an_agent_that_keeps_them_where_sesh_does_not_know(world: World) -> None:
    complains(world.sesh("conversations", "-t", "gemini"), 1, "does not know where")
    complains(world.sesh("conversations", "-t", "none"), 1, "no template named none")
    complains(world.sesh("conversations", "-C", "/none"), 1, "no such directory")


def test_who_is_in_them(agent: World) -> None:
    session = begin(agent)
    prompt(agent)
    # the stand-in does not write where it is
    path = project(agent) / f"{session['conversation']}.jsonl"
    path.write_text(f'{{"cwd":"{agent.cwd}"}}\n' + path.read_text())
    transcript(agent, A, "by hand")
    by_hand = subprocess.Popen(
        ["claude", "--resume", A, "--settings", "/dev/null"],
        env=agent.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        assert eventually(lambda: len(launches(agent)) == 2)
        found = {one["id"]: one for one in agent.ok("conversations", "--json").json}
        one, other = found[session["conversation"]], found[A]
        assert (one["in_use"], one["session"], one["pid"]) == (True, "one", None)
        assert (other["in_use"], other["session"], other["pid"]) == (True, None, by_hand.pid)
        assert f"process {by_hand.pid}" in agent.ok("conversations").out
        complains(start(agent, "two", A), 8, f"process {by_hand.pid} uses conversation {A}")
        complains(start(agent, "two", "last"), 8, "uses conversation")
    finally:
        by_hand.kill()
        by_hand.communicate()
    agent.ok("stop", "one")
    assert "(one)" in agent.ok("conversations").out


def test_files_that_are_none_of_ours_are_left_out(agent: World) -> None:
    kept = transcript(agent, A)
    os.mkfifo(project(agent) / f"{B}.jsonl")
    (project(agent) / f"{C}.jsonl").mkdir()
    (project(agent) / "0.jsonl").symlink_to("/dev/zero")
    if os.geteuid() == 0:
        other = transcript(agent, "eeeeeeee-1111-4222-8333-444444444444")
        os.chown(other, 12345, 12345)
    assert listed(agent, "--all") == [A]
    kept.write_bytes(b'{"cwd":"' + os.fsencode(agent.cwd) + b'"}\n' + b"\xff\xfe\n" * 1000)
    assert listed(agent) == [A]


def test_a_large_one_is_not_read(agent: World) -> None:
    path = transcript(agent, A, "much")
    with path.open("r+b") as file:
        file.truncate(500 << 20)
    [one] = agent.ok("conversations", "--json").json
    assert (one["title"], one["turns"], one["size_bytes"]) == ("much", None, 500 << 20)


def test_hostile_titles_are_escaped(agent: World) -> None:
    transcript(agent, A, "\x1b]0;evil\x07\u202e red")
    done = agent.ok("conversations")
    assert "\x1b" not in done.out
    assert "\\x1b]0;evil" in done.out
    assert "\u202e" not in done.out
    done = start(agent, "two", "last")
    assert "\x1b" not in done.err


# --- start --conversation ------------------------------------------------------------------------


def start(world: World, name: str, which: str, *options: str):  # type: ignore[no-untyped-def]
    return world.sesh("start", name, "-t", "claude", "--conversation", which, *options)


def test_one_that_was_begun_elsewhere_is_continued(agent: World) -> None:
    before = transcript(agent, A).read_bytes()
    assert start(agent, "one", A).code == 0
    assert eventually(lambda: len(launches(agent)) == 1)
    assert launches(agent)[0].startswith(f"--resume {A} --settings ")
    shown = agent.session("one")
    assert (shown["conversation"], shown["forked_from"]) == (A, None)
    assert (project(agent) / f"{A}.jsonl").read_bytes() == before
    agent.ok("restart", "-y", "one")
    assert eventually(lambda: len(launches(agent)) == 2)
    assert launches(agent)[1].startswith(f"--resume {A} --settings ")
    agent.ok("restart", "-y", "one", "--fresh")
    assert eventually(lambda: len(launches(agent)) == 3)
    assert launches(agent)[2].startswith("--session-id ")


def test_one_of_codex(world: World) -> None:
    install(world, "codex")
    name = "dddddddd-1111-4222-8333-444444444444"
    rollout(world, name, "search it")
    world.ok("start", "one", "-t", "codex", "--conversation", name)
    assert eventually(lambda: len(launches(world)) == 1)
    assert launches(world)[0].startswith(f"resume {name} -c notify=")
    assert world.session("one")["conversation"] == name


def test_the_last_that_is_not_in_use(agent: World) -> None:
    transcript(agent, A, "older", age=300)
    transcript(agent, B, "newer", age=100)
    transcript(agent, C, "of another directory", cwd="/src/other", age=10)
    done = start(agent, "one", "last")
    assert done.out == "one\n"
    assert f"continues conversation {B}: newer" in done.err
    done = start(agent, "two", "last")
    assert f"continues conversation {A}: older" in done.err
    complains(start(agent, "three", "last"), 8, "session one uses conversation")
    assert [one["name"] for one in agent.ls()] == ["one", "two"]


def test_the_beginning_of_an_id(agent: World) -> None:
    transcript(agent, A)
    transcript(agent, B)
    complains(start(agent, "one", "aaaaaaaa"), 1, "2 conversations begin with aaaaaaaa")
    assert start(agent, "one", "aaaaaaaa-5").code == 0
    assert agent.session("one")["conversation"] == B


def test_one_of_a_session_that_has_ended(agent: World) -> None:
    transcript(agent, A)
    start(agent, "one", A)
    complains(start(agent, "two", A), 8, f"session one uses conversation {A}", "sesh fork one")
    agent.ok("stop", "one")
    done = start(agent, "two", A)
    assert done.code == 0
    assert "it was the conversation of session one, which has ended" in done.err
    complains(agent.sesh("restart", "one"), 8, "two uses its conversation")


@pytest.mark.parametrize(
    ("which", "code", "what"),
    [
        (C, 1, f"no conversation {C} of claude here"),
        ("last", 1, "no conversation of claude was started in"),
        ("../../etc/passwd", 2, "invalid id"),
        ("--help", 2, ""),
        ("a b", 2, "invalid id"),
        ("", 2, ""),
        ("*", 2, "invalid id"),
        ("x" * 101, 2, "invalid id"),
    ],
)
def test_ids_that_name_none(agent: World, which: str, code: int, what: str) -> None:
    done = agent.sesh("start", "one", "-t", "claude", f"--conversation={which}")
    assert (done.code, what in done.err) == (code, True), done
    assert agent.ls("--all") == []


def test_transcripts_that_cannot_be_continued(agent: World) -> None:
    path = transcript(agent, A, cwd="/src/other")
    complains(start(agent, "one", A), 1, "was begun in /src/other; start it there, with -C")
    path.write_text('{"type":"mode"}\n')
    complains(start(agent, "one", A), 1, "has no prompt yet")
    path.unlink()
    os.mkfifo(path)
    complains(start(agent, "one", A), 1, "not a regular file")
    if os.geteuid() == 0:
        os.chown(transcript(agent, B), 12345, 12345)
        complains(start(agent, "one", B), 1, "belongs to another user")
    assert agent.ls("--all") == []


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (("one",), 2, "give its template too"),
        (("one", "-t", "shell"), 2, "give its template too"),
        (("one", "-t", "claude", "--prompt", "x"), 2, "use sesh send after the start"),
        (("one", "-t", "claude", "--worktree", "x"), 2, "sesh fork NAME --worktree BRANCH"),
        (("one", "-t", "claude", "--image", "x"), 1, "in a container are out of reach"),
        (("one", "-t", "claude", "--record-only"), 2, "--conversation cannot be combined"),
        (("one", "-t", "aider", "--", "cat"), 1, "does not know where it keeps"),
    ],
)
def test_what_does_not_go_with_it(
    agent: World, words: tuple[str, ...], code: int, what: str
) -> None:
    transcript(agent, A)
    complains(agent.sesh("start", "--conversation", A, *words), code, what)
    assert agent.ls("--all") == []


def test_a_process_in_another_conversation_is_seen_by_its_hook(agent: World) -> None:
    """The user has typed /resume in a session: it uses the other conversation now."""
    begin(agent)
    prompt(agent)
    transcript(agent, A)
    tells(agent, {"hook_event_name": "SessionStart", "source": "resume", "session_id": A})
    assert eventually(lambda: agent.session("one")["conversation"] == A)
    complains(start(agent, "two", A), 8, f"session one uses conversation {A}")


# --- further options for the agent ---------------------------------------------------------------


def test_options_after_the_dashes_are_added_to_the_templates_command(agent: World) -> None:
    begin(agent, "one", "--", "--model", "x y")
    assert launches(agent)[0].startswith("--model x y --session-id ")
    assert agent.session("one")["command"] == ["claude", "--model", "x y"]
    prompt(agent)
    agent.ok("restart", "-y", "one")
    assert eventually(lambda: len(launches(agent)) == 2)
    assert launches(agent)[1].startswith("--model x y --resume ")
    agent.ok("fork", "one")
    assert eventually(lambda: len(launches(agent)) == 3)
    assert launches(agent)[2].startswith("--model x y --resume ")


def test_a_command_replaces_that_of_the_template(agent: World) -> None:
    agent.ok("start", "one", "-t", "claude", "--", "sh", "-c", "sleep 60")
    assert agent.session("one")["command"] == ["sh", "-c", "sleep 60"]


@pytest.mark.parametrize("word", ["--resume", "--session-id=x"])
def test_options_that_sesh_gives_itself_are_refused(agent: World, word: str) -> None:
    done = agent.sesh("start", "one", "-t", "claude", "--", "--model", "x", word)
    complains(done, 2, f"{word}: sesh gives the agent this option itself")


def test_options_without_a_command_in_the_template_are_a_command(world: World) -> None:
    complains(world.sesh("start", "one", "-t", "shell", "--", "--model"), 1, "command not found")
