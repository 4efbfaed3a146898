"""What a pass finds out about agents: a changed conversation, and a new wait for a person."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from sesh.agents import activity
from sesh.agents.activity import Activity
from sesh.model.agents.hook_event import WAITING
from sesh.model.digest import Digest
from sesh.model.errors import SeshError
from sesh.model.text import quick_json
from sesh.places import agent_files
from sesh.places.agent_files import Launch
from sesh.state import events
from sesh.system import files, quick_read


def conversation_changed(digest: Digest, run: str) -> bool:
    """Can the agent's conversation differ from the recorded one?"""
    recorded = quick_json.loads(digest.view)["conversation"]
    launch = agent_files.launch_in(digest, run)
    event = agent_files.last_hook(launch) if launch else None
    if event is None or event.conversation is None:
        return launch is not None and recorded is None
    return bool(event.conversation != recorded)


def report_waiting(digests: Iterable[Digest], run: str) -> None:
    """Append an event for every agent that has begun to wait for a person."""
    for digest in digests:
        launch = agent_files.launch_in(digest, run)
        if launch:
            with suppress(SeshError, OSError):
                _report_wait(digest.name, launch, activity.of(launch))


def _report_wait(name: str, launch: Launch, doing: Activity | None) -> None:
    """The file `ID.GEN.told` exists during a reported wait and holds its start time."""
    path = f"{launch.stem}.told"
    if doing is None or doing.kind != WAITING:
        with suppress(FileNotFoundError):
            os.unlink(path)
        return
    since = doing.since or 0.0
    with suppress(FileNotFoundError, ValueError):
        if since <= float(quick_read.read(path)) + activity.TOLERANCE:
            return
    files.write_private(path, f"{since:.3f}\n".encode(), durable=False)
    event = events.new("waiting", name, launch.id, launch.generation)
    why = {"reason": activity.attention(doing), "waiting_for": doing.what}
    events.write({**event, **why})
