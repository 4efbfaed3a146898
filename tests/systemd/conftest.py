"""Fixtures: one machine a worker, one user a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import do_without
from tests.systemd.machine import Machine, MachineError, User, lacking


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    if reason := lacking():
        do_without("systemd", reason)
    made = Machine()
    try:
        try:
            made.boot()
        except MachineError as error:
            do_without("systemd", str(error))
        yield made
    finally:
        made.end()


@pytest.fixture
def user(machine: Machine) -> Iterator[User]:
    """A user with a home of its own, whose manager lives without a login."""
    made = machine.user()
    yield made
    made.remove()
