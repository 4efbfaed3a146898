"""Sessions in containers: launch in one, again in the same or in a new one, bring it down.

A start that fails leaves no container behind, and nothing in one that stays.
"""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, SeshError
from sesh.model.place import Engine
from sesh.model.reconcile import not_in_time, reconcile
from sesh.model.record import Record
from sesh.model.states import Desired, State
from sesh.model.value import replace
from sesh.operations import claim
from sesh.operations.claim import Order
from sesh.operations.forget import bury, release
from sesh.operations.launch import (
    LaunchError,
    failed,
    forget_files,
    given_up,
    into_tmux,
    judge_launch,
    not_launched,
    now,
    record_failure,
)
from sesh.places import environment, launch_files, panes
from sesh.places.docker import container as docker_container
from sesh.places.docker import mailbox
from sesh.places.docker import observe as containers
from sesh.state import observe, records
from sesh.state.lookup import Seen
from sesh.state.records import Entry
from sesh.system import container_engine, processes
from sesh.system.container_engine import Facts, Said, Trouble
from sesh.system.tmux import Keeper, Reply

_EMPTY = (Trouble.NO_CONTAINER, Trouble.NOT_RUNNING)  # nothing runs in what says this
_NOT_KNOWN = "whether its container was made is not known yet, sesh show {0} looks again"
AFTERTHOUGHT = 3.0  # seconds in which an engine ends what it was told to do


# --- start ---------------------------------------------------------------------------------------


def start(order: Order, config: Config) -> Seen:
    """Start a new session in a container and see that it runs."""
    records.prepare()
    engine = container_engine.chosen(config)
    assert order.spec.box is not None
    spec = docker_container.checked(order.spec, order.spec.box, engine, config)
    before = claim.free_name(order.name)
    release(before, config)
    record = claim.with_conversation(_new_record(replace(order, spec=spec), engine))
    try:
        environment.save_text(record.place.snapshot, environment.exports(order.environment))
        mailbox.make(record)
        entry = claim.claim_name(record, claim.starting(record), before)
    except BaseException:
        _forget(record)
        raise
    try:
        if before and before.session:
            bury(before.session.record, config, order.tell)
        return _begin(entry, record, order.environment, config, "started")
    except LaunchError:
        mailbox.remove_container(record, config.docker.timeout * 2)
        raise
    except BaseException as error:
        if _withdraw(record, config, error) and _take_back(record, config):
            raise
        if isinstance(error, SeshError):
            raise CannotTellError(
                f"{record.name}: {error}; {_NOT_KNOWN.format(record.name)}"
            ) from None
        raise


def _withdraw(record: Record, config: Config, error: BaseException) -> bool:
    """Remove the container that was being made; False when nobody can tell whether there is one.
    Whoever interrupts the engine's command, or does not wait for it, does not interrupt the engine:
    it may finish its work in a moment."""
    assert record.spec.box is not None
    if record.spec.box.image is None:
        return True
    sure = isinstance(error, SeshError) and not isinstance(error, CannotTellError)
    deadline = time.monotonic() + (0.0 if sure else AFTERTHOUGHT)
    while True:
        said = mailbox.remove_container(record, config.docker.timeout * 2)
        if said.out or time.monotonic() >= deadline:
            return said.ok
        time.sleep(0.2)


def _new_record(order: Order, engine: Engine) -> Record:
    identity = claim.new_id(order.name)
    place = docker_container.place_of(identity, 1, engine, processes.run_dir(), order.spec)
    return _by_us(claim.new_record(order, identity, place))


def _by_us(record: Record) -> Record:
    """Until its container is known, it hangs on this process."""
    return replace(record, status=replace(record.status, starter=processes.myself()))


def _forget(record: Record) -> None:
    forget_files(record)
    mailbox.remove(record.place.run)


def _take_back(record: Record, config: Config) -> bool:
    """The start never came to anything: nothing of it stays, also not in a container that does.
    False when that can't be asked: then its record stays."""
    entry = records.entry(record.name)
    if entry and isinstance(entry.record, Record) and entry.record.id == record.id:
        claimed = entry.record
        container = mailbox.place(claimed).container
        if container is not None and not container.made:
            left = mailbox.reap(claimed, signal.SIGKILL, config.docker.timeout * 2)
            if isinstance(left, Said) and left.trouble not in _EMPTY:
                return False
            mailbox.leave(claimed, config.docker.timeout * 2)
        records.remove(entry)
    _forget(record)
    return True


# --- the container -------------------------------------------------------------------------------


def _begin(
    entry: Entry,
    record: Record,
    variables: environment.Environment,
    config: Config,
    event: str,
    *,
    resuming: bool = False,
) -> Seen:
    """Have the container, then launch in it."""
    engine, box = mailbox.place(record).engine, record.spec.box
    assert box is not None
    if box.existing is not None:
        facts = docker_container.existing(engine, box.existing, config.docker.timeout)
    else:
        facts = docker_container.make(record, box, engine, config)
    mounted = box.existing is None and not container_engine.far(engine)
    return _launch_in(
        facts, entry, record, variables, config, event, mounted=mounted, resuming=resuming
    )


def _launch_in(
    facts: Facts,
    entry: Entry,
    record: Record,
    variables: environment.Environment,
    config: Config,
    event: str,
    *,
    mounted: bool,
    resuming: bool,
) -> Seen:
    container = docker_container.container_of(facts, record, mounted=mounted)
    record = replace(
        record,
        place=replace(record.place, container=container),
        status=replace(claim.launched_now(record.status), starter=None),
    )
    written = records.swap(entry, record, claim.starting(record))
    if written is None:
        raise ConflictError(f"{record.name} was changed by another sesh just now")
    docker_container.prepare(record, config)
    command, kit = equipped(record, variables, resuming=resuming)
    filled = mailbox.fill(record, variables, command, kit, config.docker.timeout * 4)
    if not filled.ok:
        raise container_engine.problem(mailbox.place(record).engine, filled)
    return _launch(written, record, config, event)


def equipped(
    record: Record, variables: environment.Environment, *, resuming: bool
) -> tuple[tuple[str, ...], dict[str, bytes]]:
    """The command of a launch, and the files that its agent needs in its container."""
    if record.spec.kit is None:
        return record.spec.command, {}
    from sesh.agents import launch_kit

    stem, hook = mailbox.base(record), mailbox.hook(record)
    return launch_kit.stage_elsewhere(record, variables, stem, hook, resuming=resuming)


def _launch(entry: Entry, record: Record, config: Config, event: str) -> Seen:
    launch_files.keep_claim(record, entry.raw)
    server = containers.server(record, config, "--workdir", record.spec.cwd)
    script = f"{mailbox.inside(record)}/keeper.sh"
    argv = ("/bin/sh", script, mailbox.base(record), record.id, record.name, "tmux", "")
    keeper = Keeper(argv=argv, session_id=record.id, log=mailbox.log(record), callback="")
    reply = into_tmux(record, server, keeper, ())
    if isinstance(reply, Reply):
        raise _refused(record, reply)
    record = replace(record, place=replace(record.place, pane=reply.pane))
    _await_agent(record, config)
    mailbox.forget_variables(record)
    sight = observe.observe([record], config)[0]
    if reconcile(record, sight, now()).state is State.STARTING:
        too_late = not_in_time(mailbox.patience(record.spec))
        if given_up(entry, record, too_late, event):
            server.kill_panes([reply.pane])
        raise not_launched(record, too_late.reason)
    return judge_launch(entry, record, sight, event)


def _refused(record: Record, reply: Reply) -> SeshError:
    trouble = container_engine.trouble_in(reply.text)
    if trouble is Trouble.NO_DIRECTORY:
        return SeshError(f"{record.name}: no directory {record.spec.cwd} in the container")
    return CannotTellError(
        f"{record.name}: tmux in the container: {container_engine.tidy(reply.text)}"
    )


def _await_agent(record: Record, config: Config) -> None:
    """Wait until the agent has said who it is and has become its command, or has ended."""
    container = mailbox.container_of(record)
    deadline = now() + timedelta(seconds=mailbox.patience(record.spec))
    pause = 0.005 if container.mounted else 0.1
    script = mailbox.base(record) + ".launch"
    while now() < deadline:
        mailbox.refresh(record, config.docker.timeout)
        word, exit_word = containers.words(record)
        became = word and (
            not record.place.pids_here or processes.became(word.agent.process.pid, script)
        )
        if exit_word or became:
            return
        time.sleep(pause)


# --- restart -------------------------------------------------------------------------------------


def restart(found: Seen, config: Config, attempt: int = 0, *, fresh: bool = False) -> Seen:
    """The next generation: in the same container where it stands, else in a new one of the same
    kind. `attempt` and `fresh` as for one on this machine."""
    records.prepare()
    assert found.session is not None
    old = found.session.record
    engine = mailbox.place(old).engine
    facts = _standing(old, engine, config)
    variables = _variables(old)
    run = processes.run_dir()
    place = docker_container.place_of(old.id, old.place.generation + 1, engine, run, old.spec)
    known = mailbox.place(old).container
    if facts and known and facts.started == known.started:
        place = replace(place, pane=_pane(old, config))
    if facts and known:  # should this process be killed: it is known whose it is
        container = docker_container.container_of(facts, old, mounted=known.mounted)
        place = replace(place, container=container)
    record = claim.next_generation(old, place, attempt)
    record = _by_us(record) if facts is None else record
    record, resuming = claim.resumed(record, old, variables, fresh=fresh)
    if facts is None:
        _clear(old, engine, config)
    mailbox.make(record)
    environment.save_text(place.snapshot, environment.exports(variables))
    entry = claim.claim_generation(found, record)
    try:
        if facts is None:
            done = _begin(entry, record, variables, config, "restarted", resuming=resuming)
        else:
            done = _launch_in(
                *(facts, entry, record, variables, config, "restarted"),
                mounted=_still_mounted(record, engine, facts, config),
                resuming=resuming,
            )
        launch_files.forget(record, below=record.place.generation)
        return done
    except BaseException as error:
        if facts is None:
            _withdraw(record, config, error)
        if isinstance(error, SeshError) and not isinstance(error, LaunchError | CannotTellError):
            _note_failure(record, str(error))
        raise


def _note_failure(record: Record, why: str) -> None:
    """A restart that came to nothing has failed: it is not `starting` until its time is over.
    Unless somebody wants it to stop by now, or has seen how it ended."""
    entry = records.entry(record.name)
    claimed = entry.record if entry else None
    if not entry or not isinstance(claimed, Record) or claimed.launch != record.launch:
        return
    if claimed.status.desired is Desired.RUNNING and claimed.status.outcome is None:
        record_failure(entry, claimed, failed(why), "restarted")


def _clear(record: Record, engine: Engine, config: Config) -> None:
    """A start that was killed may have left a container that its record does not know."""
    said = mailbox.remove_container(record, config.docker.timeout * 2)
    if not said.ok:
        raise container_engine.problem(engine, said)


def _still_mounted(record: Record, engine: Engine, facts: Facts, config: Config) -> bool:
    """Is its box mounted there? Not if it was deleted under the container, with all of ours."""
    made = record.spec.box is not None and record.spec.box.existing is None
    near = not container_engine.far(engine)
    return made and near and mailbox.stands(record, engine, facts.id, config.docker.timeout)


def _standing(old: Record, engine: Engine, config: Config) -> Facts | None:
    """Its container, running; None when a new one has to be made."""
    container, box = mailbox.place(old).container, old.spec.box
    assert box is not None
    if container is None:
        return None
    facts = docker_container.facts_of(old, config)
    if box.existing is not None:
        return docker_container.existing(
            engine, facts.id if facts else box.existing, config.docker.timeout
        )
    if facts is None:
        return None
    if facts.paused:
        raise ConflictError(f"{old.name}: its container is paused; sesh resume {old.name}")
    if not facts.running:
        mailbox.make(old)  # what it has mounted must be there
        said = container_engine.ask(engine, "start", facts.id, timeout=container_engine.RUN_TIMEOUT)
        if not said.ok:
            raise container_engine.problem(engine, said)
        facts = docker_container.facts_of(old, config)
    return facts


def _variables(record: Record) -> environment.Environment:
    """What was given with -e; if a reboot took it, the caller's values."""
    try:
        return environment.load(record.place.snapshot)
    except FileNotFoundError:
        claim.lacking(record)
        return {os.fsencode(name): os.environb[os.fsencode(name)] for name in record.spec.env}


def _pane(old: Record, config: Config) -> str | None:
    """Its old pane, if that still stands."""
    server = containers.server(old, config)
    if panes.find(old, server.panes()) is None:
        return None
    panes.save_screens([old], server)
    return old.place.pane
