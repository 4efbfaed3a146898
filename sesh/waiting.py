"""Waiting for states without busy work: what has not changed is seen from /proc and file times."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Iterator

from sesh import digest, guards, look, paths, processes
from sesh.agents import activity as activities
from sesh.agents import screens
from sesh.digest import Digest
from sesh.errors import SeshError, StateError, UsageError
from sesh.model import ALIVE, State
from sesh.values import Value

TICK = 0.1
DOUBT = 1.0  # between looks at what only a look can tell (starting, stopping, unknown, …)


class Reached(Value):
    name: str
    state: State
    exit_code: int | None
    activity: str | None = None  # what was waited for, where that was no state

    @property
    def word(self) -> str:
        return self.activity or self.state


class GaveUp(Value):
    """One that can't be waited for, or not any more: forgotten, damaged, or nobody will ever know
    what it does."""

    name: str
    error: SeshError


class _Watched:
    """What is known of one session between two looks."""

    def __init__(self) -> None:
        self.stamp: tuple[int, int] | None = None
        self.digest: Digest | None = None
        self.look_after = 0.0


def until(
    names: Iterable[str],
    states: Collection[State],
    deadline: float | None,
    activity: str | None = None,
) -> Iterator[Reached | GaveUp]:
    """Each session as it gets into one of `states`, or its agent does what is waited for; ends when
    all have, or at the deadline. One that can't be waited for keeps no other waiting; only a name
    that nobody has is an error from the beginning."""
    watched = {name: _Watched() for name in names}
    for name in watched:
        look.find(name)
    while watched:
        yield from _news(watched, states, activity)
        if deadline is not None and time.monotonic() >= deadline:
            return
        if watched:
            left = TICK if deadline is None else min(TICK, deadline - time.monotonic())
            time.sleep(max(0.0, left))


def _news(
    watched: dict[str, _Watched], states: Collection[State], activity: str | None
) -> Iterator[Reached | GaveUp]:
    """Those that need not be watched any more, taken out."""
    survey = guards.Survey()
    changed = [name for name, one in watched.items() if not _unchanged(name, one, survey)]
    found, forgotten = _look(changed)
    for lost in forgotten:
        del watched[lost.name]
        yield lost
    for one in sorted(found, key=_ended):
        reached = _note(one, watched[one.name], of_agent=activity is not None)
        if isinstance(reached, GaveUp) or (activity is None and reached.state in states):
            del watched[one.name]
            yield reached
    for name in [name for name, one in watched.items() if activity and _does(one) == activity]:
        del watched[name]
        yield Reached(name, State.RUNNING, None, activity)


def _look(names: Iterable[str]) -> tuple[list[look.Seen], list[GaveUp]]:
    """Those that are there, judged together, and those that were forgotten meanwhile."""
    entries, forgotten = [], []
    for name in names:
        try:
            entries.append(look.find(name))
        except SeshError as error:
            forgotten.append(GaveUp(name, error))
    return look.judge(entries) if entries else [], forgotten


def _unchanged(name: str, one: _Watched, survey: guards.Survey) -> bool:
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


def _check(found: look.Seen, *, of_agent: bool) -> None:
    """Raise when it can't be read, or when nobody will ever know what it does."""
    if found.session is None:
        raise StateError(f"{found.name}: its record is damaged; see sesh show {found.name}")
    if of_agent and look.must_be(found, *ALIVE).spec.kit is None:
        raise UsageError(
            f"{found.name}: sesh does not know what it does; start it with a template of an agent"
        )


def _does(one: _Watched) -> str | None:
    """What its agent does just now; None: unknown."""
    launch = activities.launch_in(one.digest, processes.run_dir()) if one.digest else None
    if launch is None or one.digest is None:
        return None
    shown = json.loads(one.digest.view)
    found = screens.doing(launch, shown["socket"], shown["pane"])
    return found.kind if found else None


def _ended(found: look.Seen) -> float:
    """For those that are noticed at once: in the order of their ends."""
    ended = found.session.verdict.ended if found.session else None
    return ended.timestamp() if ended else 0.0


def _note(found: look.Seen, one: _Watched, *, of_agent: bool) -> Reached | GaveUp:
    """Remember what was seen, and from when on to look again."""
    known = digest.parse(found.entry.raw)  # what was judged, not what the file holds by now
    one.digest = known if known is not None and known.mode != "look" else None
    one.look_after = time.monotonic() + DOUBT
    try:
        _check(found, of_agent=of_agent)
    except SeshError as error:
        return GaveUp(found.name, error)
    assert found.session is not None
    return Reached(found.name, found.state, found.session.verdict.exit_code)
