"""Errors with their exit codes. Only `terminal/main` turns an error into an exit.

The table of exit codes is the one in sesh(1); a test compares them.
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")

SCARCE = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)  # no more files or processes

OK = 0
FAILED = 1
USAGE = 2
ENDED = 3
NO_SESSION = 4
CANNOT_TELL = 5
STATE = 6
CONFLICT = 8
PARTIAL = 9
PROBLEMS = 10
BUG = 70
TIMED_OUT = 124
INTERRUPTED = 130

EXIT_CODES = {
    OK: "done; for status: alive (running, paused, starting, stopping, recovering)",
    FAILED: "failed, or the answer is no",
    USAGE: "usage error; or a question and no terminal to ask it (-y answers it)",
    ENDED: "ended (stale too)",
    NO_SESSION: "no such session",
    CANNOT_TELL: "cannot tell: tmux or docker missing, down or hung, or session on another machine",
    STATE: "a record or the config can't be read or written; nothing was changed, "
    "unless the message says that it is unknown",
    CONFLICT: "conflict: the name exists, it is locked, or an agent is waiting for an answer",
    PARTIAL: "some of several failed",
    PROBLEMS: "doctor found problems",
    BUG: "a bug in sesh (the message names its log)",
    TIMED_OUT: "wait timed out",
    INTERRUPTED: "interrupted",
}


def of_many(codes: Sequence[int]) -> int:
    """The exit code for many results: OK, PARTIAL if some failed, else that of the first."""
    bad = [code for code in codes if code]
    return OK if not bad else PARTIAL if len(bad) < len(codes) else bad[0]


class SeshError(Exception):
    """A one-line message: what is wrong, with what, what to do."""

    exit_code = FAILED
    hint: tuple[str, ...] = ()  # what to do, in extra lines


class UsageError(SeshError):
    exit_code = USAGE


class EndedError(SeshError):
    exit_code = ENDED


class NoSessionError(SeshError):
    exit_code = NO_SESSION


class CannotTellError(SeshError):
    """A question got no usable answer. Nothing was decided and nothing was done."""

    exit_code = CANNOT_TELL


class StateError(SeshError):
    """A file of sesh cannot be read or written."""

    exit_code = STATE


class ScarceError(StateError):
    """The system has no more files or processes for us."""

    exit_code = FAILED


class ConflictError(SeshError):
    exit_code = CONFLICT


class LockedError(SeshError):
    """Another program holds our lock: not a conflict that a new decision could solve."""

    exit_code = CONFLICT


class NotPermittedError(SeshError):
    """The process belongs to another user. Nothing was done."""


class TimedOutError(SeshError):
    """What was waited for did not come in time."""

    exit_code = TIMED_OUT


class ConversationInUseError(ConflictError):
    """Another process uses the conversation of an agent."""


# --- several sessions: an error with one does not affect the others ------------------------------


class noted:  # a context manager, used like a function
    """Note an error with one of several sessions; the work on the others continues."""

    def __init__(self, results: dict[str, Any], name: str) -> None:
        self._results, self._name = results, name

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, error: object, _trace: object) -> bool:
        if isinstance(error, SeshError):
            self._results[self._name] = error
        return isinstance(error, SeshError)


def only(results: Mapping[str, T | SeshError]) -> T:
    """The result of one session; an error is raised."""
    (result,) = results.values()
    if isinstance(result, SeshError):
        raise result
    return result
