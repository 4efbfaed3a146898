"""Run claimed generations in tmux, wait for their agents, and record the results.

The launches of a server are one call of tmux and one wait. An error with one session does not
affect the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, ScarceError, SeshError, noted
from sesh.model.observation import Observation, Session, Verdict, absent
from sesh.model.place import Process
from sesh.model.reconcile import not_in_time, reconcile, recorded_end
from sesh.model.record import LaunchMode, Record
from sesh.model.states import Cause, State
from sesh.model.value_object import Value, replace
from sesh.places import environment, launch_files
from sesh.places.host import launch as in_tmux
from sesh.places.host import tmux_server
from sesh.places.host.observe import hidden_server
from sesh.state import breakers, ends, events, judge, lookup, observe, records
from sesh.state.judge import Seen
from sesh.state.records import Entry
from sesh.system import paths, processes, tmux
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Launched, Tmux, Trouble, Words

_TICK = 0.05  # seconds that a process may seem older than it is
_PROMPT = timedelta(seconds=1)  # tmux has answered at once


class LaunchError(SeshError):
    """The agent could not be launched; that is recorded."""


class Claimed(Value):
    """A generation that is ours to launch."""

    entry: Entry
    record: Record


Results = dict[str, Seen | SeshError]  # by name: the session afterwards, or the error


def now() -> datetime:
    return datetime.now(UTC)


# --- before the claim ----------------------------------------------------------------------------


def ready_server(socket: str, run: str, config: Config) -> tuple[Tmux, Words]:
    """The server of a launch, and what starts it if it is not there."""
    tmux.check_socket(socket)
    server = tmux_server.server(socket, run, config)
    return server, tmux_server.ready(server, _hidden_server)


def _hidden_server(socket: str) -> Process | None:
    """The living server whose socket is gone, by a record or by the keepers in it."""
    from sesh.places import keepers

    sessions = [e.record for e in records.entries() if isinstance(e.record, Record)]
    known = hidden_server(socket, sessions)
    return known or keepers.hidden_server(socket, processes.run_dir())


def stage(record: Record, mode: LaunchMode) -> None:
    """Write the files of the launch, also those of an agent that sesh knows."""
    command = record.spec.command
    launch_files.make_transcript(record.id)
    if record.spec.kit:
        from sesh.agents import launch_kit

        base = launch_files.base(record)
        variables = environment.load(record.place.snapshot)
        launch_kit.stage(record, variables, base, mode)
        command = launch_kit.command(record, base, launch_kit.own_hook(record), mode)
    launch_files.stage(record, command, tmux_server.scope(record))


# --- the launch ----------------------------------------------------------------------------------


def launch(claims: Sequence[Claimed], server: Tmux, wrap: Words, event: str) -> Results:
    """Run claimed generations in one server and record the results."""
    results: Results = {}
    ready: list[tuple[Claimed, in_tmux.Launch]] = []
    for one in claims:
        with noted(results, one.record.name):
            ready.append((one, _prepared(one, server, event)))
    begin = processes.uptime() - _TICK
    with tmux_server.room():
        replies = in_tmux.into_tmux([launch for _, launch in ready], server, wrap)
    begun, refused = [], []
    for (one, _), reply in zip(ready, in_tmux.settled(replies, server), strict=True):
        if isinstance(reply, Launched):
            begun.append((_begun(one), reply))
            continue
        if reply.trouble is Trouble.REFUSED:
            refused.append(one.record)
        with noted(results, one.record.name):
            raise _launch_refused(one.entry, one.record, reply, event)
    if refused:
        in_tmux.take_back(refused, server, begin)
    return results | _confirm(begun, server, event, begin)


def _prepared(one: Claimed, server: Tmux, event: str) -> in_tmux.Launch:
    """Give the launch's files their names."""
    try:
        launch_files.commit(one.record)
        launch_files.keep_claim(one.record, one.entry.raw)
        return in_tmux.Launch(one.record, in_tmux.keeper(one.record, server))
    except ScarceError as error:
        record_failure(one.entry, one.record, failed(str(error)), event)
        raise not_launched(one.record, str(error)) from None


def _begun(one: Claimed) -> Claimed:
    """The launch timeout counts from the answer of tmux. It is recorded only if the answer was late
    and the agent has not begun by then."""
    late = now() - one.record.status.launched > _PROMPT
    if not late or in_tmux.spoke(one.record):
        return one
    begun = replace(one.record, status=replace(one.record.status, launched=now()))
    seen = Observation(absent("it has not started yet"))
    with suppress(SeshError):  # it is launched already
        written = records.swap(one.entry, begun, reconcile(begun, seen, now()))
        if written is not None:
            return Claimed(written, begun)
    return one


def _launch_refused(entry: Entry, record: Record, reply: Reply, event: str) -> SeshError:
    """The error when tmux did not launch a session. A definite refusal is recorded as `failed`.
    Without an answer the session stays `starting`, and the next look finds out more."""
    if reply.trouble is Trouble.DUPLICATE and record.place.generation == 1:
        records.remove(entry)
        forget_files(record)
        return _foreign(record.name, reply)
    if reply.trouble is Trouble.OTHER:
        return CannotTellError(f"{record.name}: tmux: {reply.text}; next: sesh show {record.name}")
    why = f"tmux: {reply.text}"
    record_failure(entry, record, failed(why), event)
    if reply.trouble is Trouble.DUPLICATE:
        return _foreign(record.name, reply)
    return not_launched(record, why)


def _foreign(name: str, reply: Reply) -> ConflictError:
    if reply.text == in_tmux.LIVES:
        return ConflictError(f"{name}: {in_tmux.LIVES}; next: sesh ls --all")
    return ConflictError(f"a tmux session named {name} exists that sesh did not start")


# --- the confirmation ----------------------------------------------------------------------------


def _confirm(
    begun: Sequence[tuple[Claimed, Launched]], server: Tmux, event: str, begin: float
) -> Results:
    """Wait for the agents and record what became of them. `begin` is the uptime at which tmux was
    asked to launch them."""
    results: Results = {}
    late = in_tmux.wait([(one.record, pane) for one, pane in begun])
    unfinished = [(one, pane) for one, pane in begun if one.record.id in late]
    silent = [(one, pane) for one, pane in unfinished if not in_tmux.spoke(one.record)]
    ended = [pane.pane for one, pane in silent if late[one.record.id]]
    last_lines = in_tmux.last_lines(ended, server) if ended else {}
    left = []
    for one, pane in silent:
        with noted(results, one.record.name):
            how = not_in_time(one.record.spec.launch_timeout)
            if late[one.record.id]:  # for example, the system has no more processes
                why = last_lines.get(pane.pane) or "no process for it"
                how = failed(f"its keeper could not run it: {why}")
            if given_up(one.entry, one.record, how, event):
                left.append(one.record)
                raise not_launched(one.record, how.reason)
    if left:
        in_tmux.take_back(left, server, begin)
    for one, _ in begun:
        if one.record.name not in results:
            with noted(results, one.record.name):
                sight = observe.by_files(one.record)
                results[one.record.name] = judge_launch(one.entry, one.record, sight)
    return results


def given_up(entry: Entry, record: Record, how: Verdict, event: str) -> bool:
    """Record that an agent has not begun. That comes before anything is ended: another sesh that
    looks meanwhile would take our own kill for a terminal that a person closed. True also where
    another sesh has recorded the same. False: another sesh has seen it begin, so it lives."""
    if record_failure(entry, record, how, event):
        return True
    now_known = records.of_id(record.id)
    if now_known is None or now_known.launch != record.launch:
        return False
    return now_known.status.cause is Cause.LAUNCH


def judge_launch(entry: Entry, record: Record, sight: Observation) -> Seen:
    """Record what is known of the agent by now, and what happened."""
    moment = now()
    verdict = reconcile(record, sight, moment)
    learned = judge.learn(record, sight, verdict, moment)
    verdict = judge.with_retry(learned, sight, verdict, moment)
    refused = recorded_end(learned) if verdict.cause is Cause.LAUNCH else None
    ended = learned.status.outcome is not None and (not refused or _is_retry(record))
    ends.announce_launch(entry, record, refused)
    with ends.announced(learned, ended=ended) as write_end:
        written = records.swap(entry, learned, verdict)
        _note_end(learned, write_end, ended=ended and written is not None)
    if refused:
        raise not_launched(record, refused.reason)
    if written is None:  # another sesh has looked in between, and has written down what it saw
        return lookup.one(record.name)
    return Seen(written, Session(learned, sight, verdict))


def failed(why: str) -> Verdict:
    """The end of a launch that was refused."""
    return Verdict(State.FAILED, reason=why, cause=Cause.LAUNCH)


def not_launched(record: Record, why: str | None) -> LaunchError:
    return LaunchError(f"{record.name} could not be launched: {why}")


def record_failure(entry: Entry, record: Record, how: Verdict, event: str) -> bool:
    """Record that a launch has failed. False: another sesh has changed the record meanwhile."""
    ended = judge.ended(record, how, now())
    verdict = reconcile(ended, Observation(absent("never launched")), now())
    with ends.announced(ended, ended=_is_retry(record)) as write_end:
        written = records.swap(entry, ended, verdict)
        if written is not None:
            _note_failure(event, record, how)
            _note_end(ended, write_end, ended=_is_retry(record))
    return written is not None


def _is_retry(record: Record) -> bool:
    """The end of a retry that cannot be launched is reported like every end: no command waits for
    its result."""
    return record.status.retries > 0


def _note_end(record: Record, write_end: Callable[[], None], *, ended: bool) -> None:
    if ended:
        with suppress(OSError):
            write_end()
        breakers.note_ended([record])


def _note_failure(event: str, record: Record, how: Verdict) -> None:
    with suppress(OSError):
        events.write(ends.launch_failed(record, event, how))


def forget_files(record: Record) -> None:
    with suppress(OSError):
        launch_files.forget(record)
        environment.forget(record.place.snapshot)
        os.unlink(paths.transcript(record.id))
