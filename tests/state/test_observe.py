"""Many records → observations: one session's trouble is its own."""

from __future__ import annotations

import pytest

from sesh.model.configuration import Config
from sesh.model.observation import Observation, seen
from sesh.model.place import ContainerRequest, InContainer
from sesh.model.record import Record
from sesh.model.value_object import replace
from sesh.places.docker import observe as docker
from sesh.state import observe
from tests.samples import record


def boxed(name: str) -> Record:
    made = record()
    host = made.place
    place = InContainer(host.generation, host.machine, host.run, host.snapshot, host.socket)
    spec = replace(made.spec, box=ContainerRequest(image="image"))
    return replace(made, name=name, place=place, spec=spec)


@pytest.mark.parametrize("error", [ValueError("²"), OSError(21, "a directory"), RecursionError()])
def test_an_unreadable_session_is_unknown_and_affects_no_other(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def complete(one: Record, *_: object) -> Observation:
        if one.name == "hostile":
            raise error
        return Observation(seen("it lives"))

    monkeypatch.setattr(docker, "_complete", complete)
    hostile, honest = observe.observe([boxed("hostile"), boxed("honest")], Config())
    assert hostile.agent.unknown
    assert "cannot be looked at" in hostile.agent.what
    assert honest.agent.present
