"""Which container is a session's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sesh.model.place import Container, ContainerRequest, Engine, InContainer
from sesh.model.record import Record
from sesh.model.value_object import replace
from sesh.places.docker import ownership
from sesh.system import container_engine
from sesh.system.container_engine import Facts
from tests.samples import NOW, record

OWN, OTHER = "a" * 64, "b" * 64
CREATED = "2026-11-15T11:59:56.123456789Z"


def session(*, known: bool = True, created: str = CREATED, host: str | None = None) -> Record:
    made = record(launched=False)
    container = Container(OWN, "sesh-demo", "", made=True, mounted=True, created=created)
    place = InContainer(
        **{**made.place.__dict__, "run": f"/state/run/m/{made.id}.box"},
        engine=Engine("docker", host=host),
        container=container if known else None,
    )
    return replace(made, place=place, spec=replace(made.spec, box=ContainerRequest(image="img")))


def container(**other: object) -> Facts:
    labels = {"sesh.id": record().id, "sesh.run": "/state/run/m"}
    facts = Facts(
        *(OWN, "sesh-demo", "running", 1, "", "", 0),
        oom=False,
        labels=labels,
        image="img:latest",
        directory="/",
        word="",
        created=CREATED,
    )
    return replace(facts, **other)


@pytest.mark.parametrize(
    ("mine", "facts", "ours"),
    [
        (session(), container(), True),
        (session(), container(name="renamed"), True),
        (session(created=""), container(), True),  # a record of an older version
        (session(), container(created="2026-11-15T13:59:56.123456789+02:00"), True),
        (session(), container(id=OTHER), False),
        (session(), container(created="2026-11-15T11:59:57Z"), False),
        (session(), container(labels={}), False),
        (session(known=False), container(), True),
        (session(known=False), container(image="localhost/img:latest"), True),
        (session(known=False), container(image="committed"), False),
        (session(known=False), container(name="mine"), False),
        (session(known=False), container(created="2026-11-15T11:59:50Z"), False),
        (session(known=False), container(created="nonsense"), False),
        (session(known=False, host="tcp://far:1"), container(created="nonsense"), True),
    ],
)
def test_a_container_is_ours_by_what_we_have_written(
    mine: Record, facts: Facts, ours: bool
) -> None:
    assert ownership.made_for(mine, facts) is ours


def test_an_existing_container_is_never_ours() -> None:
    mine = session()
    theirs = replace(mine, spec=replace(mine.spec, box=ContainerRequest(existing="theirs")))
    assert not ownership.made_for(theirs, container())


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-15T12:00:00Z", NOW),
        ("2026-11-15T12:00:00.999999999Z", NOW.replace(microsecond=999999)),
        ("2026-11-15T14:00:00.1+02:00", NOW.replace(microsecond=100000)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("0001-01-01T00:00:00+14:00", None),
        ("2026-11-15", None),
        ("٢026-11-15T12:00:00Z", None),
        ("", None),
    ],
)
def test_times_of_engines(text: str, moment: datetime | None) -> None:
    assert container_engine.moment(text) == moment


@pytest.mark.parametrize(("after", "ours"), [(-1, False), (0, True), (1, True)])
def test_no_container_is_older_than_its_claim(after: int, ours: bool) -> None:
    mine = session(known=False)
    created = mine.status.launched + timedelta(microseconds=after)
    told = created.strftime("%Y-%m-%dT%H:%M:%S.%f789Z")
    assert ownership.as_asked(mine, container(created=told)) is ours
