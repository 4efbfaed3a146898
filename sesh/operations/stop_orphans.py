"""End processes that outlive their session: each proven anew just before every signal."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from sesh.model.configuration import Config
from sesh.places.host import tmux_server
from sesh.state import orphans
from sesh.state.orphans import Leftover, Stray
from sesh.system import processes

KILL_PATIENCE = 3.0  # how long a killed process may take to vanish (disk sleep)


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
