"""What a check of `doctor` finds. Data only."""

from __future__ import annotations

from enum import StrEnum

from sesh.model.value_object import Value


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(Value):
    """One problem, and the command that fixes it."""

    level: Level
    text: str
    remedy: str | None = None
    note: str | None = None  # what the command will do, where its name does not say it
    subjects: tuple[str, ...] = ()  # the sessions, files or processes that it is about
    id: str = ""  # of its check, which `examine` adds
