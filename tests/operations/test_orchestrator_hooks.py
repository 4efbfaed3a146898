"""The hooks of orchestrators, inside one process: any bytes give a valid answer."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesh import api
from sesh.operations import orchestrator_hooks
from sesh.system import stdin
from tests.world import count

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [*("agent_id", "exit_code", "exitCode", "error", "summary", "metadata", "task_id")]
)
OBJECTS = st.dictionaries(KEYS, JSON | st.sampled_from(["one", "1", 1, 0]), max_size=6)
INPUTS = st.binary(max_size=200) | OBJECTS.map(lambda found: json.dumps(found).encode())


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A state directory for all of them: no input may break what the next one needs."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    api.create("one", phase="approval")
    yield
    patch.undo()


@settings(max_examples=count(50, 200), deadline=None)
@given(INPUTS)
def test_any_input_is_answered(data: bytes) -> None:
    answer = json.loads(orchestrator_hooks.pre_delegate(data), parse_constant=pytest.fail)
    assert type(answer["should_resume"]) is bool
    assert isinstance(answer["reason"], str)
    assert answer["agent_id"] is None or isinstance(answer["agent_id"], str)


@settings(max_examples=count(30, 100), deadline=None)
@given(INPUTS)
def test_any_end_leaves_whole_records(data: bytes) -> None:
    if api.get("one").finished:
        api.create("one", phase="approval")
    said = orchestrator_hooks.subagent_stop(data)
    assert said is None or isinstance(said, str)
    assert api.get("one").phase in ("approval", "completed", "failed")


def test_input_beyond_the_limit_is_discarded() -> None:
    read, write = os.pipe()
    writer = os.fork()
    if writer == 0:
        os.close(read)
        left = 3 * stdin.LIMIT
        while left > 0:
            left -= os.write(write, b"x" * min(left, 1 << 16))
        os._exit(0)
    os.close(write)
    data = stdin.read(read)
    os.close(read)
    assert stdin.LIMIT < len(data) <= stdin.LIMIT + (1 << 16)
    assert os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) == 0
    assert "larger than" in json.loads(orchestrator_hooks.pre_delegate(data))["reason"]
