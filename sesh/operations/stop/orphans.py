"""End processes, tmux sessions and containers that outlive their sessions. Each process is proven
again just before every signal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError
from sesh.model.states import ALIVE, State
from sesh.operations import recover
from sesh.operations.stop.stop import Journal, stop
from sesh.places import launch_files, panes
from sesh.places.host import terminate, tmux_server
from sesh.places.host.terminate import SessionTarget
from sesh.places.unclaimed import Leftover, Orphan, Unclaimed, UnclaimedPlace
from sesh.state import orphans, unclaimed
from sesh.state.orphans import Census, Stray
from sesh.system import processes
from sesh.system.process_marks import Mark


def end_all(census: Census, config: Config, grace: float) -> list[str]:
    """End everything that was left behind and may be ended. Returns what could not be ended."""
    after = stop(census.orphan_sessions, config, grace)
    left = [one.name for one in after if one.state in ALIVE | {State.ORPHAN}]
    left += [one.name for one in stop_orphans(census.agents, config, grace)]
    leftovers = [one for one in census.leftovers if one.keep is None]
    left += [f"process {one.process.pid}" for one in stop_leftovers(leftovers, grace)]
    close_strays(census.strays, config)
    places = [one for one in census.places if one.keep is None]
    return left + [one.label for one in places if not recover.end(one, config, grace)]


def end_unclaimed(found: Sequence[Unclaimed], config: Config, grace: float) -> list[Unclaimed]:
    """End these agents and places. Returns those that could not be ended."""
    places = [one for one in found if isinstance(one, UnclaimedPlace)]
    unclaimed.check_ours(places)
    agents = stop_orphans([one for one in found if isinstance(one, Orphan)], config, grace)
    return [*agents, *(one for one in places if not recover.end(one, config, grace))]


def stop_orphans(found: Sequence[Orphan], config: Config, grace: float) -> list[Orphan]:
    """End agents that no readable record claims, and close their panes. Returns those that could
    not be ended."""
    if not found:
        return []
    run = processes.run_dir()
    until = time.monotonic() + grace
    targets = [
        SessionTarget(o.name, Mark(o.id, run, agent=o.agent.process), o.generation, o.agent, until)
        for o in found
    ]
    terminate.end_all(targets, partial(terminate.look, Journal()))
    ended = [target for target in targets if target.ended]
    for target in ended:
        launch_files.remove(run, target.mark.id)
    with suppress(CannotTellError):  # without tmux there is no pane to close
        server = tmux_server.server(f"{run}/tmux.sock", run, config)
        panes.close_dead({target.name: target.mark.id for target in ended}, server)
    return [orphan for orphan, target in zip(found, targets, strict=True) if not target.ended]


def stop_leftovers(leftovers: Sequence[Leftover], grace: float) -> list[Leftover]:
    """End processes that outlive their session. Returns those that could not be ended; processes
    that must be kept get no signal."""
    wanted = {one.process: one for one in leftovers if one.keep is None}
    left = terminate.end_each(wanted, grace, lambda process: orphans.still_left(wanted[process]))
    return [one for one in leftovers if one.keep is not None or one.process in left]


def close_strays(strays: Sequence[Stray], config: Config) -> None:
    """Close the panes of tmux sessions that no record claims. Panes that belong to another session
    by now stay, and so does what a person may have made."""
    run = processes.run_dir()
    for stray in strays:
        if stray.keep:
            continue
        server = tmux_server.server(stray.socket, run, config)
        for pane in stray.panes:
            server.close_all((), [(pane.id, pane.pid)])
