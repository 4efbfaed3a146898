"""Sessions without a process of sesh: another program runs the agent and reports its progress.

Every operation that needs a process is refused before it gets here (`Place.has_process`).
"""

from __future__ import annotations

from collections.abc import Sequence

from sesh.model.configuration import Config
from sesh.model.errors import ConflictError
from sesh.model.observation import ExitReport, LaunchReport, Observation
from sesh.model.record import Record
from sesh.places.interface import Answers, Look, PlaceKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def _refused(_kind: object, record: Record, *_: object, **_options: object) -> NoReturn:
    raise ConflictError(f"{record.name}: sesh runs no process for it")


class RecordOnlyKind(PlaceKind):
    tmux = attach_command = enter_command = freeze = thaw = _refused

    def words(self, record: Record) -> tuple[LaunchReport | None, ExitReport | None]:
        return None, None

    def complete(
        self, looks: Sequence[Look], config: Config, answers: Answers
    ) -> list[Observation]:
        return [sight for _, sight in looks]

    def has_screen(self, record: Record) -> bool:
        return False

    def describe(self, record: Record) -> str:
        return "nowhere: another program runs it"
