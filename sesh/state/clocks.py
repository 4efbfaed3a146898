"""Clocks: the age of launches and sessions, how long the machine was suspended, since when the time
of day can be trusted, and which boots there were. Decides nothing.

Ages count by the kernel's clock where that is possible, so that no deadline moves when the time of
day is set. `run/MACHINE/boot.ID` belongs to one boot; each of its passes writes the clocks there.
Where the home is shared, machines with the same machine id have the same directory, but never the
same boot.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from sesh.model.errors import SeshError
from sesh.model.record import Record
from sesh.model.text import quick_json
from sesh.model.value_object import Any, Value, replace
from sesh.system import files, paths, processes

Naps = Sequence[tuple[float, float]]  # of each: how many seconds ago it was noticed, its length
FOR_EVER = float("inf")
HOUR, DAY = 3600.0, 86400.0
ANY = float("inf")
_SHORTEST = 1.0  # seconds of suspend that count
_LATE = 60.0  # seconds after which a promised look is late: nothing ran meanwhile
_JUMP = HOUR  # a change of the time of day alone by more than this is a jump
_PREFIX = "boot."
_LIMIT = 1 << 16
_MOST_BOOTS, _MOST_NAPS, _MOST_STRETCHES = 20, 200, 20


class Reading(Value):
    """All clocks at one moment."""

    wall: float  # the time of day, which can be set
    uptime: float  # seconds since the boot
    asleep: float  # seconds of these in which the machine was suspended

    @property
    def awake(self) -> float:
        return self.uptime - self.asleep


class Stretch(Value):
    """A period in which the time of day and the uptime agreed."""

    offset: float  # of the time of day from the uptime
    first: float  # by the time of day; 0.0: no earlier time is known
    last: float


class Boot(Value):
    """One boot, as its passes have seen it."""

    host: str
    last: Reading
    promise: float | None = None  # when the next look is expected, in seconds awake
    naps: tuple[tuple[float, float], ...] = ()  # the uptime at which it was noticed, its length
    stretches: tuple[Stretch, ...] = ()


def read() -> Reading:
    return Reading(time.time(), processes.uptime(), processes.asleep())


# --- ages ----------------------------------------------------------------------------------------


def launch_age(record: Record, now: float | None = None) -> float:
    """Seconds since the agent of this launch began; `now` is the uptime. For a remote engine and an
    earlier boot, only the time of day is known."""
    agent, status = record.place.agent, record.status
    if agent is not None and record.place.pids_here and record.place.machine == processes.here():
        return max(0.0, processes.age(agent.process, processes.uptime() if now is None else now))
    return _since((status.started or status.launched).timestamp())


def life_age(record: Record, now: float | None = None) -> float:
    """Seconds since a person started the session: all launches and the waits between them, without
    the time in which it was paused."""
    status = record.status
    held = status.held + (_since(status.paused.timestamp()) if status.paused else 0.0)
    before = status.lived + _launching(record) if status.lived else 0.0
    return before + max(0.0, launch_age(record, now) - held)


def _launching(record: Record) -> float:
    """Seconds from the claim of the launch to the start of the agent: an engine takes long."""
    status = record.status
    taken = (status.started - status.launched).total_seconds() if status.started else 0.0
    return min(max(0.0, taken), record.spec.launch_timeout)


def time_left(record: Record) -> float:
    """Seconds that remain of the session's timeout; below 0: it is over."""
    timeout = record.spec.supervision.timeout
    return timeout - life_age(record) if timeout else FOR_EVER


def _since(moment: float) -> float:
    return max(0.0, time.time() - moment)


# --- suspend and jumps: pure ---------------------------------------------------------------------


def stood_still(before: Boot, now: Reading) -> float:
    """Seconds since the last look in which nothing ran: the machine was suspended, or paused as a
    whole, which shows in a look that comes too late."""
    if before.promise is not None and now.awake - before.promise > _LATE:
        return now.uptime - before.last.uptime
    slept = now.asleep - before.last.asleep
    return slept if slept >= _SHORTEST else 0.0


def naps_of(boot: Boot | None, now: Reading) -> Naps:
    """All naps of this boot, and the last one, which no pass has written yet."""
    if boot is None:
        return ((0.0, now.asleep),) if now.asleep >= _SHORTEST else ()
    known = tuple((max(0.0, now.uptime - until), still) for until, still in boot.naps)
    still = stood_still(boot, now)
    return (*known, (0.0, still)) if still else known


def looked(before: Boot | None, others: Iterable[Boot], now: Reading, wrote: float | None) -> Boot:
    """The boot after another look. `wrote` is the time of the last event, the only time to compare
    the first look with. None: nothing has happened here yet that could be old."""
    if before is None:
        naps = tuple((now.uptime, still) for _, still in naps_of(None, now))
        return Boot(os.uname().nodename, now, None, naps, (_first(others, now, wrote),))
    still = stood_still(before, now)
    naps = (*before.naps, (now.uptime, still)) if still else before.naps
    if len(naps) > _MOST_NAPS:  # merge the oldest two
        naps = ((naps[1][0], naps[0][1] + naps[1][1]), *naps[2:])
    *earlier, newest = before.stretches or (_first(others, now, wrote),)
    stretches = (*earlier, *_continued(newest, now))[-_MOST_STRETCHES:]
    return replace(before, last=now, promise=None, naps=naps, stretches=stretches)


def _continued(newest: Stretch, now: Reading) -> tuple[Stretch, ...]:
    offset = now.wall - now.uptime
    if abs(offset - newest.offset) <= _JUMP:
        return (replace(newest, last=max(newest.last, now.wall)),)
    return newest, Stretch(offset, now.wall, now.wall)


def _first(others: Iterable[Boot], now: Reading, wrote: float | None) -> Stretch:
    """The stretch of a boot's first look. It is unknown for how long the machine was off; if that
    was short, the stretch of the boot before continues."""
    offset = now.wall - now.uptime
    before = max((s for one in others for s in one.stretches), key=lambda s: s.last, default=None)
    if before is not None:
        agrees = abs(offset - before.last) <= _JUMP
        return Stretch(offset, before.first if agrees else now.wall, now.wall)
    agrees = wrote is None or abs(now.wall - wrote) <= _JUMP
    return Stretch(offset, 0.0 if agrees else now.wall, now.wall)


def believed(boots: Iterable[Boot], here: Boot, now: Reading, settle: float) -> float:
    """The time of day up to which the clocks agree: any, if the time of day and the uptime have
    agreed for `settle` seconds; else a time that a look at least so long ago has seen."""
    newest = here.stretches[-1]
    if now.wall - newest.first >= settle:
        return ANY
    known = [s for one in boots for s in one.stretches] + [*here.stretches[:-1]]
    seen = (min(one.last, now.wall - settle) for one in known if one.first <= now.wall - settle)
    return max(seen, default=0.0)


# --- files ---------------------------------------------------------------------------------------


def note(run: str) -> None:
    """Write the clocks to the file of this boot. If that fails, less is known later."""
    boot = processes.here().boot
    before = boot_of(run, boot)
    others = [] if before else _others(run, boot)
    with suppress(OSError, SeshError):
        _write(run, boot, looked(before, others, read(), files.changed(paths.events_file())))
        if before is None:
            by_age = sorted((_path(run, one) for one in _known(run)), key=os.path.getmtime)
            for path in by_age[:-_MOST_BOOTS]:
                os.unlink(path)


def note_boot(run: str) -> None:
    """The same, unless this boot has a file already."""
    if not os.path.exists(_path(run, processes.here().boot)):
        note(run)


def promise(run: str, seconds: float) -> None:
    """Note when the next look is expected, unless the machine is suspended."""
    boot = processes.here().boot
    known = boot_of(run, boot)
    if known is not None:
        with suppress(OSError, SeshError):
            _write(run, boot, replace(known, promise=read().awake + seconds))


def naps(now: Reading | None = None) -> Naps:
    """When this machine was suspended in this boot."""
    return naps_of(boot_of(processes.run_dir(), processes.here().boot), now or read())


def settled(run: str, *settles: float) -> list[float]:
    """The times of day that can be trusted; see `believed`."""
    boot, now = processes.here().boot, read()
    others = _others(run, boot)
    here = looked(boot_of(run, boot), others, now, files.changed(paths.events_file()))
    return [believed(others, here, now, settle) for settle in settles]


def boot_of(run: str, boot: str) -> Boot | None:
    try:
        return _decoded(quick_json.loads(files.read_regular(_path(run, boot), _LIMIT)))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _others(run: str, boot: str) -> list[Boot]:
    found = (boot_of(run, one) for one in _known(run) if one != boot)
    return [one for one in found if one is not None]


def _known(run: str) -> list[str]:
    try:
        names = os.listdir(run)
    except FileNotFoundError:
        return []
    return [name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX)]


def _path(run: str, boot: str) -> str:
    return f"{run}/{_PREFIX}{boot}"


def _write(run: str, boot: str, known: Boot) -> None:
    last = known.last
    values = {
        "host": known.host,
        "last": [last.wall, last.uptime, last.asleep],
        "promise": known.promise,
        "naps": known.naps,
        "stretches": [[one.offset, one.first, one.last] for one in known.stretches],
    }
    files.write_private(_path(run, boot), quick_json.dumps(values).encode(), durable=False)


def _decoded(values: Any) -> Boot:
    return Boot(
        str(values["host"]),
        Reading(*map(float, values["last"])),
        None if values["promise"] is None else float(values["promise"]),
        tuple((float(until), float(still)) for until, still in values["naps"]),
        tuple(Stretch(*map(float, one)) for one in values["stretches"]),
    )
