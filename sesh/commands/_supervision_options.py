"""The options of `start` that say how a session is looked after while nobody watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sesh.commands._declare import option
from sesh.commands._types import Duration, Size
from sesh.model.configuration import MOST, MOST_RETRIES
from sesh.model.record import BreakerLimits, Care

if TYPE_CHECKING:
    from sesh.commands._declare import F

_OPTIONS: tuple[tuple[str, Any, str], ...] = (
    ("--timeout", Duration(), "End it TIME after its start, retries included."),
    ("--idle-timeout", Duration(), "End the session when it printed nothing for TIME."),
    ("--launch-timeout", Duration(), "How long to wait for the command to start (10s)."),
    ("--retries", click.IntRange(0, MOST_RETRIES), "Retry a failed session up to N times (0)."),
    ("--retry-delay", Duration(), "Wait before the first retry (10s); doubled each time."),
    ("--retry-max-delay", Duration(), "The longest wait between two retries (5m)."),
    ("--retry-reset", Duration(), "Reset the count of retries after TIME without failure (10m)."),
    ("--retry-on", None, "Which ends are retried: failure, lost, timeout, always (failure)."),
    ("--max-memory", Size(), "End it when it and its children use more memory."),
    ("--max-cpu-time", Duration(), "End it when it has used more processor time."),
    ("--check-interval", Duration(), "How often to measure memory and processor time (30s)."),
    ("--health-cmd", None, "A shell command that fails when the session is unhealthy."),
    ("--health-interval", Duration(), "How often to run it (30s)."),
    ("--health-timeout", Duration(), "How long it may take (30s)."),
    ("--health-retries", click.IntRange(1, MOST_RETRIES), "How many failures in a row count (3)."),
    ("--health-start-period", Duration(), "Failures this early do not count."),
    (
        "--max-silence",
        Duration(),
        "Report it as hung when it printed and reported nothing for TIME.",
    ),
    (
        *("--breaker-failures", click.IntRange(0, MOST)),
        "Stop retrying after N failures in the group or template (10; 0 = off).",
    ),
    ("--breaker-within", Duration(), "The time in which these failures count (10m)."),
    ("--breaker-cooldown", Duration(), "How long to stop retrying (30m)."),
)
_METAVARS = {"--retry-on": "ENDS", "--health-cmd": "COMMAND", "--retries": "N"}


def care_options(function: F) -> F:
    """All of them, in this order; what is not given is None."""
    for name, kind, told in reversed(_OPTIONS):
        metavar = _METAVARS.get(name, "N" if isinstance(kind, click.IntRange) else None)
        function = option(name, type=kind, metavar=metavar, help=told)(function)
    for name, told in (
        ("--no-scope", "Do not use a systemd scope (overrides settings and template)."),
        ("--scope", "Run it in its own systemd scope."),
    ):
        function = option(name, is_flag=True, default=None, help=told)(function)
    return function


def taken(options: dict[str, Any]) -> dict[str, Any]:
    """The care that was asked for, taken out of a command's options."""
    if options.pop("no_scope", None):
        options["scope"] = False
    breaker = {f"breaker_{name}" for name in BreakerLimits.fields}
    names = {*Care.fields, "launch_timeout", *breaker} & options.keys()
    given = {name: options.pop(name) for name in names}
    words = given.get("retry_on")
    if words is not None:
        given["retry_on"] = tuple(word.strip() for word in words.split(",") if word.strip())
    return {name: value for name, value in given.items() if value is not None}
