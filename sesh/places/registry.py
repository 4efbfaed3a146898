"""The kinds of places by their names. A new kind is a module, its class in `model/place`, and one
line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from sesh.model.configuration import Config
from sesh.model.errors import SeshError
from sesh.model.place import ContainerRequest, Host, InContainer, RecordOnly
from sesh.model.record import Record
from sesh.places.interface import Elsewhere, PlaceKind
from sesh.system.tmux import Tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol
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


def request(**options: Any) -> ContainerRequest | None:
    """The request that options of `start` make; None: this host."""
    from sesh.places.docker.request import requested

    return requested(**options)


def pull(request: ContainerRequest, config: Config) -> None:
    """Download what a new place needs."""
    from sesh.places.docker.request import pull

    pull(request, config)


def by_server(records: Iterable[Record], config: Config) -> Iterator[tuple[Tmux, list[Record]]]:
    """Sessions, by the server that they are in. Those whose server cannot be asked are left out."""
    places: dict[str, list[Record]] = {}
    for record in records:
        places.setdefault(record.place.socket, []).append(record)
    for some in places.values():
        with suppress(SeshError):
            yield of(some[0]).tmux(some[0], config), some
