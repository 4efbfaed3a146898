"""Wait for states, activities or output. /proc and file times show cheaply which sessions have not
changed; of transcripts only what is new is read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from sesh.agents import screen
from sesh.model import digest
from sesh.model.digest import Digest
from sesh.model.errors import EndedError, SeshError, UsageError
from sesh.model.record import Record
from sesh.model.states import OUTCOMES, State
from sesh.model.text import quick_json
from sesh.model.value_object import Value
from sesh.operations.logs import Lines, Tail
from sesh.places import agent_files, registry
from sesh.state import freshness, judge, lookup, settings
from sesh.state.judge import Seen
from sesh.system import paths, processes

TICK = 0.1
DOUBT = 1.0  # seconds between looks at states without a digest (starting, stopping, unknown …)
GRACE = 3.0  # seconds after an end: a restart also ends the session for a moment


class Wanted(Value):
    """What to wait for: any of these states and activities, or a line of output."""

    states: frozenset[State]
    activities: tuple[str, ...] = ()
    words: str = ""  # the same, as the user wrote it
    output: Callable[[str], bool] | None = None  # tells whether it is this line

    def reachable(self, state: State) -> bool:
        """Can a session in this state get there without a restart? A stale session may still
        end."""
        if state is State.STALE:
            return bool(self.states & OUTCOMES)
        return state not in OUTCOMES


class Reached(Value):
    name: str
    state: State
    exit_code: int | None
    activity: str | None = None  # the activity, if that was reached
    line: str | None = None  # the line, if it printed one that was wanted

    @property
    def word(self) -> str:
        return self.line if self.line is not None else self.activity or self.state


class GaveUp(Value):
    """A session that cannot be waited for: forgotten, damaged, ended, or without a known
    activity."""

    name: str
    error: SeshError


class _Watched:
    """What is known about a session between two looks."""

    def __init__(self) -> None:
        self.stamp: tuple[int, int] | None = None
        self.digest: Digest | None = None
        self.look_after = 0.0
        self.ended: float | None = None  # when it was first seen as ended
        self.output: _Output | None = None


class _Output:
    """What a launch prints."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._tail, self._lines = Tail(record, record.status.printed), Lines()
        self._read = self._fetched = 0.0

    def search(self, wanted: Callable[[str], bool]) -> str | None:
        """The first new line that is wanted. A line without an end counts when nothing follows."""
        now = time.monotonic()
        if now >= self._fetched + DOUBT:
            registry.of(self.record).fetch_transcript(self.record, settings.load())
            self._fetched = now
        with suppress(FileNotFoundError):  # it comes with the launch
            for chunk in self._tail.read():
                self._read = now
                for line in self._lines.feed(chunk):
                    if wanted(line):
                        return line
        begun = self._lines.begun
        return begun if begun and now >= self._read + DOUBT and wanted(begun) else None


def until(
    names: Iterable[str], wanted: Wanted, deadline: float | None
) -> Iterator[Reached | GaveUp]:
    """Yield each session when it reaches what is wanted; stop when all have, or at the deadline. A
    session that cannot be waited for does not delay the others. An unknown name is an error."""
    watched = {name: _Watched() for name in names}
    for name in watched:
        lookup.find(name)
    while watched:
        yield from _news(watched, wanted)
        if deadline is not None and time.monotonic() >= deadline:
            return
        if watched:
            left = TICK if deadline is None else min(TICK, deadline - time.monotonic())
            time.sleep(max(0.0, left))


def _news(watched: dict[str, _Watched], wanted: Wanted) -> Iterator[Reached | GaveUp]:
    """Remove and yield the sessions that need not be watched any more."""
    survey = freshness.Survey()
    changed = [name for name, one in watched.items() if not _unchanged(name, one, survey)]
    found, forgotten = _look(changed)
    for lost in forgotten:
        del watched[lost.name]
        yield lost
    if wanted.output:
        yield from _printed(found, watched, wanted.output)
    for one in sorted(found, key=_ended):
        if one.name not in watched:
            continue
        reached = _note(one, watched[one.name], wanted)
        if reached is not None:
            del watched[one.name]
            yield reached
    if wanted.activities:
        for name, activity in [(name, _activity(one)) for name, one in watched.items()]:
            if activity in wanted.activities:
                del watched[name]
                yield Reached(name, State.RUNNING, None, activity)


def _printed(
    found: Iterable[Seen], watched: dict[str, _Watched], wanted: Callable[[str], bool]
) -> Iterator[Reached | GaveUp]:
    """Remove and yield the sessions that have printed what is wanted."""
    for seen in found:
        one, record = watched[seen.name], seen.record
        if record and (one.output is None or one.output.record.launch != record.launch):
            one.output = _Output(record)
    for name, one in list(watched.items()):
        try:
            line = one.output.search(wanted) if one.output else None
        except SeshError as error:
            del watched[name]
            yield GaveUp(name, error)
            continue
        if line is not None:
            del watched[name]
            yield Reached(name, State.RUNNING, None, line=line)


def _look(names: Iterable[str]) -> tuple[list[Seen], list[GaveUp]]:
    """Judge these sessions together; also return those that were forgotten meanwhile."""
    entries, forgotten = [], []
    for name in names:
        try:
            entries.append(lookup.find(name))
        except SeshError as error:
            forgotten.append(GaveUp(name, error))
    return judge.judge(entries) if entries else [], forgotten


def _unchanged(name: str, one: _Watched, survey: freshness.Survey) -> bool:
    """Is the session as at the last look? False at the first."""
    try:
        status = os.stat(f"{paths.sessions_dir()}/{name}.toml")
    except OSError:
        return False
    stamp = (status.st_mtime_ns, status.st_ino)
    if one.stamp != stamp:
        one.stamp = stamp  # from before the look: later changes will be noticed
        return False
    if one.digest is not None:
        return survey.holds(one.digest)
    return time.monotonic() < one.look_after


def _check(found: Seen, wanted: Wanted) -> None:
    """Raise when the record is damaged, or when the activity will never be known."""
    record = found.intact.record
    if wanted.states:
        return
    lookup.need_process(found)
    if wanted.activities and record.spec.kit is None:
        raise UsageError(
            f"{found.name}: its activity is not tracked; "
            "start the session with -t claude, -t codex, …"
        )


def _over(found: Seen, one: _Watched, wanted: Wanted) -> bool:
    """Has it ended for good, so that it cannot reach what is wanted?"""
    if wanted.reachable(found.state):
        one.ended = None
        return False
    one.ended = one.ended or time.monotonic()
    one.digest = None  # it may stay valid for ever: look again
    ended = found.session.verdict.ended if found.session else None
    age = time.time() - ended.timestamp() if ended else 0.0
    return max(age, time.monotonic() - one.ended) >= GRACE


def _activity(one: _Watched) -> str | None:
    """The activity of its agent now; None: unknown."""
    if one.digest is None:
        return None
    launch = agent_files.launch_in(one.digest, processes.run_dir())
    if launch is None:
        return None
    shown = quick_json.loads(one.digest.view)
    found = screen.doing(launch, shown["socket"], shown["pane"])
    return found.kind if found else None


def _ended(found: Seen) -> float:
    """Sort key: sessions that are noticed together come in the order of their ends."""
    ended = found.session.verdict.ended if found.session else None
    return ended.timestamp() if ended else 0.0


def _note(found: Seen, one: _Watched, wanted: Wanted) -> Reached | GaveUp | None:
    """Remember this look, and when to look again; None: keep waiting."""
    known = digest.parse(found.entry.raw)  # the bytes that were judged; the file may have changed
    one.digest = known if known is not None and known.mode != "look" else None
    one.look_after = time.monotonic() + DOUBT
    try:
        _check(found, wanted)
    except SeshError as error:
        return GaveUp(found.name, error)
    if found.state in wanted.states:
        return Reached(found.name, found.state, found.intact.verdict.exit_code)
    if not _over(found, one, wanted):
        return None
    why = f"{found.name} has ended ({found.state}) and cannot become {wanted.words}"
    if wanted.output:
        how = f"{found.state}: {found.reason}" if found.reason else found.state
        why = f"{found.name} has ended ({how}) and printed no line that matches {wanted.words}"
    return GaveUp(found.name, EndedError(f"{why}; next: sesh restart {found.name}"))
