"""Sessions in a tmux server of this machine."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from sesh.model.configuration import Config
from sesh.model.errors import SeshError
from sesh.model.observation import ExitReport, LaunchReport, Observation
from sesh.model.record import Record
from sesh.places import launch_files
from sesh.places.host import observe, tmux_server
from sesh.places.interface import Answers, Look, PlaceKind
from sesh.system import processes
from sesh.system.tmux import Tmux


class HostKind(PlaceKind):
    def tmux(self, record: Record, config: Config) -> Tmux:
        return tmux_server.server(record.place.socket, record.place.run, config)

    def attach_command(
        self, record: Record, config: Config, *, read_only: bool, alone: bool
    ) -> list[str]:
        tmux_server.need_terminal(record)
        server = self.tmux(record, config)
        tmux_server.reach(record, server)
        options = (*(("-r",) if read_only else ()), *(("-d",) if alone else ()))
        argv = [server.binary, "-N", "-u", "-S", server.socket, "attach-session", *options]
        return [*argv, "-t", f"={record.name}"]

    def enter_command(self, record: Record) -> list[str]:
        return []

    def words(self, record: Record) -> tuple[LaunchReport | None, ExitReport | None]:
        which = (record.place.run, record.id, record.place.generation)
        launch = None if record.place.agent else launch_files.read_launch(*which)
        return launch, launch_files.read_exit(*which)

    def complete(
        self, looks: Sequence[Look], config: Config, answers: Answers
    ) -> list[Observation]:
        return observe.complete(looks, config, answers)

    def freeze(self, record: Record, config: Config) -> None:
        if not _signal_tree(record, signal.SIGSTOP):
            raise SeshError(f"{record.name}: its processes could not be stopped")

    def thaw(self, record: Record, config: Config) -> None:
        _signal_tree(record, signal.SIGCONT)

    def describe(self, record: Record) -> str:
        return f"host, tmux pane {record.place.pane or '–'}"


def _signal_tree(record: Record, number: int) -> bool:
    """Signal the agent's tree, parents first; never its keeper: tmux would continue the group.
    False when the agent itself could not be signalled."""
    agent = record.place.agent
    if agent is None or not processes.send(agent.process, number):
        return False
    table = processes.table()
    for pid in processes.tree(processes.children(table), agent.process.pid):
        if pid in table:
            processes.send(table[pid].process, number)
    return True
