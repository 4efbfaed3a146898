"""What every kind of place can do. Operations call a place through this, and never ask which kind
it is.

A place takes a record and the settings, and acts on what is outside. It writes no record and no
event: the operations above do. A kind is a class that inherits the defaults below: those of a place
in which nothing is made for a session but its tmux pane. mypy names what a kind lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sesh.model.configuration import Config
from sesh.model.errors import SeshError
from sesh.model.observation import ExitReport, LaunchReport, Observation, unknown
from sesh.model.place import ContainerRequest, Place
from sesh.model.record import Record, Spec
from sesh.model.value_object import Value
from sesh.places.environment import Environment
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Keeper, Pane, Tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from sesh.places.finding import Finding
    from sesh.places.unclaimed import UnclaimedPlace
    from sesh.system.directory_tree import Measure
else:
    Protocol = object

Look = tuple[Record, Observation]  # a record, and what files and /proc show of it
Answers = dict[str, list[Pane] | Reply]  # socket → what its server said, to ask each one once

# What a look at files from a place that may be hostile may raise.
_UNREADABLE = (SeshError, OSError, ValueError, ArithmeticError, RecursionError)


def guarded(look: Callable[..., Observation], *args: object) -> Observation:
    """Look at one session: a problem with it does not affect the others."""
    try:
        return look(*args)
    except _UNREADABLE as error:
        return Observation(unknown(f"cannot be looked at: {str(error) or type(error).__name__}"))


class Recorded(Value):
    """What records say of a session id. Asked again before every act."""

    listed: Callable[[str], Record | None]  # its record in the list
    archived: Callable[[str], Record | None]  # its record in the history


class Inventory(Value):
    """What is there of everything that one kind has made from this state directory."""

    ids: frozenset[str] | None  # of the sessions of which something is there; None: unknown

    def covers(self, record: Record) -> bool:
        """Was the place of this session asked?"""
        return True

    def has(self, record: Record) -> bool | None:
        """Is something of this session there? None: unknown."""
        return None if self.ids is None else record.id in self.ids


class Examined(Value):
    """What the checks of `doctor` look at: sessions of one kind, and what is there of them."""

    records: tuple[Record, ...]
    inventory: Inventory
    settings: Config  # with the user's own timeouts
    config: Config  # with short timeouts
    mounts: Mapping[str, Measure]  # session id → how much is in its private mount


class PlaceKind(Protocol):
    """One kind of place."""

    def tmux(self, record: Record, config: Config) -> Tmux:
        """The tmux server that the session is in."""

    def attach_command(
        self, record: Record, config: Config, *, read_only: bool, alone: bool
    ) -> list[str]:
        """The command that becomes a client of the session; raises where there is none."""

    def enter_command(self, record: Record) -> list[str]:
        """The command that runs its arguments in the place; empty: they run here."""

    def words(self, record: Record) -> tuple[LaunchReport | None, ExitReport | None]:
        """What the launch file and the keeper of this generation reported, by files here. The word
        of the launch file may be left out when the record knows the agent."""

    def complete(
        self, looks: Sequence[Look], config: Config, answers: Answers
    ) -> list[Observation]:
        """Add to what files and /proc show what only tmux or an engine knows: one question for all
        sessions of this kind. The order is kept."""

    def describe(self, record: Record) -> str:
        """The place in the words of `sesh show`."""

    def freeze(self, record: Record, config: Config) -> None:
        """Stop the processes of the session without ending them."""

    def thaw(self, record: Record, config: Config) -> None:
        """Let them continue."""

    def by_proc(self, record: Record, sight: Observation) -> Observation | None:
        """Add what /proc alone shows of the place itself; None: nothing."""
        return None

    def has_screen(self, record: Record) -> bool:
        """May the pane still be there? False only on proof."""
        return True

    def refresh(self, record: Record, config: Config) -> None:
        """Bring the reports of the launch on this machine up to date."""
        return

    def fetch_transcript(self, record: Record, config: Config) -> None:
        """Bring the transcript on this machine up to date."""
        return

    def release(self, record: Record, config: Config) -> None:
        """Remove what was made for an ended session. Raises when that is not proven to be done:
        the record must stay then."""
        return

    def remove_files(self, record: Record) -> None:
        """Delete the files on this machine that only this kind has."""
        return

    def made(self, record: Record) -> str | None:
        """What `release` removes, for the question before it."""
        return None

    def usage(self, record: Record) -> str | None:
        """How full the directory is that the session shares with this machine; None: none."""
        return None

    def shared(self, record: Record, inside: str) -> str | None:
        """The path on this machine of a directory in the place; None: it is not mounted."""
        return None

    def patience(self, spec: Spec) -> float:
        """How long the agent may take to begin, as requested, in seconds."""
        return spec.launch_timeout


class Elsewhere(PlaceKind, Protocol):
    """A kind whose places are not in a tmux of this host: they are provided for a launch. In the
    order of a start; `operations/launch/start_elsewhere` calls them."""

    def terminate(self, record: Record, config: Config, grace: float) -> None:
        """End the processes: ask, wait for the grace, kill. What could not be done shows at the
        next look. (Not of places that call back: `operations/stop` ends all of those together.)"""

    def clear(self, record: Record, config: Config, *, close_panes: bool) -> None:
        """After a confirmed end: close panes that stay, remove what was made, unless the record
        says that it is kept. (Not of places that call back, as above.)"""

    def launch_timeout(self, seconds: float) -> float:
        """The timeout to record for a launch whose agent may take this long to begin."""
        return seconds

    def shares_directory(self, request: ContainerRequest | None) -> bool:
        """Is the session's directory one of this machine?"""
        return False

    def limits_memory(self, spec: Spec) -> bool:
        """Does the place itself enforce the limit on memory?"""
        return False

    def with_mounts(
        self, request: ContainerRequest | None, directories: Sequence[str]
    ) -> ContainerRequest | None:
        """The request, with more directories of this machine."""
        return request

    def check(self, spec: Spec, config: Config) -> Spec:
        """The request, completed; raises when it cannot be met."""
        return spec

    def reserve(self, identity: str, spec: Spec, config: Config) -> Place:
        """The place of a first launch, as far as it is known before anything is made."""

    def next_place(self, old: Record, config: Config) -> tuple[Place, bool]:
        """The place of the next launch, and whether it is the same as that of the last."""

    def clear_before(self, old: Record, config: Config) -> None:
        """Remove what a killed start may have left, before another place is made."""
        return

    def make_files(self, record: Record) -> None:
        """Create the files on this machine that the place needs."""

    def provide(self, record: Record, config: Config) -> Place:
        """Create the place, or prove that it is there."""

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
        """Inside: the command by which an agent reports an event."""
        return ["sh", f"{self.stem(record).rpartition('/')[0]}/hook.sh", self.stem(record)]

    def launch_server(self, record: Record, config: Config) -> Tmux:
        """The tmux server for the launch, in the session's directory."""

    def log(self, record: Record) -> str:
        """Inside: the file that its output goes to."""

    def keeper(self, record: Record) -> Keeper:
        """The keeper of the launch."""
        stem = self.stem(record)
        script = f"{stem.rpartition('/')[0]}/keeper.sh"
        argv = ("/bin/sh", script, stem, record.id, record.name, "tmux", "")
        return Keeper(argv, record.id, log=self.log(record), callback="")

    def refused(self, record: Record, reply: Reply) -> SeshError:
        """What it means that tmux in the place did not launch it."""

    def await_agent(self, record: Record, config: Config) -> None:
        """Wait until the agent has become its command, has ended, or is late."""

    def withdraw(self, record: Record, config: Config, *, sure: bool) -> bool:
        """Undo `provide`; False: unknown. `sure`: the place reported that it did nothing."""
        return True

    def take_back(self, claimed: Record, config: Config) -> bool:
        """End what was begun in a place that stays; False when it cannot be asked."""

    # --- what is left without a record ---

    def inventory(self, sessions: Sequence[Record], config: Config, *, thorough: bool) -> Inventory:
        """Look at everything that was made from here: one question to each place that sessions
        name; if `thorough`, also to the place that a start would use."""

    def ask_again(self, inventory: Inventory, config: Config) -> Inventory:
        """The same question to the same places."""

    def unclaimed(
        self, inventory: Inventory, recorded: Recorded, config: Config
    ) -> list[UnclaimedPlace]:
        """The places that no record claims, also none that was written since they were listed."""

    def still_unclaimed(
        self, found: UnclaimedPlace, recorded: Recorded, config: Config
    ) -> UnclaimedPlace | None:
        """The same place, looked at again just before an act; None: gone, or claimed by now."""

    def rebuild(self, found: UnclaimedPlace, config: Config) -> Record:
        """The record of the session in it, as far as the place shows; raises when it cannot be
        rebuilt."""

    def remove_unclaimed(self, found: UnclaimedPlace, config: Config) -> bool:
        """Remove it with everything in it; False: it is still there."""

    def problems(self, check: str, look: Examined) -> list[Finding]:
        """What is wrong, by one check of `doctor` (`doctor/places`)."""
        return []
