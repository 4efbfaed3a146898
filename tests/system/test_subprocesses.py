"""The launcher: an answer or a reason why there is none, never later than the timeout."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from sesh.system import subprocesses
from tests import pace
from tests.world import eventually


def test_an_answer() -> None:
    answer = subprocesses.call(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=5)
    assert (answer.code, answer.out, answer.err, answer.problem) == (3, "out\n", "err\n", None)


@pytest.mark.parametrize("launch", [subprocesses.call, subprocesses.tool])
def test_a_hang_ends_at_the_timeout(launch: object) -> None:
    assert callable(launch)
    begin = time.monotonic()
    answer = launch(["sleep", "60"], timeout=0.3)
    assert answer.code is None
    assert answer.problem == "no answer within 0.3 s"
    assert time.monotonic() - begin < pace.seconds(9)


def test_a_grandchild_that_keeps_the_pipe_open_does_not_block() -> None:
    begin = time.monotonic()
    answer = subprocesses.call(["sh", "-c", "sleep 20 & exit 0"], timeout=0.5)
    assert answer.code is None
    assert time.monotonic() - begin < pace.seconds(9)


def test_an_endless_answer_is_cut_off() -> None:
    answer = subprocesses.call(["yes"], timeout=20)
    assert answer.problem == "an answer without end"


@pytest.mark.parametrize("launch", [subprocesses.call, subprocesses.tool])
def test_a_missing_program(launch: object) -> None:
    assert callable(launch)
    answer = launch(["no-such-program"], timeout=5)
    assert answer.code is None
    assert answer.problem == "no-such-program: not found"


def test_tool_gives_code_and_streams() -> None:
    answer = subprocesses.tool(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=5)
    assert (answer.code, answer.out, answer.err) == (3, "out\n", "err\n")


def test_the_reason_is_given_when_a_program_cannot_be_started(tmp_path: Path) -> None:
    gone = subprocesses.tool(["true"], timeout=5, cwd=str(tmp_path / "gone"))
    assert gone.code is None
    assert gone.problem is not None
    assert gone.problem.startswith("true: FileNotFoundError: ")
    null = subprocesses.tool(["sh", "-c", "echo \0"], timeout=5)
    assert (null.code, null.problem) == (None, "sh: ValueError: embedded null byte")


def test_a_command_that_is_fed(tmp_path: Path) -> None:
    script = "cat >got; echo out; echo err >&2; exit 3"
    data = b"x" * (1 << 20)
    fed = subprocesses.feed(
        ["sh", "-c", script], data, timeout=20, env=os.environ, cwd=str(tmp_path)
    )
    assert (fed.code, fed.out, fed.err) == (3, "", "err\n")
    assert (tmp_path / "got").read_bytes() == data
    none = subprocesses.feed(["no-such-program"], b"", timeout=5, env=os.environ, cwd="/")
    assert (none.code, none.problem) == (None, "no-such-program: No such file or directory")


def test_a_timeout_of_a_month() -> None:
    answer = subprocesses.call(["sh", "-c", "sleep 0.2; echo out"], timeout=30 * 86400)
    assert (answer.code, answer.out) == (0, "out\n")
    fed = subprocesses.feed(
        ["sh", "-c", "sleep 0.2; exit 3"], b"", timeout=30 * 86400, env={}, cwd="/"
    )
    assert fed.code == 3


def test_background_processes_of_a_fed_command_are_not_waited_for(tmp_path: Path) -> None:
    begin = time.monotonic()
    script = "echo first >&2; sleep 30 & echo $! >pid; (sleep 0.1; echo last >&2) & exit 3"
    fed = subprocesses.feed(
        ["sh", "-c", script], b"", timeout=20, env=os.environ, cwd=str(tmp_path)
    )
    assert (fed.code, fed.err, fed.problem) == (3, "first\nlast\n", None)
    assert time.monotonic() - begin < pace.seconds(15)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_the_output_of_a_fed_command_that_timed_out() -> None:
    script = "echo why not >&2; exec 2>&-; sleep 30"
    for said in (script, script.replace("exec 2>&-; ", "")):
        fed = subprocesses.feed(["sh", "-c", said], b"", timeout=0.5, env=os.environ, cwd="/")
        assert (fed.code, fed.err, fed.problem) == (None, "why not\n", "no answer within 0.5 s")


def test_a_fed_command_without_end_and_one_that_can_not_be() -> None:
    endless = subprocesses.feed(["sh", "-c", "yes >&2"], b"", timeout=20, env=os.environ, cwd="/")
    assert endless.problem == "an answer without end"
    none = subprocesses.feed(["sh", "-c", "echo \0"], b"", timeout=20, env=os.environ, cwd="/")
    assert (none.code, none.problem) == (None, "sh: embedded null byte")


def test_a_detached_program(tmp_path: Path) -> None:
    """It has a session of its own, none of our streams, and goes on without us."""
    script = "pwd; readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2; echo $MINE"
    steps = f"cd {tmp_path}; ({script}) >said.tmp; mv said.tmp said; exec sleep 1000"
    inherited = {fd for fd in os.listdir("/proc/self/fd") if is_inheritable(int(fd))}
    pid = subprocesses.detach(["/bin/sh", "-c", steps], env={**os.environ, "MINE": "a b"})
    try:
        assert os.getsid(pid) == pid
        assert eventually((tmp_path / "said").exists)
        _, *streams = (tmp_path / "said").read_text().splitlines()[:4]
        assert streams[0] == streams[2] == "/dev/null"
        assert "a b" in (tmp_path / "said").read_text()
        assert set(os.listdir(f"/proc/{pid}/fd")) <= {"0", "1", "2"} | inherited
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def is_inheritable(fd: int) -> bool:
    """Is it one that whoever runs the tests gives to every program?"""
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


@pytest.mark.parametrize(
    ("taken", "factor"), [(0.0, 1), (0.003, 1), (0.01, 1), (0.02, 2), (0.05, 5), (3.0, 5)]
)
def test_limits_adapt_to_how_long_a_program_takes_to_start(taken: float, factor: float) -> None:
    assert subprocesses._slowness(taken) == pytest.approx(factor)


def test_a_late_answer_on_a_slow_machine_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocesses, "_slowness", lambda taken: 200.0)
    late = ("sh", "-c", "sleep 0.5; echo late")
    assert subprocesses.call(late, timeout=0.1, adapting=True).out == "late\n"
    assert subprocesses.begin(late, timeout=0.1, env={"PATH": os.environ["PATH"]})().out == "late\n"
    assert subprocesses.call(late, timeout=0.1).problem == "no answer within 0.1 s"
