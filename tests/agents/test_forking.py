"""Which sessions can be forked; the command itself: tests/commands/test_fork.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from sesh.agents import forking
from sesh.agents.templates import built_in
from sesh.model import codec
from sesh.model.errors import CannotTellError, SeshError
from sesh.model.record import Kit
from sesh.model.value_object import replace
from sesh.system import processes

DATA = Path(__file__).parents[1] / "data"
CLAUDE = next(kit for kit in built_in.kits() if kit.kind == "claude")


def test_one_in_a_container_is_refused() -> None:
    record = codec.decode((DATA / "record-docker.toml").read_bytes())
    record = replace(record, spec=replace(record.spec, kit=CLAUDE))
    with pytest.raises(SeshError, match="its agent are out of reach in place docker"):
        forking.check(record)


def test_one_of_another_machine_is_refused() -> None:
    record = codec.decode((DATA / "record-host.toml").read_bytes())
    record = replace(record, spec=replace(record.spec, kit=CLAUDE))
    here = replace(record, place=replace(record.place, machine=processes.here()))
    assert forking.check(here) == CLAUDE
    machine = replace(processes.here(), id="another")
    with pytest.raises(CannotTellError, match="another machine's"):
        forking.check(replace(record, place=replace(record.place, machine=machine)))


def test_an_older_template_gets_the_arguments_of_the_built_in() -> None:
    assert built_in.with_fork(replace(CLAUDE, fork=())).fork == CLAUDE.fork
    own = replace(CLAUDE, fork=("--copy", "{parent}", "{conversation}"))
    assert built_in.with_fork(own) == own
    assert built_in.with_fork(Kit("mine", "minted")).fork == ()
    assert built_in.with_fork(Kit("claude", "learned")).fork == ()
