"""End the agent in a container, then the container, if sesh made it."""

from __future__ import annotations

from contextlib import suppress

from sesh.model.configuration import Config
from sesh.model.errors import SeshError
from sesh.model.place import Engine
from sesh.model.record import Record
from sesh.places import panes, remote
from sesh.places.docker import observe, ownership, session_files
from sesh.places.docker.container import facts_of
from sesh.system import container_engine, processes
from sesh.system.container_engine import Facts, Trouble
from sesh.system.subprocesses import Reply


def terminate(record: Record, config: Config, grace: float) -> None:
    """End the agent, then remove the container, if sesh made it and it is not to be kept. The next
    look shows what could not be done."""
    engine, container = session_files.place(record).engine, session_files.place(record).container
    if container is None:
        ownership.remove_container(record, config.docker.timeout * 2)
        return
    with suppress(SeshError):
        facts = facts_of(record, config)
        if facts is None:
            return
        if facts.running and facts.started == container.started:
            with suppress(SeshError, OSError, ValueError):  # the container goes in any case
                _end_agent(record, engine, facts, config, grace)
        if container.made and not record.status.keep:
            ownership.remove_container(record, config.docker.timeout * 2)


def _end_agent(record: Record, engine: Engine, facts: Facts, config: Config, grace: float) -> None:
    if facts.paused:
        container_engine.ask(engine, "unpause", facts.id, timeout=config.docker.timeout)
    timeout = config.docker.timeout * 2
    remote.end(lambda number: _reap(record, number, timeout), grace)
    with suppress(OSError):
        panes.save_screens([record], observe.server(record, config))
        session_files.pull_transcript(record, timeout)
    remote.await_last_word(lambda: _has_ended(record, config))


def _reap(record: Record, number: int, timeout: float) -> list[int] | Reply:
    """Signal what is left of the session, from inside. An agent that this machine still sees alive,
    although the inside reports nothing, is signalled from here."""
    left = session_files.reap(record, number, timeout)
    agent = record.place.agent
    answered = left if isinstance(left, list) else left.trouble is not Trouble.NO_PROGRAM
    if (
        answered
        or not record.place.pids_here
        or agent is None
        or not processes.alive(agent.process)
    ):
        return left
    if number:
        processes.send(agent.process, number)
    return [agent.process.pid]


def _has_ended(record: Record, config: Config) -> bool:
    session_files.refresh(record, config.docker.timeout)
    return observe.words(record)[1] is not None
