"""The session of a command that got no name: the user picks it from a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sesh.model.errors import ConflictError, NoSessionError
from sesh.model.states import ALIVE
from sesh.state import lookup
from sesh.state.judge import Seen
from sesh.terminal import picker, session_list


def shown(found: Iterable[Seen]) -> list[Seen]:
    """Those of the sessions that `ls` shows, by name."""
    return sorted((one for one in found if not session_list.hidden(one)), key=lambda one: one.name)


def pick(found: Sequence[Seen], what: str, *, looks: bool = False) -> Seen | None:
    """The session that the user picks; None: the user has left. It may have taken long: another
    session of that name is refused, and so is another state unless the command only `looks`."""
    taken = picker.choose([picker.row(session_list.complete(one)) for one in found], what)
    return None if taken is None else _unchanged(found[taken], looks=looks)


def to_look_at(what: str, wanted: Callable[[Seen], bool] = lambda _: True) -> Seen | None:
    """The only session that is `wanted`, or the one that the user picks; None: the user has
    left."""
    found = [one for one in shown(lookup.everything()) if wanted(one)]
    if not found:
        raise NoSessionError("no sessions; sesh ls --all lists also what ended longer ago")
    return found[0] if len(found) == 1 else pick(found, what, looks=True)


def _unchanged(before: Seen, *, looks: bool) -> Seen:
    """The session as it is now, if it is the same launch, and alive or not as before."""
    after = lookup.one(before.name)
    lookup.check_same_launch(before, after)
    if looks or before.state is after.state or {before.state, after.state} <= ALIVE:
        return after
    raise ConflictError(f"{after.name} is {after.state} by now, not {before.state}; try again")
