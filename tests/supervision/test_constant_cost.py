"""What a pass reads once, whatever the number of sessions."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sesh.model import due
from sesh.model.configuration import Config
from sesh.model.observation import Verdict
from sesh.model.place import Agent
from sesh.model.record import Supervision
from sesh.model.states import State
from sesh.model.value_object import replace
from sesh.state import records, settings
from sesh.supervision import run_pass
from sesh.system import paths, processes
from tests import samples

CARE = Supervision(timeout=3600.0, max_memory=1 << 50, check_interval=0.01)


@pytest.fixture
def agent() -> Iterator[Agent]:
    """A living process, as the agent of a session without a terminal."""
    with subprocess.Popen(["sleep", "999"], start_new_session=True) as process:
        stat = processes.look(process.pid)
        assert stat
        yield Agent(stat.process, keeper=stat.ppid, leader=stat.session, tty=0)
        process.kill()


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    config = Path(paths.config_file())
    config.parent.mkdir(parents=True)
    config.write_text("[stop]\ngrace = 3\n")
    records.prepare()
    return tmp_path


def add(name: str, agent: Agent) -> None:
    """A session with limits, whose agent lives."""
    made, run = samples.record(), processes.run_dir()
    made = replace(
        made,
        name=name,
        id=f"{name}-20261115-115900-0123abcd",
        spec=replace(made.spec, supervision=CARE),
        place=replace(
            made.place, machine=processes.here(), run=run, agent=agent, socket=f"{run}/no.sock"
        ),
    )
    records.claim(made, Verdict(State.RUNNING), None)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    made: Counter[str] = Counter()

    def count(where: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(where, name)

        def counted(*args: Any, **options: Any) -> Any:
            made[name] += 1
            return real(*args, **options)

        monkeypatch.setattr(where, name, counted)

    count(settings, "read_regular")
    count(processes, "table")
    count(due, "due")
    count(due, "next_due")
    return made


def test_a_pass_reads_settings_and_processes_once_and_asks_each_session_once(
    state: Path, agent: Agent, calls: Counter[str]
) -> None:
    found = {}
    for number in (5, 40):
        for at in range(number):
            if records.entry(f"s{at}") is None:
                add(f"s{at}", agent)
        time.sleep(0.05)  # memory is measured in each pass
        calls.clear()
        settings._Read.identity = None
        done = run_pass.run_pass(settings.load())
        assert [one.state for one in done.found] == [State.RUNNING] * number
        assert not done.troubles
        found[number] = {
            **{name: calls[name] for name in ("read_regular", "table")},
            **{name: calls[name] / number for name in ("due", "next_due")},
        }
    assert found[5] == found[40]
    # Asked again with the measured memory.
    assert found[5] == {"read_regular": 1, "table": 1, "due": 2, "next_due": 1}


def test_settings_are_read_again_when_the_file_has_changed(
    state: Path, calls: Counter[str]
) -> None:
    config = Path(paths.config_file())
    assert [settings.load().stop.grace for _ in range(3)] == [3.0] * 3
    assert calls["read_regular"] == 1
    config.write_text("[stop]\ngrace = 40\n")
    assert settings.load().stop.grace == 40.0
    config.unlink()
    assert settings.load().stop.grace == Config().stop.grace
