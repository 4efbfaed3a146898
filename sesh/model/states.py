"""The states of a session, the causes of an end, and the other fixed vocabularies of a record."""

from __future__ import annotations

from enum import StrEnum

from sesh.model.state_table import STATES


class State(StrEnum):
    """`state_table` has the properties of each state; `reconcile` decides which one is true."""

    DAMAGED = "damaged"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    RECOVERING = "recovering"
    STALE = "stale"
    FAILED = "failed"
    TIMEOUT = "timeout"
    COMPLETED = "completed"
    STOPPED = "stopped"
    LOST = "lost"
    UNKNOWN = "unknown"
    ORPHAN = "orphan"


# `orphan`, `unknown` and `damaged` are neither alive nor ended.
ALIVE = frozenset(state for state in State if STATES[state].alive)
ENDED = frozenset(state for state in State if STATES[state].ended)
FAILURES = frozenset(state for state in State if STATES[state].failure)
# The ends that a record can hold. `stale` is not one of these: something of it still runs.
OUTCOMES = ENDED - {State.STALE}
ENDED_WELL = OUTCOMES - FAILURES
HELD, FROZEN = "held", "frozen"  # why a session is paused: its agent runs, or does not run


class Cause(StrEnum):
    EXIT = "exit"
    SIGNAL = "signal"
    OOM = "oom"
    REBOOT = "reboot"
    TERMINAL_GONE = "terminal-gone"
    CONTAINER_GONE = "container-gone"
    LIMIT = "limit"
    TIMEOUT = "timeout"
    STOPPED = "stopped"
    LAUNCH = "launch"
    HEALTH = "health"
    UNKNOWN = "unknown"


class Health(StrEnum):
    """The health of a living agent."""

    OK = "ok"
    FAILING = "failing"  # its health check fails
    HUNG = "hung"  # silent for too long


class Retry(StrEnum):
    """The ends that may be retried."""

    FAILURE = "failure"
    LOST = "lost"
    TIMEOUT = "timeout"
    ALWAYS = "always"


class Desired(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"
