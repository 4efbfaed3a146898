"""What every kind of place can do. Operations call a place through this, and never ask which kind
it is.

A place takes a record and the settings, and acts on what is outside. It writes no record and no
event: the operations above do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sesh.model.configuration import Config
from sesh.model.errors import SeshError
from sesh.model.observation import ExitWord, LaunchWord, Observation, unknown
from sesh.model.place import Place
from sesh.model.record import Record, Spec
from sesh.places.environment import Environment
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Keeper, Pane, Tmux

Look = tuple[Record, Observation]  # a record, and what files and /proc show of it
Answers = dict[str, list[Pane] | Reply]  # socket → what its server said, to ask each one once

# What a look at files from a place that may be hostile may raise.
UNREADABLE = (SeshError, OSError, ValueError, ArithmeticError, RecursionError)


def unreadable(error: Exception) -> Observation:
    return Observation(unknown(f"cannot be looked at: {str(error) or type(error).__name__}"))


class PlaceKind(Protocol):
    """One kind of place: a module with these functions, or an object with these methods."""

    def tmux(self, record: Record, config: Config) -> Tmux:
        """The tmux server that the session is in."""

    def attach_command(
        self, record: Record, config: Config, *, read_only: bool, alone: bool
    ) -> list[str]:
        """The command that becomes a client of the session; raises where there is none."""

    def enter_command(self, record: Record) -> list[str]:
        """What a command must be an argument of to run in the place; empty: it runs here."""

    def words(self, record: Record) -> tuple[LaunchWord | None, ExitWord | None]:
        """What the launch file and the keeper of this generation have said, by files here."""

    def complete(
        self, looks: Sequence[Look], config: Config, answers: Answers
    ) -> list[Observation]:
        """Add to what files and /proc show what only tmux or an engine can tell: one question for
        all sessions of this kind. The order is kept."""

    def by_proc(self, record: Record, sight: Observation) -> Observation | None:
        """Add what /proc alone tells of the place itself; None: nothing."""

    def has_screen(self, record: Record) -> bool:
        """May the pane still be there? False only on proof."""

    def fetch_transcript(self, record: Record, config: Config) -> None:
        """Bring the transcript on this machine up to date."""

    def freeze(self, record: Record, config: Config) -> None:
        """Stop the processes of the session without ending them."""

    def thaw(self, record: Record, config: Config) -> None:
        """Let them continue."""

    def release(self, record: Record, config: Config) -> None:
        """Remove what was made for an ended session. Raises when that is not proven to be done:
        the record must stay then."""

    def remove_files(self, record: Record) -> None:
        """Delete the files on this machine that only this kind has."""

    def made(self, record: Record) -> str | None:
        """What `release` removes, for the question before it."""

    def usage(self, record: Record) -> str | None:
        """How full the directory is that the session shares with this machine; None: none."""

    def describe(self, record: Record) -> str:
        """The place in the words of `sesh show`."""

    def patience(self, spec: Spec) -> float:
        """How long the agent may take to begin, as it was asked for, in seconds."""


class Elsewhere(PlaceKind, Protocol):
    """A kind whose places are not in a tmux of this host: they are provided for a launch. In the
    order of a start; `operations/launch/start_elsewhere` calls them."""

    def terminate(self, record: Record, config: Config, grace: float) -> None:
        """End the processes: ask, wait for the grace, kill. What could not be done shows at the
        next look. (Not of places that call back: `operations/stop` ends all of those together.)"""

    def clear(self, record: Record, config: Config, *, close_panes: bool) -> None:
        """After a confirmed end: close panes that stay, remove what was made, unless the record
        says that it is kept. (Not of places that call back, as above.)"""

    def check(self, spec: Spec, config: Config) -> Spec:
        """What was asked for, completed; raises when it cannot be had."""

    def reserve(self, identity: str, spec: Spec, config: Config) -> Place:
        """The place of a first launch, as far as it is known before anything is made."""

    def next_place(self, old: Record, config: Config) -> tuple[Place, bool]:
        """The place of the next launch, and whether it is the same as that of the last."""

    def clear_before(self, old: Record, config: Config) -> None:
        """Remove what a killed start may have left, before another place is made."""

    def make_files(self, record: Record) -> None:
        """The files on this machine that the place needs."""

    def provide(self, record: Record, config: Config) -> Place:
        """Have the place: make it, or prove that it is there."""

    def put(
        self,
        record: Record,
        variables: Environment,
        command: tuple[str, ...],
        kit: Mapping[str, bytes],
        config: Config,
    ) -> None:
        """Put the files of a launch into the place. `kit`: those of its agent, by their endings."""

    def stem(self, record: Record) -> str:
        """Inside: where the files of the launch are."""

    def hook(self, record: Record) -> list[str]:
        """Inside: the command by which an agent leaves word of an event."""

    def launch_server(self, record: Record, config: Config) -> Tmux:
        """The tmux server for the launch, in the session's directory."""

    def keeper(self, record: Record) -> Keeper:
        """The keeper of the launch."""

    def refused(self, record: Record, reply: Reply) -> SeshError:
        """What it means that tmux in the place did not launch it."""

    def await_agent(self, record: Record, config: Config) -> None:
        """Wait until the agent has become its command, has ended, or is late."""

    def withdraw(self, record: Record, config: Config, *, sure: bool) -> bool:
        """Undo `provide`; False: nobody can tell. `sure`: the place said that it did nothing."""

    def take_back(self, claimed: Record, config: Config) -> bool:
        """End what was begun in a place that stays; False when it cannot be asked."""
