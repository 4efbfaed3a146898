"""End what was left behind. Each process is proven again just before every signal."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from sesh.model.configuration import Config
from sesh.model.states import ALIVE, State
from sesh.operations import recover
from sesh.operations.forget import Tell
from sesh.operations.stop import stop, stop_orphans
from sesh.places.host import tmux_server
from sesh.state import orphans, unclaimed
from sesh.state.lookup import Orphan
from sesh.state.orphans import Census, Leftover, Stray
from sesh.state.unclaimed import Adrift
from sesh.system import processes

KILL_PATIENCE = 3.0  # how long a killed process may take to vanish (disk sleep)


def end_all(census: Census, config: Config, grace: float) -> list[str]:
    """End everything that was left behind and may be ended. Returns what could not be ended."""
    after = stop(census.orphan_sessions, config, grace)
    left = [one.name for one in after if one.state in ALIVE | {State.ORPHAN}]
    left += [one.name for one in stop_orphans(census.agents, config, grace)]
    leftovers = [one for one in census.leftovers if one.keep is None]
    left += [f"process {one.process.pid}" for one in stop_leftovers(leftovers, grace)]
    close_strays(census.strays, config)
    boxes = [one for one in census.adrift if one.keep is None]
    return left + [one.container for one in boxes if not recover.end(one, config, grace)]


def end_unclaimed(
    found: Sequence[Orphan | Adrift], config: Config, grace: float, tell: Tell
) -> list[Orphan | Adrift]:
    """End these agents and containers. Returns those that could not be ended; `tell` hears of
    them."""
    boxes = [one for one in found if isinstance(one, Adrift)]
    unclaimed.check_ours(boxes)
    agents = stop_orphans([one for one in found if isinstance(one, Orphan)], config, grace)
    for orphan in agents:
        tell(f"{orphan.name}: process {orphan.agent.process.pid} could not be ended")
    standing = [one for one in boxes if not recover.end(one, config, grace)]
    for box in standing:
        tell(f"{box.name}: container {box.container} could not be ended")
    return [*agents, *standing]


def stop_leftovers(leftovers: Sequence[Leftover], grace: float) -> list[Leftover]:
    """Ask, wait, kill. Returns those that could not be ended; what must be kept is not touched."""
    begin = time.monotonic()
    living = list(leftovers)
    for one in living:
        _signal(one, signal.SIGTERM, signal.SIGCONT)
    pause = 0.01
    killed = False
    while living and time.monotonic() < begin + grace + KILL_PATIENCE:
        time.sleep(pause)
        pause = min(pause * 1.3, 0.1)
        living = [one for one in living if orphans.still_left(one)]
        if not killed and time.monotonic() >= begin + grace:
            killed = True
            for one in living:
                _signal(one, signal.SIGKILL)
    return living


def close_strays(strays: Sequence[Stray], config: Config) -> None:
    """Close the panes of tmux sessions that no record claims; one that answers for another session
    by now is left alone, and so is what a person may have made."""
    run = processes.run_dir()
    for stray in strays:
        if stray.keep:
            continue
        server = tmux_server.server(stray.socket, run, config)
        for pane in stray.panes:
            server.close_all((), [(pane.id, pane.pid)])


def _signal(leftover: Leftover, *numbers: int) -> None:
    """Signal a process that is still what it was, and not one that must be kept."""
    if leftover.keep is None and orphans.still_left(leftover):
        for number in numbers:
            processes.send(leftover.process, number)
