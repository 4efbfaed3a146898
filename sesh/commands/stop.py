"""sesh stop: end sessions, and report success only when they have ended."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from sesh.commands._declare import declare, flag, option
from sesh.commands._options import (
    CONDITIONS,
    DRY_RUN,
    GRACE,
    GROUP,
    NAMES,
    SELECTION,
    TAGS,
    YES,
    Selection,
    agreed,
    check_choice,
    choose,
    confirm,
    planned,
)
from sesh.model import errors
from sesh.model.configuration import Config
from sesh.model.errors import UsageError
from sesh.model.record import Damaged, Record
from sesh.model.states import ALIVE, ENDED, State
from sesh.model.text import formatting
from sesh.operations.stop.stop import stop
from sesh.places import registry
from sesh.state import lookup, records, settings
from sesh.state.judge import Seen
from sesh.system import processes
from sesh.terminal import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sesh.places.interface import Inventory
    from sesh.places.unclaimed import Unclaimed
    from sesh.state.orphans import Census

_HOW = f"--all, --idle, {SELECTION}"
_LIVING = ALIVE | {State.ORPHAN}
_UNABLE = (State.UNKNOWN, State.DAMAGED)
_BAR, _SHORTEST_BAR = 24, 6  # cells
_ECHO = 3  # columns that the progress leaves for the ^C of a user, which would wrap its line
_COSTLY = _LIVING | {State.STALE, State.UNKNOWN}


@declare(
    "stop",
    examples={
        "sesh stop web": "ask, wait, kill, confirm",
        "sesh stop --group shop -y": "a whole group, without asking",
    },
)
def command(
    names: tuple[str, ...] = NAMES,
    everything: bool = flag("-a", "--all", help="Stop all living sessions."),
    group: str | None = GROUP,
    tags: tuple[str, ...] = TAGS,
    conditions: tuple[str, ...] = CONDITIONS,
    left_behind: bool = flag("--orphans", help="End orphans, after listing them."),
    idle: float | None = option(
        "--idle", type="duration", help="Stop sessions without output for TIME."
    ),
    keep: bool = flag("--keep", help="Keep containers that sesh created."),
    grace: float | None = GRACE,
    force: bool = flag("-f", "--force", help="Kill immediately (same as --grace 0)."),
    dry_run: bool = DRY_RUN,
    yes: bool = YES,
) -> int:
    """Stop sessions: ask (TERM), wait, kill, and confirm that every process is gone.

    Containers that sesh created are removed, unless --keep is given; others never are.
    A stop that cannot be confirmed stays `stopping` (exit 1); the next stop or pass continues it.
    """
    config = settings.load()
    selection = Selection(group, tags, conditions)
    places = _EndedPlaces(config, keep=keep)
    limit = 0.0 if force else config.stop.grace if grace is None else grace
    selecting = everything or idle is not None
    if left_behind:
        if names or selecting or selection.given:
            raise UsageError(f"give --orphans, or names, {_HOW}, but not both")
        return _stop_orphans(config, limit, dry_run=dry_run, yes=yes)
    check_choice(names, selecting=selecting or selection.given, how=_HOW)
    if names:
        names, some_left = _stop_unclaimed(names, config, limit, dry_run=dry_run)
        if some_left or not names:
            return errors.FAILED if some_left else errors.OK

    def wanted(one: Seen) -> bool:
        if idle is not None:
            return _quiet(one, idle)
        # A session that is a record only is stopped by name alone: another program runs its agent.
        return (one.state in _COSTLY and one.has_process) or places.left(one)

    def chosen() -> list[Seen]:
        return choose(names, selection, wanted, how=_HOW, selecting=selecting)

    found = chosen()
    for name in places.unsure:
        output.note(f"{name}: no answer from its container engine; its container may still exist")
    if not found and places.unsure:
        return errors.CANNOT_TELL
    if not found:
        output.note("nothing to stop")
        return errors.OK
    unable = [one for one in found if one.state in _UNABLE]
    able = [one for one in found if one.state not in _UNABLE]
    if dry_run:
        return planned(_would(one, places) for one in found)
    if len(able) > 1 and not yes:
        agreed_to = agreed(f"stop {formatting.listed([one.name for one in able])}?", able, chosen)
        if agreed_to is None:
            return errors.FAILED
        able = [one for one in agreed_to if one.state not in _UNABLE]
    for one in unable:
        output.note(f"{one.name}: {_why_not(one)}; not stopped")
    left: list[str] = []
    progress = _Progress()
    try:
        with progress:
            after = stop(able, config, limit, progress.show, keep=keep, note=left.append)
    except KeyboardInterrupt:
        return _interrupted(able, after_echo=not progress.shown)
    code = _report(able, unable, after, left)
    return errors.PARTIAL if code == errors.OK and places.unsure else code


def _would(one: Seen, places: _EndedPlaces) -> str:
    """What a stop would do with a session."""
    if one.state in _UNABLE:
        return f"would leave {one.name}: {_why_not(one)}"
    if one.state in _LIVING or one.state is State.STALE:
        return f"would stop {one.name} ({one.state})"
    if places.left(one):
        made = registry.of(one.intact.record).made(one.intact.record)
        return f"would remove the place of {one.name} ({one.state}): {made}"
    return f"would leave {one.name}: it has ended ({one.state})"


def _why_not(one: Seen) -> str:
    """Why a session cannot be stopped."""
    return f"its record is damaged ({one.reason})" if one.damaged else one.reason or "cannot tell"


class _EndedPlaces:
    """Places that sesh made for sessions that have ended. Each engine is queried once."""

    def __init__(self, config: Config, *, keep: bool) -> None:
        self.unsure: list[str] = []  # the sessions whose place gave no answer
        self._settings = config
        self._keep = keep
        self._asked: list[Inventory] = []

    def left(self, one: Seen) -> bool:
        """Has it ended, and left a place that is not to be kept?"""
        record = one.session.record if one.session else None
        if record is None or one.state not in ENDED or record.place.kind not in registry.ELSEWHERE:
            return False
        if self._keep or record.status.keep or record.place.machine.id != processes.here().id:
            return False
        there = self._inventory(record).has(record)
        if there is None:
            self.unsure.append(one.name)
        return there is True

    def _inventory(self, record: Record) -> Inventory:
        known = next((one for one in self._asked if one.covers(record)), None)
        if known is None:
            known = registry.elsewhere(record).inventory([record], self._settings, thorough=False)
            self._asked.append(known)
        return known


def _quiet(one: Seen, seconds: float) -> bool:
    """Is it running without output for that long? Sessions that cannot be queried are reported."""
    if one.state is State.UNKNOWN:
        return True
    if one.session is None or one.state is not State.RUNNING or not one.has_process:
        return False
    from sesh.supervision import facts

    silent = facts.silent_for(one.session.record)
    return silent is not None and silent >= seconds


def _stop_orphans(config: Config, grace: float, *, dry_run: bool, yes: bool) -> int:
    """List everything that lives without a session, ask, and end it."""
    from sesh.operations.stop.orphans import end_all
    from sesh.state import orphans

    census = orphans.census(config)
    if dry_run:
        plan = [(f"would {'end' if ends else 'leave'}", *cells) for ends, *cells in _listed(census)]
        return planned(formatting.table(plan))
    for line in formatting.table([cells for _, *cells in _listed(census)]):
        output.say(line)
    count = _count(census)
    if count == 0:
        output.note("no orphans to end")
        return errors.OK
    if not confirm(f"end {formatting.number(count, 'orphan')}?", yes=yes):
        return errors.FAILED
    if not yes:  # the answer may have taken long: an orphan may be a session again
        census = orphans.still(census, orphans.census(config))
        if _count(census) < count:
            output.note(f"{count - _count(census)} changed meanwhile: skipped")
    left = end_all(census, config, grace)
    for name in left:
        output.note(f"{name} could not be ended")
    return errors.of_many([errors.FAILED] * len(left) + [errors.OK] * (count - len(left)))


def _count(census: Census) -> int:
    """How many there are to end."""
    return len(census.orphan_sessions) + sum(one.keep is None for one in census.unclaimed)


def _listed(census: Census) -> list[tuple[bool, str, str]]:
    """For each: whether it is to be ended; session; kind, age and size."""
    from sesh.places.unclaimed import row

    now = time.time()
    sessions = [
        (True, one.name, f"{formatting.escape(one.reason or '')}   ")
        for one in census.orphan_sessions
    ]
    return sessions + [(one.keep is None, *row(one, now)) for one in census.unclaimed]


def _stop_unclaimed(
    names: tuple[str, ...], config: Config, grace: float, *, dry_run: bool
) -> tuple[tuple[str, ...], bool]:
    """End the named agents and containers that no readable record claims. Returns the other names,
    and whether something could not be ended."""
    for name in names:
        lookup.check_name(name)
    entries = {name: records.entry(name) for name in names}
    lost = [name for name, one in entries.items() if not one or isinstance(one.record, Damaged)]
    if not lost:
        return names, False
    from sesh.operations.stop.orphans import end_unclaimed

    found = [one for name in lost for one in _unclaimed(name, config)]
    left = [] if dry_run else end_unclaimed(found, config, grace)
    if dry_run:
        planned(f"would end {one.name}: {formatting.escape(one.what)}" for one in found)
    for one in left:
        output.note(f"{one.name}: {one.what} could not be ended")
    ended = {one.name for one in found}
    return tuple(name for name in names if name not in ended), bool(left)


def _unclaimed(name: str, config: Config) -> Sequence[Unclaimed]:
    """Found by the files of their launches or, where those are lost too, by a full census."""
    found = lookup.orphans_named(name)
    if found:
        return found
    from sesh.state import orphans

    census = orphans.census(config)
    places = [one for one in census.places if not one.copied]
    return [one for one in (*census.agents, *places) if one.name == name]


def _report(able: list[Seen], unable: list[Seen], after: list[Seen], left: list[str]) -> int:
    """`left`: what could not be signalled, a line for each that begins with a session's name."""
    for line in left:
        output.note(line)
    failed = {line.partition(":")[0] for line in left}
    stopped = []
    for before, now in zip(able, after, strict=True):
        name, was, state = now.name, before.state, now.state
        if name in failed:
            continue
        if state in _LIVING:
            failed.add(name)
            output.note(f"{name} is {state}: {now.reason}; next: sesh stop {name}")
        elif was in ALIVE and not before.has_process:
            output.note(f"{name}: marked as abandoned; its agent was not started by sesh")
        elif was not in _LIVING and was is not State.STALE:
            output.note(f"{name} had already ended ({was})")
        else:
            stopped.append(name)
    output.done("stopped", stopped)
    why = errors.STATE if all(one.damaged for one in (*able, *unable)) else errors.CANNOT_TELL
    codes = [errors.FAILED if one.name in failed else errors.OK for one in able]
    return errors.of_many([*codes, *(why for _ in unable)])


def _interrupted(able: list[Seen], *, after_echo: bool) -> int:
    """The user does not want to wait. Sessions that were asked to stop are ended all the time: the
    timer of their tmux server continues."""
    names = [
        one.name for one in lookup.some([one.name for one in able]) if one.state is State.STOPPING
    ]
    if not names:
        raise KeyboardInterrupt
    keep = "keeps" if len(names) == 1 else "keep"
    look = f"sesh wait {' '.join(names)}" if len(names) <= 3 else "sesh ls -f state=stopping"
    output.note(f"{formatting.listed(names)} {keep} stopping; next: {look}", after_echo=after_echo)
    return errors.INTERRUPTED


class _Progress:
    """A line on the terminal that is rewritten, once the stop has taken over a second."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self.shown = False

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown:
            output.write_line_over("")

    def show(self, waiting: list[str], total: int, left: float) -> None:
        if time.monotonic() - self._begin < 1 or not os.isatty(2):
            return
        if os.environ.get("TERM", "dumb") == "dumb":
            return
        width = os.get_terminal_size(2).columns or 80
        output.write_line_over(progress_line(waiting, total, left, width - _ECHO))
        self.shown = True


def progress_line(waiting: list[str], total: int, left: float, room: int) -> str:
    """The progress in at most `room` columns: the bar shrinks first, the name is cut last."""
    count = f"{total - len(waiting)}/{total}"
    when = f"{left:.0f}s left before kill" if left > 0 else "killing"
    rest = f"  {count}  waiting for {waiting[0]} ({when})"
    cells = min(_BAR, room - len("stopping  ") - len(rest))
    if cells >= _SHORTEST_BAR:
        return f"stopping  {formatting.progress_bar(total - len(waiting), total, cells)}{rest}"
    short = when.removesuffix(" left before kill")
    for head, aside in (("stopping ", when), ("", when), ("", short)):
        line = f"{head}{count}  {waiting[0]} ({aside})"
        if len(line) <= room:
            return line
    return f"{formatting.cut(waiting[0], room - len(aside) - 3)} ({aside})"
