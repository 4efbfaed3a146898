"""The tables, on the screen and in a file, with the limits that the design sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.batches import Batch
from tests.bench.care import LIMIT as CARE_LIMIT
from tests.bench.care import PROCESSES as CARE_PROCESSES
from tests.bench.care import Cost
from tests.bench.memory import Memory

Times = Mapping[str, float]  # case → median in ms
BARE = "bare (python -c pass)"

PIP = "sesh ls --json, by pip's script"  # with `site`
FILES = "their records and /proc/PID/stat, only read"  # what no list can do without
PROMPT = "sesh doctor --prompt"

# × bare, by number of sessions
LIST_LIMITS: dict[str, dict[int, float]] = {
    PROMPT: {10: 0.9, 100: 1.1, 1000: 2.7},
    "sesh ls --json": {10: 0.9, 100: 1.1, 1000: 2.6},
    "sesh ls": {10: 2, 100: 2, 1000: 8},
    "sesh gc": {10: 7, 100: 8, 1000: 12},
    "sesh doctor": {100: 8},
    "sesh status": {10: 1.3, 100: 1.3, 1000: 1.3},
    "sesh show": {10: 3.5, 100: 3.5, 1000: 3.5},
    "sesh logs -n": {10: 3.5, 100: 3.5, 1000: 3.5},
}
WITHOUT_WAITING = {"sesh send": 3.5, "sesh stop": 3.5, "sesh attach, until its exec": 3.5}  # × bare
# × the same of one session, by number of sessions; `restart --lost` × a start
BATCH_LIMITS: dict[str, dict[int, float]] = {
    "stop --all": {10: 2, 100: 5, 1000: 30},
    "restart --lost": {100: 40},
}
BATCH_AGAINST = {"stop --all": "stop", "restart --lost": "start", "rm": "rm"}
MOST_CALLS = 12  # of tmux, whatever the number of sessions
LISTS = (PROMPT, "sesh ls --json", "sesh ls")
# `doctor --prompt` may take so many times what the other takes, with so many sessions
PROMPT_AGAINST = {"pm2 ls": 1 / 12, "supervisorctl status": 1 / 9, "tmuxp ls": 1 / 12}
PROMPT_AGAINST_SIZE = 100
SHELL_LIMIT = 100.0  # µs a prompt
HOOK_LIMIT = 50.0  # ms
START = "sesh start"
START_LIMIT = 6.5  # × bare
# `sesh start` may take so many times what the other takes
START_AGAINST = {
    "tmux new-session": 12,
    "pm2 start": 1 / 3,
    "tmuxp load -d": 1 / 4,
    "docker run -d": 1 / 3,
}
BOXED_START = "sesh start --image"
BOXED_LIMITS = {"sesh ls --json": 1.3, PROMPT: 1.2}  # × bare, with ten sessions
MEMORY_LIMIT = 0.4  # MB
IN_PROCESS_LIMITS = {  # ms
    "create": 5.0,
    "update": 3.0,
    "should_resume": 2.0,
    "get": 1.0,
    "list 100": 10.0,
    "list 100 records": 10.0,
    "cleanup 1000": 50.0,
}


class Report:
    """Prints as it goes; `save` writes it all to a file."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str = "") -> None:
        print(line, flush=True)
        self.lines.append(line)

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.say()
        self.say(title)
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        for row in (head, *rows):
            first, *rest = zip(row, widths, strict=True)
            cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
            self.say("  " + "  ".join(cells).rstrip())

    def save(self, path: Path) -> None:
        path.write_text("\n".join(self.lines) + "\n")


def lists(report: Report, measured: Mapping[int, Times]) -> None:
    names = list(dict.fromkeys(name for times in measured.values() for name in times))
    head = ["sessions"]
    for size in measured:
        head += [str(size), "× bare", "limit"]
    rows = []
    for name in names:
        row = [name]
        for size, times in measured.items():
            if name in times:
                limit = LIST_LIMITS.get(name, {}).get(size)
                row += [_ms(times[name]), *_ratio(times[name] / times[BARE], limit)]
            else:
                row += ["", "", ""]
        rows.append(row)
    report.table("Lists: median ms", head, rows)
    _lists_against(report, measured, [name for name in names if _foreign(name)])


def _foreign(name: str) -> bool:
    return name not in (BARE, FILES) and not name.startswith("sesh ")


def _lists_against(report: Report, measured: Mapping[int, Times], others: list[str]) -> None:
    rows = []
    for name in LISTS:
        for other in others:
            row = [f"{name} to {other}"]
            for size, times in measured.items():
                limit = PROMPT_AGAINST.get(other) if name == PROMPT else None
                limit = limit if size == PROMPT_AGAINST_SIZE else None
                row += _ratio(times[name] / times[other], limit) if other in times else ["", ""]
            rows.append(row)
    head = ["sessions"]
    for size in measured:
        head += [str(size), "limit"]
    report.table("Lists against others", head, rows)


def prompts(report: Report, times: Times) -> None:
    rows = [[shell, f"{took:.0f}", _limit(took, SHELL_LIMIT)] for shell, took in times.items()]
    report.table(
        "A prompt inside a shell, no refresh due: median µs of CPU", ["", "µs", "limit"], rows
    )


def hooks(report: Report, times: Times) -> None:
    rows = [
        [name, _ms(took), f"{took / times[BARE]:.2f}", _limit(took, HOOK_LIMIT)]
        for name, took in times.items()
    ]
    report.table("A hook of an agent: median ms", ["", "ms", "× bare", "limit"], rows)


def starts(report: Report, times: Times) -> None:
    rows = []
    for name, took in times.items():
        limit = START_LIMIT if name == START else None
        against = ["", ""]
        if name not in (START, BARE):
            against = _ratio(times[START] / took, START_AGAINST[name])
        rows.append([name, _ms(took), *_ratio(took / times[BARE], limit), *against])
    head = ["with 10 sessions", "ms", "× bare", "limit", "start to it", "limit"]
    report.table("Start: median ms", head, rows)


def without_waiting(report: Report, times: Times) -> None:
    rows = [
        [name, _ms(took), *_ratio(took / times[BARE], WITHOUT_WAITING.get(name))]
        for name, took in times.items()
    ]
    head = ["with 10 sessions", "ms", "× bare", "limit"]
    report.table("Commands that wait: median ms of processor time", head, rows)


def batches(report: Report, one: Batch, many: Mapping[int, Batch]) -> None:
    rows = []
    for size, batch in many.items():
        for verb, took in batch.items():
            single = BATCH_AGAINST[verb]
            limit = BATCH_LIMITS.get(verb, {}).get(size)
            ratio = _ratio(took.ms / one[single].ms, limit)
            calls = [str(took.calls), _limit(took.calls, MOST_CALLS)]
            rows.append([f"sesh {verb} of {size}", _ms(took.ms), single, *ratio, *calls])
    rows += [
        [f"sesh {verb} of one", _ms(took.ms), "", "", "", str(took.calls), ""]
        for verb, took in one.items()
    ]
    head = ["", "ms", "to one", "×", "limit", "tmux calls", "limit"]
    report.table("Many sessions at once", head, rows)


def containers(report: Report, times: Times | str) -> None:
    if isinstance(times, str):
        report.say(f"without containers: {times}")
        return
    rows = []
    for name, took in times.items():
        against = _times(times[BOXED_START] / took) if name == "docker run -d" else ""
        limits = _ratio(took / times[BARE], BOXED_LIMITS.get(name))
        rows.append([name, _ms(took), *limits, against])
    head = ["with 10 sessions", "ms", "× bare", "limit", "start to it"]
    report.table("In containers: median ms", head, rows)


def memory(report: Report, measured: Mapping[int, Memory]) -> None:
    rows = [
        [
            str(size),
            f"{found.megabytes:.3f}",
            _limit(found.megabytes, MEMORY_LIMIT),
            f"{found.processes:.1f}",
            f"{found.server_kb / size / 1024:.3f}",
        ]
        for size, found in measured.items()
    ]
    head = ["sessions", "MB a session", "limit", "processes", "tmux server itself"]
    title = "Resident memory (PSS) beyond tmux and the agent: keeper and log pipe"
    report.table(title, head, rows)


def care(report: Report, cost: Cost) -> None:
    row = (
        str(cost.sessions),
        f"{cost.seconds:.0f}",
        f"{cost.processor:.2f}",
        f"{cost.per_cent:.2f}",
        _limit(cost.per_cent, CARE_LIMIT),
        str(cost.sessions - cost.well),
        _limit(cost.sessions - cost.well, 0),
        f"{cost.resident:.1f}",
        _limit(cost.resident, CARE_PROCESSES),
    )
    head = (
        *("sessions", "seconds", "cpu s", "% of a core", "limit"),
        *("not well", "limit", "processes each", "limit"),
    )
    report.table("Looked after: a trivial health command each, every 30 s", head, [row])


def in_process(report: Report, times: Times) -> None:
    rows = []
    for name, took in times.items():
        limit = IN_PROCESS_LIMITS.get(name)
        rows.append([name, f"{took:.2f}", _limit(took, limit)])
    report.table("In one process: median ms, fsync included", ["", "ms", "limit"], rows)


def _ms(value: float) -> str:
    return f"{value:.1f}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.5 else f"1/{1 / ratio:.1f}"


def _ratio(ratio: float, limit: float | None) -> list[str]:
    return [_times(ratio), _limit(ratio, limit)]


def _limit(value: float, limit: float | None) -> str:
    if limit is None:
        return ""
    shown = f"{limit:g}" if limit >= 0.4 or not limit else f"1/{1 / limit:.0f}"
    return f"≤ {shown} {'ok  ' if value <= limit else 'OVER'}"
