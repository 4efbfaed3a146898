"""`sesh hook claude|codex`: what those call while they work. Notes the last word, and goes.

The agent waits for it, so: always 0, not a word, little time. Whatever is not the agent of the
session that it claims to be of (a subagent, a nested run, one of another state directory) is not
heard. A change that others want to know of at once starts a pass, which nobody waits for.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

from sesh.agents import claude, codex, last_event
from sesh.agents.last_event import WAITING, HookEvent
from sesh.model import digest
from sesh.model.errors import OK, SeshError
from sesh.state import freshness
from sesh.system import bug_log, files, paths, quick_read, stdin, subprocesses

KINDS = ("claude", "codex")
_SHELLS = (b"sh", b"bash", b"dash", b"zsh", b"ksh", b"busybox", b"fish")
_DEEPEST = 12  # processes between a hook and its agent
# Programs of an agent's own between its hook and the one that was launched: npm's codex is a script
# that starts the real one. Of a nested claude there would be one.
_BETWEEN = {"claude": 0, "codex": 1}


def heard(kind: str, words: list[str]) -> int:
    """One call. Nothing that goes wrong here is the agent's business."""
    try:
        _heard(kind, words)
    except (SeshError, OSError, ValueError, IndexError, KeyboardInterrupt):
        return OK  # no session, or one that is damaged, or a full disk: the agent goes on
    except Exception as error:
        bug_log.write(error)
    return OK


def _heard(kind: str, words: list[str]) -> None:
    raw = words[-1].encode(errors="surrogateescape") if words else stdin.read()
    if kind == "codex" and words:
        with suppress(SeshError, OSError, ValueError):
            _pass_on(words[-1])
    new = meaning(kind, raw, time.time())
    if new is None or (kind == "codex" and not _is_kept(new)):
        return
    session = _session()
    if session is None or not _is_agent(session, kind, new):
        return
    old, new = _note(session.stem, new)
    asks = WAITING in (old.activity if old else None, new.activity)
    changed = asks and (old is None or (old.activity, old.what) != (new.activity, new.what))
    if changed or new.conversation not in (None, session.conversation):
        _have_looked(session.run)


def meaning(kind: str, raw: bytes, now: float) -> HookEvent | None:
    """What an event says; None: nothing, or it is not understood."""
    try:
        event = json.loads(raw) if len(raw) <= stdin.LIMIT else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    if kind == "codex" and "type" in event:
        return codex.meaning(event, now)
    return claude.meaning(event, now)  # Codex's own hooks have the same shape


def _is_kept(new: HookEvent) -> bool:
    """Does Codex keep this conversation? Not those in which it makes up a title for another."""
    from glob import escape, glob

    home = os.environ.get("CODEX_HOME") or f"{paths.home()}/.codex"
    name = escape(new.conversation or "")
    return bool(glob(f"{escape(home)}/sessions/*/*/*/rollout-*-{name}.jsonl"))


# --- whose word it is ----------------------------------------------------------------------------


class _Session:
    """The session that the caller's environment names."""

    __slots__ = ("agent", "conversation", "run", "stem")

    def __init__(self, run: str, stem: str, agent: int, conversation: str | None) -> None:
        self.run = run
        self.stem = stem
        self.agent = agent
        self.conversation = conversation


def _session() -> _Session | None:
    """None when there is none of ours."""
    session_id, name = os.environ.get("SESH_ID"), os.environ.get("SESH_NAME")
    if not session_id or not name or "/" in session_id + name:
        return None
    run = freshness.Survey().run
    found = digest.parse(quick_read.read(f"{paths.sessions_dir()}/{name}.toml"))
    if found is None or found.id != session_id or os.environ.get("SESH_RUN") != run:
        return None
    stem = f"{run}/{session_id}.{found.generation}"
    agent = quick_read.read(f"{stem}.pid").split()
    conversation = json.loads(found.view).get("conversation")
    return _Session(run, stem, int(agent[0]), conversation) if agent else None


def _is_agent(session: _Session, kind: str, new: HookEvent) -> bool:
    """Is it the session's agent that calls? It says the conversation that we know, or is the
    nearest program above us that is no shell."""
    if new.conversation is not None and new.conversation == session.conversation:
        return True
    left = _BETWEEN[kind]
    pid = os.getppid()
    for _ in range(_DEEPEST):
        if pid == session.agent:
            return True
        comm, parent = _who(pid)
        left -= comm not in _SHELLS
        if left < 0 or parent <= 1:
            return False
        pid = parent
    return False


def _who(pid: int) -> tuple[bytes, int]:
    """A process's name, and its parent."""
    head, _, tail = quick_read.read(f"/proc/{pid}/stat").rpartition(b") ")
    return head.partition(b" (")[2], int(tail.split(None, 2)[1])


# --- what is done with it ------------------------------------------------------------------------


def _note(stem: str, new: HookEvent) -> tuple[HookEvent | None, HookEvent]:
    """Write it down; what was there before, and what is now. Two hooks at once take turns."""
    with files.locked(f"{stem}.kit"):
        old = None
        with suppress(OSError):
            old = last_event.decode(quick_read.read(f"{stem}.said"))
        whole = last_event.merged(old, new)
        files.write_private(f"{stem}.said", last_event.encode(whole), durable=False)
    return old, whole


def _have_looked(directory: str) -> None:
    """Start a pass, in an environment of its own: what it starts is not the agent's."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    subprocesses.detach(["/bin/sh", f"{directory}/callback"], env=kept)


def _pass_on(event: str) -> None:
    """Codex knows one program to notify, and for this launch that is us: the user's own is told
    too."""
    from sesh.state import settings

    home = os.environ.get("CODEX_HOME") or f"{paths.home()}/.codex"
    path = f"{home}/config.toml"
    own = settings.parse(path, quick_read.read(path)).get("notify")
    if isinstance(own, list) and own and all(isinstance(word, str) for word in own):
        program = paths.which(own[0]) if "/" not in own[0] else own[0]
        if program:
            subprocesses.detach([program, *own[1:], event], env=os.environ)
