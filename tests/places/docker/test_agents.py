"""An agent in a container: sesh is not in there, and hears it all the same."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from sesh.agents import launch_kit
from tests.engine import IMAGE, Engine
from tests.places.docker.boxes import becomes, logged
from tests.world import World, eventually

EVENTS = Path(__file__).parents[2] / "data" / "hooks" / "claude"

# Takes the options of Claude Code, and calls its hook with each line that it reads.
_AGENT = """\
echo "launched $*"
while [ $# -gt 0 ]; do
  [ "$1" = --settings ] && settings=$(cat "$2")
  shift
done
hook=${settings#*\\"command\\": \\"} hook=${hook%%\\"*}
while read -r line; do
  [ "$line" = die ] && exit 3
  printf '%s' "$line" | sh -c "$hook"
  echo "hook ended with $?"
done
"""
_TEMPLATE = """\
command = ["sh", "{agent}"]
image = "{image}"
network = "none"

[agent]
kind = "claude"
conversation = "minted"
start = ["--session-id", "{{conversation}}", "--settings", "{{hooks}}"]
resume = ["--resume", "{{conversation}}", "--settings", "{{hooks}}"]
rules = "claude"
"""


# Takes the options of Codex, and calls what it is to notify after every turn. With `turn` it keeps
# the conversation, with `title` it does not.
_CODEX = """\
echo "launched $*"
while [ $# -gt 0 ]; do
  [ "$1" = -c ] && hook=$(printf '%s' "${2#notify=}" | tr -d '[],"')
  shift
done
day=$HOME/.codex/sessions/2026/11/16
while read -r word id; do
  case $word in
  die) exit 3 ;;
  turn) mkdir -p "$day" && : >"$day/rollout-2026-11-16T10-00-00-$id.jsonl" ;;
  title) ;;
  *) echo "you said $word"; continue ;;
  esac
  $hook "{\\"type\\":\\"agent-turn-complete\\",\\"thread-id\\":\\"$id\\"}" </dev/null
  echo "hook ended with $?"
done
"""
_CODEX_TEMPLATE = """\
command = ["sh", "{agent}"]
image = "{image}"
network = "none"

[agent]
kind = "codex"
conversation = "learned"
start = ["-c", "{{hooks}}"]
resume = ["resume", "{{conversation}}", "-c", "{{hooks}}"]
transcript = "~/.codex/sessions/*/*/*/rollout-*-{{conversation}}.jsonl"
rules = "codex"
"""


def begin(world: World, script: str, template: str) -> World:
    path = world.cwd / "agent.sh"
    path.write_text(script)
    templates = world.root / "config" / "sesh" / "templates"
    templates.mkdir(parents=True)
    (templates / "boxed.toml").write_text(template.format(agent=path, image=IMAGE))
    world.ok("start", "a", "-t", "boxed")
    return world


@pytest.fixture
def agent(boxed: World) -> World:
    return begin(boxed, _AGENT, _TEMPLATE)


@pytest.fixture
def codex(boxed: World) -> World:
    return begin(boxed, _CODEX, _CODEX_TEMPLATE)


def types(world: World, line: str) -> None:
    """Type a line, whatever it does: it is for the stand-in, not for the agent that it plays."""
    world.sesh("send", "--force", "--no-enter", "a", line)
    world.ok("send", "a", "--key", "Enter")


def tells(world: World, name: str) -> None:
    before = world.sesh("logs", "a").out.count("hook ended with 0")
    event = json.loads((EVENTS / f"{name}.json").read_text())
    event["session_id"] = world.session("a")["conversation"]
    kept = ["hook_event_name", "session_id", "tool_name", "agent_id", "notification_type", "source"]
    kept.append("tool_input")
    line = json.dumps({key: event[key] for key in kept if key in event}, separators=(",", ":"))
    types(world, line)
    assert eventually(lambda: world.sesh("logs", "a").out.count("hook ended with 0") > before, 20)


def test_the_activity_and_the_conversation_in_a_container(agent: World, engine: Engine) -> None:
    conversation = agent.session("a")["conversation"]
    tells(agent, "user-prompt-submit")
    assert agent.session("a")["activity"] == "busy"
    tells(agent, "permission-request")
    shown = agent.session("a")
    assert (shown["activity"], shown["waiting_for"]) == ("waiting", "permission: Bash")
    assert shown["question"]["input"]["command"] == "touch /home/ada/work/made"
    done = agent.sesh("send", "a", "no")
    assert done.code == 8
    assert "Bash wants to run: touch /home/ada/work/made" in done.err
    assert agent.ok("doctor", "--prompt").out == "1 waiting\n"
    tells(agent, "notification-permission-prompt")  # late, and knows less
    tells(agent, "post-tool-use-of-subagent")
    assert agent.session("a")["waiting_for"] == "permission: Bash"
    tells(agent, "stop")
    assert agent.session("a")["activity"] == "idle"

    agent.ok("finish", "a", "completed")
    agent.ok("send", "a", "die")
    becomes(agent, "a", "failed")
    agent.ok("restart", "a")
    assert eventually(lambda: f"--resume {conversation}" in agent.ok("logs", "a").out)
    assert agent.session("a")["conversation"] == conversation
    assert agent.ok("show", "a", "--json").json["phase"] == "initializing"


_ASKER = """\
stty raw -echo
printf '\\033[2J\\033[HDo you want to proceed?\\r\\n'
printf '❯ 1. Yes\\r\\n  2. No\\r\\n\\r\\nEsc to cancel\\r\\n'
key=$(dd bs=1 count=1 2>/dev/null)
stty sane
printf '\\033[2J\\033[Hdecided %s\\n' "$key"
exec cat
"""
_ASKER_TEMPLATE = """\
command = ["sh", "{agent}"]
image = "{image}"
network = "none"

[agent]
kind = "asker"
"""


def test_questions_are_answered_and_not_typed_into(boxed: World, engine: Engine) -> None:
    """By the screen of the tmux inside."""
    world = begin(boxed, _ASKER, _ASKER_TEMPLATE)
    assert logged(world, "a", "Esc to cancel")
    done = world.sesh("send", "a", "no")
    assert done.code == 8
    assert "Do you want to proceed?" in done.err
    assert world.ok("answer", "a", "no").out == "a: denied Do you want to proceed?\n"
    assert logged(world, "a", "decided 2")
    assert world.sesh("answer", "a", "no").code == 8
    world.ok("send", "a", "hello")


def ends_turn(world: World, word: str, conversation: str) -> None:
    before = world.sesh("logs", "a").out.count("hook ended with 0")
    types(world, f"{word} {conversation}")
    assert eventually(lambda: world.sesh("logs", "a").out.count("hook ended with 0") > before, 20)


def test_codex_reports_its_conversation(codex: World, engine: Engine) -> None:
    conversation = launch_kit.new_conversation()
    ends_turn(codex, "turn", conversation)
    ends_turn(codex, "title", launch_kit.new_conversation())  # of a helper thread
    assert eventually(lambda: codex.session("a")["conversation"])
    shown = codex.session("a")
    assert (shown["conversation"], shown["activity"]) == (conversation, "idle")
    for _ in range(2):
        codex.ok("send", "a", "die")
        becomes(codex, "a", "failed")
        codex.ok("restart", "a")
        wanted = f"launched resume {conversation} -c"
        assert logged(codex, "a", wanted)


def test_codex_without_a_reported_conversation_is_not_silently_restarted(
    codex: World, engine: Engine
) -> None:
    os.kill(codex.session("a")["pid"], signal.SIGKILL)
    becomes(codex, "a", "failed")
    codex.ok("restart", "a")  # it was never prompted
    codex.ok("send", "a", "hello")
    pid = codex.session("a")["pid"]
    for _ in range(2):  # alive, and dead
        done = codex.sesh("restart", "a")
        assert done.code == 1
        assert "never reported its conversation" in done.err
        if codex.session("a")["state"] == "running":
            assert codex.session("a")["pid"] == pid
            codex.ok("send", "a", "die")
            becomes(codex, "a", "failed")
    codex.ok("restart", "a", "--fresh")
    assert codex.session("a")["conversation"] is None
