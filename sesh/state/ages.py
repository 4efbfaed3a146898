"""For how long a launch, or the whole life of a session, has lasted. By the kernel's clock wherever
that can tell: no deadline moves when somebody sets the time of day."""

from __future__ import annotations

import time

from sesh.model.record import Record
from sesh.system import processes

FOR_EVER = float("inf")


def of_launch(record: Record, now: float | None = None) -> float:
    """Seconds since its agent began; `now` is the uptime. On a far engine, and of a boot that is
    over, only the time of day tells."""
    agent, status = record.place.agent, record.status
    if agent is not None and record.place.pids_here and record.place.machine == processes.here():
        return max(0.0, processes.age(agent.process, processes.uptime() if now is None else now))
    return _since((status.started or status.launched).timestamp())


def of_life(record: Record, now: float | None = None) -> float:
    """Seconds since a person has started it, all launches and what was waited in between, but not
    what it was paused for."""
    status = record.status
    held = status.held + (_since(status.paused.timestamp()) if status.paused else 0.0)
    before = status.lived + _launching(record) if status.lived else 0.0
    return before + max(0.0, of_launch(record, now) - held)


def _launching(record: Record) -> float:
    """What the launch has taken, from its claim to the agent's beginning: an engine takes long."""
    status = record.status
    taken = (status.started - status.launched).total_seconds() if status.started else 0.0
    return min(max(0.0, taken), record.spec.launch_timeout)


def left(record: Record) -> float:
    """Seconds that its timeout leaves it from now on; below 0: it is over."""
    timeout = record.spec.care.timeout
    return timeout - of_life(record) if timeout else FOR_EVER


def _since(moment: float) -> float:
    return max(0.0, time.time() - moment)
