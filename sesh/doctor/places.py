"""Checks of places other than this host: do they answer, does each have a record, can each session
be started again? Their kinds find what only they can know (`problems`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sesh.doctor import orphans
from sesh.doctor.context import Check, Context, Finding, Level, Step, few, number
from sesh.model.session_json import View
from sesh.model.states import Cause, State
from sesh.operations import recover
from sesh.places import registry
from sesh.places.unclaimed import UnclaimedPlace
from sesh.state import records


def _by_kinds(check: str) -> Callable[[Context], list[Finding]]:
    """What each kind of place finds in this check."""
    return lambda context: [
        finding
        for kind, load in registry.ELSEWHERE.items()
        for finding in load().problems(check, context.examined(kind))
    ]


# --- without a record ----------------------------------------------------------------------------


def orphan_container(context: Context) -> list[Finding]:
    """Places of ours that no record claims, and that may hold a user's work."""
    free = _rebuildable(context)
    taken = [one for one in context.census.places if one.adoptable and one not in free]
    strange = [one for one in context.census.places if not one.adoptable and one.keep]
    mine = orphans.without_record(taken, "sesh stop --orphans")
    return [*orphans.without_record(free, None), *mine, *_labelled(strange)]


def rebuild_all(context: Context) -> list[Step]:
    return [
        Step(
            f"rebuilt the record of {one.name} from the labels of its {one.what}",
            partial(recover.rebuild, one, context.settings),
        )
        for one in _rebuildable(context)
    ]


def _rebuildable(context: Context) -> list[UnclaimedPlace]:
    adoptable = [one for one in context.census.places if one.adoptable]
    return [one for one in adoptable if records.entry(one.name) is None]


def _labelled(found: Sequence[UnclaimedPlace]) -> list[Finding]:
    """Places that sesh leaves alone: a user may have made them from an image of one of ours."""
    if not found:
        return []
    names = tuple(one.label for one in found)
    count = number(found, found[0].noun)
    text = f"{count} with labels of sesh, but not created by sesh: {orphans.listed(found)}"
    note = "shows details; it is left alone"
    return [Finding(Level.WARN, text, found[0].inspect, note, names)]


def container_left(context: Context) -> list[Finding]:
    """Places of failed or killed starts, and of archived sessions."""
    found = [one for one in context.census.places if one.left_over]
    if not found:
        return []
    text = f"{number(found, found[0].noun)} left over: {orphans.listed(found)}"
    names = tuple(one.label for one in found)
    note = "removes what two passes, a minute apart, agree on"
    return [Finding(Level.WARN, text, "sesh gc", note, names)]


# --- with a record -------------------------------------------------------------------------------


def container_gone(context: Context) -> list[Finding]:
    """Sessions that were lost with their container."""
    found = sorted(str(view["name"]) for view in context.views if went_with_container(view))
    if not found:
        return []
    reasons = {view["name"]: view["reason"] for view in context.views}
    which = few([f"{name} ({reasons[name]})" for name in found])
    text = f"{number(found, 'session')} lost with the container: {which}"
    remedy = f"sesh restart {' '.join(found[:20])}"
    return [Finding(Level.FAIL, text, remedy, subjects=tuple(found))]


def went_with_container(view: View) -> bool:
    gone = view["state"] == State.LOST and view["cause"] == Cause.CONTAINER_GONE
    return gone and bool(view["attention"])


CHECKS = (
    Check("engine", "every container engine in use answers", _by_kinds("engine")),
    Check(
        "orphan-container", "every container of sesh has a record", orphan_container, rebuild_all
    ),
    Check("container-left", "no container is left over", container_left),
    Check("container-gone", "no session has lost its container", container_gone),
    Check("zombies", "no container has zombie processes", _by_kinds("zombies")),
    Check("mount-size", "no private mount is too large", _by_kinds("mount-size")),
    Check("image", "the images of all sessions exist", _by_kinds("image")),
)
