"""What a pass does with what agents say: it learns a new conversation, and tells who waits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress

from sesh.agents import activity, launch_kit
from sesh.agents.activity import Activity, Launch
from sesh.agents.last_event import WAITING
from sesh.model.digest import Digest
from sesh.model.errors import SeshError
from sesh.model.record import Record, name_of
from sesh.places import environment
from sesh.state import events
from sesh.system import files, processes, quick_read

_SAME = 3.0  # seconds by which two sources may differ on when a wait began


def conversation(record: Record) -> str | None:
    """The conversation that an agent is in: it has said so, or holds its transcript open."""
    said = activity.heard(activity.launch_of(record))
    if said and said.conversation:
        return said.conversation
    kit, agent = record.spec.kit, record.place.agent
    if kit is None or agent is None or not record.place.agent_files_here:
        return None
    if kit.conversation != "learned" or not processes.alive(agent.process):
        return None
    return launch_kit.open_conversation(
        kit, agent.process.pid, environment.known(record.place.snapshot)
    )


def to_be_looked_at(found: Digest, run: str) -> bool:
    """May its agent be in another conversation than its record says?"""
    recorded = json.loads(found.view)["conversation"]
    launch = activity.launch_in(found, run)
    heard = activity.heard(launch) if launch else None
    if heard is None or heard.conversation is None:
        return launch is not None and recorded is None
    return bool(heard.conversation != recorded)


def note(held: Iterable[Digest], run: str) -> None:
    """Write into the events, once each time, that an agent waits for somebody."""
    for found in held:
        launch = activity.launch_in(found, run)
        if launch:
            with suppress(SeshError, OSError):
                _note(launch, activity.of(launch))


def _note(launch: Launch, doing: Activity | None) -> None:
    """The file `ID.GEN.told` stands while one waits: since when, as it was told."""
    path = f"{launch.stem}.told"
    if doing is None or doing.kind != WAITING:
        with suppress(FileNotFoundError):
            os.unlink(path)
        return
    since = doing.since or 0.0
    with suppress(FileNotFoundError, ValueError):
        if since <= float(quick_read.read(path)) + _SAME:
            return
    files.write_private(path, f"{since:.3f}\n".encode(), durable=False)
    event = events.new("waiting", name_of(launch.id), launch.id, launch.generation)
    why = {"reason": activity.attention(doing), "waiting_for": doing.what}
    events.write({**event, **why})
