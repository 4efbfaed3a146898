"""sesh show: everything known about one session, with the evidence."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from sesh.agents import questions, screen
from sesh.commands._declare import declare
from sesh.commands._options import COLOUR, NAMES, json_option, known, report
from sesh.model import errors
from sesh.model.errors import UsageError
from sesh.model.observation import Session
from sesh.model.reconcile import kept, unhealthy
from sesh.model.record import Record, Spec, Supervision
from sesh.model.session_json import View
from sesh.model.state_table import STATES
from sesh.model.states import ENDED, Health, State
from sesh.model.text import formatting, quick_json, units
from sesh.model.text.formatting import NO_BREAK
from sesh.places import agent_files, launch_files, registry
from sesh.state import breakers, clocks, log_files, settings
from sesh.state.judge import Seen
from sesh.system import paths
from sesh.terminal import output, session_list

_NEXT_RECORD_ONLY = f"sesh update {{0}} --phase …   ·   sesh finish {{0}}{NO_BREAK}completed"
_NEXT_BARE = "sesh restart {0} gives it a terminal   ·   sesh stop {0}"
_NOT_OVER = (State.RUNNING, State.PAUSED, State.RECOVERING)
_INDENT, _BELOW = 13, 4  # columns in front of each value, beside its label or below it
_LEAST = 24  # columns for a value beside its label
_STEPS = 8  # of the history: the newest
_LONGEST = 300  # columns of a question


@declare("show")
def command(
    names: tuple[str, ...] = NAMES, as_json: bool = json_option("the session"), colour: str = COLOUR
) -> int:
    """Show all details of sessions: state and evidence, history, next commands.

    With several names, --json prints an array.
    """
    results: dict[str, object] = dict.fromkeys(names)
    found = known(results) if names else _picked()
    if found is None:
        return errors.INTERRUPTED
    views = list(zip(found, _views(found), strict=True))
    if as_json and views:
        objects = [{**view, "evidence": _evidence(one, view)} for one, view in views]
        output.write(quick_json.dumps(objects if len(results) > 1 else objects[0]) + "\n")
        return report(results)
    for number, (one, view) in enumerate(views):
        output.write("\n" if number else "")
        if one.session is None:
            advice = STATES[State.DAMAGED].next.format(one.name)
            rows = [("record", one.entry.path), ("why", one.reason or ""), ("next", advice)]
            _print(formatting.escape(one.name), State.DAMAGED, None, rows, colour=False)
        else:
            _show(one.session, view, colour=output.use_colour(colour))
    return report(results)


def _picked() -> list[Seen] | None:
    """The session that the user picks; None: the user has left."""
    if not output.interactive():
        raise UsageError("missing session name; next: sesh ls")
    from sesh.commands import _pick

    found = _pick.to_look_at("show")
    return None if found is None else [found]


def _views(found: Sequence[Seen]) -> list[View]:
    views = session_list.views_of(found, usage=True, work=True, tokens=True)
    for one, view in zip(found, views, strict=True):
        if one.session:
            session_list.add_question(one, view)
    return views


def _evidence(found: Seen, shown: View) -> tuple[str, ...]:
    verdict = found.session.verdict if found.session else None
    return verdict.evidence if verdict else (f"{shown['path']}: {shown['reason']}",)


def _show(session: Session, shown: View, *, colour: bool) -> None:
    record, verdict = session.record, session.verdict
    rows = [
        ("command", formatting.command_line(record.spec.command) or formatting.NOTHING),
        ("where", registry.of(record).describe(record)),
        ("directory", _directory(shown)),
        ("life", _life(shown)),
    ]
    tree = record.spec.worktree
    if tree is not None:
        gone = "" if os.path.isdir(tree.path) else " (gone)"
        of = f"of {_from_home(tree.repository)}, made for branch {tree.branch}"
        rows.append(("worktree", f"{_from_home(tree.path)}{gone}, {of}"))
    origin = record.agent.forked_from
    if origin is not None:
        rows.append(("began", f"as a copy of {origin.name}, conversation {origin.conversation}"))
    if record.place.has_process:
        rows += [
            ("memory", _usage(record, shown)),
            ("output", _output(shown)),
        ]
    mount = registry.of(record).usage(record)
    if mount:
        rows.append(("mount", mount))
    if record.heard:
        rows += _doing(record, shown)
    if shown["usage"]:
        rows += _used(shown["usage"])
    rows += _reports(record)
    if not kept(record):
        rows.append(
            ("keeper", "none (adopted): its exit status is not known until it is restarted")
        )
    if verdict.cause:
        rows.append(("cause", _cause(shown)))
    if verdict.state is State.UNKNOWN:
        rows.append(("was", str(verdict.last_known)))
    if record.spec.group or record.spec.tags:
        rows.append(
            ("group", f"{record.spec.group or '–'}   tags {', '.join(record.spec.tags) or '–'}")
        )
    rows += _supervision(session, shown)
    if record.spec.env:
        rows.append(("variables", ", ".join(record.spec.env)))
    rows += _labelled("why", verdict.evidence)
    rows.append(("next", _advice(session, shown).format(record.name)))
    _print(record.name, verdict.state, verdict.reason, rows, colour=colour)


def _labelled(label: str, lines: Sequence[str]) -> list[tuple[str, str]]:
    """Rows with the label beside the first one."""
    return [(label if at == 0 else "", line) for at, line in enumerate(lines)]


def _advice(session: Session, shown: View) -> str:
    state, place = session.verdict.state, session.record.place
    advice = STATES[state].next
    if not place.has_process:
        advice = _NEXT_RECORD_ONLY if state is State.RUNNING else "sesh rm {0}"
    elif state is State.RUNNING and place.calls_back and place.pane is None:
        advice = _NEXT_BARE
    return f"sesh answer {{0}} …   ·   {advice}" if shown["question"] else advice


def _doing(record: Record, shown: View) -> list[tuple[str, str]]:
    """What its agent does, and the source of that."""
    if shown["state"] != State.RUNNING:
        return []
    doing = screen.doing(agent_files.launch_of(record), shown["socket"], shown["pane"])
    if doing is None:
        return [("activity", "unknown (no report from the agent yet)")]
    what = f" for {doing.what}" if doing.what else ""
    what += " (background work)" if doing.background else ""
    since = f" since {formatting.clock(doing.since)}" if doing.since else ""
    source = f"{doing.source}, rule {doing.rule}" if doing.rule else doing.source
    rows = [("activity", f"{doing.kind}{what}{since}   (by its {source})")]
    asked = shown["question"]
    if asked:
        rows.append(("asks", formatting.cut(questions.line(asked["text"]), _LONGEST)))
        rows += [("", f"{one['key']}. {one['label']}") for one in asked["options"]]
    return rows


def _used(used: View) -> list[tuple[str, str]]:
    """What its agent has used, and what it said last."""
    if used["tokens_in"] is None:
        return [("tokens", f"not known: {used['reason']}")] if used["reason"] else []
    counts = [("in", "tokens_in"), ("out", "tokens_out"), ("from the cache", "tokens_cached")]
    parts = [f"{formatting.tokens(used[name])} {what}" for what, name in counts]
    rows = [("tokens", f"{', '.join(parts)}   {_cost(used)}")]
    if used["model"]:
        turns = formatting.number(used["turns"], "turn")
        rows.append(("model", ", ".join([used["model"], *_context(used), turns])))
    if used["current_tool"]:
        since = formatting.epoch(used["current_tool_since"])
        age = "" if since is None else f" for {formatting.short_time(time.time() - since)}"
        rows.append(("tool", f"{used['current_tool']}{age}"))
    if used["last_answer"]:
        rows.append(("said", formatting.cut(questions.line(used["last_answer"]), _LONGEST)))
    if used["trouble"]:
        rows.append(("trouble", used["trouble"]))
    return rows


def _cost(used: View) -> str:
    if used["cost_usd"] is None:
        trouble = session_list.price_trouble()
        return f"no cost: {trouble}" if trouble else "no cost known"
    cost = formatting.dollars(used["cost_usd"], lower_bound=used["cost_is_lower_bound"])
    source = {"agent": "reported by the agent", "prices": "by the price table"}
    return f"cost {cost} ({source.get(used['cost_source'], 'by its agent and the price table')})"


def _context(used: View) -> list[str]:
    """How full its context is."""
    size, window = used["context_used"], used["context_window"]
    if size is None:
        return []
    if not window:
        return [f"context {formatting.tokens(size)}"]
    share = f"{size / window:.0%}"
    return [f"context {share} of {formatting.tokens(window)}"]


def _reports(record: Record) -> list[tuple[str, str]]:
    """What the agent, or the program that runs it, has reported about its work."""
    word = record.agent
    rows = []
    if word.phase:
        steps = " → ".join(step.phase for step in word.history[-_STEPS:])
        ready = "" if word.resume_ready else "   not ready to be resumed"
        rows.append(("phase", f"{word.phase} ({steps}){ready}"))
    if word.errors:
        rows.append(("errors", f"{word.errors}, the last: {word.last_error}"))
    if word.conversation:
        rows.append(("chat", f"conversation {word.conversation}"))
    if word.summary:
        rows.append(("summary", word.summary))
    if word.metadata:
        rows.append(("metadata", quick_json.dumps(dict(word.metadata), ensure_ascii=False)))
    return rows


# --- supervision ---------------------------------------------------------------------------------


def _supervision(session: Session, shown: View) -> list[tuple[str, str]]:
    """Its limits, retries, health checks and breaker, and their results so far."""
    record = session.record
    supervision = record.spec.supervision
    limits = ", ".join(_limits(record, shown))
    rows = [("limits", limits)] if limits else []
    if supervision.retries:
        rows.append(("retries", _retries(supervision, shown)))
    rows += _labelled("health", _health(record, shown))
    breaker = (_open_breaker(session), _breaker(record))
    rows += _labelled("breaker", [line for line in breaker if line])
    if supervision.notify is not None:
        rows.append(("notify", ", ".join(supervision.notify) or "off"))
    return rows


def _limits(record: Record, shown: View) -> list[str]:
    supervision, launch = record.spec.supervision, registry.of(record).patience(record.spec)
    measured = supervision.max_memory or supervision.max_cpu_time
    limits = [
        (supervision.timeout, _timeout(record, shown)),
        (supervision.idle_timeout, f"idle timeout {units.time(supervision.idle_timeout)}"),
        (supervision.max_memory, f"memory {units.amount(supervision.max_memory)}"),
        (supervision.max_cpu_time, f"CPU time {units.time(supervision.max_cpu_time)}"),
        (measured, f"measured every {units.time(supervision.check_interval)}"),
        (supervision.max_silence, f"hung after {units.time(supervision.max_silence)} of silence"),
        (launch != Spec.launch_timeout, f"launch timeout {units.time(launch)}"),
        (supervision.scope, "its own systemd scope"),
    ]
    return [text for limit, text in limits if limit]


def _timeout(record: Record, shown: View) -> str:
    """How long it may live, and how much of that is left."""
    most = f"timeout {units.time(record.spec.supervision.timeout)}"
    most += ", retries included" if record.spec.supervision.retries else ""
    left = clocks.time_left(record)
    if shown["state"] in _NOT_OVER and 0 <= left < clocks.FOR_EVER:
        most += f" ({formatting.short_time(left, parts=2)} left)"
    return most


def _retries(supervision: Supervision, shown: View) -> str:
    backoff = units.time(supervision.retry_max_delay)
    if supervision.retry_delay < supervision.retry_max_delay:
        backoff = f"{units.time(supervision.retry_delay)}–{backoff}"
    at = formatting.epoch(shown["retry_at"])
    return ", ".join(
        [
            f"{shown['retries']}/{supervision.retries} used",
            f"on {' or '.join(supervision.retry_on)}",
            f"backoff {backoff}",
            f"reset after {units.time(supervision.retry_reset)}",
            *([] if at is None else [f"next at {formatting.clock(at)}"]),
        ]
    )


def _health(record: Record, shown: View) -> list[str]:
    """Its health, as far as that is checked, and its health checks."""
    supervision, lines = record.spec.supervision, []
    if (supervision.health_cmd or supervision.max_silence) and shown["state"] not in ENDED:
        known = record.status.health if shown["health"] else None
        reason = record.status.health_reason if known is not Health.OK else None
        lines = [unhealthy(known, reason) if known else "unknown (no result yet)"]
    if supervision.health_cmd:
        lines += [f"check: {supervision.health_cmd}", _checks(supervision)]
    return lines


def _checks(supervision: Supervision) -> str:
    how = [
        f"every {units.time(supervision.health_interval)}",
        f"timeout {units.time(supervision.health_timeout)}",
        f"unhealthy after {formatting.number(supervision.health_retries, 'failure')}",
    ]
    if supervision.health_start_period:
        how.append(f"failures ignored for the first {units.time(supervision.health_start_period)}")
    return ", ".join(how)


def _breaker(record: Record) -> str:
    """When the failures of other sessions stop its retries."""
    found = " and ".join(f"{kind} {name}" for kind, name in breakers.circuits(record))
    limits = breakers.limits_of(record, settings.load())
    if not found or not (record.spec.supervision.retries or record.spec.breaker):
        return ""
    if not limits.failures:
        return "off"
    often = f"{formatting.number(limits.failures, 'failure')} of {found}"
    return (
        f"opens for {units.time(limits.cooldown)}"
        f" after more than {often} in {units.time(limits.within)}"
    )


def _open_breaker(session: Session) -> str | None:
    """The open breaker that holds back its retries, if any."""
    if session.verdict.state not in ENDED | {State.RECOVERING}:
        return None
    record = session.record
    opened = breakers.open_for([record], settings.load())
    return breakers.sentence(*opened[record.id]) if opened else None


# --- on the screen -------------------------------------------------------------------------------


def _print(
    name: str, state: State, reason: str | None, rows: list[tuple[str, str]], *, colour: bool
) -> None:
    """Print each row beside its label, wrapped on a terminal. The reason is beside the state or,
    where there is no room, below it."""
    width = output.terminal_width()
    aside = f"    {formatting.escape(reason)}" if reason else ""
    fits = width is None or formatting.display_width(f"{name}  {state}{aside}") <= width
    beside = width is None or formatting.display_width(f"{name}  {state}") <= width
    head = name + ("  " if beside else f"\n{' ' * _BELOW}")
    lines = [f"{head}{output.paint(state, state, colour=colour)}{aside if fits else ''}"]
    for label, text in rows if fits else [("", reason or ""), *rows]:
        lines += _row(label, formatting.escape(text), width)
    output.write("\n".join(lines) + "\n")


def _row(label: str, text: str, width: int | None) -> list[str]:
    """A value beside its label or, where that leaves it too little room, below the label."""
    if width is not None and width - _INDENT < _LEAST:
        indent = " " * _BELOW
        head = [f"  {label}"] if label else []
        return [*head, *(indent + line for line in formatting.wrapped(text, width - _BELOW))]
    first, *rest = formatting.wrapped(text, None if width is None else width - _INDENT)
    return [f"  {label:<{_INDENT - 3}} {first}", *(" " * _INDENT + line for line in rest)]


def _directory(shown: View) -> str:
    cwd = _from_home(shown["cwd"])
    on = f"branch {shown['branch']}" if shown["branch"] else "no branch"
    state = {None: [], True: ["uncommitted changes"], False: ["clean"]}[shown["dirty"]]
    facts = ", ".join([*_distance(shown), *state])
    if facts:
        return f"{cwd}   {on} ({facts})"
    return f"{cwd}   {on}" if shown["branch"] else cwd


def _distance(shown: View) -> list[str]:
    """`2 ahead of main`, `1 behind main`, `2 ahead, 1 behind main`."""
    facts = [f"{shown[way]} {way}" for way in ("ahead", "behind") if shown[way]]
    if facts:
        of = "" if shown["behind"] else " of"
        facts[-1] += f"{of} {shown['ahead_of']}"
    return facts


def _from_home(path: str) -> str:
    home = os.environ.get("HOME") or "/"
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path


def _life(shown: View) -> str:
    parts = []
    for label in ("started", "ended"):
        moment = formatting.epoch(shown[label])
        if moment is not None:
            when = formatting.clock(moment).replace(" ", NO_BREAK)
            parts.append(f"{label} {when} ({formatting.ago(moment, time.time())})")
    parts.append(f"generation{NO_BREAK}{shown['generation']}")
    return ", ".join(parts)


def _usage(record: Record, shown: View) -> str:
    """Its memory now, and the peak that passes have measured."""
    now, most, stem = formatting.size(shown["memory_bytes"]), None, launch_files.own(record)
    if os.path.exists(f"{stem}.care"):
        from sesh.supervision import health_checks

        most = health_checks.peak(stem)
    memory = f"{now}, at most {formatting.size(most)} seen" if most else now
    cpu = "–" if shown["cpu_seconds"] is None else f"{shown['cpu_seconds']:.1f} s"
    return f"{memory}   cpu {cpu}"


def _output(shown: View) -> str:
    path = paths.transcript(shown["id"])
    try:
        written = formatting.size(log_files.kept(path))
    except OSError:
        return "–"
    if shown["last_output"] is None:
        return "nothing printed"
    last = formatting.ago(formatting.epoch(shown["last_output"]), time.time())
    return f"transcript {written}, last output {last}"


def _cause(shown: View) -> str:
    parts = [str(shown["cause"])]
    if shown["exit_code"] is not None:
        parts.append(f"exit status {shown['exit_code']}")
    if shown["signal"] is not None:
        parts.append(f"signal {shown['signal']}")
    return ", ".join(parts)
