"""The figures in Prometheus's text format, version 0.0.4. PURE.

All metrics are gauges, not counters: `gc` removes old records and events, so a number can also
fall. Unknown numbers are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sesh.stats.measures import Part, Report

Number = int | float | None
Sample = tuple[Mapping[str, str], Number]

# metric → help text, field of Figures
_PLAIN = {
    "sesh_sessions_listed": ("Sessions in the list.", "listed"),
    "sesh_sessions_archived": ("Sessions in the history.", "archived"),
    "sesh_sessions_alive": ("Sessions that are alive.", "alive"),
    "sesh_sessions_healthy": ("Sessions that are alive and need no attention.", "healthy"),
    "sesh_sessions_attention": ("Sessions that need attention.", "attention"),
    "sesh_memory_bytes": ("Resident memory of all living sessions.", "memory_bytes"),
    "sesh_session_memory_bytes_average": (
        "Resident memory of a living session, on average.",
        "memory_average_bytes",
    ),
    "sesh_session_memory_bytes_max": (
        "The largest resident memory that was measured of a listed session.",
        "memory_peak_bytes",
    ),
    "sesh_tokens_in": ("Tokens that agents have read, not from the cache.", "tokens_in"),
    "sesh_tokens_out": ("Tokens that agents have written.", "tokens_out"),
    "sesh_tokens_cached": ("Tokens that agents have read from the cache.", "tokens_cached"),
    "sesh_cost_usd": ("Cost of agents in USD, as far as it is known.", "cost_usd"),
    "sesh_launches": ("Launches on record.", "launches"),
    "sesh_ends": ("Ends of launches on record.", "ends"),
    "sesh_failure_ratio": ("Share of failures among the ends on record.", "failure_rate"),
    "sesh_session_duration_seconds_median": (
        "Median duration of ended launches.",
        "duration_median_seconds",
    ),
    "sesh_session_duration_seconds_p95": (
        "95th percentile of the duration of ended launches.",
        "duration_p95_seconds",
    ),
    "sesh_session_duration_seconds_max": (
        "Longest duration of an ended launch.",
        "duration_longest_seconds",
    ),
    "sesh_recoveries": ("Automatic restarts on record.", "recoveries"),
    "sesh_recoveries_successful": (
        "Automatic restarts that did not fail within a minute.",
        "recovered",
    ),
    "sesh_recovery_ratio": ("Share of automatic restarts that were successful.", "recovery_rate"),
    "sesh_recovery_seconds_median": (
        "Median time from an end to its recovery.",
        "recovery_median_seconds",
    ),
    "sesh_recovery_seconds_p95": (
        "95th percentile of the time from an end to its recovery.",
        "recovery_p95_seconds",
    ),
    "sesh_restarts": ("Restarts on record, automatic or not.", "restarts"),
    "sesh_restarts_resumed": ("Restarts that resumed a conversation.", "resumed"),
    "sesh_resume_ratio": (
        "Share of restarts that resumed a conversation, if known.",
        "resume_rate",
    ),
}
# the same for each group and each template, with the name as a label
_OF_PARTS = {
    "sessions": ("Sessions in the list and in the history", "total"),
    "sessions_alive": ("Sessions that are alive", "alive"),
    "sessions_attention": ("Sessions that need attention", "attention"),
    "memory_bytes": ("Resident memory of living sessions", "memory_bytes"),
    "tokens_in": ("Tokens that agents have read, not from the cache", "tokens_in"),
    "tokens_out": ("Tokens that agents have written", "tokens_out"),
    "tokens_cached": ("Tokens that agents have read from the cache", "tokens_cached"),
    "cost_usd": ("Cost of agents in USD, as far as it is known", "cost_usd"),
    "ends": ("Ends of launches on record", "ends"),
    "failures": ("Failures among the ends on record", "failures"),
}


def text(found: Report) -> str:
    """The text for a scrape, or for the textfile collector of the node exporter."""
    whole = found.whole
    states = [({"state": state}, count) for state, count in whole.states.items()]
    causes = [({"cause": cause}, count) for cause, count in whole.causes.items()]
    families = [
        _family("sesh_sessions", "Sessions in the list and in the history, by state.", states),
        *(
            _family(metric, about, [({}, getattr(whole, field))])
            for metric, (about, field) in _PLAIN.items()
        ),
        _family("sesh_failures", "Failures among the ends on record, by cause.", causes),
        *_of_parts("group", found.groups),
        *_of_parts("template", found.templates),
    ]
    return "".join(families)


def _of_parts(kind: str, parts: Sequence[Part]) -> Iterable[str]:
    if all(part.name is None for part in parts):
        return
    for stem, (about, field) in _OF_PARTS.items():
        samples = [({kind: part.name or ""}, getattr(part.figures, field)) for part in parts]
        yield _family(f"sesh_{kind}_{stem}", f"{about}, by {kind}.", samples)


def _family(metric: str, about: str, samples: Iterable[Sample]) -> str:
    """The lines of one metric; empty when no number is known."""
    lines = [
        f"{metric}{_labels(labels)} {number}\n" for labels, number in samples if number is not None
    ]
    if not lines:
        return ""
    return f"# HELP {metric} {about}\n# TYPE {metric} gauge\n{''.join(lines)}"


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    """The value of a label; bytes that are not valid Unicode become question marks."""
    whole = value.encode("utf-8", "replace").decode()
    return whole.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
