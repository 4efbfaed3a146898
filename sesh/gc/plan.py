"""What gc would do: the steps that follow from one look at everything.

`decide` is pure. No step touches anything that is unknown, damaged or another machine's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum

from sesh.gc.scan import NEVER, NO_PILE, Ended, Running, Scene, ended_in, running_in
from sesh.model import due
from sesh.model.configuration import Gc
from sesh.model.place import Process
from sesh.model.record import name_of
from sesh.model.states import State
from sesh.model.text import formatting
from sesh.model.text.units import span
from sesh.model.value_object import Value, replace
from sesh.places import unclaimed
from sesh.places.launch_files import mount_owner
from sesh.places.unclaimed import Unclaimed
from sesh.state.clocks import Naps
from sesh.state.judge import readable
from sesh.state.orphans import Census
from sesh.state.unclaimed import Inventories
from sesh.supervision.notify import notices
from sesh.system import paths, processes, tmux
from sesh.system.subprocesses import Reply

ORPHAN_GRACE = 60.0  # seconds between two passes that agree on an orphan
_NEXT = "ended by the next gc, a minute later"
_JUMPED = (
    ", but the clock jumped or the machine was off: gc waits an hour before archiving, "
    "a day before deleting"
)
TEMP_GRACE = 3600.0  # seconds after which a temp file's writer is dead


class Verb(StrEnum):
    FINISH = "finish"
    END = "end"
    RESTART = "restart"
    GIVE_UP = "give up"
    KILL = "kill"
    CLOSE = "close"
    ARCHIVE = "archive"
    REMOVE = "remove"
    ROTATE = "rotate"
    KEEP = "keep"


class What(StrEnum):
    STOP = "stop"
    SESSION = "session"
    AGENT = "agent"
    PROCESS = "orphaned process"
    PANE = "tmux session"
    STRAY = "forgotten tmux session"
    CONTAINER = "container"
    MOUNT = "container mount"
    WORKTREE = "worktree"
    RECORD = "record"
    HISTORY = "history record"
    TRANSCRIPT = "transcript"
    TEMP = "temporary file"
    LAUNCH_FILE = "launch file"
    EVENTS = "event log"
    NOTICE = "notification"
    SERVER = "tmux server"


class Step(Value):
    """One action, or one thing that is kept on purpose."""

    verb: Verb
    what: What
    subject: str  # a session's name, a process, or a file
    why: str
    session_id: str | None = None
    paths: tuple[str, ...] = ()  # the files to remove
    size: int = 0  # bytes on disk
    changed: float = 0.0  # the files' time when they were seen
    remedy: str | None = None  # the command for a user, where gc does nothing
    target: Unclaimed | Process | None = None
    asked: Inventories | None = None  # the answers of places that it follows from
    generation: int = 0  # of a session that is ended or restarted


class Outcome(Value):
    """The result of a step."""

    step: Step
    done: bool
    skipped: str | None = None  # why it was not done
    failed: bool = False  # it was tried

    @property
    def kept(self) -> bool:
        return self.step.verb is Verb.KEEP


def done(step: Step) -> Outcome:
    return Outcome(step, done=True)


CHANGED = "changed meanwhile"


def skipped(step: Step, why: str = CHANGED) -> Outcome:
    return Outcome(step, done=False, skipped=why)


def failed(step: Step, why: str) -> Outcome:
    return Outcome(step, done=False, skipped=why, failed=True)


class Options(Value):
    older_than: float | None = None
    kill_orphans: bool = False


# --- rules ---------------------------------------------------------------------------------------


def archive_due(one: Ended, gc: Gc, options: Options, now: float) -> str | None:
    """Why a session may leave the list; None when it may not yet."""
    if one.needs_person:
        if now - one.ended <= gc.archive_failed_after:
            return None
        return f"that needed attention more than {span(gc.archive_failed_after)} ago"
    age = gc.archive_after if options.older_than is None else options.older_than
    if now - one.ended <= age:
        return None
    return f"ended more than {span(age)} ago" if age else "that completed"


def limit_reached(
    one: Running, printed: float, gc: Gc, *, now: float, age: float, naps: Naps = ()
) -> tuple[str, str] | None:
    """The limit that a session is over, and the sentence for its record. Its age comes from a clock
    that cannot be set. Its idle time comes from files: a clock that was set forward since the start
    does not count, nor does time in which the machine slept. Paused time counts for neither."""
    oldest = gc.max_age if one.max_age is None else one.max_age
    if oldest and age - one.held > oldest:
        return f"over max_age ({span(oldest)})", f"ran longer than max_age ({span(oldest)})"
    quiet = gc.max_idle if one.max_idle is None else one.max_idle
    idle = due.silence(now, age, one.started, max(printed, one.resumed), naps)
    if quiet and idle > quiet:
        return (
            f"over max_idle ({span(quiet)})",
            f"printed nothing for longer than max_idle ({span(quiet)})",
        )
    return None


# --- deciding ------------------------------------------------------------------------------------


def decide(scene: Scene, gc: Gc, options: Options, now: float) -> list[Step]:
    """The steps, in the order in which they are taken. Pure."""
    by_hours, by_days = min(now, scene.sure_by_hours), min(now, scene.sure_by_days)
    if options.older_than is not None:  # a person who names an age has looked at the clock
        by_hours = now
    aged = _aged(scene, gc, options, by_hours, by_days)
    jumped = min(by_hours, by_days) < now
    by_clock = _aged(scene, gc, options, now, now) if jumped else ()
    return [
        *_stops(scene.census),
        *_limits(scene, gc, now),
        *_orphans(scene, gc, options),
        *_containers(scene, gc, options),
        *aged,
        *_doubtful(aged, by_clock),
        *_servers(scene.census),
    ]


def _aged(scene: Scene, gc: Gc, options: Options, by_hours: float, by_days: float) -> list[Step]:
    """The steps that depend on age. Nothing is deleted before the clocks have agreed for a day."""
    ended = list(ended_in(scene.census))
    return [
        *_closes(scene, ended, gc, options, by_hours),
        *_archives(scene, ended, gc, options, by_hours),
        *_prunes(scene, gc, by_days),
        *_files(scene, gc, by_hours, by_days),
    ]


def _doubtful(aged: Iterable[Step], by_clock: Iterable[Step]) -> Iterator[Step]:
    """The steps that would be due by a clock that has jumped."""
    certain = {(step.what, step.subject, step.session_id) for step in aged}
    for step in by_clock:
        key = what, subject, session_id = step.what, step.subject, step.session_id
        if key not in certain:
            yield Step(Verb.KEEP, what, subject, f"{step.why}{_JUMPED}", session_id, size=step.size)


def _stops(census: Census) -> Iterator[Step]:
    for one in census.found:
        if one.session and one.state is State.STOPPING:
            yield Step(Verb.FINISH, What.STOP, one.name, "not confirmed yet", one.session.record.id)


def _limits(scene: Scene, gc: Gc, now: float) -> Iterator[Step]:
    for one in running_in(scene.census, gc):
        printed = scene.transcripts.get(one.session_id, NO_PILE).printed
        age = processes.age(one.process, scene.uptime)
        why = limit_reached(one, printed, gc, now=now, age=age, naps=scene.naps)
        if why:
            yield Step(Verb.END, What.SESSION, one.name, why[0], one.session_id)


def _orphans(scene: Scene, gc: Gc, options: Options) -> Iterator[Step]:
    """Kill orphans that two passes agree on, if wanted; else name them and the command that ends
    them."""
    killing = (options.kill_orphans or gc.kill_orphans) and not scene.census.silent
    for one in scene.census.orphan_sessions:
        record, agent = one.intact.record, one.intact.record.place.agent
        if agent is None:
            continue
        sure = killing and _twice(scene, agent.process, record.id)
        waits = f"; {_NEXT}" if killing and not sure else ""
        why = f"of {one.name}: {one.intact.verdict.reason}{waits}"
        remedy = None if sure else f"sesh stop {one.name}"
        verb = Verb.KILL if sure else Verb.KEEP
        yield Step(verb, What.AGENT, one.name, why, record.id, remedy=remedy, target=agent.process)
    for left in scene.census.leftovers:
        sure = killing and left.keep is None and _twice(scene, left.process, left.session_id)
        note = left.keep or (_NEXT if killing and not sure else None)
        subject = f"{left.pid} {left.program}"
        why = f"of {left.name}" + (f": {note}" if note else "")
        remedy = None if sure or left.keep else left.remedy
        step = Step(Verb.KILL if sure else Verb.KEEP, What.PROCESS, subject, why, left.session_id)
        yield replace(step, size=left.size, remedy=remedy, target=left)
    damaged = {one.name for one in scene.census.found if one.damaged}
    for orphan in scene.census.agents:
        name, why, process = orphan.name, unclaimed.why(orphan), orphan.agent.process
        remedy = "sesh doctor --fix" if name in damaged else orphan.remedy
        yield Step(Verb.KEEP, What.AGENT, name, why, orphan.id, remedy=remedy, target=process)


def _containers(scene: Scene, gc: Gc, options: Options) -> Iterator[Step]:
    """Remove containers that hold nothing to recover, once two passes agree that no record claims
    them; other idle ones only if wanted, because a user's files may be in them. A container that
    is ours only by its labels is kept."""
    killing = options.kill_orphans or gc.kill_orphans
    taken = {one.name for one in scene.census.found}
    taken |= {one.name for one in scene.census.held}
    for one in scene.census.places:
        may_go = one.proven and (one.left_over or (killing and not one.busy))
        sure = may_go and one.sighting is not None and _twice(scene, *one.sighting)
        waits = "" if sure or not may_go else "; removed by the next gc, a minute later"
        why = unclaimed.why(one) + waits
        remedy: str | None = "sesh stop --orphans" if one.name in taken else one.remedy
        if sure or not one.claim or one.copied:
            remedy = None
        verb = Verb.REMOVE if sure else Verb.KEEP
        yield Step(verb, What.CONTAINER, one.label, why, one.session_id, remedy=remedy, target=one)


def _twice(scene: Scene, process: Process, session_id: str) -> bool:
    """Has an earlier pass seen it, long enough ago?"""
    first = scene.seen.get((process, session_id))
    return first is not None and scene.uptime - first >= ORPHAN_GRACE


def _closes(
    scene: Scene, ended: Iterable[Ended], gc: Gc, options: Options, now: float
) -> Iterator[Step]:
    for one in ended:
        dead = [p for p in scene.panes.get(one.socket, ()) if p.sesh_id == one.session_id]
        leaves = archive_due(one, gc, options, now) is not None
        if any(p.dead for p in dead) and (leaves or now - one.ended > gc.close_after):
            yield Step(Verb.CLOSE, What.PANE, one.name, "of an ended agent", one.session_id)
    for stray in scene.census.strays:
        name, session_id = stray.name, stray.session_id
        if stray.alive:
            why = f"{unclaimed.why(stray)}: {stray.runs}"
            yield Step(Verb.KEEP, What.STRAY, name, why, session_id, remedy=stray.remedy)
        elif now - _last_sign(scene, session_id) > gc.close_after:
            why = "without a live pane"
            yield Step(Verb.CLOSE, What.STRAY, name, why, session_id, target=stray)


def _last_sign(scene: Scene, session_id: str) -> float:
    """The last known activity of a session: its last output, or its creation."""
    pile = scene.transcripts.get(session_id)
    if pile and pile.printed:
        return pile.printed
    stamp = "".join(session_id.rsplit("-", 3)[1:3])
    try:
        return datetime.strptime(stamp, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return NEVER


def leaving(scene: Scene, gc: Gc, options: Options, now: float) -> list[Ended]:
    """The sessions that may leave the list."""
    return [one for one in ended_in(scene.census) if archive_due(one, gc, options, now)]


def _archives(
    scene: Scene, ended: Iterable[Ended], gc: Gc, options: Options, now: float
) -> Iterator[Step]:
    """A session stays in the list as long as its worktree has to stay: its record names it."""
    for one in ended:
        name, session_id = one.name, one.session_id
        due = archive_due(one, gc, options, now)
        tree = scene.worktrees.get(session_id)
        if due and tree and tree.stays:
            why = f"of {name} at {tree.path}: {tree.stays}"
            remedy = f"sesh rm --discard {name}"
            yield Step(Verb.KEEP, What.WORKTREE, name, why, session_id, remedy=remedy)
        elif due:
            if tree:
                why = "without work that git does not have elsewhere"
                yield Step(Verb.REMOVE, What.WORKTREE, name, why, session_id)
            yield Step(Verb.ARCHIVE, What.RECORD, name, due, session_id)


def _prunes(scene: Scene, gc: Gc, now: float) -> Iterator[Step]:
    """History by age, by number and by size, the oldest first; transcripts without a record."""
    listed = _listed(scene.census)
    damaged = {one.name for one in scene.census.found if one.damaged}
    total = sum(pile.size for pile in scene.transcripts.values())
    number = len(scene.history)
    for session_id, left in sorted(scene.history.items(), key=lambda item: item[1]):
        pile = scene.transcripts.get(session_id, NO_PILE)
        if session_id in listed:
            continue
        if now - left > gc.keep_history:
            why = f"older than {span(gc.keep_history)}"
        elif number > gc.max_history:
            why = f"beyond the newest {gc.max_history}"
        elif total > gc.max_transcripts and pile.size:
            why = f"to keep all transcripts below {formatting.size(gc.max_transcripts)}"
        else:
            continue
        number -= 1
        total -= pile.size
        name = name_of(session_id)
        yield Step(Verb.REMOVE, What.HISTORY, name, why, session_id, pile.paths, pile.size, left)
    for session_id, pile in scene.transcripts.items():
        name, files = name_of(session_id), (pile.paths, pile.size, pile.changed)
        known = session_id in listed or session_id in scene.history or name in damaged
        if not known and now - pile.changed > gc.keep_history:
            why = f"without a record, older than {span(gc.keep_history)}"
            yield Step(Verb.REMOVE, What.TRANSCRIPT, name, why, session_id, *files)


def _listed(census: Census) -> set[str]:
    """The ids whose files are in use: by a record in the list, or by something that lives."""
    ids = {record.id for record in readable(census.found)} | {one.id for one in census.held}
    return ids | {o.session_id for o in (*census.agents, *census.places, *census.leftovers)}


def _files(scene: Scene, gc: Gc, now: float, by_days: float) -> Iterator[Step]:
    for path, changed in scene.launch_files if not scene.census.silent else ():
        session_id = os.path.basename(path).partition(".")[0]
        yield _file(What.LAUNCH_FILE, path, "without a record", changed, session_id)
    for path, changed in scene.mounts:
        if now - changed > ORPHAN_GRACE:
            step = _file(What.MOUNT, path, "whose container is gone", changed, mount_owner(path))
            yield replace(step, asked=scene.census.inventories)
    for path, changed in scene.temps:
        if now - changed > TEMP_GRACE:
            yield _file(What.TEMP, path, f"older than {span(TEMP_GRACE)}", changed)
    for path, changed in scene.notices:
        if by_days - changed > notices.KEEP:
            yield _file(What.NOTICE, path, notices.LATE, changed)
    if scene.older_events is not None and by_days - scene.older_events > gc.keep_history:
        why = f"older than {span(gc.keep_history)}"
        yield _file(What.EVENTS, paths.older_events_file(), why, scene.older_events)
    if scene.events > gc.max_events:
        path, why = paths.events_file(), f"larger than {formatting.size(gc.max_events)}"
        yield Step(Verb.ROTATE, What.EVENTS, path, why, size=scene.events)


def _file(what: What, path: str, why: str, changed: float, session_id: str | None = None) -> Step:
    return Step(Verb.REMOVE, what, path, why, session_id, (path,), changed=changed)


def _servers(census: Census) -> Iterator[Step]:
    """Servers that gave no answer, and are left alone."""
    for socket, answer in sorted(census.answers.items()):
        if isinstance(answer, Reply) and tmux.silent(answer):
            why = f"without a usable answer: {answer.text}"
            yield Step(Verb.KEEP, What.SERVER, socket, why, remedy="sesh doctor")
