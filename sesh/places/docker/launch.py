"""Containers for launches: made or found, filled with the launch's files, and given up again."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, SeshError
from sesh.model.place import Place
from sesh.model.record import Record, Spec
from sesh.model.value_object import replace
from sesh.places import environment, panes
from sesh.places.docker import container, mailbox, observe
from sesh.system import container_engine, processes
from sesh.system.container_engine import Facts, Trouble
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Keeper, Tmux

AFTERTHOUGHT = 3.0  # seconds in which an engine ends what it was told to do
_EMPTY = (Trouble.NO_CONTAINER, Trouble.NOT_RUNNING)  # nothing runs in what says this


def check(spec: Spec, config: Config) -> Spec:
    assert spec.box is not None
    return container.checked(spec, spec.box, container_engine.chosen(config), config)


def reserve(identity: str, spec: Spec, config: Config) -> Place:
    engine = container_engine.chosen(config)
    return container.place_of(identity, 1, engine, processes.run_dir(), spec)


def next_place(old: Record, config: Config) -> tuple[Place, bool]:
    """The place of the next generation: the same container where it still is."""
    known, facts = mailbox.place(old), _standing(old, config)
    place = container.place_of(
        old.id, old.place.generation + 1, known.engine, processes.run_dir(), old.spec
    )
    if facts is None or known.container is None:
        return place, False
    if facts.started == known.container.started:
        place = replace(place, pane=_pane(old, config))
    same = container.container_of(facts, old, mounted=known.container.mounted)
    return replace(place, container=same), True


def _standing(old: Record, config: Config) -> Facts | None:
    """Its container, running; None when a new one has to be made."""
    engine, box = mailbox.place(old).engine, old.spec.box
    assert box is not None
    if mailbox.place(old).container is None:
        return None
    facts = container.facts_of(old, config)
    if box.existing is not None:
        return container.existing(
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
        facts = container.facts_of(old, config)
    return facts


def _pane(old: Record, config: Config) -> str | None:
    """Its old pane, if that is still there."""
    server = observe.server(old, config)
    if panes.find(old, server.panes()) is None:
        return None
    panes.save_screens([old], server)
    return old.place.pane


def clear_before(old: Record, config: Config) -> None:
    """A start that was killed may have left a container that its record does not know."""
    said = mailbox.remove_container(old, config.docker.timeout * 2)
    if not said.ok:
        raise container_engine.problem(mailbox.place(old).engine, said)


def make_files(record: Record) -> None:
    mailbox.make(record)


def provide(record: Record, config: Config) -> Place:
    """The place with its container, which runs: the same as before, an existing or a new one."""
    place, box, timeout = mailbox.place(record), record.spec.box, config.docker.timeout
    assert box is not None
    near = box.existing is None and not container_engine.far(place.engine)
    if place.container is not None:  # not mounted any more if it was deleted under the container
        mounted = near and mailbox.stands(record, place.engine, place.container.id, timeout)
        return replace(place, container=replace(place.container, mounted=mounted))
    if box.existing is not None:
        facts = container.existing(place.engine, box.existing, timeout)
    else:
        facts = container.make(record, box, place.engine, config)
    return replace(place, container=container.container_of(facts, record, mounted=near))


def put(
    record: Record,
    variables: environment.Environment,
    command: tuple[str, ...],
    kit: Mapping[str, bytes],
    config: Config,
) -> None:
    container.prepare(record, config)
    said = mailbox.fill(record, variables, command, kit, config.docker.timeout * 4)
    if not said.ok:
        raise container_engine.problem(mailbox.place(record).engine, said)


def stem(record: Record) -> str:
    return mailbox.base(record)


def hook(record: Record) -> list[str]:
    return mailbox.hook(record)


def launch_server(record: Record, config: Config) -> Tmux:
    return observe.server(record, config, "--workdir", record.spec.cwd)


def keeper(record: Record) -> Keeper:
    script = f"{mailbox.inside(record)}/keeper.sh"
    argv = ("/bin/sh", script, mailbox.base(record), record.id, record.name, "tmux", "")
    return Keeper(argv=argv, session_id=record.id, log=mailbox.log(record), callback="")


def await_agent(record: Record, config: Config) -> None:
    """Wait until the agent has said who it is and has become its command, or has ended."""
    deadline = time.monotonic() + mailbox.patience(record.spec)
    pause = 0.005 if mailbox.container_of(record).mounted else 0.1
    script = mailbox.base(record) + ".launch"
    while time.monotonic() < deadline:
        mailbox.refresh(record, config.docker.timeout)
        word, exit_word = observe.words(record)
        became = word and (
            not record.place.pids_here or processes.became(word.agent.process.pid, script)
        )
        if exit_word or became:
            break
        time.sleep(pause)
    mailbox.forget_variables(record)


def refused(record: Record, reply: Reply) -> SeshError:
    if container_engine.trouble_in(reply.text) is Trouble.NO_DIRECTORY:
        return SeshError(f"{record.name}: no directory {record.spec.cwd} in the container")
    return CannotTellError(
        f"{record.name}: tmux in the container: {container_engine.tidy(reply.text)}"
    )


# --- a launch that failed ------------------------------------------------------------------------


def withdraw(record: Record, config: Config, *, sure: bool) -> bool:
    """Remove the container that was being made; False when nobody can tell whether there is one.
    To interrupt the engine's command, or not to wait for it, does not interrupt the engine: unless
    it is `sure` that it did nothing, it may finish its work in a moment."""
    assert record.spec.box is not None
    if record.spec.box.image is None:
        return True
    deadline = time.monotonic() + (0.0 if sure else AFTERTHOUGHT)
    while True:
        said = mailbox.remove_container(record, config.docker.timeout * 2)
        if said.out or time.monotonic() >= deadline:
            return said.ok
        time.sleep(0.2)


def take_back(claimed: Record, config: Config) -> bool:
    """End what a failed start has begun in a container that stays; False when it can't be asked."""
    known = mailbox.place(claimed).container
    if known is None or known.made:
        return True
    left = mailbox.reap(claimed, signal.SIGKILL, config.docker.timeout * 2)
    if isinstance(left, Reply) and left.trouble not in _EMPTY:
        return False
    mailbox.leave(claimed, config.docker.timeout * 2)
    return True
