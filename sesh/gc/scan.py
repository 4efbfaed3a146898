"""What gc looks at: records, processes, tmux and files, each read once, as data to decide on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from sesh.model.configuration import Config, Gc
from sesh.model.digest import is_limited
from sesh.model.errors import CannotTellError
from sesh.model.place import Process
from sesh.model.record import ID_PATTERN, name_of
from sesh.model.session_json import View, view
from sesh.model.states import OUTCOMES, State
from sesh.model.text import formatting, quick_json
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Value
from sesh.operations import worktrees
from sesh.places.host import tmux_server
from sesh.places.launch_files import mount_owner
from sesh.state import clocks, orphans, records, sightings, unclaimed
from sesh.state.clocks import DAY, HOUR, Naps
from sesh.state.judge import Seen
from sesh.state.orphans import Census
from sesh.state.sightings import Sightings
from sesh.supervision import run_pass
from sesh.supervision.notify import notices
from sesh.system import files, paths, processes
from sesh.system.tmux import Pane

_ID = lazy(ID_PATTERN)
_BLOCK = 512  # of st_blocks
NEVER = float("inf")  # the time of an end that is unknown


class Pile(Value):
    """The files of one session's transcript."""

    paths: tuple[str, ...]
    changed: float
    size: int
    printed: float  # when the last output came


class Tree(Value):
    """The worktree of an ended session."""

    path: str
    stays: str | None  # why; None: nothing is lost without it


class Scene(Value):
    """Everything that the plan depends on."""

    census: Census
    uptime: float
    panes: Mapping[str, Sequence[Pane]]  # by socket
    launch_files: tuple[tuple[str, float], ...]  # of no known launch: path and time
    temps: tuple[tuple[str, float], ...]
    history: Mapping[str, float]  # session id → when it left the list
    transcripts: Mapping[str, Pile]  # by session id
    events: int = 0  # size
    older_events: float | None = None  # time
    seen: Sightings = MappingProxyType({})
    mounts: tuple[tuple[str, float], ...] = ()  # of containers that are gone: path and time
    notices: tuple[tuple[str, float], ...] = ()  # not delivered yet: path and time
    worktrees: Mapping[str, Tree] = MappingProxyType({})  # by session id
    naps: Naps = ()
    sure_by_hours: float = clocks.ANY  # the time that the clocks have agreed on for an hour
    sure_by_days: float = clocks.ANY  # the same, for a day


class Ended(Value):
    """A session in the list that has ended, with nothing left up."""

    name: str
    session_id: str
    ended: float
    needs_person: bool
    socket: str
    worktree: bool = False


class Running(Value):
    name: str
    session_id: str
    process: Process
    started: float
    max_age: float | None
    max_idle: float | None
    held: float = 0.0  # seconds that it was paused for
    resumed: float = 0.0


# --- looking -------------------------------------------------------------------------------------


def survey(config: Config) -> Scene:
    machine = processes.here()
    run = processes.run_dir()
    census = orphans.census(config, thorough=False)
    newest = _stat(paths.events_file())
    sure_by_hours, sure_by_days = clocks.settled(run, HOUR, DAY)
    return Scene(
        census=census,
        uptime=processes.uptime(),
        panes=_panes(census, config, run),
        launch_files=(*_timed(run_pass.leavings(census.found, census.held, census.agents, run)),),
        temps=tuple(_temps(run)),
        history=_history(),
        transcripts=_transcripts(),
        events=newest.st_size if newest else 0,
        older_events=files.changed(paths.older_events_file()),
        seen=sightings.read(run, machine.boot),
        mounts=tuple(_mounts(census, run)),
        notices=tuple(_timed(notices.waiting())),
        naps=clocks.naps(),
        sure_by_hours=sure_by_hours,
        sure_by_days=sure_by_days,
    )


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _timed(found: Iterable[str]) -> Iterator[tuple[str, float]]:
    """The files that still exist, with their time."""
    for path in found:
        changed = files.changed(path)
        if changed is not None:
            yield path, changed


def _panes(census: Census, config: Config, run: str) -> dict[str, Sequence[Pane]]:
    """The panes of the census, and those of servers that only ended sessions name."""
    found: dict[str, Sequence[Pane]] = {**census.panes}
    asked = {f"{run}/tmux.sock", *census.answers}
    with suppress(CannotTellError):
        for socket in sorted({one.socket for one in ended_in(census)} - found.keys() - asked):
            if not os.path.exists(socket):
                continue
            listed = tmux_server.server(socket, run, config).panes()
            if isinstance(listed, list):
                found[socket] = listed
    return found


def _mounts(census: Census, run: str) -> Iterator[tuple[str, float]]:
    """The private mounts of places that are proven to be gone and that no record names."""
    standing = unclaimed.ids(census.inventories)
    if standing is None:
        return
    damaged = {one.name for one in census.found if one.damaged}
    for name in _names(run):
        session_id = mount_owner(name)
        if session_id is None or not _ID.fullmatch(session_id):
            continue
        known = session_id in standing or name_of(session_id) in damaged
        if known or records.claimed(session_id) or unclaimed.kept(session_id):
            continue
        yield from _timed([f"{run}/{name}"])


def _temps(run: str) -> Iterator[tuple[str, float]]:
    """Temp files of writes that were killed, or are under way."""
    places = {paths.sessions_dir(), paths.history_dir(), paths.transcripts_dir(), run}
    places |= {paths.notices_dir(), paths.state_dir()}
    runtime = paths.runtime_dir()
    for directory in sorted(places | ({runtime} if runtime else set())):
        names = _names(directory)
        yield from _timed(f"{directory}/{n}" for n in names if n[0] == "." and n.endswith(".tmp"))


def _history() -> dict[str, float]:
    directory = paths.history_dir()
    stems = [name[:-5] for name in _names(directory) if name.endswith(".toml")]
    left = {
        stem: files.changed(f"{directory}/{stem}.toml") for stem in stems if _ID.fullmatch(stem)
    }
    return {session_id: changed for session_id, changed in left.items() if changed is not None}


NO_PILE = Pile((), 0.0, 0, 0.0)


def _transcripts() -> dict[str, Pile]:
    found: dict[str, Pile] = {}
    directory = paths.transcripts_dir()
    for name in sorted(_names(directory)):  # the order of `paths.of_transcript`
        session_id, _, kind = name.partition(".")
        path, pile = f"{directory}/{name}", found.get(session_id, NO_PILE)
        ours = kind in ("log", "screen", "times") and _ID.fullmatch(session_id)
        if ours and (status := _stat(path)):
            found[session_id] = Pile(
                (*pile.paths, path),
                max(pile.changed, status.st_mtime),
                pile.size + status.st_blocks * _BLOCK,
                status.st_mtime if kind == "log" else pile.printed,
            )
    return found


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []


def worktrees_of(leaving: Iterable[Ended]) -> dict[str, Tree]:
    """The existing worktrees of sessions that are to leave the list; git is asked about each."""
    found = {}
    for one in leaving:
        record = records.of_id(one.session_id) if one.worktree else None
        tree = worktrees.existing(record) if record else None
        if record and tree:
            found[record.id] = Tree(tree.path, worktrees.why_it_stays(record))
    return found


# --- sessions in the list ------------------------------------------------------------------------


def ended_in(census: Census) -> Iterator[Ended]:
    """The sessions that have certainly ended, with nothing left up."""
    for digest in census.held:
        if digest.mode == "ended":
            yield _ended(quick_json.loads(digest.view))
    yield from filter(None, map(ended_of, census.found))


def ended_of(found: Seen) -> Ended | None:
    """The same of a session that was judged; None when it has not ended, or left something up."""
    if found.session is None or found.state not in OUTCOMES:
        return None
    return _ended(view(found.session.record, found.session.verdict))


def _ended(view: View) -> Ended:
    return Ended(
        name=view["name"],
        session_id=view["id"],
        ended=_time(view["ended"]),
        needs_person=view["attention"] is not None,
        socket=view["socket"] or "",
        worktree=view.get("worktree") is not None,
    )


def _time(stamp: str | None) -> float:
    """An unknown time is never long ago."""
    found = formatting.epoch(stamp)
    return NEVER if found is None else found


def running_in(census: Census, gc: Gc) -> Iterator[Running]:
    """The running sessions that have a limit."""
    anyway = bool(gc.max_age or gc.max_idle)
    for digest in census.held:
        if digest.pid != "-" and (anyway or is_limited(digest.view)):
            view = quick_json.loads(digest.view)
            if view["state"] == State.RUNNING:
                yield _running(view, Process(int(digest.pid), int(digest.start)))
    yield from filter(None, map(running_of, census.found))


def running_of(found: Seen) -> Running | None:
    """The same of a session that was judged; None when it does not run."""
    if found.session is None or found.state is not State.RUNNING:
        return None
    record = found.session.record
    if record.place.agent is None or record.status.started is None:
        return None
    return _running(view(record, found.session.verdict), record.place.agent.process)


def _running(view: View, process: Process) -> Running:
    return Running(
        name=view["name"],
        session_id=view["id"],
        process=process,
        started=_time(view["started"]),
        max_age=view.get("max_age"),
        max_idle=view.get("max_idle"),
        held=view.get("held") or 0.0,
        resumed=formatting.epoch(view.get("resumed")) or 0.0,
    )
