"""`sesh hook claude|codex`: the program that agents call from their hooks. Saves the last event.

The agent waits for it, so it is fast, prints nothing and always exits 0. Events of processes other
than the session's agent (a subagent, a nested run, an agent of another state directory) are
ignored. A change that matters to others starts a pass in the background.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from sesh.model import digest
from sesh.model.agents import claude, codex, hook_event
from sesh.model.agents.hook_event import WAITING, HookEvent
from sesh.model.errors import OK, SeshError
from sesh.model.text import quick_json
from sesh.model.value_object import Value
from sesh.state import freshness
from sesh.system import bug_log, files, paths, quick_read, stdin, subprocesses

KINDS = ("claude", "codex")
_SHELLS = (b"sh", b"bash", b"dash", b"zsh", b"ksh", b"busybox", b"fish")
_DEEPEST = 12  # processes between a hook and its agent
# Programs between a hook and the launched agent: npm's codex is a script that starts the real
# program. For claude any program in between is a nested claude.
_BETWEEN = {"claude": 0, "codex": 1}


def receive(kind: str, words: list[str]) -> int:
    """Handle one call. Errors never reach the agent."""
    try:
        _receive(kind, words)
    except (SeshError, OSError, ValueError, IndexError, KeyboardInterrupt):
        return OK  # no session, a damaged record or a full disk
    except Exception as error:
        bug_log.write(error)
    return OK


def _receive(kind: str, words: list[str]) -> None:
    raw = words[-1].encode(errors="surrogateescape") if words else stdin.read()
    if kind == "codex" and words:
        with suppress(SeshError, OSError, ValueError):
            _pass_on(words[-1])
    new = parse(kind, raw, time.time())
    if new is None or (kind == "codex" and not _is_kept(new)):
        return
    session = _session()
    if session is None or not _is_agent(session, kind, new):
        return
    old, new = _save(session.stem, new)
    asks = WAITING in (old.activity if old else None, new.activity)
    changed = asks and (old is None or (old.activity, old.what) != (new.activity, new.what))
    if changed or new.conversation not in (None, session.conversation):
        # In a clean environment: the processes of a pass do not belong to the agent.
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        subprocesses.detach(["/bin/sh", f"{session.run}/callback"], env=kept)


def parse(kind: str, raw: bytes, now: float) -> HookEvent | None:
    """The meaning of an event; None: nothing, or it is not valid."""
    try:
        event = quick_json.loads(raw) if len(raw) <= stdin.LIMIT else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    if kind == "codex" and "type" in event:
        return codex.parse_event(event, now)
    return claude.parse_event(event, now)  # Codex's own hooks have the same shape


def _is_kept(new: HookEvent) -> bool:
    """Does Codex keep this conversation? It does not keep those that only invent a title."""
    from glob import escape, glob

    home = os.environ.get("CODEX_HOME") or f"{paths.home()}/.codex"
    name = escape(new.conversation or "")
    return bool(glob(f"{escape(home)}/sessions/*/*/*/rollout-*-{name}.jsonl"))


# --- who calls -----------------------------------------------------------------------------------


class _Session(Value):
    """The session that the caller's environment names."""

    run: str
    stem: str
    agent: int
    conversation: str | None


def _session() -> _Session | None:
    """None when the caller is in no session of this state directory."""
    session_id, name = os.environ.get("SESH_ID"), os.environ.get("SESH_NAME")
    if not session_id or not name or "/" in session_id + name:
        return None
    run = freshness.Survey().run
    if os.environ.get("SESH_RUN") != run:
        return None
    found = _digest(name, session_id)
    if found is None:
        with suppress(FileNotFoundError):  # it was never renamed
            found = _digest(quick_read.read(paths.renamed(session_id)).split()[-1], session_id)
    if found is None:
        return None
    stem = f"{run}/{session_id}.{found.generation}"
    agent = quick_read.read(f"{stem}.pid").split()
    conversation = quick_json.loads(found.view).get("conversation")
    return _Session(run, stem, int(agent[0]), conversation) if agent else None


def _digest(name: str | bytes, session_id: str) -> digest.Digest | None:
    """The digest line of the record of a name, if that is of this session."""
    path = f"{paths.sessions_dir()}/{os.fsdecode(name)}.toml"
    with suppress(FileNotFoundError):
        found = digest.parse(quick_read.read(path))
        return found if found and found.id == session_id else None
    return None


def _is_agent(session: _Session, kind: str, new: HookEvent) -> bool:
    """Is the caller the session's agent? Either its conversation is the recorded one, or the agent
    is our nearest ancestor that is not a shell."""
    if new.conversation is not None and new.conversation == session.conversation:
        return True
    left = _BETWEEN[kind]
    pid = os.getppid()
    for _ in range(_DEEPEST):
        if pid == session.agent:
            return True
        head, _, tail = quick_read.read(f"/proc/{pid}/stat").rpartition(b") ")
        parent = int(tail.split(None, 2)[1])
        left -= head.partition(b" (")[2] not in _SHELLS
        if left < 0 or parent <= 1:
            return False
        pid = parent
    return False


# --- what a call does ----------------------------------------------------------------------------


def _save(stem: str, new: HookEvent) -> tuple[HookEvent | None, HookEvent]:
    """Save an event; returns the previous one and the saved one. Concurrent hooks take turns."""
    with files.locked(f"{stem}.kit"):
        old = None
        with suppress(OSError):
            old = hook_event.decode(quick_read.read(f"{stem}.said"))
        merged = hook_event.merge(old, new)
        files.write_private(f"{stem}.said", hook_event.encode(merged), durable=False)
    return old, merged


def _pass_on(event: str) -> None:
    """Call the program that the user has configured: Codex knows only one, and for this launch that
    is sesh."""
    from sesh.state import settings

    home = os.environ.get("CODEX_HOME") or f"{paths.home()}/.codex"
    path = f"{home}/config.toml"
    own = settings.parse(path, quick_read.read(path)).get("notify")
    if isinstance(own, list) and own and all(isinstance(word, str) for word in own):
        program = paths.which(own[0]) if "/" not in own[0] else own[0]
        if program:
            subprocesses.detach([program, *own[1:], event], env=os.environ)
