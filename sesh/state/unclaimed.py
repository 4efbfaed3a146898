"""Places of ours that no record claims. Kinds of places find, prove and remove them; here is what
records know of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sesh.model.configuration import Config
from sesh.model.errors import ConflictError
from sesh.model.record import Record
from sesh.places import registry
from sesh.places.interface import Inventory, Recorded
from sesh.places.unclaimed import Unclaimed, UnclaimedPlace
from sesh.state import history, records

Inventories = Mapping[str, Inventory]  # by kind of place


def archived(session_id: str) -> Record | None:
    """The record in the history."""
    entry = history.entry(session_id)
    return entry.readable if entry else None


RECORDED = Recorded(records.of_id, archived)


def inventories(sessions: Iterable[Record], config: Config, *, thorough: bool) -> Inventories:
    """What is there of everything that was made from here, by kind of place."""
    here = list(sessions)
    return {
        kind: load().inventory([r for r in here if r.place.kind == kind], config, thorough=thorough)
        for kind, load in registry.ELSEWHERE.items()
    }


def ask_again(before: Inventories, config: Config) -> Inventories:
    return {kind: registry.ELSEWHERE[kind]().ask_again(one, config) for kind, one in before.items()}


def ids(found: Inventories) -> frozenset[str] | None:
    """The ids of sessions of which a place is there; None when that is not known for sure."""
    every: frozenset[str] = frozenset()
    for one in found.values():
        if one.ids is None:
            return None
        every |= one.ids
    return every


def find(found: Inventories, damaged: Collection[str], config: Config) -> list[UnclaimedPlace]:
    """The places that no record claims. `damaged`: names whose record cannot be read."""
    places = [
        place
        for kind, one in found.items()
        for place in registry.ELSEWHERE[kind]().unclaimed(one, RECORDED, config)
    ]
    return [one for one in places if one.name not in damaged]


def named(name: str, config: Config) -> list[UnclaimedPlace]:
    """Those of a session of this name."""
    sessions = [entry.readable for entry in records.entries() if entry.readable]
    found = find(inventories(sessions, config, thorough=True), (), config)
    return [one for one in found if one.name == name and not one.copied]


def again(found: UnclaimedPlace, config: Config) -> UnclaimedPlace | None:
    """The same place, looked at again; None when it must not be removed (any more)."""
    now = registry.ELSEWHERE[found.kind]().still_unclaimed(found, RECORDED, config)
    return now if now is not None and now.proven else None


def still(found: UnclaimedPlace, config: Config) -> bool:
    """Just before it is removed: is it as it was, without work in it, and still unclaimed?"""
    now = again(found, config)
    return now is not None and not now.busy and now.sighting == found.sighting


def check_ours(found: Iterable[Unclaimed]) -> None:
    """Raise when something must not be ended: only its labels say whose it is."""
    for one in found:
        if one.keep and one.refusal:
            raise ConflictError(one.refusal)


def kept(session_id: str) -> bool:
    """Was its place to be kept when its session was stopped? If the history is unreadable: yes."""
    entry = history.entry(session_id)
    return entry is not None and (entry.readable is None or entry.readable.status.keep)
