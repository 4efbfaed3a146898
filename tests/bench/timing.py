"""Medians of commands, in interleaved rounds: what slows the machine down for a while then slows
every case alike, and ratios stay true."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median


class FailedError(Exception):
    """A command that is measured did not succeed: its time would mean nothing."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs a program to its end, with nothing but spawn and wait inside the measured time."""

    env: Mapping[str, str]
    said: Path  # where its standard error goes
    processor: bool = False  # processor time instead: what a command waits for does not count
    terminal: str = os.devnull  # its standard input and output

    def time(self, argv: Sequence[str]) -> float:
        """Milliseconds from spawn to exit, or of processor time."""
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, self.terminal, os.O_RDONLY | os.O_NOCTTY, 0),
            (os.POSIX_SPAWN_OPEN, 1, self.terminal, os.O_WRONLY | os.O_NOCTTY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(self.said), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        ]
        begin = time.perf_counter()
        pid = os.posix_spawn(argv[0], list(argv), self.env, file_actions=actions)
        _, status, used = os.wait4(pid, 0)
        seconds = time.perf_counter() - begin
        took = (used.ru_utime + used.ru_stime if self.processor else seconds) * 1000
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            words = " ".join(argv)[:200]
            raise FailedError(f"{words}: exit {code}: {self.said.read_text()[-500:].strip()}")
        return took


def nothing(_: int) -> None:
    """No clearing up is needed."""


@dataclass(frozen=True, slots=True)
class Case:
    """One command to measure; `command` gets a number that is new each time."""

    name: str
    command: Callable[[int], Sequence[str]]
    rounds: int
    undo: Callable[[int], None] = nothing  # puts things back as they were; not measured


def always(*argv: str) -> Callable[[int], Sequence[str]]:
    return lambda _: argv


def medians(cases: Sequence[Case], runner: Runner) -> dict[str, float]:
    """The median time of each case, by name. The first run of each warms up and does not count."""
    took: dict[str, list[float]] = {case.name: [] for case in cases}
    for case in cases:
        _once(case, 0, runner)
    most = max(case.rounds for case in cases)
    for number in range(most):
        first = number % len(cases)
        for case in (*cases[first:], *cases[:first]):
            if _takes_part(case, number, most):
                took[case.name].append(_once(case, number + 1, runner))
    return {name: median(times) for name, times in took.items()}


def _takes_part(case: Case, number: int, most: int) -> bool:
    """Spreads a case of fewer rounds evenly over all of them."""
    return (number + 1) * case.rounds // most > number * case.rounds // most


def _once(case: Case, number: int, runner: Runner) -> float:
    try:
        return runner.time(case.command(number))
    finally:
        case.undo(number)
