"""Everyday commands do not call further through sesh than they do now."""

from __future__ import annotations

from tests import walks
from tests.world import World

MOST_CALLS = {  # from one module to another; what varies from run to run does not count
    "start": 290,
    "ls --json": 32,
    "pass": 202,
    "gc": 330,
    "restart of an agent": 860,  # a pass of the keeper may record the end first: one look more
    "stop --all of 4": 940,  # on a busy machine it looks again more often
    "doctor --fix": 880,  # it also looks at the other tmux servers of this machine
}


def test_everyday_commands_call_no_further_than_they_did(world: World) -> None:
    found = dict(walks.walks(world))
    assert found.keys() == MOST_CALLS.keys()
    over = {what: walks.steady(calls) for what, calls in found.items()}
    assert {what: over[what] for what in over if over[what] > MOST_CALLS[what]} == {}
