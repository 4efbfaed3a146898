"""An agent in a container: sesh is not in there, and hears it all the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.containers.boxes import becomes
from tests.engine import IMAGE, Engine
from tests.world import World, eventually

EVENTS = Path(__file__).parents[1] / "data" / "hooks" / "claude"

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


@pytest.fixture
def agent(boxed: World) -> World:
    script = boxed.cwd / "agent.sh"
    script.write_text(_AGENT)
    templates = boxed.root / "config" / "sesh" / "templates"
    templates.mkdir(parents=True)
    text = _TEMPLATE.format(agent=script, image=IMAGE)
    (templates / "boxed.toml").write_text(text)
    boxed.ok("start", "a", "-t", "boxed")
    return boxed


def tells(world: World, name: str) -> None:
    before = world.sesh("logs", "a").out.count("hook ended with 0")
    event = json.loads((EVENTS / f"{name}.json").read_text())
    event["session_id"] = world.session("a")["conversation"]
    kept = ("hook_event_name", "session_id", "tool_name", "agent_id", "notification_type", "source")
    line = json.dumps({key: event[key] for key in kept if key in event}, separators=(",", ":"))
    world.ok("send", "a", line)
    assert eventually(lambda: world.sesh("logs", "a").out.count("hook ended with 0") > before, 20)


def test_what_it_does_and_where_it_goes_on(agent: World, engine: Engine) -> None:
    conversation = agent.session("a")["conversation"]
    tells(agent, "user-prompt-submit")
    assert agent.session("a")["activity"] == "busy"
    tells(agent, "permission-request")
    shown = agent.session("a")
    assert (shown["activity"], shown["waiting_for"]) == ("waiting", "permission: Bash")
    assert agent.ok("doctor", "--prompt").out == "1 waiting\n"
    tells(agent, "notification-permission-prompt")  # late, and knows less
    tells(agent, "post-tool-use-of-subagent")
    assert agent.session("a")["waiting_for"] == "permission: Bash"
    tells(agent, "stop")
    assert agent.session("a")["activity"] == "idle"

    agent.ok("send", "a", "die")
    becomes(agent, "a", "failed")
    agent.ok("restart", "a")
    assert eventually(lambda: f"--resume {conversation}" in agent.ok("logs", "a").out)
    assert agent.session("a")["conversation"] == conversation
