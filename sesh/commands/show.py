"""sesh show: everything known about one session, with the evidence."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from sesh.agents import questions, screen
from sesh.commands._declare import argument, declare
from sesh.commands._options import COLOUR, json_option
from sesh.model.observation import Session
from sesh.model.reconcile import kept
from sesh.model.record import Record, Spec, Supervision
from sesh.model.session_json import View
from sesh.model.state_table import STATES
from sesh.model.states import ENDED, State
from sesh.model.text import formatting, quick_json
from sesh.model.text.units import amount, span
from sesh.places import agent_files, launch_files, registry
from sesh.state import breakers, clocks, log_files, lookup, settings
from sesh.system import paths
from sesh.terminal import output, session_list

_NEXT_RECORD_ONLY = "sesh update {0} --phase …   ·   sesh finish {0} completed"
_NEXT_BARE = "sesh restart {0} gives it a terminal   ·   sesh stop {0}"
_NOT_OVER = (State.RUNNING, State.PAUSED, State.RECOVERING)
_INDENT = 13  # columns in front of each value
_STEPS = 8  # of the history: the newest
_LONGEST = 300  # columns of a question


@declare("show")
def command(
    name: str = argument(), as_json: bool = json_option("the session"), colour: str = COLOUR
) -> int:
    """Show all details of a session: state and evidence, history, next commands."""
    found = lookup.one(name)
    shown = session_list.complete(found)
    if found.session:
        session_list.add_question(found, shown)
        session_list.add_usage_of(found, shown)
        session_list.add_work([shown])
    if as_json:
        verdict = found.session.verdict if found.session else None
        evidence = verdict.evidence if verdict else (f"{shown['path']}: {shown['reason']}",)
        output.write(quick_json.dumps({**shown, "evidence": evidence}) + "\n")
    elif found.session is None:
        advice = STATES[State.DAMAGED].next.format(found.name)
        rows = [("record", found.entry.path), ("why", found.reason or ""), ("next", advice)]
        _print(formatting.escape(found.name), State.DAMAGED, None, rows, colour=False)
    else:
        _show(found.session, shown, colour=output.use_colour(colour))
    return 0


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
    rows += _reports(record)
    if not kept(record):
        rows.append(("keeper", "none: adopted, so how it ends will not be known before a restart"))
    if verdict.cause:
        rows.append(("cause", _cause(shown)))
    if verdict.state is State.UNKNOWN:
        rows.append(("was", str(verdict.last_known)))
    if record.spec.group or record.spec.tags:
        rows.append(
            ("group", f"{record.spec.group or '–'}   tags {', '.join(record.spec.tags) or '–'}")
        )
    launching = _launching(record)
    if shown["care"] or shown["breaker"] or launching:
        rows += _labelled("care", [*_supervision(record, shown), *launching])
    if record.spec.env:
        rows.append(("variables", ", ".join(record.spec.env)))
    rows += _labelled("why", verdict.evidence)
    breaker = _breaker(session)
    if breaker:
        rows.append(("breaker", breaker))
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


def _breaker(session: Session) -> str | None:
    """The open breaker that holds back its retries, if any."""
    if session.verdict.state not in ENDED | {State.RECOVERING}:
        return None
    record = session.record
    opened = breakers.open_for([record], settings.load())
    return breakers.sentence(*opened[record.id]) if opened else None


def _doing(record: Record, shown: View) -> list[tuple[str, str]]:
    """What its agent does, and the source of that."""
    if shown["state"] != State.RUNNING:
        return []
    doing = screen.doing(agent_files.launch_of(record), shown["socket"], shown["pane"])
    if doing is None:
        return [("does", "not known: nothing of it has said so yet")]
    what = f" for {doing.what}" if doing.what else ""
    what += " (background work)" if doing.background else ""
    since = f" since {formatting.clock(doing.since)}" if doing.since else ""
    source = f"{doing.source}, rule {doing.rule}" if doing.rule else doing.source
    rows = [("does", f"{doing.kind}{what}{since}   (by its {source})")]
    asked = shown["question"]
    if asked:
        rows.append(("asks", formatting.cut(questions.line(asked["text"]), _LONGEST)))
        rows += [("", f"{one['key']}. {one['label']}") for one in asked["options"]]
    return rows


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
        rows.append(("talk", f"conversation {word.conversation}"))
    if word.summary:
        rows.append(("summary", word.summary))
    if word.metadata:
        rows.append(("metadata", quick_json.dumps(dict(word.metadata), ensure_ascii=False)))
    return rows


def _supervision(record: Record, shown: View) -> list[str]:
    """Its limits, retries and health checks, and their results so far."""
    supervision = record.spec.supervision
    lines = [_limits(supervision, _timeout(record, shown))]
    if supervision.retries:
        lines.append(_retries(supervision, shown))
    lines += [_health(record, shown), _breaker_limits(record), _notified(supervision)]
    return [line for line in lines if line]


def _timeout(record: Record, shown: View) -> str:
    """How long it may live, and how much of that is left."""
    most = f"at most {span(record.spec.supervision.timeout)}"
    most += ", retries included" if record.spec.supervision.retries else ""
    left = clocks.time_left(record)
    if shown["state"] in _NOT_OVER and 0 <= left < clocks.FOR_EVER:
        most += f" ({formatting.long_time(left, units=2)} left)"
    return most


def _limits(supervision: Supervision, timeout: str) -> str:
    measured = supervision.max_memory or supervision.max_cpu_time
    limits = [
        (supervision.timeout, timeout),
        (supervision.idle_timeout, f"ended when silent for {span(supervision.idle_timeout)}"),
        (supervision.max_memory, f"memory at most {amount(supervision.max_memory)}"),
        (supervision.max_cpu_time, f"processor time at most {span(supervision.max_cpu_time)}"),
        (measured, f"measured every {span(supervision.check_interval)}"),
        (supervision.max_silence, f"hung when silent for {span(supervision.max_silence)}"),
    ]
    return ", ".join(text for limit, text in limits if limit)


def _retries(supervision: Supervision, shown: View) -> str:
    wait = span(supervision.retry_max_delay)
    if supervision.retry_delay < supervision.retry_max_delay:
        wait = f"{span(supervision.retry_delay)} to {wait}"
    reset = f"reset after {span(supervision.retry_reset)}"
    at = formatting.epoch(shown["retry_at"])
    due = f"; the next at {formatting.clock(at)}" if at is not None else ""
    how = f"{', '.join(supervision.retry_on)}; {wait}; {reset}"
    return f"{shown['retries']} of {supervision.retries} retries used ({how}){due}"


def _breaker_limits(record: Record) -> str:
    """When the failures of other sessions stop its retries."""
    found = " and ".join(f"{kind} {name}" for kind, name in breakers.circuits(record))
    limits = breakers.limits_of(record, settings.load())
    if not found or not (record.spec.supervision.retries or record.spec.breaker):
        return ""
    if not limits.failures:
        return f"retried no matter how often {found} fails"
    often = f"{limits.failures} failures of {found} within {span(limits.within)}"
    return f"not retried for {span(limits.cooldown)} after more than {often}"


def _health(record: Record, shown: View) -> str:
    """Its health, as far as that is checked, and its health command."""
    supervision, parts = record.spec.supervision, []
    if (supervision.health_cmd or supervision.max_silence) and shown["state"] not in ENDED:
        why = record.status.health_reason if shown["health"] else None
        parts.append(f"health {shown['health'] or 'not known yet'}{f' ({why})' if why else ''}")
    if supervision.health_cmd:
        parts.append(f"health command: {supervision.health_cmd} ({_checkup(supervision)})")
    return "; ".join(parts)


def _notified(supervision: Supervision) -> str:
    """Its own choice of notifications."""
    if supervision.notify is None:
        return ""
    kinds = ", ".join(supervision.notify)
    return f"notifications of {kinds}" if kinds else "no notifications"


def _checkup(supervision: Supervision) -> str:
    times = "time" if supervision.health_retries == 1 else "times in a row"
    how = [
        f"every {span(supervision.health_interval)}",
        f"for {span(supervision.health_timeout)} at most",
        f"failing after {supervision.health_retries} {times}",
    ]
    if supervision.health_start_period:
        how.append(f"not in the first {span(supervision.health_start_period)}")
    return ", ".join(how)


def _launching(record: Record) -> list[str]:
    parts, timeout = [], registry.of(record).patience(record.spec)
    if timeout != Spec.launch_timeout:
        parts.append(f"launch timeout {span(timeout)}")
    if record.spec.supervision.scope:
        parts.append("in a systemd scope of its own, where a user manager answers")
    return ["; ".join(parts)] if parts else []


def _print(
    name: str, state: State, reason: str | None, rows: list[tuple[str, str]], *, colour: bool
) -> None:
    """Print each row beside its label, wrapped on a terminal. The reason is beside the state or,
    where there is no room, below it."""
    width = output.terminal_width()
    aside = f"    {formatting.escape(reason)}" if reason else ""
    fits = width is None or formatting.display_width(f"{name}  {state}{aside}") <= width
    lines = [f"{name}  {output.paint(state, state, colour=colour)}{aside if fits else ''}"]
    for label, text in rows if fits else [("", reason or ""), *rows]:
        lines += _row(label, formatting.escape(text), width)
    output.write("\n".join(lines) + "\n")


def _row(label: str, text: str, width: int | None) -> list[str]:
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
            parts.append(
                f"{label} {formatting.clock(moment)} ({formatting.ago(moment, time.time())})"
            )
    parts.append(f"generation {shown['generation']}")
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
