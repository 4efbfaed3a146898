"""Run a claimed generation in tmux, see that it runs, and write down how that went."""

from __future__ import annotations

import os
import signal as signals
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from sesh.model import due
from sesh.model.errors import CannotTellError, ConflictError, ScarceError, SeshError
from sesh.model.observation import ExitWord, LaunchWord, Observation, Session, Verdict, absent
from sesh.model.reconcile import not_in_time, reconcile, recorded_end
from sesh.model.record import Record, name_of
from sesh.model.states import Cause, State
from sesh.model.value_object import replace
from sesh.places import environment, launch_files, panes
from sesh.places.host import tmux_server
from sesh.state import breakers, ends, events, judge, lookup, observe, records
from sesh.state.judge import Seen
from sesh.state.records import Entry
from sesh.system import paths, process_marks, processes, tmux
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Keeper, Launched, Tmux, Trouble

_CLEAN_LOOKS = 3
_POLL = 0.02
_TICK = 0.05  # seconds that a process may seem older than it is
_PROMPT = timedelta(seconds=1)  # tmux has answered at once
LIVES = "in the tmux session of that name an agent lives that no record claims"


class LaunchError(SeshError):
    """The agent could not be launched; its record says so."""


def now() -> datetime:
    return datetime.now(UTC)


def launch(entry: Entry, record: Record, server: Tmux, wrap: tuple[str, ...], event: str) -> Seen:
    """Run the claimed generation and record how that went."""
    try:
        launch_files.commit(record)
        launch_files.keep_claim(record, entry.raw)
        keeper = _keeper(record, server)
    except ScarceError as error:
        record_failure(entry, record, failed(str(error)), event)
        raise not_launched(record, str(error)) from None
    begin = processes.uptime() - _TICK
    with tmux_server.room():
        reply = into_tmux(record, server, keeper, wrap)
    if isinstance(reply, Reply):
        refused = _launch_refused(entry, record, _settled(reply, server), event)
        if reply.trouble is Trouble.REFUSED:
            _take_back(record, server, begin)
        raise refused
    entry, record = _begun(entry, record)
    return _confirm(entry, record, server, reply, event, begin)


def _begun(entry: Entry, record: Record) -> tuple[Entry, Record]:
    """The time of a launch begins when tmux has answered. It is written down only where that was
    late, and the agent has not begun by then."""
    late = now() - record.status.launched > _PROMPT
    if not late or _spoke(record):
        return entry, record
    begun = replace(record, status=replace(record.status, launched=now()))
    seen = Observation(absent("it has not said that it began"))
    with suppress(SeshError):  # it is launched already
        written = records.swap(entry, begun, reconcile(begun, seen, now()))
        if written is not None:
            return written, begun
    return entry, record


def _keeper(record: Record, server: Tmux) -> Keeper:
    callback = launch_files.write_callback(record.place.run, paths.own_command())
    stem = launch_files.base(record)
    script = paths.package_file("places/keeper.sh")
    return Keeper(
        argv=("/bin/sh", script, stem, record.id, record.name, server.binary, callback),
        session_id=record.id,
        log=paths.transcript(record.id),
        callback=callback,
        look_after=min(tmux.LOOK_EVERY, due.first_due(record, processes.uptime())),
    )


def into_tmux(
    record: Record, server: Tmux, keeper: Keeper, wrap: tuple[str, ...]
) -> Launched | Reply:
    if record.place.pane is not None:
        reply = _respawn(record, server, keeper)
        gone = (Trouble.NO_TARGET, Trouble.NO_SESSIONS, Trouble.NO_SERVER, Trouble.EXITING)
        if isinstance(reply, Launched) or reply.trouble not in gone:
            return reply
        server.write_config()  # the pane, or the server with it, has gone just now: a new one
        wrap = wrap or tmux_server.cold(server)
    reply = server.new_session(record.name, keeper, record.spec.cwd, _terminal_size(), wrap)
    if isinstance(reply, Reply) and reply.trouble is Trouble.DUPLICATE:
        return _beside(record, server, keeper) or reply
    if wrap and isinstance(reply, Reply) and reply.trouble is Trouble.OTHER:
        reply = _anew(record, server, keeper)  # a systemd that does not answer: plainly
    for _ in range(tmux.EXITING_TRIES):
        if isinstance(reply, Launched) or reply.trouble is not Trouble.EXITING:
            break
        reply = _anew(record, server, keeper, tmux_server.cold(server))
    return reply


def _anew(
    record: Record, server: Tmux, keeper: Keeper, wrap: tuple[str, ...] = ()
) -> Launched | Reply:
    """Once more, in a moment: a server that was just exiting is gone by then."""
    time.sleep(tmux.EXITING_PAUSE)
    server.write_config()
    return server.new_session(record.name, keeper, record.spec.cwd, _terminal_size(), wrap)


def _beside(record: Record, server: Tmux, keeper: Keeper) -> Launched | Reply | None:
    """A window of its own in the tmux session that stands because a person opened another one
    there; None when that session is not of a sesh session of this name."""
    standing = panes.of_name(record.name, server)
    if not standing or any(name_of(p.sesh_id) != record.name for p in standing):
        return None
    panes.close_dead({record.name}, server)  # what a killed start has left there
    standing = panes.of_name(record.name, server)
    if any(not pane.dead and panes.is_keeper(pane.pid) for pane in standing):
        return Reply("", Trouble.DUPLICATE, LIVES)
    if standing:
        return server.new_window(record.name, keeper)
    return server.new_session(record.name, keeper, record.spec.cwd, _terminal_size())


def _respawn(record: Record, server: Tmux, keeper: Keeper) -> Launched | Reply:
    """The next generation in the old pane. tmux may be late to notice that the old keeper has
    ended: then it is told by force, for which the keeper must be proven gone."""
    assert record.place.pane is not None
    reply = server.respawn(record.place.pane, keeper, force=False)
    late = isinstance(reply, Reply) and reply.trouble is Trouble.ACTIVE
    if late and server.prefix:
        time.sleep(0.5)
        return server.respawn(record.place.pane, keeper, force=False)
    if late and panes.keeper_gone(record.place.pane, server):
        return server.respawn(record.place.pane, keeper, force=True)
    return reply


def _terminal_size() -> tuple[int, int]:
    for fd in (0, 1, 2):
        with suppress(OSError):
            size = os.get_terminal_size(fd)
            if size.columns and size.lines:
                return (size.columns, size.lines)
    return tmux.DEFAULT_SIZE


def _launch_refused(entry: Entry, record: Record, reply: Reply, event: str) -> SeshError:
    """tmux did not launch it. A definite no becomes `failed`; no answer stays `starting`, and the
    next look finds out what came of it."""
    if reply.trouble is Trouble.DUPLICATE and record.place.generation == 1:
        records.remove(entry)
        forget_files(record)
        return _foreign(record.name, reply)
    if reply.trouble is Trouble.OTHER:
        return CannotTellError(
            f"{record.name}: tmux: {reply.text}; sesh show {record.name} looks again"
        )
    why = f"tmux: {reply.text}"
    record_failure(entry, record, failed(why), event)
    if reply.trouble is Trouble.DUPLICATE:
        return _foreign(record.name, reply)
    return not_launched(record, why)


def _take_back(record: Record, server: Tmux, begin: float) -> None:
    """What was given up, or refused, may have got as far as its pane."""
    launch_files.withdraw(record)
    listed = server.panes()
    for pane in listed if isinstance(listed, list) else ():
        keeps = processes.runs(pane.pid, launch_files.base(record))  # else a window made by hand
        if pane.sesh_id == record.id and (pane.dead or keeps):
            server.kill_panes([pane.id])
    if server.own:
        server.may_exit()  # a server that was started without room has the same limits for ever
    _end_marked(record, begin)


def _settled(reply: Reply, server: Tmux) -> Reply:
    """A tmux that can't fork its server ends without a word: then nobody is there to launch it."""
    if reply.trouble is not Trouble.OTHER or not reply.text.endswith(tmux.WORDLESS):
        return reply
    listed = server.panes()
    if isinstance(listed, Reply) and listed.trouble is Trouble.NO_SERVER:
        return Reply("", Trouble.REFUSED, "no server could be started (too many processes?)")
    return reply


def _foreign(name: str, reply: Reply) -> ConflictError:
    if reply.text == LIVES:
        return ConflictError(f"{name}: {LIVES}; sesh ls --all shows it")
    return ConflictError(f"a tmux session named {name} exists that sesh did not start")


def failed(why: str) -> Verdict:
    """The end of a launch that was refused."""
    return Verdict(State.FAILED, reason=why, cause=Cause.LAUNCH)


def not_launched(record: Record, why: str | None) -> LaunchError:
    return LaunchError(f"{record.name} could not be launched: {why}")


def record_failure(entry: Entry, record: Record, how: Verdict, event: str) -> bool:
    """False: another sesh has written down something else of it meanwhile."""
    ended = judge.ended(record, how, now())
    verdict = reconcile(ended, Observation(absent("never launched")), now())
    with ends.announced(ended, ended=_is_retry(record)) as tell:
        written = records.swap(entry, ended, verdict)
        if written is not None:
            _note_failure(event, record, how)
            _note_end(ended, tell, told=_is_retry(record))
    return written is not None


def _is_retry(record: Record) -> bool:
    """Nobody asks for a retry, so the end of one that can't be launched is told like every end."""
    return record.status.retries > 0


def _note_end(ended: Record, tell: Callable[[], None], *, told: bool) -> None:
    if told:
        with suppress(OSError):
            tell()
        breakers.heed([ended])


def _confirm(
    entry: Entry, record: Record, server: Tmux, launched: Launched, event: str, begin: float
) -> Seen:
    """Wait until the agent has said who it is and has become its command, or has ended. `begin` is
    the uptime at which tmux was asked to launch it."""
    deadline = time.monotonic() + record.spec.launch_timeout
    pause = 0.001
    gone = False
    while time.monotonic() < deadline and not gone and not _became(record):
        time.sleep(pause)
        pause = min(pause * 1.2, 0.02)
        gone = _is_gone(launched.pane_pid)
    how = _no_keeper(launched, server) if gone else not_in_time(record.spec.launch_timeout)
    if not _spoke(record) and given_up(entry, record, how, event):
        _take_back(record, server, begin)
        raise not_launched(record, how.reason)
    return _judge_launch(entry, record, event)


def _is_gone(pid: int) -> bool:
    stat = processes.look(pid)
    return stat is None or not stat.alive


def _no_keeper(launched: Launched, server: Tmux) -> Verdict:
    """Its keeper has ended without a word of the agent: no process could be had, say. What the
    shell said of that is on the screen."""
    said = (server.screen(launched.pane) or "").split("\n")
    lines = [line.strip() for line in said if line.strip() and not line.startswith("Pane is dead")]
    return failed(f"its keeper could not run it: {lines[-1] if lines else 'no process for it'}")


def given_up(entry: Entry, record: Record, how: Verdict, event: str) -> bool:
    """Nobody has spoken in time. Written down before anything is ended: whoever looks meanwhile
    would take our own kill for a terminal that somebody has closed. True also where another sesh
    has written down the same; else somebody has seen it speak, so it lives."""
    if record_failure(entry, record, how, event):
        return True
    known = records.again(entry)
    written = known.record if known else None
    return (
        isinstance(written, Record)
        and written.launch == record.launch
        and written.status.cause is Cause.LAUNCH
    )


def _became(record: Record) -> bool:
    word, exit_word = _words(record)
    script = launch_files.base(record) + ".launch"
    return exit_word is not None or (
        word is not None and processes.became(word.agent.process.pid, script)
    )


def _spoke(record: Record) -> bool:
    return _words(record) != (None, None)


def _words(record: Record) -> tuple[LaunchWord | None, ExitWord | None]:
    which = (record.place.run, record.id, record.place.generation)
    return launch_files.read_launch(*which), launch_files.read_exit(*which)


def _end_marked(record: Record, since: float) -> None:
    """End what has begun all the same, and does not heed that its terminal is gone; not what an
    earlier launch has left, nor ourselves. `since` is an uptime."""
    for _ in range(_CLEAN_LOOKS):
        table = processes.table()
        now = processes.uptime()
        marked = process_marks.marked(table, [process_marks.mark(record)])[record.id]
        for pid in set(marked) - set(processes.ancestors(table)):
            process = table[pid].process
            if now - processes.age(process, now) >= since:
                processes.send(process, signals.SIGKILL)
        time.sleep(_POLL)


def _judge_launch(entry: Entry, record: Record, event: str) -> Seen:
    return judge_launch(entry, record, observe.by_files(record), event)


def judge_launch(entry: Entry, record: Record, sight: Observation, event: str) -> Seen:
    """Write down what is known of the agent by now, and what happened."""
    moment = now()
    verdict = reconcile(record, sight, moment)
    learned = judge.learn(record, sight, verdict, moment)
    verdict = judge.with_retry(learned, sight, verdict, moment)
    refused = verdict.cause is Cause.LAUNCH
    ended = learned.status.outcome is not None and (not refused or _is_retry(record))
    with ends.announced(learned, ended=ended) as tell:
        written = records.swap(entry, learned, verdict)
        if refused:
            _note_failure(event, record, recorded_end(learned))
        else:
            command = list(record.spec.command)
            events.append(
                event, record, command=command, **_retry(record), **_resumed(record, event)
            )
        _note_end(learned, tell, told=ended and written is not None)
    if refused:
        raise not_launched(record, recorded_end(learned).reason)
    if written is None:  # another sesh has looked in between, and has written down what it saw
        return lookup.one(record.name)
    return Seen(written, Session(learned, sight, verdict))


def _note_failure(event: str, record: Record, how: Verdict) -> None:
    """It could not be launched."""
    kind = event.removesuffix("ed") + "-failed"
    events.append(kind, record, state=how.state, reason=how.reason, **_retry(record))


def _resumed(record: Record, event: str) -> dict[str, bool]:
    """Of an agent that could go on with a conversation: whether it does."""
    kit = record.spec.kit
    if event != "restarted" or kit is None or kit.conversation == "none":
        return {}
    return {"resumed_conversation": record.agent.prompted}


def _retry(record: Record) -> dict[str, int]:
    return {"retry": record.status.retries} if record.status.retries else {}


def forget_files(record: Record) -> None:
    with suppress(OSError):
        launch_files.forget(record)
        environment.forget(record.place.snapshot)
        os.unlink(paths.transcript(record.id))
