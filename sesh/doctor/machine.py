"""Checks of the machine: which sesh a shell finds, whether gc is called, whether systemd lets
sessions outlive a login, whether notifications are delivered."""

from __future__ import annotations

import os
import time

from sesh.doctor.context import Check, Context, Finding, Level, number
from sesh.model.text import formatting
from sesh.model.text.shell_words import quote
from sesh.supervision.notify import notices
from sesh.supervision.timer import systemd, timers
from sesh.system import files, paths

HOUR, DAY = 3600.0, 86400.0
_INSTALL = "sesh timer install"
_TIMEOUT = 1.0  # of loginctl


def other_sesh(context: Context) -> list[Finding]:
    """There is another program of this name: a session manager for tmux, written in Go."""
    own = paths.own_command()
    first = paths.which("sesh")
    if len(own) != 1 or first is None or os.path.samefile(first, own[0]):
        return []
    text = f"{first} comes before {own[0]} on PATH, so sesh runs the wrong program"
    remedy = f"export PATH={quote(os.path.dirname(own[0]))}:$PATH"
    return [Finding(Level.WARN, text, remedy, subjects=(first,))]


def timer(context: Context) -> list[Finding]:
    """Was gc called lately, or does a watch supervise sessions? Not needed where nothing was ever
    started. The schedulers, which may be slow, are asked only if gc was not called within the hour.
    """
    if not os.path.exists(paths.sessions_dir()):
        return []
    ran_at = files.changed(paths.gc_stamp(context.run))
    age = None if ran_at is None else time.time() - ran_at
    ran = "" if age is None else f"; it last ran {formatting.long_time(age)} ago"
    well = Finding(Level.OK, f"gc runs regularly{ran}")
    if age is not None and age < HOUR:
        return [well]
    found = timers.state()
    problem = f": {found.problem}" if found.problem else ""
    if age is not None and age < DAY and not (problem or found.late(time.time())):
        return [well]  # by a scheduler of the user's own, or rarely
    if found.watch and not (found.installed or problem):
        return [Finding(Level.OK, f"a watch supervises sessions{ran}")]
    if not found.installed:
        remedy = f"{_INSTALL} --watch" if found.watch else _INSTALL
        return [Finding(Level.WARN, f"gc is not scheduled{problem}{ran}", remedy)]
    text = f"gc does not run, although {found.scheduler} should run it{problem}{ran}"
    return [Finding(Level.WARN, text, _INSTALL if found.problem else "sesh gc")]


def linger(context: Context) -> list[Finding]:
    """Does systemd end a user's processes with the last login?"""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    here = runtime and os.path.exists(f"{runtime}/systemd") and paths.which("loginctl")
    if not here or systemd.lingering(_TIMEOUT) is not False:
        return []
    text = "sessions end when you log out: lingering is off (systemd)"
    return [Finding(Level.WARN, text, f"loginctl enable-linger {os.getuid()}")]


def undelivered(context: Context) -> list[Finding]:
    """Were all notifications delivered?"""
    lost = notices.failures(DAY)
    if not lost:
        return []
    whom, why = (lost[-1].get(about) for about in ("target", "reason"))
    text = (
        f"{number(lost, 'notification')} could not be delivered in the last day; "
        f"the last to {whom or 'an unknown target'}: {why or 'reason unknown'}"
    )
    subjects = tuple(dict.fromkeys(str(one["target"]) for one in lost if one.get("target")))
    return [Finding(Level.WARN, text, "sesh config test-notify", subjects=subjects)]


CHECKS = (
    Check("other-sesh", "the sesh on PATH is this one", other_sesh),
    Check("timer", "gc runs regularly", timer),
    Check("linger", "sessions survive a logout (systemd)", linger),
    Check("notices", "all notifications were delivered", undelivered),
)
