"""The options of `start` for limits, retries and health checks."""

from __future__ import annotations

from typing import Any

from sesh.commands._declare import Parameter
from sesh.commands._types import Whole
from sesh.model.configuration import MOST, MOST_RETRIES
from sesh.model.errors import UsageError
from sesh.model.record import BreakerLimits, Supervision
from sesh.state import settings

_TIME = {"type": "duration"}
_SIZE = {"type": "size"}
_FLAG = {"is_flag": True, "default": None}
_RETRIES = {"type": Whole(0, MOST_RETRIES), "metavar": "N"}
_FAILURES = {"type": Whole(1, MOST_RETRIES), "metavar": "N"}
_OFTEN = {"type": Whole(0, MOST), "metavar": "N"}

_SECTIONS: dict[str, tuple[tuple[str, dict[str, Any], str], ...]] = {
    "Limits": (
        ("--timeout", _TIME, "End the session TIME after its start, retries included (0: never)."),
        ("--idle-timeout", _TIME, "End the session after TIME without output (0: never)."),
        ("--launch-timeout", _TIME, "Time to wait for the command to start (10s)."),
        (
            *("--max-memory", _SIZE),
            "End the session if it uses more memory; also the limit of a new container.",
        ),
        ("--max-cpu-time", _TIME, "End the session if it uses more CPU time."),
        ("--check-interval", _TIME, "Time between measurements of memory and CPU time (30s)."),
        ("--scope", _FLAG, "Run in a systemd scope of its own."),
        ("--no-scope", _FLAG, "Do not use a systemd scope (overrides settings and template)."),
    ),
    "Retries": (
        ("--retries", _RETRIES, "Retry a failed session up to N times (0)."),
        ("--retry-delay", _TIME, "Delay before the first retry, doubled each time (10s)."),
        ("--retry-max-delay", _TIME, "Longest delay between retries (5m)."),
        ("--retry-reset", _TIME, "Reset the retry count after TIME without failure (10m)."),
        (
            *("--retry-on", {"metavar": "ENDS"}),
            "Ends to retry: failure, lost, timeout, always (failure).",
        ),
    ),
    "Health": (
        (
            *("--health-cmd", {"metavar": "COMMAND"}),
            "Shell command that fails if the session is unhealthy.",
        ),
        ("--health-interval", _TIME, "Time between health checks (30s)."),
        ("--health-timeout", _TIME, "Time limit of a health check (30s)."),
        ("--health-retries", _FAILURES, "Failed checks in a row that make it unhealthy (3)."),
        ("--health-start-period", _TIME, "Ignore failures in the first TIME."),
        (
            *("--max-silence", _TIME),
            "Report the session as hung after TIME without output or sesh update; retry it if it "
            "has retries left.",
        ),
        (
            *("--notify", {"metavar": "KINDS"}),
            "Notify about these events and ends instead of those in the settings, for example "
            "failed,hung; or off.",
        ),
    ),
    "Breaker": (
        (
            *("--breaker-failures", _OFTEN),
            "Stop retrying after N failures in the group or template (10; 0 = off).",
        ),
        ("--breaker-within", _TIME, "Time window of these failures (10m)."),
        ("--breaker-cooldown", _TIME, "Time without retries after that (30m)."),
    ),
}


OPTIONS = [
    Parameter(name.strip("-").replace("-", "_"), name, section=section, help=text, **more)
    for section, options in _SECTIONS.items()
    for name, more, text in options
]


def taken(options: dict[str, Any]) -> dict[str, Any]:
    """The values of these options, taken out of all options of a command."""
    if options.pop("no_scope", None):
        options["scope"] = False
    breaker = {f"breaker_{name}" for name in BreakerLimits.fields}
    names = {*Supervision.fields, "launch_timeout", *breaker} & options.keys()
    given = {name: options.pop(name) for name in names}
    words = given.get("retry_on")
    if words is not None:
        given["retry_on"] = tuple(word.strip() for word in words.split(",") if word.strip())
    if given.get("notify") is not None:
        given["notify"] = notified(given["notify"], "--notify")
    return {name: value for name, value in given.items() if value is not None}


def notified(text: str, what: str) -> tuple[str, ...]:
    """The kinds that `--notify` lists; none: off."""
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if words == ("off",):
        return ()
    if not words:
        raise UsageError(f"{what} needs kinds of events, or off")
    for word in words:
        if problem := settings.not_notifiable(word):
            raise UsageError(f"{what} {problem}")
    return words
