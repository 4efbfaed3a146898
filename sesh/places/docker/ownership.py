"""Which containers are ours. Labels prove nothing: anybody may put any label on a container, and an
image that was made of one of ours (`docker commit`) gives them to each container of it.
"""

from __future__ import annotations

import os
import time

from sesh.model.place import Engine
from sesh.model.record import Record
from sesh.places.docker.session_files import place
from sesh.system import container_engine
from sesh.system.container_engine import Facts, Trouble
from sesh.system.subprocesses import Reply

LABEL = "sesh.id"


def container_name(name: str) -> str:
    return f"sesh-{name}"


def remove_container(record: Record, timeout: float) -> Reply:
    """Remove every container that sesh made for a session, also one that was never started. Returns
    their ids, or the answer that tells why not all are removed."""
    engine = place(record).engine
    found = container_engine.labelled(engine, f"{LABEL}={record.id}", timeout)
    if isinstance(found, Reply):
        return found
    own = [facts.id for facts in found if made_for(record, facts)]
    for container in own:
        said = _remove_one(engine, container)
        if not said.ok:
            return said
    return Reply(" ".join(own))


def _remove_one(engine: Engine, container_id: str) -> Reply:
    """Remove a container, or wait until another sesh (a pass, for example) has removed it."""
    deadline = time.monotonic() + container_engine.STOP_TIMEOUT
    while True:
        said = container_engine.ask(
            engine, "rm", "--force", container_id, timeout=container_engine.STOP_TIMEOUT
        )
        if said.trouble is Trouble.NO_CONTAINER:
            return Reply("")
        if "already in progress" not in said.text or time.monotonic() > deadline:
            return said
        time.sleep(0.1)


def made_for(record: Record, facts: Facts) -> bool:
    """Is it proven that sesh made this container for this session? By the recorded id and creation
    time; before those are recorded, by everything that its creation would show."""
    box = record.spec.box
    if box is None or box.image is None or not _names(record, facts):
        return False
    container = place(record).container
    if container is not None:
        return facts.id == container.id and _same_moment(container.created, facts.created)
    return as_asked(record, facts)


def _same_moment(recorded: str, told: str) -> bool:
    """In any time zone; older versions recorded no moment."""
    moment = container_engine.moment
    return recorded in ("", told) or moment(recorded) == moment(told)


def as_asked(record: Record, facts: Facts) -> bool:
    """Could this launch have created it: with its name and image, after it was claimed?"""
    box = record.spec.box
    if facts.name != container_name(record.name) or not box or not _is_image(facts, box.image):
        return False
    if container_engine.far(place(record).engine):
        return True  # its clock is another one
    created = container_engine.moment(facts.created)
    return created is not None and created >= record.status.launched


def _names(record: Record, facts: Facts) -> bool:
    """Do its labels name this session, of this state directory?"""
    run = os.path.dirname(record.place.run)
    return (facts.labels.get(LABEL), facts.labels.get("sesh.run")) == (record.id, run)


def _is_image(facts: Facts, image: str | None) -> bool:
    """podman reports the full name of an image."""
    found, wanted = (name.removesuffix(":latest") for name in (facts.image, image or ""))
    return found == wanted or found.endswith(f"/{wanted}")
