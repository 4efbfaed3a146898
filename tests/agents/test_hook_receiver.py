"""`sesh hook claude`: called by a real agent's process, it notes what was said, and only that."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from sesh.agents import screen
from sesh.model.errors import CannotTellError
from sesh.model.record import Record
from sesh.places.agent_files import Launch, launch_of
from sesh.state import records
from tests import pace
from tests.agent import begin, install, tells, types
from tests.world import SESH, World, eventually

HOOKS = Path(__file__).parents[1] / "data" / "hooks" / "claude"


@pytest.fixture
def agent(world: World) -> World:
    install(world)
    begin(world)
    return world


def event(name: str, world: World, **changes: object) -> dict[str, object]:
    """A recorded event, as if it were of the session's own conversation."""
    found = json.loads((HOOKS / f"{name}.json").read_text())
    return {**found, "session_id": world.session("one")["conversation"], **changes}


def doing(world: World) -> tuple[str | None, str | None]:
    shown = world.session("one")
    return shown["activity"], shown["waiting_for"]


def test_a_turn_from_prompt_to_permission_to_end(agent: World) -> None:
    tells(agent, event("user-prompt-submit", agent))
    assert doing(agent) == ("busy", None)
    tells(agent, event("permission-request", agent))
    assert doing(agent) == ("waiting", "permission: Bash")
    shown = agent.session("one")
    assert shown["attention"] == "waits for permission: Bash"
    assert shown["activity_source"] == "hook"
    for wanted in ("activity=waiting", "attention=yes"):
        assert [one["name"] for one in agent.ls("--filter", wanted)] == ["one"]
    assert agent.ok("doctor", "--prompt").out == "1 waiting\n"
    assert "waiting: Bash" in agent.ok("ls").out
    assert "waiting for permission: Bash" in agent.ok("show", "one").out
    tells(agent, event("stop", agent))
    assert doing(agent) == ("idle", None)
    assert agent.ok("doctor", "--prompt").out == ""


def test_a_wait_is_notified_once(agent: World) -> None:
    told = agent.root / "told"
    agent.configure(f'[notify]\ncommand = "cat >>{told}"\n')
    tells(agent, event("permission-request", agent))
    assert eventually(lambda: told.exists() and told.read_text(), 20)
    body = json.loads(told.read_text().splitlines()[0])
    assert body["session"]["waiting_for"] == "permission: Bash"
    agent.ok("pass")
    agent.ok("pass")
    kinds = [one["kind"] for one in agent.events()]
    assert kinds.count("waiting") == 1


def test_a_reminder_sends_no_second_notification(agent: World) -> None:
    tells(agent, event("permission-request", agent))
    agent.ok("pass")
    [path] = agent.state.glob("run/*/*.said")
    since = json.loads(path.read_text())
    path.write_text(json.dumps({**since, "at": since["at"] - 10}))
    path.with_suffix(".told").write_text(f"{since['at'] - 10:.3f}\n")
    tells(agent, event("notification-permission-prompt", agent))
    agent.ok("pass")
    assert [one["kind"] for one in agent.events()].count("waiting") == 1


def test_waiting_for_it_in_a_script(agent: World) -> None:
    waiter = agent.popen("wait", "one", "--for", "waiting", "--timeout", "60")
    tells(agent, event("permission-request", agent))
    assert waiter.wait(pace.seconds(30)) == 0
    done = agent.ok("wait", "one", "--for", "waiting")
    assert done.out == "one waiting\n"
    assert agent.sesh("wait", "one", "--for", "busy", "--timeout", "0.3s").code == 124


def test_an_unknown_prompt_is_not_waited_for(agent: World) -> None:
    agent.start("plain")
    done = agent.sesh("wait", "plain", "--for", "idle")
    assert (done.code, done.out) == (2, "")
    assert "activity is not tracked" in done.err
    agent.ok("stop", "one")
    assert agent.sesh("wait", "one", "--for", "idle").code == 3


def test_another_conversation_is_learned(agent: World) -> None:
    """After /clear the agent is in a new one."""
    new = "00000000-0000-4000-8000-000000000001"
    tells(agent, event("session-start-clear", agent, session_id=new))
    assert eventually(lambda: agent.session("one")["conversation"] == new, 20)


def test_events_of_other_processes_are_ignored(agent: World) -> None:
    """A nested run has the session's variables and a conversation of its own."""
    tells(agent, event("stop", agent))
    asks = event("permission-request", agent, session_id="00000000-0000-4000-8000-000000000002")
    tells(agent, asks, how="nested")
    assert doing(agent) == ("idle", None)
    found = Path(agent.record("one")).read_text()
    assert "000000000002" not in found


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"PermissionRequest"',
        b"\xff\xfe\x00",
        b"{" * 200_000,
        b'{"hook_event_name": "PermissionRequest", "tool_name": ["Bash"], "session_id": {}}',
        b'{"hook_event_name": "PermissionRequest", "pad": "' + b"x" * (2 << 20) + b'"}',
        (HOOKS / "permission-request.json").read_bytes()[:-20],
    ],
    ids=[
        *("empty", "open", "null", "list", "text", "bytes", "deep", "types", "2MB", "truncated"),
    ],
)
def test_a_hook_is_silent_and_exits_0_for_any_input(world: World, raw: bytes) -> None:
    """Outside of any session, in a broken one, with a hostile input."""
    foreign = {"SESH_ID": "../../etc/passwd", "SESH_NAME": "../x", "SESH_RUN": "/"}
    for env in (world.env, {**world.env, **foreign}):
        for kind in ("claude", "codex"):
            done = subprocess.run(
                [SESH, "hook", kind], input=raw, env=env, cwd=world.cwd, capture_output=True
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not world.state.exists()


def test_a_closed_or_silent_input(world: World) -> None:
    done = subprocess.run(["sh", "-c", f"{SESH} hook claude <&-"], env=world.env)
    assert done.returncode == 0


def test_two_at_once_lose_nothing(agent: World) -> None:
    """Hooks of tools that run side by side: the file is one of theirs, whole, and who asked for a
    permission is known."""
    run = agent.state / "run"
    [kit] = run.glob("*/*.kit")
    said = kit.with_suffix(".said")
    record = agent.session("one")
    env = {**agent.env, "SESH_ID": record["id"], "SESH_NAME": "one", "SESH_RUN": str(kit.parent)}
    busy = json.dumps(event("pre-tool-use", agent)).encode()
    callers = [
        subprocess.Popen([SESH, "hook", "claude"], env=env, stdin=subprocess.PIPE)
        for _ in range(12)
    ]
    for caller in callers:
        caller.communicate(busy)
    assert {caller.returncode for caller in callers} == {0}
    assert json.loads(said.read_text())["activity"] == "busy"
    assert not list(kit.parent.glob(".*.tmp"))


def test_a_damaged_record_is_not_the_agents_business(agent: World) -> None:
    asks = json.dumps(event("permission-request", agent))
    [kit] = agent.state.glob("run/*/*.kit")
    env = {**agent.env, "SESH_ID": kit.stem.rpartition(".")[0], "SESH_NAME": "one"}
    path = agent.record("one")
    whole = path.read_bytes()
    path.write_bytes(whole[:40])
    done = agent.sesh("hook", "claude", env={**env, "SESH_RUN": str(kit.parent)}, stdin=asks)
    assert (done.code, done.out, done.err) == (0, "", "")
    path.write_bytes(whole)
    assert doing(agent)[0] != "waiting"


def test_a_title_shows_the_activity_without_hooks(agent: World) -> None:
    """The user's own rules: what the stand-in sets as its title."""
    rules = agent.root / "config" / "sesh" / "rules"
    rules.mkdir(parents=True)
    (rules / "claude.toml").write_text(
        'version = 7\n[[title]]\nstarts = "-"\nmeans = "idle"\n[[title]]\nstarts = "*"\n'
        'means = "busy"\n[[screen]]\ncontains = "allow it?"\nmeans = "waiting"\n'
        'what = "permission"\n'
    )
    begin(agent, "two")
    shown = agent.session("two")
    assert (shown["activity"], shown["activity_source"]) == ("idle", "title")
    types(agent, "title * works", "two")
    assert eventually(lambda: agent.session("two")["activity"] == "busy")
    assert "rule claude/7 title 2" in agent.ok("show", "two").out
    types(agent, "title - idle again, allow it?", "two")
    assert eventually(lambda: agent.session("two")["activity"] == "waiting")
    assert agent.session("two")["activity_source"] == "screen"


def test_a_dead_agent_does_nothing(agent: World) -> None:
    tells(agent, event("permission-request", agent))
    os.kill(agent.session("one")["pid"], 9)
    assert eventually(lambda: agent.session("one")["state"] == "failed")
    assert doing(agent) == (None, None)
    assert agent.ok("doctor", "--prompt").out == "1 failed\n"


def register(world: World, status: str, **more: object) -> None:
    """An entry in Claude's registry, as recorded, of the session's own process."""
    shown = world.session("one")
    start = Path(f"/proc/{shown['pid']}/stat").read_text().rpartition(")")[2].split()[19]
    known = json.loads((HOOKS.parents[1] / "registry" / "claude-shell.json").read_text())
    own = {"pid": shown["pid"], "procStart": start, "sessionId": shown["conversation"]}
    directory = Path(world.env["HOME"]) / ".claude" / "sessions"
    directory.mkdir(parents=True, exist_ok=True)
    moment = {"status": status, "statusUpdatedAt": int(time.time() * 1000)}
    (directory / f"{shown['pid']}.json").write_text(json.dumps({**known, **own, **moment, **more}))


def is_waited_for(world: World, activity: str) -> bool:
    """Already there?"""
    done = world.sesh("wait", "one", "--for", activity, "--timeout", "0")
    assert done.code in (0, 124), done
    return done.code == 0


def test_a_shell_in_the_background_leaves_it_idle(agent: World) -> None:
    register(agent, "shell")
    assert is_waited_for(agent, "idle")
    shown = agent.session("one")
    assert (shown["activity"], shown["background"]) == ("idle", True)
    assert "idle (background work)" in agent.ok("show", "one").out
    assert "idle (background)" in agent.ok("ls").out
    register(agent, "idle")
    assert agent.session("one")["background"] is False


def test_a_dialog_of_which_the_registry_does_not_know(agent: World) -> None:
    register(agent, "idle")
    assert is_waited_for(agent, "idle")
    types(agent, "Make auto mode your default permission mode?")  # it echoes
    assert eventually(lambda: agent.session("one")["activity"] == "waiting")
    assert agent.session("one")["activity_source"] == "screen"
    assert not is_waited_for(agent, "idle")


def test_it_is_idle_only_after_it_has_taken_the_prompt_of_its_launch(world: World) -> None:
    install(world)
    begin(world, "one", "--prompt", "hello")
    for name, shown in [
        ("session-start-startup", ("busy", "prompt")),
        ("user-prompt-submit", ("busy", "registry")),
        ("stop", ("idle", "registry")),
    ]:
        tells(world, event(name, world))
        register(world, "busy" if "submit" in name else "idle")
        found = world.session("one")
        assert (found["activity"], found["activity_source"]) == shown, name
        assert is_waited_for(world, "idle") is (shown[0] == "idle")
    clear = "00000000-0000-4000-8000-000000000001"
    tells(world, event("session-start-clear", world, session_id=clear))
    register(world, "idle", sessionId=clear)
    assert world.session("one")["activity"] == "idle"


def test_a_turn_that_is_not_in_the_registry_yet(world: World) -> None:
    """The hook of the prompt may come first; idle that is younger than that is the end of a turn
    without another hook, as after Esc."""
    install(world)
    begin(world, "one", "--prompt", "hello")
    tells(world, event("session-start-startup", world))
    register(world, "idle")
    tells(world, event("user-prompt-submit", world))
    assert not is_waited_for(world, "idle")
    register(world, "idle")
    assert is_waited_for(world, "idle")


def test_without_hooks_the_transcript_shows_the_conversation(world: World) -> None:
    install(world)
    conversation = begin(world, "one", "--prompt", "hello")["conversation"]
    register(world, "idle")
    [path] = Path(world.env["HOME"]).glob(f".claude/projects/*/{conversation}.jsonl")
    assert "hello" in path.read_text()
    assert not is_waited_for(world, "idle")
    with path.open("a") as file:
        file.write('{"type":"assistant","message":{"stop_reason":"end_turn"}}\n')
    assert is_waited_for(world, "idle")


def test_a_prompt_that_is_never_taken_is_waited_for_in_the_end(world: World) -> None:
    """Neither idle, nor busy without end. It may be typed again."""
    install(world)
    begin(world, "one", "--prompt", "hello")
    before = time.time() - 120
    register(world, "idle", statusUpdatedAt=int(before * 1000))
    assert doing(world) == ("busy", None)
    [kit] = world.state.glob("run/*/*.kit")
    os.utime(kit, (before, before))
    assert doing(world) == ("waiting", "input: its prompt was not taken")
    assert not is_waited_for(world, "idle")


def test_a_resumed_agent_is_given_no_prompt(world: World) -> None:
    install(world)
    conversation = begin(world, "one", "--prompt", "hello")["conversation"]
    os.kill(world.session("one")["pid"], 9)
    assert eventually(lambda: world.session("one")["state"] == "failed")
    world.ok("restart", "one")
    assert world.session("one")["conversation"] == conversation
    register(world, "idle")
    assert is_waited_for(world, "idle")
    world.ok("restart", "--fresh", "one")  # which passes the prompt again
    register(world, "idle")
    assert not is_waited_for(world, "idle")


def test_a_registry_entry_counts_only_for_the_very_process(agent: World) -> None:
    shown = agent.session("one")
    home = Path(agent.env["HOME"]) / ".claude" / "sessions"
    home.mkdir(parents=True)
    entry = {
        "pid": shown["pid"],
        "sessionId": shown["conversation"],
        "procStart": "1",
        "status": "busy",
        "statusUpdatedAt": int(time.time() * 1000),
    }
    path = home / f"{shown['pid']}.json"
    path.write_text(json.dumps(entry))
    assert doing(agent)[0] != "busy"
    start = Path(f"/proc/{shown['pid']}/stat").read_text().rpartition(")")[2].split()[19]
    path.write_text(json.dumps({**entry, "procStart": start}))
    assert doing(agent)[0] == "busy"
    assert agent.session("one")["activity_source"] == "registry"


def test_a_server_that_does_not_answer_is_asked_once_for_all_agents(
    agent: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a list of many idle agents would wait for it once for each of them."""
    begin(agent, "two")
    for name, value in agent.env.items():
        monkeypatch.setenv(name, value)
    asked = []

    def look(launch: Launch, *_: object) -> None:
        asked.append(launch.id)
        raise CannotTellError("no answer within 2 s")

    monkeypatch.setattr(screen, "look", look)
    for path in agent.state.glob("run/*/*.seen"):
        path.unlink()
    for name in ("one", "two"):
        entry = records.entry(name)
        assert entry is not None
        assert isinstance(entry.record, Record)
        screen.doing(launch_of(entry.record), "a socket of its own", "%0")
    assert len(asked) == 1
