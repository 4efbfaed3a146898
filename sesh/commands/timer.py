"""sesh timer: schedule gc with systemd or cron."""

from __future__ import annotations

import json
import time

from sesh.commands._declare import argument, declare, flag, option
from sesh.commands._options import json_option
from sesh.model import errors
from sesh.model.errors import UsageError
from sesh.model.text import formatting, units
from sesh.state import settings
from sesh.supervision.timer import timers
from sesh.supervision.timer.schedules import Scheduler, Timer
from sesh.terminal import output

ACTIONS = ("install", "remove", "status")
_DEFAULT = 300.0


@declare("timer", examples={"sesh timer install --every 1m": "supervise every minute"})
def command(
    action: str = argument(
        type=tuple(ACTIONS), metavar="[ACTION]", required=False, default="status"
    ),
    every: float | None = option("--every", type="duration", help="Time between runs (5m)."),
    scheduler: str | None = option(
        "--scheduler",
        type=tuple(one.value for one in Scheduler),
        help="Scheduler to use (systemd if available, else cron).",
    ),
    watch: bool = flag("--watch", help="Run sesh watch as a service instead (systemd only)."),
    as_json: bool = json_option("the status"),
) -> int:
    """Schedule gc with systemd or cron: install, remove or status (default)."""
    if action != "install" and (every is not None or scheduler is not None or watch):
        raise UsageError("--every, --scheduler and --watch are only for sesh timer install")
    if watch and (every is not None or scheduler == Scheduler.CRON):
        raise UsageError("--watch cannot be combined with --every or --scheduler cron")
    if action != "status" and as_json:
        raise UsageError("--json is only for sesh timer status")
    if action != "install":
        settings.forgive(output.note)
    settings.load()  # gc refuses what cannot be read: a timer would clean nothing up
    if watch:
        return _install_watch()
    if action == "install":
        return _install(_DEFAULT if every is None else every, scheduler)
    return _remove() if action == "remove" else _status(as_json=as_json)


def _install(every: float, scheduler: str | None) -> int:
    wanted = Scheduler(scheduler) if scheduler else None
    chosen, remarks = timers.install(every, wanted, timers.job())
    output.succeeded(f"gc runs every {units.time(every)}, by {chosen}")
    for remark in (*remarks, *_remarks(timers.state())):
        output.note(remark)
    return errors.OK


def _install_watch() -> int:
    timers.install_watch(timers.job(timers.WATCHING))
    output.succeeded("sesh watch runs, by systemd")
    for remark in _remarks(timers.state()):
        output.note(remark)
    return errors.OK


def _remove() -> int:
    found, remarks = timers.remove()
    for remark in remarks:
        output.note(remark)
    if found:
        output.succeeded("removed the timer")
    else:
        output.say("no timer was installed")
    return errors.OK


def _status(*, as_json: bool) -> int:
    state = timers.state()
    if as_json:
        output.write(json.dumps(_object(state)) + "\n")
    else:
        output.write(_text(state, time.time()))
    if state.supervises:
        return errors.OK
    return errors.FAILED if state.certain else errors.CANNOT_TELL


def _object(state: Timer) -> dict[str, object]:
    return {
        "installed": state.installed if state.installed or state.certain else None,
        "scheduler": state.scheduler,
        "every": state.every,
        "schedule": state.schedule,
        "last_run": None if state.last_run is None else formatting.stamp(state.last_run),
        "next_run": None if state.next_run is None else formatting.stamp(state.next_run),
        "lingering": state.lingering,
        "problem": state.problem,
        "watch": state.watch,
    }


def _text(state: Timer, now: float) -> str:
    lines = [_head(state)]
    if state.installed:
        late = "   late: does the scheduler run?" if state.late(now) else ""
        last = "never yet" if state.last_run is None else formatting.ago(state.last_run, now)
        lines.append(f"  last run   {last}{late}")
    if state.next_run is not None:
        lines.append(f"  next run   in {formatting.short_time(state.next_run - now)}")
    if state.installed and state.watch:
        lines.append("  watch      beside it, by systemd")
    lines += [f"  problem    {remark}" for remark in _remarks(state)]
    return "".join(f"{formatting.escape(line)}\n" for line in lines)


def _head(state: Timer) -> str:
    if state.watch and not state.installed:
        return "sesh watch supervises sessions, by systemd; gc is not scheduled"
    if not state.installed:
        known = "gc is not scheduled" if state.certain else "cannot tell whether gc is scheduled"
        return f"{known}; next: sesh timer install"
    if state.every is None:
        return f"gc runs by {state.scheduler}, as edited by hand: {state.schedule}"
    return f"gc runs every {units.time(state.every)}, by {state.scheduler}"


def _remarks(state: Timer) -> list[str]:
    remarks = [state.problem] if state.problem else []
    if state.lingering is False:
        remarks.append(
            "lingering is off, so it runs only while you are logged in; loginctl enable-linger"
        )
    return remarks
