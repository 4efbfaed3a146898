"""Pause sessions and resume them. A paused one is held: nobody is attached, nothing can be sent,
its limits stand still. Frozen, it does not even run."""

from __future__ import annotations

import signal
from contextlib import suppress
from datetime import UTC, datetime

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, SeshError
from sesh.model.observation import Observation
from sesh.model.reconcile import reconcile
from sesh.model.record import Record, Status
from sesh.model.states import State
from sesh.model.value import replace
from sesh.places.docker import mailbox
from sesh.state import events, lookup, observe, records
from sesh.state.lookup import Seen
from sesh.system import container_engine, processes
from sesh.system.container_engine import Said


def pause(found: Seen, config: Config, *, freeze: bool) -> None:
    """Hold a running session; one that is held already may still be frozen."""
    record = lookup.must_be(found, State.RUNNING, State.PAUSED)
    if record.status.paused is None:
        status = replace(record.status, paused=datetime.now(UTC))
        _write(found, record, status, "paused")
    with suppress(SeshError):
        observe.server_of(record, config).detach_all(record.name)
    if freeze:
        _freeze(record, config)


def resume(found: Seen, config: Config) -> None:
    """Let it go on. Thawed first: what could not be thawed stays paused."""
    record = lookup.must_be(found, State.PAUSED, State.RUNNING)
    _thaw(record, config)
    since = record.status.paused
    if since is None:
        return
    moment = datetime.now(UTC)
    held = record.status.held + max(0.0, (moment - since).total_seconds())
    _write(found, record, replace(record.status, paused=None, held=held, resumed=moment), "resumed")
    if record.hosted and record.spec.care.watched:
        with suppress(SeshError):  # its limits run again; what was to wake us up did so in vain
            observe.server_of(record, config).call_back_now()


def _write(found: Seen, record: Record, status: Status, event: str) -> None:
    changed = replace(record, status=status)
    fresh: Seen | None = found
    for _ in range(5):
        assert fresh is not None
        assert fresh.session is not None
        verdict = reconcile(changed, _unpaused(fresh.session.seen), datetime.now(UTC))
        if records.swap(fresh.entry, changed, verdict) is not None:
            events.append(event, changed)
            return
        fresh = lookup.again(found)
        if fresh is None or fresh.session is None:
            break
        changed = replace(fresh.session.record, status=status)
    raise ConflictError(f"{found.name} was changed by another sesh just now; try again")


def _unpaused(seen: Observation) -> Observation:
    """What was seen, but for what we have just changed about it."""
    return replace(seen, frozen=False, paused=False)


def _freeze(record: Record, config: Config) -> None:
    container, engine = record.place.container, record.place.engine
    if container is None or engine is None:
        _signal_tree(record, signal.SIGSTOP)
    elif container.made:
        said = container_engine.ask(
            engine, "pause", container.id, timeout=config.docker.timeout * 2
        )
        if not said.ok and said.trouble is not container_engine.Trouble.PAUSED:
            raise container_engine.problem(engine, said)
    else:  # others may run in there
        _check(record, mailbox.reap(record, signal.SIGSTOP, config.docker.timeout * 2))


def _thaw(record: Record, config: Config) -> None:
    container, engine = record.place.container, record.place.engine
    if container is None or engine is None:
        _signal_tree(record, signal.SIGCONT)
        return
    found = container_engine.inspect(engine, [container.id], config.docker.timeout)
    if isinstance(found, Said):
        raise container_engine.problem(engine, found)
    facts = found.get(container.id)
    if facts is not None and facts.paused:
        said = container_engine.ask(
            engine, "unpause", container.id, timeout=config.docker.timeout * 2
        )
        if not said.ok:
            raise container_engine.problem(engine, said)
    if not container.made:
        _check(record, mailbox.reap(record, signal.SIGCONT, config.docker.timeout * 2))


def _check(record: Record, said: list[int] | Said) -> None:
    if isinstance(said, Said):
        raise CannotTellError(f"{record.name}: its container: {said.text}")


def _signal_tree(record: Record, number: int) -> None:
    """The agent's tree, parents first; never its keeper: tmux would continue the group."""
    agent = record.place.agent
    if agent is None or not processes.alive(agent.process):
        return
    table = processes.table()
    for pid in processes.tree(processes.children(table), agent.process.pid):
        if pid in table:
            processes.send(table[pid].process, number)
