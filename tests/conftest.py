"""Fixtures. What needs tmux or docker is skipped without it, unless SESH_TEST_REQUIRE names it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.world import World

# Timings are never asserted: a busy machine makes no test wrong.
settings.register_profile("sesh", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sesh")

_REQUIRED = os.environ.get("SESH_TEST_REQUIRE", "").split(",")


def need(program: str) -> None:
    """Skip the test without `program`, or fail where it is required."""
    if shutil.which(program) is not None:
        return
    if program in _REQUIRED:
        pytest.fail(f"{program} is required here (SESH_TEST_REQUIRE) and missing")
    pytest.skip(f"{program} is not installed")


@pytest.fixture
def world() -> Iterator[World]:
    need("tmux")
    made = World()
    yield made
    made.end()
