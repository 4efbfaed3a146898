"""The block of sesh in the user's crontab. All other lines stay as they are, byte for byte, and a
crontab that cannot be read is an error."""

from __future__ import annotations

import os
import re

from sesh.model.errors import CannotTellError, SeshError, StateError
from sesh.supervision.timer import schedules
from sesh.supervision.timer.schedules import Scheduler, Timer
from sesh.system import files, paths, processes, subprocesses

_TIMEOUT = 5.0  # seconds that crontab(1) may take


def _crontab(*arguments: str, stdin: int = subprocesses.NOTHING) -> subprocesses.Answer:
    """CRONTAB_NOHEADER would make Debian's print lines that are not the user's."""
    env = {name: value for name, value in os.environ.items() if name != "CRONTAB_NOHEADER"}
    return subprocesses.call(
        ("crontab", *arguments),
        timeout=_TIMEOUT,
        env={**env, "LC_ALL": "C"},
        stdin=stdin,
        errors="surrogateescape",
    )


def _read_crontab() -> bytes:
    answer = _crontab("-l")
    if answer.ok:
        return answer.out.encode(errors="surrogateescape")
    if re.search(r"no crontab for |can't open '[^']+': No such file", answer.err):
        return b""
    raise CannotTellError(f"cannot read the crontab: {answer.message}")


def _write_crontab(old: bytes, new: bytes) -> None:
    """Install a crontab with crontab(1), which checks it first; an empty one is removed. Debian's
    prints a carriage return as the two characters \\r, which would be installed as such."""
    from tempfile import TemporaryFile

    if re.search(rb"\\r$", old, re.M):
        raise StateError(
            "lines of the crontab seem to end in carriage returns, which crontab -l does not show "
            "as they are; nothing was changed, remove them with: crontab -e"
        )
    if not new:
        answer = _crontab("-r")
    else:
        with TemporaryFile() as file:
            file.write(new)
            file.seek(0)
            answer = _crontab("-", stdin=file.fileno())
    if not answer.ok:
        raise SeshError(f"cannot write the crontab: {answer.message}")


def _own_block(crontab: bytes) -> schedules.Crontab:
    """The crontab, split at our block, or at that of an older version."""
    older = schedules.parse(crontab).block
    if older is not None:
        ours = schedules.block_state(older, paths.account_home() or "") == paths.state_dir()
        crontab = schedules.with_key(crontab, paths.key()) if ours else crontab
    return schedules.parse(crontab, *schedules.marks(paths.key()))


def install(block: bytes) -> None:
    old = _read_crontab()
    new = _own_block(old).with_block(block)
    if new != old:
        _write_crontab(old, new)


def remove() -> bool:
    """Remove our block. True when there was one."""
    if paths.which("crontab") is None:
        return False
    old = _read_crontab()
    found = _own_block(old)
    if found.block is None:
        return False
    _write_crontab(old, found.others)
    return True


def state() -> Timer:
    if paths.which("crontab") is None:
        return Timer()
    try:
        found = _own_block(_read_crontab())
    except SeshError as error:
        return Timer(problem=str(error), certain=False)
    if found.block is None:
        return Timer()
    schedule = schedules.block_schedule(found.block)
    if schedule is None:
        return Timer(problem="the crontab's block is empty; next: sesh timer install")
    return Timer(
        scheduler=Scheduler.CRON,
        every=schedules.every_of(schedule),
        schedule=schedule,
        last_run=files.changed(paths.gc_stamp(processes.run_dir())),
    )
