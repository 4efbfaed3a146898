"""sesh rm: forget sessions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sesh.commands._declare import declare, option
from sesh.commands._options import confirm, grace_option, names_argument, yes_option
from sesh.model import errors
from sesh.model.configuration import Config
from sesh.model.errors import (
    CannotTellError,
    ConflictError,
    NoSessionError,
    SeshError,
    StateError,
    UsageError,
)
from sesh.model.record import Record
from sesh.model.states import ALIVE, State
from sesh.model.text import formatting
from sesh.operations import worktrees
from sesh.operations.forget import check_discard, forget, leave_tmux
from sesh.operations.stop.orphans import end_unclaimed, stop_orphans
from sesh.operations.stop.request import refused
from sesh.operations.stop.stop import stop
from sesh.state import judge, lookup, records, settings, unclaimed
from sesh.state.judge import Seen
from sesh.terminal import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

_LIVING = ALIVE | {State.ORPHAN, State.STALE}


@declare("rm")
@names_argument
@option(
    "-f",
    "--force",
    is_flag=True,
    help="Stop a living one first; forget a damaged record; a missing one is fine.",
)
@option(
    "--discard",
    is_flag=True,
    help="Remove its worktree whatever is in it; asks when something would be lost.",
)
@yes_option
@grace_option
def command(
    names: tuple[str, ...], force: bool, discard: bool, yes: bool, grace: float | None
) -> int:
    """Forget sessions: record, transcript, saved environment. A living one only with --force.

    Its git worktree goes too, if nothing would be lost with it.
    """
    if not names:
        raise UsageError("give the names of the sessions to forget")
    config = settings.load()
    limit = config.stop.grace if grace is None else grace
    losses = _losses(names) if discard else []
    if losses and not confirm(f"discard the work of {'; '.join(losses)}?", yes=yes):
        return errors.FAILED
    each = _remove([*dict.fromkeys(names)], config, limit, force=force, discard=discard)
    return errors.of_many(each)


def _losses(names: tuple[str, ...]) -> list[str]:
    """The work that exists in worktrees only."""
    found = []
    for name in dict.fromkeys(names):
        lookup.check_name(name)
        entry = records.entry(name)
        record = entry.record if entry else None
        if not isinstance(record, Record) or not worktrees.exists(record):
            continue
        stays = None if worktrees.needed(record) else worktrees.why_it_stays(record)
        if stays and record.spec.worktree:
            found.append(f"{name} ({stays} in {formatting.escape(record.spec.worktree.path)})")
    return found


def _remove(
    names: list[str], config: Config, grace: float, *, force: bool, discard: bool
) -> list[int]:
    """Forget sessions; returns an exit code for each. A problem with one session is reported and
    does not stop the others; with a single name, it is raised. The sessions are judged, stopped and
    removed from tmux together."""
    codes = dict.fromkeys(names, errors.OK)
    problems: dict[str, SeshError] = {}

    def attempt(name: str, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except SeshError as error:
            if force and isinstance(error, NoSessionError):
                return None  # another rm was faster
            if len(names) == 1:
                raise
            problems[name] = error
            return None

    for name in names:
        lookup.check_name(name)
    recorded = [name for name in names if not force or records.entry(name) is not None]
    for name in names:
        if name not in recorded:
            codes[name] = _end_unclaimed(name, config, grace)
    entries = [attempt(name, partial(lookup.find, name)) for name in recorded]
    found = judge.judge([entry for entry in entries if entry])
    allowed = [one for one in found if attempt(one.name, partial(_check, one, force, discard))]
    living = [one for one in allowed if one.state in _LIVING]
    try:
        stopped = stop(living, config, grace)
    except NoSessionError:  # another rm has removed one
        each = (attempt(one.name, partial(stop, [one], config, grace)) for one in living)
        stopped = [one for some in each for one in some or ()]
    after = {one.name: one for one in stopped}
    allowed = [one for one in allowed if one not in living or one.name in after]
    ended = []
    for one in allowed:
        gone = attempt(one.name, partial(_ended, one, after.get(one.name, one), config, grace))
        ended += [gone] if gone else []
    leave_tmux([one.session.record for one in ended if one.session], config)
    for one in ended:
        attempt(one.name, partial(forget, one, config, output.note, discard=discard, in_tmux=False))
    for name in names:
        if name in problems:
            output.note(str(problems[name]))
            codes[name] = problems[name].exit_code
    return [*codes.values()]


def _end_unclaimed(name: str, config: Config, grace: float) -> int:
    """End an agent or a container whose record is lost: there is no record to forget."""
    places = unclaimed.named(name, config)
    left = end_unclaimed([*lookup.orphans_named(name), *places], config, grace, output.note)
    if places and not any(one in left for one in places) and records.entry(name) is not None:
        forget(lookup.one(name), config, output.note)
    return errors.FAILED if left else errors.OK


def _check(one: Seen, force: bool, discard: bool) -> bool:
    """Raise when it may not be forgotten."""
    if discard:
        check_discard(one)
    if one.damaged:
        if not force:
            raise _damaged(one)
        return True
    assert one.session is not None
    if one.state is State.UNKNOWN:
        raise CannotTellError(
            f"{one.name}: {one.session.verdict.reason}; not forgotten ({one.entry.path})"
        )
    if force or one.state not in _LIVING:
        return True
    if not one.has_process:
        end = f"sesh finish {one.name} completed|failed|abandoned"
        raise ConflictError(f"{one.name} is {one.state}; {end} first, or rm --force")
    raise ConflictError(f"{one.name} is {one.state}; sesh stop {one.name} first, or rm --force")


def _ended(one: Seen, after: Seen, config: Config, grace: float) -> Seen:
    """The session as it is after the stop; raises when it has not ended."""
    if one.damaged and stop_orphans(lookup.orphans_named(one.name), config, grace):
        raise _damaged(one)
    lookup.check_same_launch(one, after)
    if after.state in ALIVE or after.state is State.ORPHAN:
        raise SeshError(
            f"{one.name} could not be stopped: {refused(after) or after.state}; not forgotten"
        )
    return after


def _damaged(one: Seen) -> StateError:
    why = f"its record is damaged ({one.damaged.reason if one.damaged else ''})"
    return StateError(f"{one.name}: {why}; rm --force ends its agent and forgets it")
