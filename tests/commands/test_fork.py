"""sesh fork: two conversations from one, and the first stays as it was."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.agent import begin, install, launches, prompt
from tests.repository import with_repository
from tests.surroundings import complains
from tests.world import World, eventually


@pytest.fixture
def agent(world: World) -> World:
    install(world)
    return world


def transcript(world: World, name: str = "one") -> Path:
    conversation = world.session(name)["conversation"]
    return Path(world.env["HOME"]) / ".claude" / "projects" / "p" / f"{conversation}.jsonl"


def begun(world: World) -> dict[str, object]:
    """A session with a conversation that can be copied."""
    begin(world, "one", "--group", "shop", "--tag", "night", "--timeout", "1h", "-e", "MODE=fast")
    prompt(world)
    return world.session("one")


def kill(world: World, name: str) -> None:
    os.kill(world.session(name)["pid"], signal.SIGKILL)
    assert eventually(lambda: world.session(name)["state"] == "failed")


def refused(world: World, code: int, what: str, *words: str) -> None:
    """A fork that fails creates nothing."""
    before = [one["name"] for one in world.ls("--all")]
    complains(world.sesh("fork", *words), code, what)
    assert [one["name"] for one in world.ls("--all")] == before


def test_a_copy_of_a_living_sessions_conversation(agent: World) -> None:
    old = begun(agent)
    before = transcript(agent).read_bytes()
    assert agent.ok("fork", "one").out == "one-2\n"
    new = agent.session("one-2")
    assert eventually(lambda: len(launches(agent)) == 2)
    child = new["conversation"]
    words = f"--resume {old['conversation']} --fork-session --session-id {child} --settings "
    assert launches(agent)[1].startswith(words)
    origin = {"session": old["id"], "name": "one", "conversation": old["conversation"]}
    assert (new["forked_from"], old["forked_from"]) == (origin, None)
    same = ("cwd", "command", "group", "tags", "template", "agent", "care", "max_age")
    assert {key: new[key] for key in same} == {key: old[key] for key in same}
    assert "MODE" in agent.ok("show", "one-2").out
    assert "copy of one" in agent.ok("show", "one-2").out
    prompt(agent, "one-2", "another way")
    assert transcript(agent).read_bytes() == before
    assert transcript(agent, "one-2").read_bytes().startswith(before)
    prompt(agent, "one", "go on")
    assert "another way" not in transcript(agent).read_text()
    assert {one["state"] for one in agent.ls()} == {"running"}


def test_what_the_new_one_has_of_its_own(agent: World) -> None:
    begun(agent)
    words = ("--group", "else", "--tag", "idea", "--prompt", "do it so", "--json")
    new = agent.ok("fork", "one", "idea", *words).json
    assert (new["name"], new["group"], new["tags"]) == ("idea", "else", ["night", "idea"])
    assert eventually(lambda: len(launches(agent)) == 2)
    assert launches(agent)[1].endswith(" do it so")


def test_a_copy_of_a_session_that_has_ended(agent: World) -> None:
    begun(agent)
    agent.ok("stop", "one")
    agent.ok("fork", "one")
    agent.ok("fork", "one")
    assert [one["name"] for one in agent.ls()] == ["one", "one-2", "one-3"]


def test_names_of_ended_sessions_are_not_used_again(agent: World) -> None:
    begun(agent)
    agent.ok("fork", "one")
    agent.ok("stop", "one-2")
    assert agent.ok("fork", "one").out == "one-3\n"


def test_a_restart_resumes_the_copy(agent: World) -> None:
    begun(agent)
    agent.ok("fork", "one")
    prompt(agent, "one-2", "another way")
    child = agent.session("one-2")["conversation"]
    kill(agent, "one-2")
    agent.ok("restart", "one-2")
    assert eventually(lambda: len(launches(agent)) == 3)
    assert launches(agent)[2].startswith(f"--resume {child} --settings ")
    assert agent.session("one-2")["forked_from"]["name"] == "one"


def test_a_copy_without_a_prompt_yet_is_made_again(agent: World) -> None:
    begun(agent)
    agent.ok("fork", "one")
    kill(agent, "one-2")
    agent.ok("restart", "one-2")
    assert eventually(lambda: len(launches(agent)) == 3)
    assert launches(agent)[2] == launches(agent)[1].replace(".1.hooks", ".2.hooks")
    prompt(agent, "one-2", "another way")
    assert transcript(agent, "one-2").read_bytes().startswith(transcript(agent).read_bytes())


def test_an_original_that_is_gone_is_no_blank_conversation(agent: World) -> None:
    begun(agent)
    agent.ok("fork", "one")
    kill(agent, "one-2")
    transcript(agent).unlink()
    complains(agent.sesh("restart", "one-2"), 1, "the conversation that it copies is gone")


def test_a_new_conversation_is_no_copy_any_more(agent: World) -> None:
    begun(agent)
    agent.ok("fork", "one")
    agent.ok("restart", "--fresh", "-y", "one-2")
    assert eventually(lambda: len(launches(agent)) == 3)
    assert launches(agent)[2].startswith("--session-id ")
    assert agent.session("one-2")["forked_from"] is None


def test_the_original_can_be_restarted_while_its_copy_lives(agent: World) -> None:
    """The copy's command line names the conversation, but does not use it."""
    old = begun(agent)
    agent.ok("fork", "one")
    kill(agent, "one")
    agent.ok("restart", "one")
    assert eventually(lambda: len(launches(agent)) == 3)
    assert launches(agent)[2].startswith(f"--resume {old['conversation']} ")


def test_in_a_worktree_of_its_own(agent: World) -> None:
    with_repository(agent)
    begun(agent)
    new = agent.ok("fork", "one", "--worktree", "idea", "--json").json
    assert new["worktree"] == new["cwd"] != str(agent.cwd)
    agent.ok("stop", "one-2")
    agent.ok("rm", "one-2")
    assert not Path(new["cwd"]).exists()


def test_beside_a_session_with_a_worktree(agent: World) -> None:
    """The copy runs in the same directory, which it neither owns nor takes with it."""
    with_repository(agent)
    begin(agent, "one", "--worktree", "try")
    prompt(agent)
    agent.ok("fork", "one")
    old, new = agent.session("one"), agent.session("one-2")
    assert (new["cwd"], new["worktree"]) == (old["cwd"], None)
    agent.ok("stop", "one", "one-2", "-y")
    agent.ok("rm", "one-2")
    assert Path(old["worktree"]).is_dir()


def test_a_refused_fork_makes_no_worktree(agent: World) -> None:
    repository = with_repository(agent)
    begin(agent)
    refused(agent, 1, "no transcript", "one", "--worktree", "idea")
    assert repository.git("branch", "--list", "idea") == ""


# --- refused -------------------------------------------------------------------------------------


def test_no_agent(world: World) -> None:
    world.start("a")
    refused(world, 1, "it runs no agent that sesh knows", "a")


def test_an_agent_that_cannot_fork(world: World) -> None:
    install(world, "gemini")
    world.ok("start", "g", "-t", "gemini", "--", "cat")
    refused(world, 1, "gemini cannot fork a conversation; claude and codex can", "g")


def test_only_a_record(agent: World) -> None:
    agent.ok("start", "r", "-t", "claude", "--record-only")
    refused(agent, 8, "r is a record only", "r")


def test_no_session(agent: World) -> None:
    refused(agent, 4, "no session named no", "no")


def test_no_prompt_yet(agent: World) -> None:
    begin(agent)
    refused(agent, 1, "no transcript", "one")
    transcript(agent).write_text('{"type":"mode","mode":"normal"}\n')
    refused(agent, 1, "has no prompt yet", "one")


def test_a_name_that_is_taken(agent: World) -> None:
    begun(agent)
    refused(agent, 8, "one is already running", "one", "one")
    refused(agent, 2, "invalid name", "one", "a.b")


def test_a_transcript_that_is_no_file(agent: World) -> None:
    begun(agent)
    path = transcript(agent)
    path.unlink()
    os.mkfifo(path)
    refused(agent, 1, "not a regular file", "one")
    path.unlink()
    path.mkdir()
    refused(agent, 1, "", "one")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_transcript_of_another_user(agent: World) -> None:
    begun(agent)
    os.chown(transcript(agent), 12345, 12345)
    refused(agent, 1, "belongs to another user", "one")


def test_a_transcript_of_500_mb_and_of_other_bytes(agent: World) -> None:
    begun(agent)
    with transcript(agent).open("ab") as file:
        file.write(b"\xff\xfe\n" * 100)
        file.truncate(500 << 20)
    # the stand-in copies it only at its first prompt
    agent.ok("fork", "one")


def test_a_directory_that_is_gone(agent: World) -> None:
    begun(agent)
    agent.ok("stop", "one")
    agent.cwd.rename(agent.cwd.with_name("moved"))
    try:
        done = agent.sesh("fork", "one", cwd=agent.root)
        assert (done.code, "no such directory" in done.err) == (1, True)
    finally:
        agent.cwd.with_name("moved").rename(agent.cwd)


# --- older templates and sessions ----------------------------------------------------------------


def test_a_template_without_fork_gets_that_of_the_built_in(agent: World) -> None:
    directory = Path(agent.env["XDG_CONFIG_HOME"]) / "sesh" / "templates"
    directory.mkdir(parents=True)
    own = agent.ok("template", "show", "claude").out
    lines = [line for line in own.splitlines() if not line.startswith("fork")]
    (directory / "claude.toml").write_text("\n".join(lines[1:]) + "\n")
    begun(agent)
    agent.ok("fork", "one")
    assert eventually(lambda: len(launches(agent)) == 2)
    assert "--fork-session" in launches(agent)[1]
    kill(agent, "one")
    agent.ok("restart", "one")


def test_the_event_names_the_original(agent: World) -> None:
    begun(agent)
    agent.ok("fork", "one")
    started = [event for event in agent.events() if event["kind"] == "started"]
    assert [event.get("forked_from") for event in started] == [None, "one"]
    assert "copy of one" in agent.ok("events", "one-2").out
