"""sesh watch: repeat the pass in the foreground."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable

from sesh.commands._declare import declare, flag, option
from sesh.model import errors
from sesh.model.errors import SeshError, UsageError
from sesh.model.text import units
from sesh.state import events
from sesh.state.events import Place
from sesh.supervision import run_pass
from sesh.system import bug_log, subprocesses
from sesh.terminal import output
from sesh.terminal.event_line import event_line

_SHORTEST = 0.1

Remark = Callable[[str, str | None], None]  # about what, and what is wrong with it


@declare("watch")
def command(
    interval: float = option(
        "--interval", type="duration", default=10.0, help="Time between passes (10s)."
    ),
    quiet: bool = flag("-q", "--quiet", help="Do not print events."),
) -> int:
    """Supervise all sessions in the foreground until interrupted (Ctrl-C, TERM).

    Runs the same pass as the timers, sooner if something is due. Prints events.
    """
    if interval < _SHORTEST:
        raise UsageError("--interval should be at least 100ms")
    ended = _waiter()
    remark = _remarks()
    _, seen = events.since(events.NOWHERE)
    if not quiet and os.isatty(2):
        often = f"every {units.span(interval)} or sooner"
        output.say(f"supervising all sessions, {often}; Ctrl-C ends it")
    while True:
        due, problem = _pass()
        remark("pass", problem)
        subprocesses.reap()
        if not quiet:
            seen = _print(seen, remark)
        left = interval if due is None else min(interval, max(_SHORTEST, due - time.time()))
        if output.reader_gone() or ended(left):
            break
    if not quiet:
        _print(seen, remark)
    return errors.OK


def _pass() -> tuple[float | None, str | None]:
    """Run one pass, also with settings that can't be read. Returns when something is due, and the
    first problem: that does not end the watch."""
    try:
        done, trouble = run_pass.run_forgiving(stopping_here=False)
    except SeshError as error:
        return None, str(error)
    except Exception as error:  # a bug with one session: the others are still supervised
        return None, f"a bug in sesh: {error!r}; details in {bug_log.write(error)}"
    problems = [*([trouble] if trouble else []), *done.troubles]
    return done.next_due, str(problems[0]) if problems else None


def _print(seen: Place, remark: Remark) -> Place:
    """Print what has happened since. An error, for example a full disk, does not end the watch."""
    happened, seen = events.since(seen)
    for event in happened:
        problem = None
        try:
            output.write(f"{event_line(event, output.terminal_width())}\n")
        except OSError as error:
            problem = f"cannot write to standard output: {error.strerror}"
        remark("stdout", problem)
    return seen


def _remarks() -> Remark:
    """A function that reports a problem when it changes, and not every few seconds."""
    known: dict[str, str | None] = {}

    def remark(about: str, problem: str | None) -> None:
        if problem is not None and problem != known.get(about):
            output.note(problem)
        known[about] = problem

    return remark


def _waiter() -> Callable[[float], bool]:
    """A function that waits, and returns True when a signal ends the watch. A pass that is under
    way is finished first. Signals that were ignored at the start (nohup) stay ignored."""
    ends, wakes = os.pipe()
    os.set_blocking(wakes, False)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda got, _: asked.append(got))
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def ended(seconds: float) -> bool:
        if not asked:
            select.select([ends], [], [], seconds)
        return bool(asked)

    return ended
