"""What an agent leaves in files: the last event of its hooks, and the transcripts of its
conversations. Read-only. Fast lanes use it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from sesh.model import digest
from sesh.model.agents import claude, codex, hook_event
from sesh.model.text import parse, quick_json
from sesh.model.value_object import Value
from sesh.system import paths, quick_read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sesh.model.agents.hook_event import HookEvent
    from sesh.model.digest import Digest
    from sesh.model.record import Kit, Record

Variables = Mapping[bytes, bytes]
_HOMES = {"claude": ("CLAUDE_CONFIG_DIR", ".claude"), "codex": ("CODEX_HOME", ".codex")}
_UUID = "-".join(f"[0-9a-f]{{{length}}}" for length in (8, 4, 4, 4, 12))


class Launch(Value):
    """A launch of a session: what is needed to find the files of its agent."""

    run: str  # the directory of launches on this machine
    id: str
    generation: int
    pid: str
    start: str
    in_container: bool
    transcript: str

    @property
    def stem(self) -> str:
        return f"{self.run}/{self.id}.{self.generation}"


def launch_of(record: Record) -> Launch:
    """The launch of a record."""
    place, agent = record.place, record.place.agent
    return Launch(
        run=place.private_run,
        id=record.id,
        generation=place.generation,
        pid=str(agent.process.pid) if agent else "",
        start=str(agent.process.start) if agent else "",
        in_container=not record.place.agent_files_here,
        transcript=paths.transcript(record.id),
    )


def launch_in(found: Digest, run: str) -> Launch | None:
    """The launch of a digest line, if it runs an agent that sesh knows. (Mode `word` is a record
    without a process.)"""
    if digest.agent(found.view) is None or digest.state(found.view) != "running":
        return None
    if found.mode == "word":
        return None
    return Launch(
        run=run,
        id=found.id,
        generation=int(found.generation),
        pid=found.pid,
        start=found.start,
        in_container=found.mode.startswith("box"),
        transcript=paths.transcript(found.id),
    )


def last_hook(launch: Launch) -> HookEvent | None:
    """The last event that its hooks reported. In a container, hooks leave the raw event in a
    file."""
    try:
        if not launch.in_container:
            return hook_event.decode(quick_read.read(f"{launch.stem}.said"))
        path = f"{launch.run}/{launch.id}.box/{launch.id}.{launch.generation}.hook"
        event = quick_json.loads(quick_read.read(path))
        at = parse.moment(os.lstat(path).st_mtime, time.time())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    return claude.parse_event(event, at) or codex.parse_event(event, at)


# --- conversations -------------------------------------------------------------------------------


def current_conversation(record: Record) -> str | None:
    """The conversation of a session's agent, from its last hook or from the transcript that it
    keeps open."""
    event = last_hook(launch_of(record))
    if event and event.conversation:
        return event.conversation
    kit, agent = record.spec.kit, record.place.agent
    if kit is None or agent is None or not record.place.agent_files_here:
        return None
    from sesh.places import environment
    from sesh.system import processes

    if kit.conversation != "learned" or not processes.alive(agent.process):
        return None
    variables = environment.known(record.place.snapshot)
    return open_conversation(kit, agent.process.pid, variables)


def open_conversation(kit: Kit, pid: int, variables: Variables) -> str | None:
    """The conversation whose transcript an agent or one of its children holds open; of several, the
    last one written to."""
    if not kit.transcript:
        return None
    from sesh.system import processes

    mine = processes.open_in_family(pid) & {*transcripts(kit, "*", variables)}
    newest = max(mine, key=os.path.getmtime, default=None)
    return conversation_in(newest, kit) if newest else None


def conversation_in(path: str, kit: Kit) -> str | None:
    """The conversation of a transcript, from its file name: a UUID, or a word."""
    import re

    ending = re.escape(kit.transcript.rpartition("{conversation}")[2])
    found = re.search(rf"({_UUID}|[A-Za-z0-9_]+){ending}$", path)
    return found[1] if found else None


def transcripts(kit: Kit, conversation: str, variables: Variables) -> list[str]:
    """The agent's files of a conversation; `*`: of all conversations."""
    from glob import escape, glob

    wanted = conversation if conversation == "*" else escape(conversation)
    pattern = kit.transcript.replace("{conversation}", wanted)
    if not pattern:
        return []
    _, default = _HOMES.get(kit.kind, ("", ""))
    if default and pattern.startswith(f"~/{default}/"):
        pattern = escape(home(kit.kind, variables)) + pattern[len(default) + 2 :]
    elif pattern.startswith("~/"):
        pattern = escape(_user_home(variables)) + pattern[1:]
    return sorted(glob(pattern))


def conversation_files(kit: Kit, conversation: str, variables: Variables) -> list[str]:
    """The transcripts of a conversation, also of agents that name them by a part of its id."""
    found = transcripts(kit, conversation, variables)
    if found or kit.kind != "gemini" or conversation == "*":
        return found
    from glob import escape, glob

    short = escape(conversation[:8])
    home = escape(_user_home(variables))
    known = glob(f"{home}/.gemini/tmp/*/chats/session-*-{short}.jsonl")
    return sorted(path for path in known if _begins_with(path, conversation))


def _begins_with(path: str, conversation: str) -> bool:
    """Does the first line of a transcript name the conversation?"""
    try:
        return b'"sessionId":"%b"' % conversation.encode() in quick_read.first(path)
    except OSError:
        return False


def home(kind: str, variables: Variables, *, explicit: bool = False) -> str:
    """The agent's own directory, from its environment; empty for agents without one. `explicit`:
    only if a variable names it."""
    if kind not in _HOMES:
        return ""
    name, default = _HOMES[kind]
    given = os.fsdecode(variables.get(name.encode(), b""))
    return given or ("" if explicit else f"{_user_home(variables)}/{default}")


def moved_home(kind: str, directory: str) -> dict[bytes, bytes]:
    """The variable that names another home of an agent."""
    return {_HOMES[kind][0].encode(): os.fsencode(directory)} if kind in _HOMES else {}


def _user_home(variables: Variables) -> str:
    return os.fsdecode(variables.get(b"HOME", b"")) or paths.home()
