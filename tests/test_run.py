"""The launcher: an answer or a reason why there is none, never later than the timeout."""

from __future__ import annotations

import time

import pytest

from sesh import run


def test_an_answer() -> None:
    answer = run.call(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=5)
    assert (answer.code, answer.out, answer.err, answer.problem) == (3, "out\n", "err\n", None)


@pytest.mark.parametrize("launch", [run.call, run.tool])
def test_a_hang_ends_at_the_timeout(launch: object) -> None:
    assert callable(launch)
    begin = time.monotonic()
    answer = launch(["sleep", "60"], timeout=0.3)
    assert answer.code is None
    assert answer.problem == "no answer within 0.3 s"
    assert time.monotonic() - begin < 9


def test_a_grandchild_that_keeps_the_pipe_open_does_not_hold_us() -> None:
    begin = time.monotonic()
    answer = run.call(["sh", "-c", "sleep 20 & exit 0"], timeout=0.5)
    assert answer.code is None
    assert time.monotonic() - begin < 9


def test_an_endless_answer_is_cut_off() -> None:
    answer = run.call(["yes"], timeout=20)
    assert answer.problem == "an answer without end"


@pytest.mark.parametrize("launch", [run.call, run.tool])
def test_a_missing_program(launch: object) -> None:
    assert callable(launch)
    answer = launch(["no-such-program"], timeout=5)
    assert answer.code is None
    assert answer.problem == "no-such-program: not found"


def test_tool_gives_code_and_streams() -> None:
    answer = run.tool(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=5)
    assert (answer.code, answer.out, answer.err) == (3, "out\n", "err\n")
