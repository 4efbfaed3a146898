"""sesh watch: the pass in the foreground, again and again."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable

from sesh.commands._declare import declare, option
from sesh.model import errors
from sesh.model.errors import SeshError, UsageError
from sesh.state import events
from sesh.state.events import Place
from sesh.supervision import run_pass
from sesh.system import bug_log, subprocesses
from sesh.terminal import output
from sesh.terminal.event_line import event_line

_SHORTEST = 0.1

Remark = Callable[[str, str | None], None]  # about what, and what is wrong with it


@declare("watch")
@option("--interval", type="duration", default=10.0, help="How often to look (10s).")
@option("-q", "--quiet", is_flag=True, help="Do not print what happens.")
def command(interval: float, quiet: bool) -> int:
    """Supervise all sessions in the foreground, until it is ended (Ctrl-C, TERM).

    The same pass that the timers make, sooner when something is due. Prints what happens.
    """
    if interval < _SHORTEST:
        raise UsageError("--interval: should be 100ms at least")
    called_off = _patience()
    remark = _remarks()
    _, seen = events.since(events.NOWHERE)
    while True:
        due, problem = _pass()
        remark("pass", problem)
        subprocesses.reap()
        if not quiet:
            seen = _tell(seen, remark)
        left = interval if due is None else min(interval, max(_SHORTEST, due - time.time()))
        if output.reader_gone() or called_off(left):
            break
    if not quiet:
        _tell(seen, remark)
    return errors.OK


def _pass() -> tuple[float | None, str | None]:
    """One pass, also with settings that can't be read. Says when something is due, and what was
    wrong: that does not end the watch."""
    try:
        done, trouble = run_pass.run_forgiving(stopping_here=False)
    except SeshError as error:
        return None, str(error)
    except Exception as error:  # a bug that one session brings out: the others are to be cared for
        return None, f"a bug in sesh: {error!r}; its log: {bug_log.write(error)}"
    problems = [*([trouble] if trouble else []), *done.troubles]
    return done.next_due, str(problems[0]) if problems else None


def _tell(seen: Place, remark: Remark) -> Place:
    """Print what has happened since. A full disk is no reason not to go on."""
    happened, seen = events.since(seen)
    for event in happened:
        remark("stdout", _written(f"{event_line(event)}\n"))
    return seen


def _written(line: str) -> str | None:
    """Print a line; why that can't be done, if it can't."""
    try:
        output.write(line)
    except OSError as error:
        return f"cannot write to standard output: {error.strerror}"
    return None


def _remarks() -> Remark:
    """A way to tell what is wrong with something when that changes, and not every few seconds."""
    told: dict[str, str | None] = {}

    def remark(about: str, problem: str | None) -> None:
        if problem is not None and problem != told.get(about):
            output.note(problem)
        told[about] = problem

    return remark


def _patience() -> Callable[[float], bool]:
    """A way to wait that ends when somebody wants the watch to end, and says so. A pass that is
    under way is finished first. What we were started to ignore (nohup) stays ignored."""
    ends, wakes = os.pipe()
    os.set_blocking(wakes, False)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda got, _: asked.append(got))
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def called_off(seconds: float) -> bool:
        if not asked:
            select.select([ends], [], [], seconds)
        return bool(asked)

    return called_off
