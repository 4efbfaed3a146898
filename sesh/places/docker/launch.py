"""Containers for launches: created or found, filled with the launch's files, and removed when a
launch fails."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, SeshError
from sesh.model.place import ContainerRequest, Place
from sesh.model.record import Record, Spec
from sesh.model.value_object import replace
from sesh.places import environment, remote
from sesh.places.docker import container, observe, ownership, session_files
from sesh.places.remote import Reached
from sesh.system import container_engine, processes
from sesh.system.container_engine import Facts, Trouble
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Tmux

AFTERTHOUGHT = 3.0  # seconds in which an engine finishes an interrupted command
_EMPTY = (Trouble.NO_CONTAINER, Trouble.NOT_RUNNING)  # nothing runs in it


class LaunchInContainer(Reached):
    """How a session is launched in a container."""

    def launch_timeout(self, seconds: float) -> float:
        return seconds + container_engine.RUN_TIMEOUT

    def shares_directory(self, request: ContainerRequest | None) -> bool:
        return request is not None and request.mount

    def limits_memory(self, spec: Spec) -> bool:
        return spec.box is not None and spec.box.image is not None

    def with_mounts(
        self, request: ContainerRequest | None, directories: Sequence[str]
    ) -> ContainerRequest | None:
        return replace(request, mounts=(*request.mounts, *directories)) if request else None

    def check(self, spec: Spec, config: Config) -> Spec:
        assert spec.box is not None
        return container.checked(spec, spec.box, container_engine.chosen(config), config)

    def reserve(self, identity: str, spec: Spec, config: Config) -> Place:
        engine = container_engine.chosen(config)
        return container.place_of(identity, 1, engine, processes.run_dir(), spec)

    def next_place(self, old: Record, config: Config) -> tuple[Place, bool]:
        """The place of the next generation: the same container where it still is."""
        known, facts = session_files.place(old), _standing(old, config)
        place = container.place_of(
            old.id, old.place.generation + 1, known.engine, processes.run_dir(), old.spec
        )
        if facts is None or known.container is None:
            return place, False
        if facts.started == known.container.started:
            place = replace(place, pane=self.old_pane(old, config))
        same = container.container_of(facts, old, mounted=known.container.mounted)
        return replace(place, container=same), True

    def clear_before(self, old: Record, config: Config) -> None:
        """A start that was killed may have left a container that its record does not know."""
        removed = ownership.remove_container(old, self.timeout(config))
        container_engine.checked(session_files.place(old).engine, removed)

    def make_files(self, record: Record) -> None:
        session_files.make(record)

    def provide(self, record: Record, config: Config) -> Place:
        """The place with its running container: the same as before, an existing or a new one."""
        place, box, timeout = session_files.place(record), record.spec.box, config.docker.timeout
        assert box is not None
        near = box.existing is None and not container_engine.far(place.engine)
        if place.container is not None:  # its mount is dead if the directory was deleted
            mounted = near and session_files.stands(
                record, place.engine, place.container.id, timeout
            )
            return replace(place, container=replace(place.container, mounted=mounted))
        if box.existing is not None:
            facts = container.existing(place.engine, box.existing, timeout)
        else:
            facts = container.make(record, box, place.engine, config)
        return replace(place, container=container.container_of(facts, record, mounted=near))

    def put(
        self,
        record: Record,
        variables: environment.Environment,
        command: tuple[str, ...],
        kit: Mapping[str, bytes],
        config: Config,
    ) -> None:
        container.prepare(record, config)
        filled = session_files.fill(record, variables, command, kit, config.docker.timeout * 4)
        container_engine.checked(session_files.place(record).engine, filled)

    def stem(self, record: Record) -> str:
        return session_files.base(record)

    def log(self, record: Record) -> str:
        return session_files.log(record)

    def launch_server(self, record: Record, config: Config) -> Tmux:
        return observe.server(record, config, "--workdir", record.spec.cwd)

    def await_agent(self, record: Record, config: Config) -> None:
        super().await_agent(record, config)
        with suppress(OSError):  # the agent has read its variables, or never will
            os.unlink(f"{record.place.run}/{record.launch}.env")

    def pause(self, record: Record) -> float:
        return 0.005 if session_files.container_of(record).mounted else super().pause(record)

    def refused(self, record: Record, reply: Reply) -> SeshError:
        if container_engine.trouble_in(reply.text) is Trouble.NO_DIRECTORY:
            return SeshError(f"{record.name}: no directory {record.spec.cwd} in the container")
        return CannotTellError(
            f"{record.name}: tmux in the container: {container_engine.tidy(reply.text)}"
        )

    def withdraw(self, record: Record, config: Config, *, sure: bool) -> bool:
        """Remove the container that was being created; False when it is unknown whether there is
        one. Interrupting the engine's command does not interrupt the engine: unless it is `sure`
        that it did nothing, the engine may finish its work in a moment."""
        assert record.spec.box is not None
        if record.spec.box.image is None:
            return True
        deadline = time.monotonic() + (0.0 if sure else AFTERTHOUGHT)
        while True:
            said = ownership.remove_container(record, self.timeout(config))
            if said.out or time.monotonic() >= deadline:
                return said.ok
            time.sleep(0.2)

    def take_back(self, claimed: Record, config: Config) -> bool:
        """End what a failed start began in a container that stays; False when the container cannot
        be asked."""
        known = session_files.place(claimed).container
        if known is None or known.made:
            return True
        left = remote.reap(self.run, claimed, signal.SIGKILL, self.timeout(config))
        if isinstance(left, Reply) and left.trouble not in _EMPTY:
            return False
        remote.leave(self.run, claimed, self.timeout(config))
        return True


def _standing(old: Record, config: Config) -> Facts | None:
    """Its running container; None when a new one must be created."""
    engine, box = session_files.place(old).engine, old.spec.box
    assert box is not None
    if session_files.place(old).container is None:
        return None
    facts = container.facts_of(old, config)
    if box.existing is not None:
        name = facts.id if facts else box.existing
        return container.existing(engine, name, config.docker.timeout)
    if facts is None:
        return None
    if facts.paused:
        raise ConflictError(f"{old.name}: its container is paused; next: sesh resume {old.name}")
    if not facts.running:
        session_files.make(old)  # the directory that it mounts must exist
        container_engine.must(engine, "start", facts.id, timeout=container_engine.RUN_TIMEOUT)
        facts = container.facts_of(old, config)
    return facts
