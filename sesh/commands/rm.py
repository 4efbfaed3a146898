"""sesh rm: forget sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sesh.commands._declare import declare, flag
from sesh.commands._options import (
    CONDITIONS,
    DRY_RUN,
    GRACE,
    GROUP,
    NAMES,
    SELECTION,
    TAGS,
    YES,
    Selection,
    agreed,
    check_choice,
    choose,
    confirm,
    planned,
    report,
)
from sesh.model import errors
from sesh.model.configuration import Config
from sesh.model.errors import (
    CannotTellError,
    ConflictError,
    NoSessionError,
    SeshError,
    StateError,
    noted,
)
from sesh.model.states import ALIVE, OUTCOMES, State
from sesh.model.text import formatting
from sesh.operations import worktrees
from sesh.operations.forget import check_discard, forget, leave_tmux, what_goes
from sesh.operations.stop.orphans import end_unclaimed, stop_orphans
from sesh.operations.stop.request import refused
from sesh.operations.stop.stop import stop
from sesh.state import judge, lookup, records, settings, unclaimed
from sesh.state.judge import Seen, readable
from sesh.terminal import output

_LIVING = ALIVE | {State.ORPHAN, State.STALE}
_HOW = f"--ended, {SELECTION}"


@declare(
    "rm", examples={"sesh rm web": "an ended session", "sesh rm -f web": "also a living session"}
)
def command(
    names: tuple[str, ...] = NAMES,
    ended: bool = flag("--ended", help="Remove all ended sessions."),
    group: str | None = GROUP,
    tags: tuple[str, ...] = TAGS,
    conditions: tuple[str, ...] = CONDITIONS,
    force: bool = flag(
        "-f",
        "--force",
        help="Stop living sessions first, remove damaged records, ignore missing sessions.",
    ),
    discard: bool = flag(
        "--discard",
        help="Remove the worktree even with unsaved work; asks if work would be lost.",
    ),
    grace: float | None = GRACE,
    dry_run: bool = DRY_RUN,
    yes: bool = YES,
) -> int:
    """Remove sessions: record, transcript, saved environment. Living sessions need --force.

    The git worktree is removed too, if no work would be lost.
    """
    config = settings.load()
    selection = Selection(group, tags, conditions)

    def chosen() -> list[Seen]:
        found = choose(names, selection, how=_HOW, selecting=ended)
        return found if force and not ended else _only_ended(found, quietly=ended)

    check_choice(names, selecting=ended or selection.given, how=_HOW)
    selected = [] if names else chosen()
    if not names and not selected:
        output.note("nothing to remove")
        return errors.OK
    wanted = [*dict.fromkeys(names or [one.name for one in selected])]
    if dry_run:
        return planned(_plan(wanted, config, force=force, discard=discard))
    if selected and not yes:
        able = [one.name for one in selected if one.state is not State.UNKNOWN]
        agreed_to = agreed(f"remove {formatting.listed(able or wanted)}?", selected, chosen)
        if agreed_to is None:
            return errors.FAILED
        selected = agreed_to
        wanted = [one.name for one in selected]
    limit = config.stop.grace if grace is None else grace
    losses = _losses(wanted) if discard else []
    if losses and not confirm(f"discard the work of {'; '.join(losses)}?", yes=yes):
        return errors.FAILED
    launches = {one.name: one for one in selected}
    results = _remove(wanted, launches, config, limit, force=force, discard=discard)
    return report(results)


def _only_ended(found: list[Seen], *, quietly: bool) -> list[Seen]:
    """The sessions of a selection that can be forgotten without a stop, and those that cannot be
    queried, so that they are named."""
    living = [one.name for one in found if one.state in _LIVING]
    if living and not quietly:
        output.note(
            f"not ended: {formatting.listed(living)}; next: sesh stop, or repeat with --force"
        )
    wanted = OUTCOMES if quietly else OUTCOMES | {State.UNKNOWN, State.DAMAGED}
    return [one for one in found if one.state in wanted]


def _plan(names: list[str], config: Config, *, force: bool, discard: bool) -> Iterator[str]:
    """What would be done with each session."""
    entries = {name: records.entry(name) for name in names}
    judged = {one.name: one for one in judge.judge([entry for entry in entries.values() if entry])}
    for name in names:
        try:
            if force and name not in judged:
                found = [*lookup.orphans_named(name), *unclaimed.named(name, config)]
                unclaimed.check_ours(found)
                yield from (f"would end {name}: {formatting.escape(one.what)}" for one in found)
                continue
            one = judged.get(name) or lookup.one(name)
            _check(one, force, discard)
        except SeshError as error:
            yield f"would leave {name}: {formatting.escape(str(error))}"
            continue
        goes = what_goes(one.record, discard=discard) if one.record else "its record"
        verb = "stop and remove" if one.state in _LIVING else "remove"
        yield f"would {verb} {name} ({one.state}): {goes}"


def _losses(names: Sequence[str]) -> list[str]:
    """The work that exists in worktrees only."""
    found = []
    for name in names:
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
    names: list[str],
    selected: Mapping[str, Seen],
    config: Config,
    grace: float,
    *,
    force: bool,
    discard: bool,
) -> dict[str, object]:
    """Forget sessions, which are judged, stopped and removed from tmux together. Returns the errors
    by name, and None for the others. A session that was selected must be the same launch still."""
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
            lookup.check_same_launch(selected.get(one.name, one), one)
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
    output.done("removed", [one.name for one in ended if results[one.name] is None])
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
        raise CannotTellError(f"{one.name}: {one.reason}; not removed ({one.entry.path})")
    if force or one.state not in _LIVING:
        return True
    if not one.has_process:
        end = f"sesh finish {one.name} completed|failed|abandoned"
        raise ConflictError(
            f"{one.name} is {one.state}; next: {end}, or sesh rm --force {one.name}"
        )
    raise ConflictError(
        f"{one.name} is {one.state}; next: sesh stop {one.name}, or sesh rm --force {one.name}"
    )


def _ended(one: Seen, after: Seen, config: Config, grace: float) -> Seen:
    """The session as it is after the stop; raises when it has not ended."""
    if one.damaged and stop_orphans(lookup.orphans_named(one.name), config, grace):
        raise _damaged(one)
    lookup.check_same_launch(one, after)
    if after.state in ALIVE or after.state is State.ORPHAN:
        raise SeshError(
            f"{one.name} could not be stopped: {refused(after) or after.state}; not removed"
        )
    return after


def _damaged(one: Seen) -> StateError:
    why = f"its record is damaged ({one.reason})"
    return StateError(f"{one.name}: {why}; next: sesh rm --force {one.name}")
