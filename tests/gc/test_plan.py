"""The plan of gc, as pure as it is: scenes in, steps out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sesh.gc.plan import Options, Verb, What, decide, leaving, limit_reached
from sesh.gc.scan import Pile, Running, Scene, Tree
from sesh.model import digest
from sesh.model.configuration import Gc
from sesh.model.place import Process
from sesh.model.text.units import span
from sesh.model.value_object import replace
from sesh.places.unclaimed import Leftover
from sesh.state.orphans import Census, Stray
from sesh.system.tmux import Pane

NOW = 1_800_000_000.0
HOUR, DAY = 3600.0, 86400.0
UPTIME = 100_000.0
ID = "{}-20261115-115900-0123abcd"
SOCKET = "/run/tmux.sock"
NOBODY = Census((), (), (), (), (), silent=False)


def stamp(seconds: float) -> str:
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def held(name: str, state: str, **view: Any) -> digest.Digest:
    """A session whose digest line holds."""
    mode = "pid" if state in ("running", "paused") else "ended"
    guard = ["1", ID.format(name), "1", "m/b/p", mode, "4711", "5000000", "0", "-"]
    shown = {
        "name": name,
        "id": ID.format(name),
        "state": state,
        "attention": None,
        "socket": SOCKET,
        "started": stamp(NOW - 50_000),
        "ended": None,
        "max_age": None,
        "max_idle": None,
        "phase": None,
        **view,
    }
    return digest.Digest(guard, json.dumps(shown, separators=(",", ":")).encode())


def ended(name: str, ago: float, state: str = "completed", **view: Any) -> digest.Digest:
    return held(name, state, ended=stamp(NOW - ago), **view)


def scene(*sessions: digest.Digest, **parts: Any) -> Scene:
    census = replace(NOBODY, held=sessions)
    empty = Scene(census, UPTIME, panes={}, launch_files=(), temps=(), history={}, transcripts={})
    return replace(empty, **parts)


def steps(found: Scene, gc: Gc | None = None, **options: Any) -> list[tuple[str, str, str]]:
    decided = decide(found, gc or Gc(), Options(**options), NOW)
    return [(step.verb.value, step.what.value, step.subject) for step in decided]


def test_an_empty_scene_has_an_empty_plan() -> None:
    assert steps(scene(held("one", "running"), ended("two", HOUR - 1))) == []


@pytest.mark.parametrize(
    ("session", "options", "leaves"),
    [
        (ended("one", HOUR + 1), {}, True),
        (ended("one", HOUR - 1), {}, False),
        (ended("one", HOUR - 1), {"older_than": 60.0}, True),
        (ended("one", 2 * HOUR), {"older_than": DAY}, False),
        (ended("one", HOUR + 1, "failed"), {}, True),  # acknowledged
        (ended("one", 29 * DAY, "failed", attention="exit 1"), {}, False),
        (ended("one", 29 * DAY, "failed", attention="exit 1"), {"older_than": 1.0}, False),
        (ended("one", 31 * DAY, "lost", attention="restarted"), {}, True),
        (held("one", "completed"), {"older_than": 0.0}, False),  # nobody knows when it ended
        (ended("one", -DAY), {"older_than": 0.0}, False),  # the clock was set back
        (held("one", "running"), {"older_than": 0.0}, False),
    ],
)
def test_the_sessions_that_leave_the_list(
    session: digest.Digest, options: Any, leaves: bool
) -> None:
    assert (("archive", "record", "one") in steps(scene(session), **options)) is leaves


def pane(name: str, *, dead: bool) -> Pane:
    return Pane("%1", 4000, dead, "$1", ID.format(name), name)


def test_dead_panes() -> None:
    failed = {"state": "failed", "attention": "exit 1"}
    old, young = ended("old", HOUR + 1, **failed), ended("young", HOUR - 1, **failed)
    open_, running = ended("open", HOUR + 1, **failed), held("running", "running")
    listed = [pane("old", dead=True), pane("young", dead=True), pane("open", dead=False)]
    panes = {SOCKET: [*listed, pane("running", dead=True)]}
    found = scene(old, young, open_, running, panes=panes)
    assert steps(found) == [("close", "tmux session", "old")]


def test_strays_go_when_all_their_panes_are_dead_for_a_while() -> None:
    strays = tuple(
        Stray(
            ID.format(name), None, (), name, SOCKET, tuple(pane(name, dead=d) for d in (dead, True))
        )
        for name, dead in (("dead", True), ("alive", False), ("young", True))
    )
    printed = {
        ID.format(name): Pile((), NOW - ago, 0, NOW - ago)
        for name, ago in (("dead", 2 * HOUR), ("alive", 2 * HOUR), ("young", 60))
    }
    found = scene(census=replace(NOBODY, strays=strays), transcripts=printed)
    assert steps(found) == [
        ("close", "forgotten tmux session", "dead"),
        ("keep", "forgotten tmux session", "alive"),
    ]


# --- limits ------------------------------------------------------------------------------------


def limit(
    *,
    age: float = 1000.0,
    idle: float = 500.0,
    clock: float = 0.0,
    max_age: float | None = None,
    max_idle: float | None = None,
    gc: Gc | None = None,
) -> str | None:
    """The limit that a session is over; `clock`: how far that was set forward meanwhile."""
    process = Process(4711, 1)
    started = NOW - age - clock
    one = Running("one", ID.format("one"), process, started, max_age, max_idle)
    found = limit_reached(one, NOW - clock - idle, gc or Gc(), now=NOW, age=age)
    return found[0] if found else None


@pytest.mark.parametrize(
    ("given", "over"),
    [
        ({}, None),
        ({"max_age": 999.0}, "over max_age (999 seconds)"),
        ({"max_age": 1001.0}, None),
        ({"max_age": 0.0}, None),
        ({"gc": Gc(max_age=900.0)}, "over max_age (15 minutes)"),
        ({"gc": Gc(max_age=900.0), "max_age": 0.0}, None),
        ({"gc": Gc(max_age=900.0), "max_age": 2000.0}, None),
        ({"max_idle": 499.0}, "over max_idle (499 seconds)"),
        ({"max_idle": 501.0}, None),
        ({"max_idle": 0.0, "gc": Gc(max_idle=10.0)}, None),
        ({"gc": Gc(max_idle=300.0)}, "over max_idle (5 minutes)"),
    ],
)
def test_limits(given: dict[str, Any], over: str | None) -> None:
    assert limit(**given) == over


@pytest.mark.parametrize("clock", [HOUR, -HOUR, 365 * DAY, -365 * DAY])
def test_a_moved_clock_reaches_no_limit(clock: float) -> None:
    assert limit(clock=clock, max_age=1001.0, max_idle=501.0) is None
    assert limit(clock=clock, max_age=999.0) is not None


def test_a_session_without_output_is_idle_since_it_began() -> None:
    assert limit(idle=10**9, max_idle=999.0) is not None
    assert limit(idle=10**9, max_idle=1001.0) is None


@pytest.mark.parametrize(
    ("session", "ends"),
    [
        (held("one", "running", max_age=10.0), True),
        (held("one", "running", max_age=10.0**6), False),
        (held("one", "paused", max_age=10.0), False),
        (held("one", "running"), False),
    ],
)
def test_only_running_sessions_reach_a_limit(session: digest.Digest, ends: bool) -> None:
    assert bool(steps(scene(session))) is ends


# --- orphans -----------------------------------------------------------------------------------

LEFT = Leftover(ID.format("gone"), None, ("/usr/bin/node", "x"), Process(77, 5), 1 << 20)


@pytest.mark.parametrize(
    ("first", "options", "changes", "silent", "killed"),
    [
        (UPTIME - 61, {"kill_orphans": True}, {}, False, True),
        (UPTIME - 61, {}, {}, False, False),
        (UPTIME - 59, {"kill_orphans": True}, {}, False, False),
        (None, {"kill_orphans": True}, {}, False, False),
        (UPTIME - 61, {"kill_orphans": True}, {"keep": "in a tmux"}, False, False),
        (UPTIME - 61, {"kill_orphans": True}, {"process": Process(77, 6)}, False, False),
        (UPTIME - 61, {"kill_orphans": True}, {"session_id": ID.format("else")}, False, False),
        (UPTIME - 61, {"kill_orphans": True}, {}, True, False),
    ],
)
def test_orphans(
    first: float | None, options: Any, changes: Any, silent: bool, killed: bool
) -> None:
    known = {} if first is None else {(LEFT.process, LEFT.session_id): first}
    census = replace(NOBODY, leftovers=(replace(LEFT, **changes),), silent=silent)
    found = scene(census=census, seen=known)
    (step,) = decide(found, Gc(), Options(**options), NOW)
    assert step.what is What.PROCESS
    assert step.verb is (Verb.KILL if killed else Verb.KEEP)


# --- files -------------------------------------------------------------------------------------


def pile(days: float, size: int = 0) -> Pile:
    return Pile(("/t/log",), NOW - days * DAY, size, NOW - days * DAY)


def test_history_by_age_number_and_size_the_oldest_first() -> None:
    names = ("a", "b", "c", "d")
    history = {ID.format(name): NOW - days * DAY for days, name in enumerate(names)}
    transcripts = {ID.format(name): pile(0, 100) for name in names}
    found = scene(history=history, transcripts=transcripts)

    def removed(**settings: Any) -> str:
        return "".join(subject for _, _, subject in steps(found, Gc(**settings)))

    assert removed() == ""
    assert removed(keep_history=1.5 * DAY) == "dc"
    assert removed(max_history=3) == "d"
    assert removed(max_history=0) == "dcba"
    assert removed(max_transcripts=250) == "dc"
    assert removed(max_transcripts=399, max_history=3) == "d"


def test_sessions_old_by_a_clock_that_jumped_stay_and_are_named() -> None:
    history = {ID.format("young"): NOW - 40 * DAY, ID.format("old"): NOW - 80 * DAY}
    sure = {"sure_by_hours": NOW - 40 * DAY, "sure_by_days": NOW - 40 * DAY}
    found = scene(ended("done", 40 * DAY + 60), history=history, **sure)
    assert steps(found) == [
        ("remove", "history record", "old"),
        ("keep", "record", "done"),
        ("keep", "history record", "young"),
    ]
    assert ("archive", "record", "done") in steps(found, older_than=10.0)


def test_listed_and_living_sessions_keep_their_files() -> None:
    session = held("one", "running")
    left = replace(LEFT, session_id=ID.format("left"))
    ids = [ID.format(name) for name in ("one", "left", "gone")]
    census = replace(NOBODY, held=(session,), leftovers=(left,))
    old = dict.fromkeys(ids, NOW - 100 * DAY)
    found = scene(census=census, history=old, transcripts={i: pile(100) for i in ids})
    removed = [one for one in steps(found) if one[0] == "remove"]
    assert removed == [("remove", "history record", "gone")]
    found = replace(found, history={})
    removed = [one for one in steps(found) if one[0] == "remove"]
    assert removed == [("remove", "transcript", "gone")]


def test_events() -> None:
    assert steps(scene(events=10 << 20)) == []
    assert [one[:2] for one in steps(scene(events=(10 << 20) + 1))] == [("rotate", "event log")]
    assert steps(scene(older_events=NOW - 29 * DAY)) == []
    removed = steps(scene(older_events=NOW - 31 * DAY))
    assert [one[:2] for one in removed] == [("remove", "event log")]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1, "1 second"),
        (0.5, "0.5 seconds"),
        (90, "90 seconds"),
        (3600, "1 hour"),
        (5400, "90 minutes"),
        (30 * DAY, "30 days"),
    ],
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_a_worktree_goes_before_its_record_and_both_stay_together() -> None:
    old = {"worktree": "/w"}
    found = scene(ended("a", DAY, **old), ended("b", DAY, **old), ended("c", 1.0, **old))
    ids = [ID.format(name) for name in "abc"]
    trees = {ids[0]: Tree("/w/a", None), ids[1]: Tree("/w/b", "untracked files")}
    found = replace(found, worktrees=trees)
    assert steps(found) == [
        ("remove", "worktree", "a"),
        ("archive", "record", "a"),
        ("keep", "worktree", "b"),
    ]
    assert [one.session_id for one in leaving(found, Gc(), Options(), NOW)] == ids[:2]
    kept = decide(found, Gc(), Options(), NOW)[-1]
    assert kept.why == "of b at /w/b: untracked files"
    assert kept.remedy == "sesh rm --discard b"
