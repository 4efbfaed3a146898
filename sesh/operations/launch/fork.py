"""Fork a session: a new one, with a copy of its agent's conversation. The old one stays untouched.

All that can be checked is checked before anything is created.
"""

from __future__ import annotations

import os

from sesh.agents import forking
from sesh.model.configuration import Config
from sesh.model.errors import ConflictError, UsageError
from sesh.model.record import AgentReport, Kit, Record, Spec
from sesh.model.value_object import Value, replace
from sesh.operations import worktrees
from sesh.operations.forget import Note
from sesh.operations.launch import claim, start_request
from sesh.operations.start import start
from sesh.operations.worktrees import Made
from sesh.places import environment, launch_files
from sesh.places.environment import Environment
from sesh.state import lookup, records
from sesh.state.judge import Seen

_MOST_NUMBERED = 999


class Fork(Value):
    """What the new session has of its own; None: the same as the old one."""

    name: str | None = None
    worktree: str | None = None  # the branch of a new worktree
    group: str | None = None
    tags: tuple[str, ...] = ()  # besides those of the old one
    prompt: str | None = None


def fork(found: Seen, wanted: Fork, config: Config, note: Note) -> Seen:
    """Start a session on a copy of the conversation of another one."""
    record = found.intact.record
    lookup.need_process(found)
    kit = forking.check(record)
    lookup.check_labels(wanted.group, wanted.tags)
    _check_prompt(wanted.prompt, record, kit)
    cwd = launch_files.directory(record.spec.cwd)
    variables = _variables(record)
    start_request.check_program(record.spec.command, variables, cwd)
    origin = forking.origin(record, kit, variables)
    if wanted.name is not None:
        lookup.check_name(wanted.name)
        claim.free_name(wanted.name)
    if record.spec.branch is not None and wanted.worktree is None:
        start_request.check_branch(cwd, record.spec.branch)
    made = worktrees.make(cwd, wanted.worktree, config) if wanted.worktree is not None else None
    spec = _spec(record, kit, wanted, made)
    begin = AgentReport(forked_from=origin)
    try:
        for name in [wanted.name] if wanted.name is not None else _free_names(record.name):
            try:
                return start(name, spec, variables, config, note, begin)
            except ConflictError:
                if name == wanted.name:
                    raise
        raise ConflictError(f"all names from {record.name}-2 on are taken; choose one")
    except BaseException:
        if made is not None:
            worktrees.take_back(made)
        raise


def _spec(record: Record, kit: Kit, wanted: Fork, made: Made | None) -> Spec:
    """What is asked for: the same as for the old session. Its worktree stays its own, though the
    new one may run in it."""
    old = record.spec
    return replace(
        old,
        cwd=made.cwd if made else old.cwd,
        branch=None if made else old.branch,
        worktree=made.worktree if made else None,
        group=old.group if wanted.group is None else wanted.group,
        tags=tuple(dict.fromkeys((*old.tags, *wanted.tags))),
        prompt=wanted.prompt,
        kit=kit,
    )


def _check_prompt(prompt: str | None, record: Record, kit: Kit) -> None:
    if prompt is None:
        return
    if not kit.prompt:
        raise UsageError(f"--prompt: {kit.kind} takes none at its start; use sesh send afterwards")
    launch_files.check_command((prompt,))


def _variables(record: Record) -> Environment:
    """The saved environment; if a reboot took it, the caller's, when it has every -e name."""
    if os.path.exists(record.place.snapshot):
        return environment.load(record.place.snapshot)
    claim.lacking(record)
    return environment.caller()


def _free_names(name: str) -> list[str]:
    """The names for copies that no session has, ended ones included."""
    stem = name[: 63 - len(f"-{_MOST_NUMBERED}")]
    names = [f"{stem}-{number}" for number in range(2, _MOST_NUMBERED + 1)]
    return [one for one in names if records.entry(one) is None]
