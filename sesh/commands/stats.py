"""sesh stats: statistics of all sessions, for people, scripts and Prometheus."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Sequence
from datetime import datetime

from sesh.commands._declare import declare, flag, option
from sesh.commands._options import json_option
from sesh.model import errors
from sesh.model.errors import UsageError
from sesh.model.text import formatting
from sesh.model.text.formatting import NO_BREAK
from sesh.stats import collect, measures, prometheus
from sesh.stats.measures import Bucket, Figures, Part, Report
from sesh.terminal import output

_BAR = 24  # cells
_EIGHTHS = " ▏▎▍▌▋▊▉"
_INDENT = " " * 13  # in front of lines below a row's text
_NARROW = 32  # columns of a terminal in which texts are below their labels
# Words behind a number that are painted like a state, beside the states themselves.
_LIKE = {"healthy": "running", "need": "stale", "needs": "stale"}


@declare("stats")
def command(
    as_json: bool = json_option("the statistics"),
    as_metrics: bool = flag("--prometheus", help="Print Prometheus metrics."),
    since: datetime | None = option(
        "--since",
        type="moment",
        help="Count only what started, ended or happened since TIME (7d, or a date).",
    ),
    path: str | None = option(
        "--output",
        metavar="FILE",
        help="Write to FILE atomically.",
    ),
) -> int:
    """Show session statistics: states, memory, durations, failures, recoveries.

    Counts sessions in the list and history, and retained events.
    """
    if as_json and as_metrics:
        raise UsageError("give --json or --prometheus, but not both")
    if path is not None and not (as_json or as_metrics):
        raise UsageError("--output needs --json or --prometheus")
    found, troubles = collect.count(since)
    if as_json:
        _put(_json(found, since), path)
    elif as_metrics:
        _put(prometheus.text(found), path)
    elif found.empty:
        output.note(
            "nothing started or ended since then; next: sesh stats"
            if since
            else "nothing to count yet; next: sesh start NAME COMMAND"
        )
    else:
        _print(found, since)
    for trouble in troubles[:1]:
        output.note(f"cannot save observed state: {trouble}")
    return errors.OK


def _put(text: str, path: str | None) -> None:
    if path is None:
        output.write(text)
    else:
        collect.publish(path, text)


def _json(found: Report, since: datetime | None) -> str:
    times = {
        "checked_at": formatting.stamp(time.time()),
        "since": formatting.stamp(since.timestamp()) if since else None,
    }
    return json.dumps({**times, **measures.as_json(found)}) + "\n"


# --- for people ----------------------------------------------------------------------------------


def _print(found: Report, since: datetime | None) -> None:
    width, colour = output.terminal_width(), output.use_colour("auto")
    lines = [_painted(line, colour=colour) for line in _summary(found, since, width)]
    for title, parts in (("GROUP", found.groups), ("TEMPLATE", found.templates)):
        if any(part.name is not None for part in parts):
            lines += ["", *_table(title, parts, width)]
    output.write("\n".join(lines) + "\n")


def _painted(line: str, *, colour: bool) -> str:
    """The numbers of a state in the colour of that state."""

    def paint(found: re.Match[str]) -> str:
        return output.paint(found[0], _LIKE.get(found[1], found[1]), colour=colour)

    return re.sub(r"\b[1-9]\d* ([a-z]+)(?: attention)?", paint, line)


def _summary(found: Report, since: datetime | None, width: int | None) -> list[str]:
    whole = found.whole
    rows = [("states", _states(whole))]
    if whole.healthy or whole.attention:
        need = "needs" if whole.attention == 1 else "need"
        rows.append(("health", f"{whole.healthy} healthy · {whole.attention} {need} attention"))
    if whole.memory_peak_bytes is not None:
        rows.append(("memory", _memory(whole)))
    if whole.tokens_in is not None:
        rows.append(("tokens", _tokens(whole)))
    if whole.ends:
        rows.append(("ends", _ends(whole)))
    if whole.duration_median_seconds is not None:
        rows.append(("durations", _durations(whole)))
    more = []
    if whole.recoveries:
        more.append(("recovery", _recovery(whole)))
    if whole.restarts:
        more.append(("restarts", _restarts(whole)))
    lines = formatting.hanging("", _head(whole, since), width).splitlines()
    lines += _rows(rows, width)
    if whole.duration_median_seconds is not None:
        lines += _histogram(whole.durations, width)
    return lines + _rows(more, width)


def _rows(rows: Iterable[tuple[str, str]], width: int | None) -> list[str]:
    """Each text behind its label; wrapped between its parts, and within a part only if it is longer
    than a line."""
    lines = []
    for label, text in rows:
        whole = " · ".join(part.replace(" ", NO_BREAK) for part in text.split(" · "))
        whole = whole.replace(f",{NO_BREAK}", ", ").replace(f":{NO_BREAK}", ": ")
        if width is not None and width < _NARROW:
            lines.append(f"  {label}")
            lines += formatting.hanging("    ", whole, width).splitlines()
        else:
            lines += formatting.hanging(f"  {label:<10} ", whole, width).splitlines()
    return [line.replace(NO_BREAK, " ") for line in lines]


def _head(whole: Figures, since: datetime | None) -> str:
    where = f"{whole.listed} in the list, {whole.archived} in the history"
    begin = f", since {formatting.clock(since.timestamp())}" if since else ""
    return f"{formatting.number(whole.total, 'session')}{begin}: {where}"


def _states(whole: Figures) -> str:
    known = [f"{count} {state}" for state, count in whole.states.items() if count]
    return " · ".join(known) or formatting.NOTHING


def _memory(whole: Figures) -> str:
    sizes = (whole.memory_average_bytes, whole.memory_peak_bytes, whole.memory_bytes)
    average, peak, total = map(formatting.size, sizes)
    return f"{average} on average · {peak} at most · {total} in all"


def _tokens(whole: Figures) -> str:
    counts = (whole.tokens_in, whole.tokens_out, whole.tokens_cached)
    given, written, cached = map(formatting.tokens, counts)
    text = f"{given} in · {written} out · {cached} from the cache"
    return text if whole.cost_usd is None else f"{text} · cost {_cost(whole)}"


def _cost(its: Figures) -> str:
    return formatting.dollars(its.cost_usd, lower_bound=its.cost_is_lower_bound)


def _ends(whole: Figures) -> str:
    text = f"{whole.ends} · {whole.failures} failed ({_percent(whole.failure_rate)})"
    causes = [
        f"{count} {cause} ({_percent(whole.cause_rates[cause])})"
        for cause, count in whole.causes.items()
        if count
    ]
    return f"{text}: {', '.join(causes)}" if causes else text


def _durations(whole: Figures) -> str:
    return (
        f"median {_time(whole.duration_median_seconds)}"
        f" · p95 {_time(whole.duration_p95_seconds)}"
        f" · max {_time(whole.duration_longest_seconds)}"
    )


def _recovery(whole: Figures) -> str:
    text = f"{whole.recovered} of {formatting.number(whole.recoveries, 'attempt')} succeeded"
    text += f" ({_percent(whole.recovery_rate)})"
    if whole.recovery_median_seconds is None:
        return text
    after = f"after median {_time(whole.recovery_median_seconds)}"
    return f"{text} · {after}, p95 {_time(whole.recovery_p95_seconds)}"


def _restarts(whole: Figures) -> str:
    if whole.resumed is None:
        return str(whole.restarts)
    share = _percent(whole.resume_rate)
    return f"{whole.restarts} · {whole.resumed} resumed a conversation ({share} of those with one)"


def _histogram(buckets: Sequence[Bucket], width: int | None) -> list[str]:
    """The durations from the shortest to the longest that occur; on a terminal with bars."""
    used = [at for at, bucket in enumerate(buckets) if bucket.count]
    shown = buckets[used[0] : used[-1] + 1]
    most = max(bucket.count for bucket in shown)
    digits = len(str(most))
    indent = _INDENT if width is None or width >= _NARROW else " " * 4
    lines = []
    for bucket in shown:
        bound = bucket.below_seconds
        label = "longer" if bound is None else f"under {formatting.short_time(bound)}"
        line = f"{indent}{label:<9}  {bucket.count:>{digits}}  "
        bar = "" if width is None else _bar(bucket.count / most, min(_BAR, width - len(line)))
        lines.append(f"{line}{bar}".rstrip())
    return lines


def _bar(share: float, cells: int) -> str:
    """Up to so many cells, to an eighth of a cell; at least an eighth if there is any."""
    eighths = round(share * max(0, cells) * 8) or (1 if share and cells > 0 else 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _table(title: str, parts: Sequence[Part], width: int | None) -> list[str]:
    """A line for each group or template: the name on the left, numbers on the right; columns are
    dropped from the right until it fits."""
    heads = (title, "SESSIONS", "ALIVE", "ENDS", "FAILED", "MEDIAN", "RECOVERED", "MEMORY")
    rows: list[tuple[str, ...]] = [heads, *(_cells(part) for part in parts)]
    if any(part.figures.tokens_in is not None for part in parts):
        used = [("TOKENS", "COST"), *(_used(part.figures) for part in parts)]
        rows = [(*row, *more) for row, more in zip(rows, used, strict=True)]
    return formatting.table(rows, width, drop=range(len(rows[0]) - 1, 1, -1), numbers=True)


def _cells(part: Part) -> tuple[str, ...]:
    its = part.figures
    return (
        formatting.NOTHING if part.name is None else formatting.escape(part.name),
        str(its.total),
        str(its.alive),
        str(its.ends),
        _percent(its.failure_rate),
        _time(its.duration_median_seconds),
        f"{its.recovered} of {its.recoveries}" if its.recoveries else formatting.NOTHING,
        formatting.size(its.memory_bytes),
    )


def _used(its: Figures) -> tuple[str, str]:
    counts = (its.tokens_in, its.tokens_out, its.tokens_cached)
    known = [count for count in counts if count is not None]
    return formatting.tokens(sum(known)) if known else formatting.NOTHING, _cost(its)


def _percent(share: float | None) -> str:
    return formatting.NOTHING if share is None else f"{share:.0%}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return formatting.NOTHING
    return "<1s" if seconds < 1 else formatting.short_time(seconds)
