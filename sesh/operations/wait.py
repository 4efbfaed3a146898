"""Waiting for states without busy work: what has not changed is seen from /proc and file times."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator

from sesh.agents import activity as activities
from sesh.agents import screen
from sesh.model import digest
from sesh.model.digest import Digest
from sesh.model.errors import EndedError, SeshError, StateError, UsageError
from sesh.model.states import OUTCOMES, State
from sesh.model.text import quick_json
from sesh.model.value_object import Value
from sesh.state import freshness, judge, lookup
from sesh.state.judge import Seen
from sesh.system import paths, processes

TICK = 0.1
DOUBT = 1.0  # between looks at what only a look can tell (starting, stopping, unknown, …)
GRACE = 3.0  # after an end: a restart, too, ends the session for a moment


class Wanted(Value):
    """What is waited for: any of these."""

    states: frozenset[State]
    activities: tuple[str, ...] = ()
    words: str = ""  # the same, as it was asked for

    def reachable(self, state: State) -> bool:
        """Can a session in this state get there without a restart? What is stale may still be
        found to have ended."""
        if state is State.STALE:
            return bool(self.states & OUTCOMES)
        return state not in OUTCOMES


class Reached(Value):
    name: str
    state: State
    exit_code: int | None
    activity: str | None = None  # what was waited for, where that was no state

    @property
    def word(self) -> str:
        return self.activity or self.state


class GaveUp(Value):
    """One that can't be waited for, or not any more: forgotten, damaged, ended, or nobody will ever
    know what it does."""

    name: str
    error: SeshError


class _Watched:
    """What is known of one session between two looks."""

    def __init__(self) -> None:
        self.stamp: tuple[int, int] | None = None
        self.digest: Digest | None = None
        self.look_after = 0.0
        self.ended: float | None = None  # when it was first seen to be


def until(
    names: Iterable[str], wanted: Wanted, deadline: float | None
) -> Iterator[Reached | GaveUp]:
    """Each session as it gets to what is wanted; ends when all have, or at the deadline. One that
    can't be waited for keeps no other waiting; only a name that nobody has is an error from the
    beginning."""
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
    """Those that need not be watched any more, taken out."""
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
        yield from _doing(watched, wanted.activities)


def _doing(watched: dict[str, _Watched], activities: tuple[str, ...]) -> Iterator[Reached]:
    """Those whose agents do what is waited for, taken out."""
    for name, one in [*watched.items()]:
        doing = _does(one)
        if doing in activities:
            del watched[name]
            yield Reached(name, State.RUNNING, None, doing)


def _look(names: Iterable[str]) -> tuple[list[Seen], list[GaveUp]]:
    """Those that are there, judged together, and those that were forgotten meanwhile."""
    entries, forgotten = [], []
    for name in names:
        try:
            entries.append(lookup.find(name))
        except SeshError as error:
            forgotten.append(GaveUp(name, error))
    return judge.judge(entries) if entries else [], forgotten


def _unchanged(name: str, one: _Watched, survey: freshness.Survey) -> bool:
    """Is it as it was at the last look? False at the first."""
    try:
        status = os.stat(f"{paths.sessions_dir()}/{name}.toml")
    except OSError:
        return False
    stamp = (status.st_mtime_ns, status.st_ino)
    if one.stamp != stamp:
        one.stamp = stamp  # of before the look: what is written after it will be noticed
        return False
    if one.digest is not None:
        return survey.holds(one.digest)
    return time.monotonic() < one.look_after


def _check(found: Seen, wanted: Wanted) -> None:
    """Raise when it can't be read, or when nobody will ever know what it does."""
    if found.session is None:
        raise StateError(f"{found.name}: its record is damaged; see sesh show {found.name}")
    if wanted.states:
        return
    lookup.need_process(found)
    if found.session.record.spec.kit is None:
        raise UsageError(
            f"{found.name}: its activity is not tracked; "
            "start the session with -t claude, -t codex, …"
        )


def _over(found: Seen, one: _Watched, wanted: Wanted) -> bool:
    """Has it ended for good, where none of what is wanted can be reached any more?"""
    if wanted.reachable(found.state):
        one.ended = None
        return False
    one.ended = one.ended or time.monotonic()
    one.digest = None  # which may hold for ever: look again
    ended = found.session.verdict.ended if found.session else None
    age = time.time() - ended.timestamp() if ended else 0.0
    return max(age, time.monotonic() - one.ended) >= GRACE


def _does(one: _Watched) -> str | None:
    """What its agent does just now; None: unknown."""
    launch = activities.launch_in(one.digest, processes.run_dir()) if one.digest else None
    if launch is None or one.digest is None:
        return None
    shown = quick_json.loads(one.digest.view)
    found = screen.doing(launch, shown["socket"], shown["pane"])
    return found.kind if found else None


def _ended(found: Seen) -> float:
    """For those that are noticed at once: in the order of their ends."""
    ended = found.session.verdict.ended if found.session else None
    return ended.timestamp() if ended else 0.0


def _note(found: Seen, one: _Watched, wanted: Wanted) -> Reached | GaveUp | None:
    """Remember what was seen, and from when on to look again; None: go on waiting."""
    known = digest.parse(found.entry.raw)  # what was judged, not what the file holds by now
    one.digest = known if known is not None and known.mode != "look" else None
    one.look_after = time.monotonic() + DOUBT
    try:
        _check(found, wanted)
    except SeshError as error:
        return GaveUp(found.name, error)
    assert found.session is not None
    if found.state in wanted.states:
        return Reached(found.name, found.state, found.session.verdict.exit_code)
    if not _over(found, one, wanted):
        return None
    why = f"{found.name} has ended ({found.state}) and cannot become {wanted.words}"
    return GaveUp(found.name, EndedError(f"{why}; sesh restart {found.name} starts it again"))
