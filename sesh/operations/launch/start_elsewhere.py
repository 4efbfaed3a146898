"""Start or restart a session in a place that is not this host's tmux: in a container, for example.
The place is provided, gets the files of the launch, and is given up when the launch fails.

A failed start removes everything that sesh made, and its files from a container that stays.
"""

from __future__ import annotations

import os

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, SeshError
from sesh.model.place import Place
from sesh.model.reconcile import not_in_time, reconcile
from sesh.model.record import LaunchMode, Record, Spec
from sesh.model.states import Desired, State
from sesh.model.value_object import replace
from sesh.operations.forget import Note, bury, release
from sesh.operations.launch import claim
from sesh.operations.launch.launch import (
    LaunchError,
    failed,
    forget_files,
    given_up,
    judge_launch,
    not_launched,
    now,
    record_failure,
)
from sesh.places import environment, launch_files, registry
from sesh.places.environment import Environment
from sesh.places.host.launch import Launch, into_tmux
from sesh.places.interface import Elsewhere
from sesh.state import observe, records
from sesh.state.judge import Seen
from sesh.state.records import Entry
from sesh.system import processes
from sesh.system.subprocesses import Reply

_NOT_KNOWN = "whether its container was created is not known yet; next: sesh show {0}"


# --- start ---------------------------------------------------------------------------------------


def start(
    name: str,
    spec: Spec,
    variables: Environment,
    kind: Elsewhere,
    config: Config,
    note: Note,
) -> Seen:
    """Start a new session in a place of this kind and confirm that it runs."""
    records.prepare()
    spec = kind.check(spec, config)
    before = claim.free_name(name)
    release(before, config)
    identity = claim.new_id(name)
    place = kind.reserve(identity, spec, config)
    record, mode = claim.with_conversation(claim.new_record(identity, name, spec, place))
    record = _by_us(record)
    try:
        environment.save_text(record.place.snapshot, environment.exports(variables))
        kind.make_files(record)
        entry = claim.claim_name(record, claim.starting(record), before)
    except BaseException:
        _forget(record, kind)
        raise
    try:
        bury(before, config, note)
        return _begin(entry, record, variables, config, "started", mode)
    except LaunchError:
        kind.withdraw(record, config, sure=True)
        raise
    except BaseException as error:
        withdrawn = kind.withdraw(record, config, sure=_sure(error))
        if withdrawn and _take_back(record, kind, config):
            raise
        if isinstance(error, SeshError):
            raise CannotTellError(
                f"{record.name}: {error}; {_NOT_KNOWN.format(record.name)}"
            ) from None
        raise


def _sure(error: BaseException) -> bool:
    """Has the place itself reported that it did nothing?"""
    return isinstance(error, SeshError) and not isinstance(error, CannotTellError)


def _by_us(record: Record) -> Record:
    """Until its place is provided, it depends on this process."""
    return replace(record, status=replace(record.status, starter=processes.myself()))


def _forget(record: Record, kind: Elsewhere) -> None:
    forget_files(record)
    kind.remove_files(record)


def _take_back(record: Record, kind: Elsewhere, config: Config) -> bool:
    """Remove everything that a failed start made, also from a place that stays. False when the
    place cannot be asked: then the record stays."""
    entry = records.entry(record.name)
    if entry and entry.readable and entry.readable.id == record.id:
        if not kind.take_back(entry.readable, config):
            return False
        records.remove(entry)
    _forget(record, kind)
    return True


# --- the launch ----------------------------------------------------------------------------------


def _begin(
    entry: Entry,
    record: Record,
    variables: Environment,
    config: Config,
    event: str,
    mode: LaunchMode,
) -> Seen:
    """Provide the place, then launch in it."""
    kind = registry.elsewhere(record)
    place: Place = kind.provide(record, config)
    status = replace(claim.launched_now(record.status), starter=None)
    record = replace(record, place=place, status=status)
    written = records.swap(entry, record, claim.starting(record))
    if written is None:
        raise ConflictError(f"{record.name} was changed by another sesh just now")
    command, kit = equipped(record, variables, mode)
    kind.put(record, variables, command, kit, config)
    return _launch(written, record, kind, config, event)


def equipped(
    record: Record, variables: Environment, mode: LaunchMode
) -> tuple[tuple[str, ...], dict[str, bytes]]:
    """The command of a launch, and the files that its agent needs in its place."""
    if record.spec.kit is None:
        return record.spec.command, {}
    from sesh.agents import launch_kit

    kind = registry.elsewhere(record)
    stem, hook = kind.stem(record), kind.hook(record)
    return launch_kit.stage_elsewhere(record, variables, stem, hook, mode)


def _launch(entry: Entry, record: Record, kind: Elsewhere, config: Config, event: str) -> Seen:
    launch_files.keep_claim(record, entry.raw)
    server = kind.launch_server(record, config)
    (reply,) = into_tmux([Launch(record, kind.keeper(record))], server, ())
    if isinstance(reply, Reply):
        raise kind.refused(record, reply)
    record = replace(record, place=replace(record.place, pane=reply.pane))
    kind.await_agent(record, config)
    sight = observe.observe([record], config)[0]
    if reconcile(record, sight, now()).state is State.STARTING:
        too_late = not_in_time(kind.patience(record.spec))
        if given_up(entry, record, too_late, event):
            server.kill_panes([reply.pane])
        raise not_launched(record, too_late.reason)
    return judge_launch(entry, record, sight)


# --- restart -------------------------------------------------------------------------------------


def restart(found: Seen, config: Config, attempt: int = 0, *, fresh: bool = False) -> Seen:
    """The next generation: in the same container, for example, if that still exists, else in a new
    one. `attempt` and `fresh` are the same as for a session on this host."""
    records.prepare()
    old = found.intact.record
    kind = registry.elsewhere(old)
    place, same = kind.next_place(old, config)
    variables = _variables(old)
    record = claim.next_generation(old, place, attempt)
    record = record if same else _by_us(record)
    record, mode = claim.resumed(record, old, variables, fresh=fresh)
    if not same:
        kind.clear_before(old, config)
    kind.make_files(record)
    environment.save_text(place.snapshot, environment.exports(variables))
    entry = claim.claim_generation(found, record)
    try:
        done = _begin(entry, record, variables, config, "restarted", mode)
        launch_files.forget(record, below=record.place.generation)
        return done
    except BaseException as error:
        if not same:
            kind.withdraw(record, config, sure=_sure(error))
        if isinstance(error, SeshError) and not isinstance(error, LaunchError | CannotTellError):
            _note_failure(record, str(error))
        raise


def _note_failure(record: Record, why: str) -> None:
    """Record a restart that failed, so that the session is not `starting` until its launch timeout.
    Not if it was asked to stop meanwhile, or its end is recorded."""
    entry = records.entry(record.name)
    claimed = entry.readable if entry else None
    if not entry or not claimed or claimed.launch != record.launch:
        return
    if claimed.status.desired is Desired.RUNNING and claimed.status.outcome is None:
        record_failure(entry, claimed, failed(why), "restarted")


def _variables(record: Record) -> Environment:
    """The variables given with -e; after a reboot the values of the caller."""
    try:
        return environment.load(record.place.snapshot)
    except FileNotFoundError:
        claim.lacking(record)
        return {os.fsencode(name): os.environb[os.fsencode(name)] for name in record.spec.env}
