"""Wait for states. /proc and file times show cheaply which sessions have not changed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator

from sesh.agents import screen
from sesh.model import digest
from sesh.model.digest import Digest
from sesh.model.errors import EndedError, SeshError, UsageError
from sesh.model.states import OUTCOMES, State
from sesh.model.text import quick_json
from sesh.model.value_object import Value
from sesh.places import agent_files
from sesh.state import freshness, judge, lookup
from sesh.state.judge import Seen
from sesh.system import paths, processes

TICK = 0.1
DOUBT = 1.0  # seconds between looks at states without a digest (starting, stopping, unknown …)
GRACE = 3.0  # seconds after an end: a restart also ends the session for a moment


class Wanted(Value):
    """What to wait for: any of these states and activities."""

    states: frozenset[State]
    activities: tuple[str, ...] = ()
    words: str = ""  # the same, as the user wrote it

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

    @property
    def word(self) -> str:
        return self.activity or self.state


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
    for one in sorted(found, key=_ended):
        reached = _note(one, watched[one.name], wanted)
        if reached is not None:
            del watched[one.name]
            yield reached
    if wanted.activities:
        for name, activity in [(name, _activity(one)) for name, one in watched.items()]:
            if activity in wanted.activities:
                del watched[name]
                yield Reached(name, State.RUNNING, None, activity)


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
    if record.spec.kit is None:
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
    return GaveUp(found.name, EndedError(f"{why}; sesh restart {found.name} starts it again"))
