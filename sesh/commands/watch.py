"""sesh watch: the pass in the foreground, again and again."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime

import click

from sesh import config, errors, events, output, run, supervise, tables
from sesh.commands._options import CONTEXT, Duration
from sesh.errors import SeshError, UsageError

_SHORTEST = 0.1


@click.command("watch", context_settings=CONTEXT)
@click.option("--interval", type=Duration(), default="10s", help="How often to look (10s).")
@click.option("-q", "--quiet", is_flag=True, help="Do not print what happens.")
def command(interval: float, quiet: bool) -> int:
    """Look after all sessions in the foreground, until it is ended (Ctrl-C, TERM).

    The same pass that the timers make, sooner when something is due. Prints what happens.
    """
    if interval < _SHORTEST:
        raise UsageError("--interval: should be 100ms at least")
    called_off = _patience()
    seen = datetime.now(UTC)
    while True:
        due = _pass()
        run.reap()
        if not quiet:
            seen = _tell(seen)
        left = interval if due is None else min(interval, max(_SHORTEST, due - time.time()))
        if output.reader_gone() or called_off(left):
            return errors.OK


def _pass() -> float | None:
    """One pass; a problem is told and does not end the watch. Returns when something is due."""
    try:
        return supervise.run_pass(config.load()).next_due
    except SeshError as error:
        output.note(str(error))
        return None


def _tell(since: datetime) -> datetime:
    """Print what has happened since."""
    now = datetime.now(UTC)
    for event in events.read(since):
        if since < datetime.fromisoformat(str(event["time"])) <= now:
            output.write(f"{tables.event_line(event)}\n")
    return now


def _patience() -> Callable[[float], bool]:
    """A way to wait that ends when somebody wants the watch to end, and says so. A pass that is
    under way is finished first."""
    ends, wakes = os.pipe()
    os.set_blocking(wakes, False)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _: asked.append(got))
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def called_off(seconds: float) -> bool:
        if not asked:
            select.select([ends], [], [], seconds)
        return bool(asked)

    return called_off
