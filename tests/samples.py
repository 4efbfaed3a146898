"""Records and sights for tests of pure code."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sesh.model.observation import ExitReport, LaunchReport
from sesh.model.place import Agent, Host, Machine, Process
from sesh.model.record import Record, Spec, Status
from sesh.model.states import Desired
from sesh.model.value_object import replace

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)
MACHINE = Machine("machine", "boot", "pid:[1]")
AGENT = Agent(Process(4711, 99), keeper=4710, leader=4709, tty=34816)


def record(*, launched: bool = True, generation: int = 2, **status: object) -> Record:
    """A session; `launched`: its agent has been seen. Other words go into its status."""
    made = Record(
        name="demo",
        id="demo-20261115-115900-0123abcd",
        spec=Spec(command=("sleep", "9"), cwd="/srv", created=NOW - timedelta(minutes=1)),
        place=Host(
            generation=generation,
            machine=MACHINE,
            run="/state/run/m",
            snapshot="/state/run/m/demo.env",
            socket="/state/run/m/tmux.sock",
            pane="%3" if launched else None,
            agent=AGENT if launched else None,
        ),
        status=Status(desired=Desired.RUNNING, launched=NOW - timedelta(seconds=5)),
    )
    return replace(made, status=replace(made.status, **status))


def exit_word(
    code: int = 0, *, generation: int = 2, terminal: bool = True, problem: str | None = None
) -> ExitReport:
    return ExitReport(generation, code, terminal, NOW - timedelta(seconds=1), problem)


def launch_word(*, generation: int = 2) -> LaunchReport:
    return LaunchReport(generation, AGENT, "%3", Process(4000, 11), NOW - timedelta(seconds=4))
