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
# The width that a column keeps while others are dropped; and the order in which these go.
_LEAST = {
    "NAME": 16,
    "ACTIVITY": 12,
    "WHERE": 12,
    "GROUP": 8,
    "BRANCH": 12,
    "DIRECTORY": 16,
    "TAGS": 10,
}
_SHORTEST = 12
_DROP = (
    *("GEN", "CPU", "PID", "UP", "LAST OUTPUT", "MEMORY", "BRANCH", "DIRECTORY"),
    *("TAGS", "GROUP", "TOKENS", "COST", "WHERE"),
)


def session_table(
    views: Sequence[View], *, wide: bool, colour: bool, width: int | None, now: float
) -> str:
    """The table for people. Columns are shrunk and dropped until it fits, never wrapped."""
    from sesh.terminal import table_layout

    columns = {title: [*map(cell, views)] for title, cell in _columns(views, wide, now)}
    lines = table_layout.fitted(
        columns,
        width,
        least={
            title: _least(columns[title], most)
            for title, most in _LEAST.items()
            if title in columns
        },
        useless=[title for title in _DROP if _says_nothing(columns.get(title, ()))],
        drop=_DROP,
        roomy=not wide,
        briefs=[_brief(view, now) for view in views],
        paint=_painter(views) if colour else lambda _row, _title, text: text,
    )
    return "\n".join(lines) + "\n"


def _least(cells: Sequence[str], most: int) -> int:
    """What all rows but one need of a column, up to `most`: a single long name drops nothing."""
    longest = sorted(map(formatting.display_width, cells))
    return min(most, max([_SHORTEST, *longest[-2:-1]]))


def _says_nothing(cells: Sequence[str]) -> bool:
    """Is it a column that no session needs, as WHERE if all are on this host?"""
    return not {*cells} - {"host", formatting.NOTHING}


def _painter(views: Sequence[View]) -> Callable[[int, str, str], str]:
    """Colours cells: names bold, states and reasons in the colour of the state, ended rows dim."""
    codes = [{"others": ""}, *map(_codes, views)]

    def paint(row: int, title: str, text: str) -> str:
        return output.coloured(text, codes[row].get(title, codes[row]["others"]))

    return paint


def _codes(view: View) -> dict[str, str]:
    """The colours of a session's cells by their titles."""
    from sesh.model.state_table import STATES

    row, needy = STATES[view["state"]], bool(view.get("attention"))
    others = output.DIM if row.ended else ""
    state = output.YELLOW if needy and row.alive else row.colour
    return {
        "NAME": others if row.ended and not needy else output.BOLD,
        "STATE": state,
        "ACTIVITY": output.YELLOW if view.get("activity") == "waiting" else others,
        "": state if needy else others,
        "others": others,
    }


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
    ]
    if wide or any(_where(v) not in ("host", formatting.NOTHING) for v in views):
        columns.append(("WHERE", _where))
    if wide:
        columns += [
            ("PID", lambda v: str(v.get("pid") or formatting.NOTHING)),
            ("MEMORY", lambda v: formatting.size(v.get("memory_bytes"))),
            ("CPU", lambda v: _cpu(v.get("cpu_seconds"))),
        ]
    if wide and any(v.get("usage") for v in views):
        columns += [("TOKENS", _tokens), ("COST", _cost)]
    if wide:
        columns += [
            ("GEN", lambda v: str(v.get("generation") or formatting.NOTHING)),
            ("GROUP", lambda v: formatting.escape(v.get("group") or formatting.NOTHING)),
            ("BRANCH", _branch),
            (
                "DIRECTORY",
                lambda v: formatting.escape(
                    output.from_home(v.get("cwd") or "") or formatting.NOTHING
                ),
            ),
        ]
    if any(v.get("tags") for v in views):
        columns.append(
            (
                "TAGS",
                lambda v: formatting.escape(", ".join(v.get("tags") or ())) or formatting.NOTHING,
            )
        )
    columns.append(("COMMAND", _command))
    if any(_remark(v, now) for v in views):
        columns.append(("", lambda v: _remark(v, now)))
    return columns


def _where(view: View) -> str:
    return formatting.escape(view.get("container") or view.get("place") or formatting.NOTHING)


def _command(view: View) -> str:
    command = formatting.command_line(view.get("command") or [])
    return output.from_home(command) or formatting.NOTHING


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


def _tokens(view: View) -> str:
    """All tokens that went in and came out, from the cache or not."""
    used = view.get("usage") or {}
    counts = [used.get(name) for name in ("tokens_in", "tokens_cached", "tokens_out")]
    known = [count for count in counts if count is not None]
    return formatting.tokens(sum(known)) if known else formatting.NOTHING


def _cost(view: View) -> str:
    used = view.get("usage") or {}
    lower_bound = bool(used.get("cost_is_lower_bound"))
    return formatting.dollars(used.get("cost_usd"), lower_bound=lower_bound)


def _remark(view: View, now: float) -> str:
    """Why it is in its state; for an ended session how and when it ended."""
    from sesh.model.state_table import STATES

    reason = why(view, now)
    if view["state"] == "unknown":
        return f"(was {view.get('last_known')}) {reason}"
    if STATES[view["state"]].ended:
        at = formatting.epoch(view.get("ended"))
        when = [] if at is None else [formatting.ago(at, now).replace("now", "just now")]
        return ", ".join([*([reason] if reason not in ("", "stopped on request") else []), *when])
    if not reason and view.get("question"):
        asked = " ".join(view["question"]["text"].split())
        return formatting.cut(formatting.escape(asked), _LONGEST_QUESTION)
    return reason


def _brief(view: View, now: float) -> Callable[[int], str] | None:
    """What to show of a session in the place of its columns, if it has a reason: its state and the
    reason or, in less room, what of these says more."""
    state, reason = view["state"], _remark(view, now)
    waits = view.get("activity") == "waiting"
    if not reason and not waits:
        return None
    head = _activity(view) if waits else "" if state == "running" else state
    whole = f"{head}: {reason}" if head and reason else head or reason
    if state == "stopped":
        whole = f"{state}, {reason}"

    def fitted(room: int) -> str:
        if formatting.display_width(whole) <= room:
            return whole
        if state in ("completed", "stopped"):
            return formatting.cut(state, room)
        if state == "failed" and formatting.display_width(reason) > room - len("failed: "):
            return formatting.cut(reason, room)
        enough = room - len(head) >= len(": some…")
        return formatting.cut(whole if enough else head or reason, room)

    return fitted


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


def closing_line(views: Sequence[View]) -> str | None:
    """The sessions that need attention, each with the next command; None when none does."""
    needy: dict[str, list[str]] = {}
    for view in views:
        if view.get("attention") or view["state"] == "damaged":
            name = formatting.escape(view["name"])
            kind = _kind(view)
            needy.setdefault(kind, []).append(
                f"{name} ({_trouble(view)})" if kind == "running" else name
            )
    if not needy:
        return None
    count = sum(map(len, needy.values()))
    line = f"{count} {'needs' if count == 1 else 'need'} attention: {' · '.join(_advice(needy))}"
    return "\n".join(formatting.wrapped(line, output.terminal_width()))


def _kind(view: View) -> str:
    """Its state, or that its agent waits. A process that outlives its session cannot be adopted."""
    if view.get("activity") == "waiting":
        return "waiting"
    outlives = view["state"] == "orphan" and view.get("generation") is None
    return "leftover" if outlives else view["state"]


def _trouble(view: View) -> str:
    """What is wrong with a session that runs, in a word or two."""
    why = formatting.escape(view["attention"])
    kind = why.partition(":")[0]
    if kind in ("hung", "unhealthy"):
        return kind
    return why.removeprefix("the agent is ").partition(" (")[0]


def _advice(needy: dict[str, list[str]]) -> list[str]:
    """Names with the command for them, for each kind of attention."""
    from sesh.model.state_table import STATES

    remedies = {"waiting": "waiting: sesh attach {0}"}
    remedies |= {state: row.remedy for state, row in STATES.items()}
    remedies |= {"damaged": "damaged: sesh show {0}", "leftover": "sesh stop --orphans"}
    for flag, states in (("lost", ("lost",)), ("failed", ("failed", "timeout"))):
        if sum(len(needy.get(state, ())) for state in states) > 1:
            remedies |= dict.fromkeys(states, f"sesh restart --{flag}")
    found: dict[str, list[str]] = {}
    for kind, remedy in remedies.items():
        found.setdefault("" if kind == "running" else remedy, []).extend(needy.get(kind, ()))
    return [
        f"{_some(names)} ({remedy.format(names[0] if len(names) == 1 else 'NAME')})"
        if remedy
        else _some(names)
        for remedy, names in found.items()
        if names
    ]


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
