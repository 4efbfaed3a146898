"""A stand-in for an agent: a real process that takes the options of Claude Code, keeps a transcript
of its conversation, and calls its hooks when it is told to. (The real ones: tests/agents/.)"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.world import World, eventually

_SCRIPT = """\
#!/bin/sh
# Reads lines: `hook JSON` calls the hook as the real one does; `title TEXT` sets the title.
echo "$*" >>"$HOME/launches"
while [ $# -gt 0 ]; do
  case $1 in
  --session-id) conversation=$2; [ -n "$parent" ] || how=$1; shift ;;
  --resume) how=$1 parent=$2 conversation=$2; shift ;;
  --fork-session) how=$1 ;;
  --settings) settings=$2; shift ;;
  *) prompt=$1 ;;
  esac
  shift
done
mkdir -p "$HOME/.claude/projects/p"
transcript=$HOME/.claude/projects/p/$conversation.jsonl
original=$HOME/.claude/projects/p/$parent.jsonl
if [ "$how" = --resume ] && [ ! -e "$transcript" ]; then
  echo "No conversation found with session ID: $conversation"
  exit 1
fi
if [ "$how" = --fork-session ] && [ ! -e "$original" ]; then
  echo "No conversation found with session ID: $parent"
  exit 1
fi
if [ "$how" != --resume ] && [ "$conversation" ] && [ -e "$transcript" ]; then
  echo "Error: Session ID $conversation is already in use."
  exit 1
fi
hook=$(sed 's/.*"command": "\\(.*\\)", "timeout".*/\\1/; s/".*//' "$settings")
printf '\\033]0;- ready\\007'
# A copy is written at the first prompt, as by the real one.
copy() { [ "$how" != --fork-session ] || [ -e "$transcript" ] || cat "$original" >"$transcript"; }
[ -z "$prompt" ] || copy
[ -z "$prompt" ] || echo "{\\"type\\":\\"user\\",\\"text\\":\\"$prompt\\"}" >>"$transcript"
echo ready
while read -r word rest; do
  case $word in
  prompt)
    copy
    printf '{"type":"user","message":{"content":"prompt %s"}}\\n' "$rest" >>"$transcript" ;;
  hook) printf '%s' "$rest" | sh -c "$hook"; echo "hook ended with $?" ;;
  nested) printf '%s' "$rest" | env -- python3 -c 'import subprocess,sys
subprocess.run(["sh", "-c", sys.argv[1]])' "$hook"; echo "hook ended with $?" ;;
  title) printf '\\033]0;%s\\007' "$rest" ;;
  end) exit "$rest" ;;
  esac
done
"""


def install(world: World, name: str = "claude") -> None:
    """Put it into PATH."""
    directory = world.root / "bin"
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(_SCRIPT)
    path.chmod(0o755)
    world.env["PATH"] = f"{directory}:{world.env['PATH']}"


def launches(world: World) -> list[str]:
    """The arguments of every launch so far."""
    path = Path(world.env["HOME"]) / "launches"
    return path.read_text().splitlines() if path.exists() else []


def begin(world: World, name: str = "one", *options: str) -> dict[str, Any]:
    """Start it by its template, and wait until it listens."""
    world.ok("start", name, "-t", "claude", *options)
    assert eventually(lambda: "ready" in world.sesh("logs", name).out)
    return world.session(name)


def prompt(world: World, name: str = "one", text: str = "hello") -> None:
    """Give it something to do: from now on there is a conversation."""
    conversation = world.session(name)["conversation"]
    path = Path(world.env["HOME"]) / ".claude" / "projects" / "p" / f"{conversation}.jsonl"
    world.ok("send", name, f"prompt {text}")
    assert eventually(lambda: path.exists() and text in path.read_text(), 20)


def types(world: World, line: str, name: str = "one") -> None:
    """Type a line, whatever it does: it is for the stand-in, not for the agent that it plays."""
    world.tmux("send-keys", "-l", "-t", f"={name}:", line)
    world.tmux("send-keys", "-t", f"={name}:", "Enter")


def tells(world: World, event: dict[str, Any] | str, name: str = "one", how: str = "hook") -> None:
    """Have it call its hook, and wait until that has ended."""
    line = event if isinstance(event, str) else json.dumps(event)
    before = world.sesh("logs", name).out.count("hook ended with")
    types(world, f"{how} {line}", name)
    assert eventually(
        lambda: world.sesh("logs", name).out.count("hook ended with 0") > before, within=20
    ), world.sesh("logs", name).out
