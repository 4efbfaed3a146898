"""Sessions as the JSON objects that commands print."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from sesh.agents import activity, questions, screen
from sesh.model.agents.hook_event import WAITING
from sesh.model.digest import Digest
from sesh.model.errors import CannotTellError
from sesh.model.place import Process
from sesh.model.session_json import View, damaged_view, hide_after, view
from sesh.model.states import State
from sesh.model.text import formatting, quick_json
from sesh.model.value_object import replace
from sesh.places import agent_files, registry, unclaimed
from sesh.places.agent_files import Launch
from sesh.places.unclaimed import Orphan, Unclaimed
from sesh.state import breakers, freshness, history, judge, log_files, lookup, settings
from sesh.state.breakers import Circuit, Opened
from sesh.state.judge import Seen
from sesh.system import git, paths, processes

_NOT_HERE = (State.DAMAGED, State.UNKNOWN)  # UNKNOWN: on another machine, maybe


def gather(
    *, everything: bool, usage: bool, work: bool = False, tokens: bool = False
) -> tuple[list[View], list[str]]:
    """The sessions that `ls` shows, and the errors of writing verdicts back to records. `tokens`:
    with what their agents have used, by their transcripts.

    A digest line that still holds answers for its session; the others are judged. `everything`
    includes things left behind, and reads all processes.
    """
    from sesh.state import orphans

    census = orphans.census(settings.load()) if everything else orphans.quick()
    found, held = census.found, census.held
    views = [complete(one) for one in found if everything or not hidden(one)]
    views += [_from_digest(one) for one in held if everything or not _past(one)]
    if usage:
        add_usage(views, lookup.agent_processes(found, held))
    if work:
        add_work(views)
    if tokens:
        add_tokens(views, found)
    views += _unclaimed(census.unclaimed, views)
    if everything:
        views += [complete(one) for one in judge.judge(history.entries())]
    return views, [one.trouble for one in found if one.trouble]


def views_of(found: Sequence[Seen], *, usage: bool, work: bool, tokens: bool = False) -> list[View]:
    """The objects of these sessions."""
    views = [complete(one) for one in found]
    if usage:
        add_usage(views, lookup.agent_processes(found))
    if work:
        add_work(views)
    if tokens:
        add_tokens(views, found)
    return views


def open_breakers(views: Iterable[View]) -> list[str]:
    """A line for each open breaker: why some of these sessions are not retried for now."""
    if not freshness.breaker_open(paths.breakers_file(), time.time()):
        return []
    views = [*views]
    found = breakers.open_among(views, settings.load())
    return [
        breakers.sentence(circuit, opened.until) + _for_whom(circuit, opened, views)
        for circuit, opened in sorted(found.items())
    ]


def _for_whom(circuit: Circuit, opened: Opened, views: Sequence[View]) -> str:
    """The sessions that it affects, if not all: a session can have its own limits."""
    kind, name = circuit
    members = [view for view in views if view.get(kind) == name]
    concerned = [view["name"] for view in members if view["id"] in opened.ids]
    return "" if len(concerned) == len(members) else f" (only {', '.join(concerned)})"


def _past(found: Digest) -> bool:
    return found.hide != "-" and time.time() >= int(found.hide)


def _from_digest(found: Digest) -> View:
    shown = quick_json.loads(found.view)
    launch = agent_files.launch_in(found, processes.run_dir()) if shown["agent"] else None
    return _finish(shown, found.id, launch)


def _unclaimed(found: Iterable[Unclaimed], views: list[View]) -> list[View]:
    """Things without a record; an agent with a damaged record is added to that record's reason."""
    damaged = {shown["name"]: shown for shown in views if shown["state"] == State.DAMAGED}
    rows = []
    for one in found:
        if isinstance(one, Orphan) and one.name in damaged:
            damaged[one.name]["reason"] += f"; its agent, {one.what}, is alive"
            continue
        if isinstance(one, Orphan):
            one = replace(one, command=tuple(processes.command(one.pid)))
        rows.append(_finish(unclaimed.view(one), one.session_id))
    return rows


def hidden(found: Seen) -> bool:
    """Does `ls` show it only with --all?"""
    if found.session is None:
        return False
    moment = hide_after(found.session.record, found.session.verdict)
    return moment is not None and time.time() >= moment


def complete(found: Seen) -> View:
    """One session's whole object."""
    if found.damaged:
        return damaged_view(found.damaged)
    record = found.intact.record
    active = record.heard and found.state is State.RUNNING
    launch = agent_files.launch_of(record) if active else None
    return _finish(view(record, found.intact.verdict), record.id, launch)


def _finish(shown: View, session_id: str, launch: Launch | None = None) -> View:
    """Add what no record holds: the agent's activity, and when it printed something."""
    doing = screen.doing(launch, shown["socket"], shown["pane"]) if launch else None
    last = log_files.last_output(session_id)
    return {
        **activity.add_to(shown, doing),
        "last_output": None if last is None else formatting.stamp(last),
        "checked_at": formatting.stamp(time.time()),
    }


def add_question(found: Seen, shown: View) -> None:
    """Add the question of its agent, with the answers that only its screen shows."""
    record = found.record
    if shown["activity"] != WAITING or not record or record.place.pane is None:
        return
    try:
        text = registry.of(record).tmux(record, settings.load()).screen(record.place.pane)
    except CannotTellError:
        return
    asked = screen.open_question(agent_files.launch_of(record), text) if text is not None else None
    if asked is not None:
        shown["question"] = questions.plain(asked.question)


def add_usage(views: Sequence[View], agents: Mapping[str, Process]) -> None:
    """Add memory and CPU, from one process table."""
    from sesh.system import process_usage

    used = process_usage.usage(processes.table(), agents)
    for shown in views:
        usage = used.get(shown.get("id", ""))
        if usage is not None and shown["pid"]:
            shown["memory_bytes"] = usage.memory_bytes
            shown["cpu_seconds"] = round(usage.cpu_seconds, 2)


def add_tokens(views: Iterable[View], found: Iterable[Seen] = ()) -> None:
    """Add what agents have used. Their transcripts are read as far as they have grown."""
    from sesh.agents.usage import session

    session.add_to(views, judge.readable(found))


def price_trouble() -> str | None:
    """The error in the user's price table, because of which no cost is shown."""
    from sesh.agents.usage import prices

    return prices.load().trouble


def add_work(views: Iterable[View]) -> None:
    """Add the current branches of directories, and the work that exists nowhere else."""
    shown = [one for one in views if one["state"] not in _NOT_HERE and _has_directory(one)]
    known = git.works({one["cwd"] for one in shown})
    for one in shown:
        work = known[one["cwd"]]
        if work is None:
            one["branch"] = git.branch(one["cwd"]) or one["branch"]
        else:
            one |= {
                "branch": work.branch,
                "ahead": work.ahead,
                "behind": work.behind,
                "ahead_of": work.ahead_of,
                "dirty": work.dirty,
            }


def _has_directory(shown: View) -> bool:
    """Is its directory one of this machine? In a container without a mount it has no branch."""
    return bool(shown["cwd"]) and (shown["place"] == "host" or shown["branch"] is not None)
