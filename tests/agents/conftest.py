"""Fixtures: a person with the real Claude Code, and one with the real Codex."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agents.home import settle_claude, settle_codex
from tests.agents.install import BIN, NotInstalled, installed
from tests.agents.person import Person
from tests.agents.stub import Stub, answering
from tests.conftest import do_without
from tests.world import World


@pytest.fixture
def stub() -> Iterator[Stub]:
    with answering() as made:
        yield made


@pytest.fixture(scope="session")
def real_claude() -> None:
    _need_agent("claude")


@pytest.fixture(scope="session")
def real_codex() -> None:
    _need_agent("codex")


def _need_agent(agent: str) -> None:
    """The real one, or none: nothing here plays its part."""
    try:
        installed(agent)
    except NotInstalled as error:
        do_without(agent, str(error))


@pytest.fixture
def claude(real_claude: None, world: World, stub: Stub) -> Person:
    world.env |= settle_claude(world.root / "home", world.cwd, stub)
    world.env["PATH"] = f"{BIN}:{world.env['PATH']}"
    return Person(world, stub, "claude", asks="Do you want to proceed?")


@pytest.fixture
def codex(real_codex: None, world: World, stub: Stub) -> Person:
    world.env |= settle_codex(world.root / "home", world.cwd, stub)
    world.env["PATH"] = f"{BIN}:{world.env['PATH']}"
    return Person(world, stub, "codex", asks="Would you like to run")
