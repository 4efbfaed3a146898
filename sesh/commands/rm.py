"""sesh rm: forget sessions."""

from __future__ import annotations

from sesh.commands._declare import declare, flag
from sesh.commands._options import GRACE, NAMES, YES, confirm, report
from sesh.model import errors
from sesh.model.configuration import Config
from sesh.model.errors import (
    CannotTellError,
    ConflictError,
    NoSessionError,
    SeshError,
    StateError,
    UsageError,
    noted,
)
from sesh.model.states import ALIVE, State
from sesh.model.text import formatting
from sesh.operations import worktrees
from sesh.operations.forget import check_discard, forget, leave_tmux
from sesh.operations.stop.orphans import end_unclaimed, stop_orphans
from sesh.operations.stop.request import refused
from sesh.operations.stop.stop import stop
from sesh.state import judge, lookup, records, settings, unclaimed
from sesh.state.judge import Seen, readable
from sesh.terminal import output

_LIVING = ALIVE | {State.ORPHAN, State.STALE}


@declare("rm")
def command(
    names: tuple[str, ...] = NAMES,
    force: bool = flag(
        "-f",
        "--force",
        help="Stop a living one first; forget a damaged record; a missing one is fine.",
    ),
    discard: bool = flag(
        "--discard",
        help="Remove its worktree whatever is in it; asks when something would be lost.",
    ),
    yes: bool = YES,
    grace: float | None = GRACE,
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
    return report(_remove([*dict.fromkeys(names)], config, limit, force=force, discard=discard))


def _losses(names: tuple[str, ...]) -> list[str]:
    """The work that exists in worktrees only."""
    found = []
    for name in dict.fromkeys(names):
        lookup.check_name(name)
        entry = records.entry(name)
        record = entry.readable if entry else None
        tree = worktrees.existing(record) if record else None
        if not record or not tree or worktrees.needed(record, tree):
            continue
        stays = worktrees.why_it_stays(record)
        if stays:
            found.append(f"{name} ({stays} in {formatting.escape(tree.path)})")
    return found


def _remove(
    names: list[str], config: Config, grace: float, *, force: bool, discard: bool
) -> dict[str, object]:
    """Forget sessions, which are judged, stopped and removed from tmux together. Returns the errors
    by name, and None for the others."""
    for name in names:
        lookup.check_name(name)
    results: dict[str, object] = dict.fromkeys(names)
    entries, allowed, ended = [], [], []
    for name in names:
        with noted(results, name):
            if force and records.entry(name) is None:
                _end_unclaimed(name, config, grace)
            else:
                entries.append(lookup.find(name))
    for one in judge.judge(entries):
        with noted(results, one.name):
            _check(one, force, discard)
            allowed.append(one)
    after = _stopped([one for one in allowed if one.state in _LIVING], config, grace, results)
    for one in allowed:
        with noted(results, one.name):
            if one.name in after or one.state not in _LIVING:
                ended.append(_ended(one, after.get(one.name, one), config, grace))
    leave_tmux(readable(ended), config)
    for one in ended:
        with noted(results, one.name):
            forget(one, config, output.note, discard=discard, in_tmux=False)
    if force:  # another rm was faster
        gone = [name for name, one in results.items() if isinstance(one, NoSessionError)]
        results |= dict.fromkeys(gone)
    return results


def _end_unclaimed(name: str, config: Config, grace: float) -> None:
    """End an agent or a container whose record is lost: there is no record to forget."""
    places = unclaimed.named(name, config)
    left = end_unclaimed([*lookup.orphans_named(name), *places], config, grace)
    if places and not any(one in left for one in places) and records.entry(name) is not None:
        forget(lookup.one(name), config, output.note)
    if left:
        raise SeshError(f"{name}: {', '.join(one.what for one in left)} could not be ended")


def _stopped(
    living: list[Seen], config: Config, grace: float, results: dict[str, object]
) -> dict[str, Seen]:
    """Stop sessions together. Returns those that could be asked to stop, by name."""
    try:
        return {one.name: one for one in stop(living, config, grace)}
    except NoSessionError:  # another rm has removed one
        after: dict[str, Seen] = {}
    for one in living:
        with noted(results, one.name):
            after |= {one.name: stop([one], config, grace)[0]}
    return after


def _check(one: Seen, force: bool, discard: bool) -> bool:
    """Raise when it may not be forgotten."""
    if discard:
        check_discard(one)
    if one.damaged:
        if not force:
            raise _damaged(one)
        return True
    if one.state is State.UNKNOWN:
        raise CannotTellError(f"{one.name}: {one.reason}; not forgotten ({one.entry.path})")
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
    why = f"its record is damaged ({one.reason})"
    return StateError(f"{one.name}: {why}; rm --force ends its agent and forgets it")
