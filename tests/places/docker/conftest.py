"""Fixtures for sessions in containers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine import Engine
from tests.world import World


@pytest.fixture
def boxed(boxed: World) -> World:
    """The same, patient with the engine: a busy machine makes no test wrong."""
    boxed.configure("[docker]\ntimeout = 20\n")
    return boxed


@pytest.fixture(scope="session")
def far_engine(engine: Engine, shared: Path) -> Iterator[Engine]:
    """An engine that is spoken to by network. (Where `engine` can't be had, nor can this one.)"""
    made = Engine(shared, tcp=True)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def far(far_engine: Engine, world: World) -> Iterator[World]:
    """A world whose engine is on another machine, as far as sesh can tell."""
    world.env["DOCKER_HOST"] = far_engine.tcp_host
    world.configure("[docker]\ntimeout = 20\n")
    yield world
    far_engine.clear()
