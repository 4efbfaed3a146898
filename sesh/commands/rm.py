"""sesh rm: forget sessions."""

from __future__ import annotations

import click

from sesh.commands._options import CONTEXT, confirm, grace_option, names_argument, yes_option
from sesh.model import errors, formatting
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
from sesh.operations import recover, worktrees
from sesh.operations.forget import check_discard, forget
from sesh.operations.stop import refused, stop, stop_orphans
from sesh.state import lookup, records, settings, unclaimed
from sesh.state.lookup import Seen
from sesh.terminal import output


@click.command("rm", context_settings=CONTEXT)
@names_argument
@click.option(
    "-f",
    "--force",
    is_flag=True,
    help="Stop a living one first; forget a damaged record; a missing one is fine.",
)
@click.option(
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
    return errors.of_many(
        [
            _remove(name, config, limit, force=force, discard=discard, alone=len(names) == 1)
            for name in dict.fromkeys(names)
        ]
    )


def _losses(names: tuple[str, ...]) -> list[str]:
    """What is in worktrees and nowhere else."""
    found = []
    for name in dict.fromkeys(names):
        lookup.check_name(name)
        entry = records.entry(name)
        record = entry.record if entry else None
        if not isinstance(record, Record) or not worktrees.stands(record):
            continue
        stays = None if worktrees.needed(record) else worktrees.why_it_stays(record)
        if stays and record.spec.worktree:
            found.append(f"{name} ({stays} in {formatting.escape(record.spec.worktree.path)})")
    return found


def _remove(
    name: str, config: Config, grace: float, *, force: bool, discard: bool, alone: bool
) -> int:
    lookup.check_name(name)
    if force and records.entry(name) is None:
        return _end_unclaimed(name, config, grace)
    try:
        found = lookup.one(name)
        if discard:
            check_discard(found)
        ended = _ended(found, config, grace, force=force)
        forget(ended, config, output.note, discard=discard)
    except SeshError as error:
        if force and isinstance(error, NoSessionError):
            return errors.OK  # another rm was faster
        if alone:
            raise
        output.note(str(error))
        return error.exit_code
    return errors.OK


def _end_unclaimed(name: str, config: Config, grace: float) -> int:
    """There is no record to forget; an agent or a container whose record is lost is ended all the
    same."""
    boxes = unclaimed.named(name, config)
    unclaimed.check_ours(boxes)
    left = stop_orphans(lookup.orphans_named(name), config, grace)
    for orphan in left:
        output.note(f"{name}: process {orphan.agent.process.pid} could not be ended")
    standing = [one for one in boxes if not recover.end(one, config, grace)]
    for box in standing:
        output.note(f"{name}: container {box.container} could not be ended")
    if boxes and not standing and records.entry(name) is not None:
        forget(lookup.one(name), config, output.note)
    return errors.FAILED if left or standing else errors.OK


def _ended(one: Seen, config: Config, grace: float, *, force: bool) -> Seen:
    """The session, ended; raises when it may not be forgotten."""
    if one.damaged:
        if force and not stop_orphans(lookup.orphans_named(one.name), config, grace):
            return one
        why = f"its record is damaged ({one.damaged.reason})"
        raise StateError(f"{one.name}: {why}; rm --force ends its agent and forgets it")
    assert one.session is not None
    if one.state is State.UNKNOWN:
        raise CannotTellError(
            f"{one.name}: {one.session.verdict.reason}; not forgotten ({one.entry.path})"
        )
    if one.state not in ALIVE | {State.ORPHAN, State.STALE}:
        return one
    if not force and one.record_only:
        end = f"sesh finish {one.name} completed|failed|abandoned"
        raise ConflictError(f"{one.name} is {one.state}; {end} first, or rm --force")
    if not force:
        raise ConflictError(f"{one.name} is {one.state}; sesh stop {one.name} first, or rm --force")
    after = stop([one], config, grace)[0]
    lookup.check_same_launch(one, after)
    if after.state in ALIVE or after.state is State.ORPHAN:
        raise SeshError(
            f"{one.name} could not be stopped: {refused(after) or after.state}; not forgotten"
        )
    return after
