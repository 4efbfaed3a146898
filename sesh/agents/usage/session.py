"""What the agent of a session has used: the sum over all its conversations, and its cost.

While it lives, its transcripts are read (`agents/transcripts`). When it has ended, `keep` writes
the sum into its record, so that it outlives the transcripts and the files of the launch.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

from sesh.agents import transcripts
from sesh.agents.transcripts import Read
from sesh.agents.usage import prices
from sesh.agents.usage.prices import Prices
from sesh.model.agents.turns import Usage
from sesh.model.errors import SeshError
from sesh.model.record import AgentUsage, Record
from sesh.model.session_json import View, usage_view
from sesh.model.states import ENDED, State
from sesh.model.value_object import replace
from sesh.places import agent_files, environment
from sesh.state import lookup, records
from sesh.state.judge import Seen
from sesh.system import processes

AGENT, PRICES, BOTH = "agent", "prices", "both"
LONGEST_ANSWER = 2000  # characters that are shown and kept


def of_record(record: Record, table: Prices | None = None) -> AgentUsage | None:
    """The usage of a session's agent; None when sesh does not know its command as an agent. Reads
    what was appended to its transcripts."""
    kit = record.spec.kit
    if kit is None:
        return None
    if record.agent.usage is not None:
        return record.agent.usage
    if reason := transcripts.why_none(kit.kind):
        return AgentUsage(reason=reason)
    if record.place.machine.id != processes.here().id:
        return AgentUsage(reason="its transcripts are on another machine")
    now, others = conversations(record)
    if now is None and not others:
        return AgentUsage(reason="its conversation is not known yet")
    variables = environment.known(record.place.snapshot)
    reads = [transcripts.read(record, one, variables) for one in others]
    reads += [transcripts.read(record, now, variables)] if now is not None else []
    return combined(reads, prices.load() if table is None else table)


def add_to(views: Iterable[View], known: Iterable[Record] = ()) -> None:
    """Add what their agents have used to the JSON objects of sessions, unless it is in their
    records. `known`: records that were read."""
    agents = [one for one in views if one.get("agent") and one.get("usage") is None]
    table = prices.load() if agents else Prices()
    read = {one.id: one for one in known}
    for shown in agents:
        record = read.get(shown["id"]) or records.of_id(shown["id"])
        used = of_record(record, table) if record else None
        if used is not None:
            shown["usage"] = usage_view(used)


def conversations(record: Record) -> tuple[str | None, list[str]]:
    """The conversation that the agent is in, and the earlier ones of its session."""
    now = record.agent.conversation
    if record.status.outcome is None:
        now = agent_files.current_conversation(record) or now
    read = transcripts.states(record.place.private_run, record.id)
    known = (*record.agent.earlier, record.agent.conversation, *read)
    return now, [one for one in dict.fromkeys(known) if one is not None and one != now]


def combined(reads: list[Read], table: Prices) -> AgentUsage:
    """The sum over the conversations of a session. What its agent does now, and its context, are
    those of the last one."""
    known = [one.usage for one in reads if one.usage is not None]
    if not known:
        return AgentUsage(reason=next((one.reason for one in reversed(reads) if one.reason), None))
    last = reads[-1].usage or Usage()
    tokens = [part for one in known for part in one.tokens]
    answered = next((one for one in reversed(known) if one.answer), last)
    model = next((one.model for one in reversed(known) if one.model), None)
    cost, source, lower = _cost(known, table)
    return AgentUsage(
        tokens_in=sum(part.input + part.written + part.written_long for part in tokens),
        tokens_out=sum(part.output for part in tokens),
        tokens_cached=sum(part.cached for part in tokens),
        cost_usd=cost,
        cost_source=source,
        cost_is_lower_bound=lower,
        turns=sum(one.turns for one in known),
        model=_text(model),
        context_used=last.context,
        context_window=last.window or table.window(model),
        current_tool=_text(last.tool),
        current_tool_since=_moment(last.tool_since),
        last_answer=_text(answered.answer),
        last_answer_at=_moment(answered.answered),
        trouble=_text(last.trouble),
    )


def _cost(known: list[Usage], table: Prices) -> tuple[float | None, str | None, bool]:
    """The cost, where it comes from, and whether it is a lower bound. The agent's own figure
    comes first; it leaves out some requests."""
    if table.trouble:
        return None, None, False
    whole, lower, sources = 0.0, False, set()
    for one in known:
        if one.cost is not None:
            whole, lower = whole + one.cost, True
            sources.add(AGENT)
        elif not one.empty:
            cost, bound = table.cost(one.tokens)
            if cost is None:
                return None, None, False
            whole, lower = whole + cost, lower or bound
            sources.add(PRICES)
    if not sources:
        return None, None, False
    return round(whole, 6), sources.pop() if len(sources) == 1 else BOTH, lower


def _text(text: str | None) -> str | None:
    """A text that a record and every terminal can hold."""
    if text is None:
        return None
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST_ANSWER else text[: LONGEST_ANSWER - 1] + "…"


def _moment(seconds: float | None) -> datetime | None:
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


# --- keeping it ----------------------------------------------------------------------------------


def keep(found: Seen, table: Prices | None = None) -> None:
    """Write the usage of an ended session into its record, once. Transcripts that cannot be read,
    or a full disk, never delay anything: errors are left out."""
    record = found.record
    if record is None or record.spec.kit is None or record.agent.usage is not None:
        return
    if found.state not in ENDED or found.state is State.STALE:
        return
    with suppress(SeshError, OSError):
        used = of_record(record, table)
        if used is None:
            return
        used = replace(used, current_tool=None, current_tool_since=None)

        def change(now: Seen) -> Record | None:
            same = now.record is not None and now.record.launch == record.launch
            if now.record is None or not same or now.record.agent.usage is not None:
                return None
            return replace(now.record, agent=replace(now.record.agent, usage=used))

        lookup.update(found, change)
