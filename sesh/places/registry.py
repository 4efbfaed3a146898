"""The kinds of places by their names. A new kind is a module, its class in `model/place`, and one
line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from sesh.model.configuration import Config
from sesh.model.errors import SeshError, UsageError
from sesh.model.place import ContainerRequest, Host, InContainer, RecordOnly
from sesh.model.record import Record
from sesh.places.interface import Elsewhere, PlaceKind
from sesh.system.tmux import Tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object


def _host() -> PlaceKind:
    from sesh.places.host.place import HostKind

    return HostKind()


def _docker() -> Elsewhere:
    from sesh.places.docker.place import Docker

    return Docker()


def _record_only() -> PlaceKind:
    from sesh.places.record_only import RecordOnlyKind

    return RecordOnlyKind()


# Each imports its kind only when a session of it is met.
ELSEWHERE: dict[str, Callable[[], Elsewhere]] = {InContainer.kind: _docker}
KINDS: dict[str, Callable[[], PlaceKind]] = {
    Host.kind: _host,
    RecordOnly.kind: _record_only,
    **ELSEWHERE,
}


def of(record: Record) -> PlaceKind:
    return KINDS[record.place.kind]()


def elsewhere(record: Record) -> Elsewhere:
    return ELSEWHERE[record.place.kind]()


class Requesting(Protocol):
    """A wish or a spec: something that may request a place elsewhere."""

    @property
    def box(self) -> ContainerRequest | None: ...


def requested(by: Requesting) -> Elsewhere | None:
    """The kind of place that a new session asks for; None: this host."""
    return _docker() if by.box is not None else None


def request(
    image: str | None,
    container: str | None,
    no_mount: bool,
    mounts: tuple[str, ...],
    options: tuple[str, ...],
    user: str | None,
    **limits: str | None,
) -> ContainerRequest | None:
    """The container that options of `start` request; None: this host."""
    for_new = no_mount or mounts or options or any(value is not None for value in limits.values())
    if image is not None and container is not None:
        raise UsageError("give --image or --container, but not both")
    if "" in (image, container):
        raise UsageError("the name of the image or container is empty")
    if container is not None:
        if for_new:
            raise UsageError("mounts, limits and engine options are for a new container (--image)")
        return ContainerRequest(existing=container, mount=False, user=user)
    if image is None:
        if for_new or user is not None:
            raise UsageError("these options are for a container; give --image too")
        return None
    return ContainerRequest(
        image=image, mount=not no_mount, mounts=mounts, options=options, user=user, **limits
    )


def pull(request: ContainerRequest, config: Config) -> None:
    """Download the image of a new container."""
    from sesh.system import container_engine

    if request.image is not None:
        engine, timeout = container_engine.chosen(config), container_engine.PULL_TIMEOUT
        container_engine.must(engine, "pull", request.image, timeout=timeout)


def by_server(records: Iterable[Record], config: Config) -> Iterator[tuple[Tmux, list[Record]]]:
    """Sessions, by the server that they are in. Those whose server cannot be asked are left out."""
    places: dict[str, list[Record]] = {}
    for record in records:
        places.setdefault(record.place.socket, []).append(record)
    for some in places.values():
        with suppress(SeshError):
            yield of(some[0]).tmux(some[0], config), some
