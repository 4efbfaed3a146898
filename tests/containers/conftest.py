"""Fixtures for sessions in containers."""

from __future__ import annotations

import pytest

from tests.world import World


@pytest.fixture
def boxed(boxed: World) -> World:
    """The same, patient with the engine: a busy machine makes no test wrong."""
    boxed.configure("[docker]\ntimeout = 20\n")
    return boxed
