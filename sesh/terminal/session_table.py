"""The table of sessions, and advice on those that need attention: from their JSON objects.

Imported by a fast lane: only light modules here.
"""

from __future__ import annotations

import time

from sesh.model.text import formatting
from sesh.terminal import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sesh.model.session_json import View

_LONGEST_QUESTION = 60  # columns
_LONG = ("DIRECTORY", "COMMAND", "")  # columns that are shrunk first


def session_table(
    views: Sequence[View], *, wide: bool, colour: bool, width: int | None, now: float
) -> str:
    """The table for people. Columns are dropped from the right until it fits, never wrapped."""
    columns = _columns(views, wide, now)
    cells = [[title for title, _ in columns]]
    cells += [[cell(view) for _, cell in columns] for view in views]
    shrink = [at for at, (title, _) in enumerate(columns) if title in _LONG]
    lines = formatting.table(cells, width, shrink=shrink, drop=True)
    if colour:
        lines[1:] = [
            _paint_state(line, view["state"]) for line, view in zip(lines[1:], views, strict=True)
        ]
    return "\n".join(lines) + "\n"


def ls_text(views: Sequence[View], *, wide: bool, colour: bool) -> tuple[bytes, str | None]:
    """The output of `ls` on stdout, and the closing line for people on stderr."""
    width = output.terminal_width()
    table = session_table(views, wide=wide, colour=colour, width=width, now=time.time())
    return table.encode("utf-8", "backslashreplace"), closing_line(views)


def _columns(
    views: Sequence[View], wide: bool, now: float
) -> list[tuple[str, Callable[[View], str]]]:
    columns: list[tuple[str, Callable[[View], str]]] = [
        ("NAME", lambda v: formatting.escape(v["name"])),
        ("STATE", lambda v: v["state"]),
    ]
    if any(v.get("activity") for v in views):
        columns.append(("ACTIVITY", _activity))
    columns += [
        ("UP", lambda v: _up(v, now)),
        ("LAST OUTPUT", lambda v: formatting.ago(formatting.epoch(v.get("last_output")), now)),
        (
            "WHERE",
            lambda v: formatting.escape(v.get("container") or v.get("place") or formatting.NOTHING),
        ),
    ]
    if wide:
        columns += [
            ("PID", lambda v: str(v.get("pid") or formatting.NOTHING)),
            ("MEMORY", lambda v: formatting.size(v.get("memory_bytes"))),
            ("CPU", lambda v: _cpu(v.get("cpu_seconds"))),
            ("GEN", lambda v: str(v.get("generation") or formatting.NOTHING)),
            ("GROUP", lambda v: formatting.escape(v.get("group") or formatting.NOTHING)),
            ("BRANCH", _branch),
            ("DIRECTORY", lambda v: formatting.escape(v.get("cwd") or formatting.NOTHING)),
        ]
    columns.append(("COMMAND", _command))
    if any(_remark(v, now) for v in views):
        columns.append(("", lambda v: _remark(v, now)))
    return columns


def _command(view: View) -> str:
    return formatting.command_line(view.get("command") or []) or formatting.NOTHING


def _branch(view: View) -> str:
    """`topic ↑2 ↓1 *`: ahead and behind (see `ahead_of`), and work that is not committed."""
    marks = [("↑", view.get("ahead")), ("↓", view.get("behind"))]
    parts = [formatting.escape(view.get("branch") or formatting.NOTHING)]
    parts += [f"{mark}{count}" for mark, count in marks if count]
    return " ".join(parts) + (" *" if view.get("dirty") else "")


def _activity(view: View) -> str:
    activity = view.get("activity") or formatting.NOTHING
    waiting = view.get("waiting_for")
    what = waiting.removeprefix("permission: ") if waiting else None
    if view.get("background"):
        activity += " (background)"
    return formatting.escape(f"{activity}: {what}" if what else activity)


def _up(view: View, now: float) -> str:
    started = formatting.epoch(view.get("started"))
    alive = view["state"] in ("running", "paused", "stopping", "orphan")
    return (
        formatting.short_time(now - started)
        if alive and started is not None
        else formatting.NOTHING
    )


def _cpu(seconds: float | None) -> str:
    return formatting.NOTHING if seconds is None else f"{seconds:.1f}s"


def _remark(view: View, now: float) -> str:
    reason = why(view, now)
    if view["state"] == "unknown":
        return f"(was {view.get('last_known')}) {reason}"
    if not reason and view.get("question"):
        asked = " ".join(view["question"]["text"].split())
        return formatting.cut(formatting.escape(asked), _LONGEST_QUESTION)
    return "" if reason in ("exit 0", "stopped on request") else reason


def status_line(view: View, now: float) -> str:
    """Name, state, and why."""
    reason = why(view, now)
    aside = f" ({reason})" if reason else ""
    return f"{formatting.escape(view['name'])} {view['state']}{aside}\n"


def why(view: View, now: float) -> str:
    """Why it is in its state; for a recovering session also when it is launched again."""
    reason = formatting.escape(view.get("reason") or "")
    return f"{reason} {_when(view, now)}" if view["state"] == "recovering" else reason


def _when(view: View, now: float) -> str:
    """When it is launched again, and why not sooner."""
    at = formatting.epoch(view.get("retry_at"))
    left = "now" if at is None or at <= now else f"in {formatting.short_time(at - now)}"
    waits = view.get("attention")
    return f"{left}; {formatting.escape(waits)}" if waits else left


def _paint_state(line: str, state: str) -> str:
    before, found, after = line.partition(f" {state}")
    return before + " " + output.paint(state, state, colour=True) + after if found else line


def closing_line(views: Sequence[View]) -> str | None:
    """The sessions that need attention, and advice; None when none does."""
    needy: dict[str, list[str]] = {}
    for view in views:
        if view.get("attention") or view["state"] == "damaged":
            needy.setdefault(_kind(view), []).append(formatting.escape(view["name"]))
    if not needy:
        return None
    count = sum(map(len, needy.values()))
    line = f"{count} {'needs' if count == 1 else 'need'} attention: {' · '.join(_advice(needy))}"
    width = output.terminal_width()
    return line if width is None else formatting.cut(line, width)


def _kind(view: View) -> str:
    """Its state, or that its agent waits. A process that outlives its session cannot be adopted."""
    if view.get("activity") == "waiting":
        return "waiting"
    outlives = view["state"] == "orphan" and view.get("generation") is None
    return "leftover" if outlives else view["state"]


def _advice(needy: dict[str, list[str]]) -> list[str]:
    """Advice, with commands that help many sessions first."""
    from sesh.model.state_table import STATES

    advice = [f"attach {_some(needy['waiting'])}"] if "waiting" in needy else []
    advice += [
        f"sesh restart --{state}" for state in ("lost", "failed") if len(needy.get(state, ())) > 1
    ]
    singly: dict[str, list[str]] = {}
    for state, row in STATES.items():
        if state in needy and row.remedy != "show" and f"sesh restart --{state}" not in advice:
            singly.setdefault(row.remedy, []).extend(needy[state])
    advice += [f"{remedy} {_some(names)}" for remedy, names in singly.items()]
    if "leftover" in needy:
        advice.append("sesh stop --orphans")
    others = [
        name
        for state, names in needy.items()
        if state in STATES and STATES[state].remedy == "show"
        for name in names
    ]
    return [*advice, f"show {_some(others)}"] if others else advice


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
