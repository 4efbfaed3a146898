"""Sessions without a process of sesh: another program runs the agent and reports its progress.

Every operation that needs a process is refused before it gets here (`Place.has_process`).
"""

from __future__ import annotations

from collections.abc import Sequence

from sesh.model.configuration import Config
from sesh.model.errors import ConflictError
from sesh.model.observation import ExitWord, LaunchWord, Observation
from sesh.model.record import Record, Spec
from sesh.places.interface import Answers, Look
from sesh.system.tmux import Tmux


def _nothing(record: Record) -> ConflictError:
    return ConflictError(f"{record.name}: sesh runs no process of it")


def tmux(record: Record, config: Config) -> Tmux:
    raise _nothing(record)


def attach_command(record: Record, config: Config, *, read_only: bool, alone: bool) -> list[str]:
    raise _nothing(record)


def enter_command(record: Record) -> list[str]:
    raise _nothing(record)


def words(record: Record) -> tuple[LaunchWord | None, ExitWord | None]:
    return None, None


def complete(looks: Sequence[Look], config: Config, answers: Answers) -> list[Observation]:
    return [sight for _, sight in looks]


def by_proc(record: Record, sight: Observation) -> Observation | None:
    return None


def has_screen(record: Record) -> bool:
    return False


def fetch_transcript(record: Record, config: Config) -> None:
    """It has none."""


def freeze(record: Record, config: Config) -> None:
    raise _nothing(record)


def thaw(record: Record, config: Config) -> None:
    raise _nothing(record)


def release(record: Record, config: Config) -> None:
    """Nothing was made for it."""


def remove_files(record: Record) -> None:
    """It has none."""


def made(record: Record) -> str | None:
    return None


def usage(record: Record) -> str | None:
    return None


def describe(record: Record) -> str:
    return "nowhere: somebody else runs it"


def patience(spec: Spec) -> float:
    return spec.launch_timeout
