"""Campaigns: a fault injected again and again, every wrong round kept, one line in a table."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

HEAD = ("campaign", "rounds", "wrong", "remarks")
PROPERTY = "campaign"  # how a row travels in a test's report, also from an xdist worker
ENOUGH = 20  # wrong rounds after which a campaign gives up

Row = tuple[str, str, str, str]


class TooWrongError(Exception):
    """So many rounds were wrong that going on would only waste time."""


@dataclass
class Campaign:
    """What one campaign did. A wrong round does not end it: the number of them is the result."""

    name: str
    rounds: int = 0
    wrong: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.seed = int(os.environ.get("SESH_TEST_SEED") or random.SystemRandom().getrandbits(32))
        self.random = random.Random(self.seed)

    @contextmanager
    def round(self, what: str) -> Iterator[None]:
        """One round: whatever goes wrong in it is noted."""
        if len(self.wrong) >= ENOUGH:
            raise TooWrongError(f"{self.name}: {self.told()}")
        self.rounds += 1
        try:
            yield
        except Exception as error:
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            self.wrong.append(f"round {self.rounds}, {what}: {kind}{error}")

    def remark(self, text: str) -> None:
        self.remarks.append(text)

    def told(self) -> str:
        lines = [f"{len(self.wrong)} of {self.rounds} rounds wrong, seed {self.seed}", *self.wrong]
        return "\n".join(lines)

    def conclude(self) -> None:
        """Every round must have been right, and there must have been some."""
        assert self.rounds, "a campaign without rounds shows nothing"
        assert not self.wrong, self.told()

    def row(self) -> str:
        seed = [f"seed {self.seed}"] if self.wrong else []
        remarks = "; ".join([*self.remarks, *seed])
        return json.dumps([self.name, str(self.rounds), str(len(self.wrong)), remarks])


def rows(properties: Iterable[tuple[str, object]]) -> list[Row]:
    """The rows among a report's properties."""
    found = []
    for key, value in properties:
        if key == PROPERTY:
            name, rounds, wrong, remarks = json.loads(str(value))
            found.append((name, rounds, wrong, remarks))
    return found


def render(found: Iterable[Row]) -> list[str]:
    """The aligned table, line by line."""
    table = [HEAD, *sorted(found)]
    name, rounds, wrong = (max(len(row[column]) for row in table) for column in range(3))
    return [
        f"{row[0]:<{name}} | {row[1]:>{rounds}} | {row[2]:>{wrong}} | {row[3]}".rstrip()
        for row in table
    ]
