"""Schedule gc by a timer of systemd's user manager, or by a block in the user's crontab.

A user may have several state directories. The key of each is in the names of its units and in the
marks of its block; those of other state directories are left alone. Older versions wrote no key:
their timers are ours if they run gc for our state directory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from sesh.model.errors import CannotTellError, SeshError, UsageError
from sesh.model.text.units import time as written
from sesh.model.value_object import replace
from sesh.supervision.timer import cron, schedules, systemd
from sesh.supervision.timer.schedules import Job, Scheduler, Timer
from sesh.system import paths

COMMAND = ("gc", "--auto")
WATCHING = ("watch", "--quiet")
_USUAL_PATH = ("/usr/local/bin", "/usr/bin", "/bin")


# --- the job -------------------------------------------------------------------------------------


def job(command: Sequence[str] = COMMAND) -> Job:
    """The command of the timer. Schedulers start it with an almost empty environment, so it gets
    the variables by which it finds its files, tmux and docker."""
    env = {"PATH": _search_path()}
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        value = os.environ.get(name, "")
        if os.path.isabs(value) and (name != "HOME" or value != paths.account_home()):
            env[name] = value
    return Job((*paths.own_command(), *command), env)


def _search_path() -> str:
    """The directories of the caller's PATH that have tmux, docker or standard programs, in the same
    order."""
    found = [paths.which(program) for program in ("tmux", "docker")]
    wanted = {*_USUAL_PATH, *(os.path.dirname(file) for file in found if file)}
    own = [one.rstrip("/") for one in os.environ.get("PATH", "").split(":") if os.path.isabs(one)]
    return ":".join(dict.fromkeys((*(one for one in own if one in wanted), *_USUAL_PATH)))


# --- installing and removing ---------------------------------------------------------------------


def install(every: float, wanted: Scheduler | None, what: Job) -> tuple[Scheduler, list[str]]:
    """Install the timer at one scheduler, remove it from the other. Returns which, and remarks."""
    if every < schedules.SHORTEST:
        given, shortest = written(every), written(schedules.SHORTEST)
        raise UsageError(f"--every {given}: should be {shortest} at least")
    chosen = _choose(wanted)
    if chosen is Scheduler.CRON:
        cron.install(schedules.cron_block(what, every, paths.key()))
        return chosen, systemd.remove_all("gc")
    units = systemd.named("gc")
    texts = {units.service: schedules.service_text(what), units.main: schedules.timer_text(every)}
    systemd.install(texts, units)
    systemd.remove(systemd.older("gc"))
    try:
        cron.remove()
    except SeshError as error:
        return chosen, [f"if the crontab has a block of sesh, it stays there: {error}"]
    return chosen, []


def install_watch(what: Job) -> None:
    """Have systemd's user manager keep a watch running."""
    problem = systemd.problem()
    if problem is not None:
        raise CannotTellError(
            f"only systemd's user manager can keep a watch running, and it does not answer "
            f"({problem}); next: sesh timer install (without --watch, it can use cron)"
        )
    units = systemd.named("watch")
    systemd.install({units.service: schedules.watch_text(what)}, units)
    systemd.remove(systemd.older("watch"))


def remove() -> tuple[bool, list[str]]:
    """Remove all timers. Returns whether there was one, and remarks."""
    had_units = bool(systemd.installed("gc").found or systemd.installed("watch").found)
    remarks = [*systemd.remove_all("gc"), *systemd.remove_all("watch")]
    return cron.remove() or had_units, remarks


def _choose(wanted: Scheduler | None) -> Scheduler:
    """The scheduler that was asked for, or the one that the machine has."""
    if wanted is not Scheduler.CRON:
        problem = systemd.problem()
        if problem is None:
            return Scheduler.SYSTEMD
        if wanted is Scheduler.SYSTEMD:
            raise CannotTellError(
                f"systemd's user manager does not answer ({problem}); try --scheduler cron"
            )
    if paths.which("crontab"):
        return Scheduler.CRON
    if wanted is Scheduler.CRON:
        raise CannotTellError(
            "there is no crontab command; install cron, or try without --scheduler"
        )
    raise CannotTellError(
        "neither systemd's user manager nor a crontab command is here: install cron, "
        f"or have `sesh {' '.join(COMMAND)}` called every few minutes by what you have"
    )


# --- status --------------------------------------------------------------------------------------


def state() -> Timer:
    """Which timer is installed, how often it runs, and when it ran."""
    return _with_watch(_gc_state())


def _gc_state() -> Timer:
    found = [systemd.state(), cron.state()]
    installed = [one for one in found if one.installed]
    if len(installed) == 2:
        return _with_problem(installed[0], "also in the crontab; next: sesh timer install")
    uncertain = [one for one in found if not one.certain]
    wrong = [one for one in found if one.problem]
    return (installed or uncertain or wrong or found)[0]


def _with_watch(timer: Timer) -> Timer:
    units = systemd.installed("watch")
    if not units.found:
        return timer
    if units.found != units.files:
        missing = "the watch is not enabled, or its unit is missing"
        return _with_problem(timer, f"{missing}; next: sesh timer install --watch")
    lingers = systemd.lingering() if timer.lingering is None else timer.lingering
    problem, _ = systemd.activity_problem(units.main, "the watch; next: sesh timer install --watch")
    return _with_problem(replace(timer, watch=True, lingering=lingers), problem)


def _with_problem(timer: Timer, problem: str | None) -> Timer:
    problems = dict.fromkeys(one for one in (timer.problem, problem) if one)
    return replace(timer, problem="; ".join(problems) or None)
