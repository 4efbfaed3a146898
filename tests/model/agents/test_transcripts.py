"""Transcripts of agents: what their lines sum up to, whatever is in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.model.agents import claude_transcript, codex_transcript, gemini_transcript, turns
from sesh.model.agents.turns import Tokens, Turn, Usage

_DATA = Path(__file__).parents[2] / "data" / "transcripts"
_KINDS: dict[str, Any] = {
    "claude": claude_transcript,
    "codex": codex_transcript,
    "gemini": gemini_transcript,
}
OPUS = "claude-opus-5-5"


def recording(name: str) -> list[bytes]:
    return (_DATA / f"{name}.jsonl").read_bytes().splitlines(keepends=True)


def usage(kind: str, lines: list[bytes]) -> Usage:
    """The usage after these lines, in which the sums were saved and loaded once."""
    sums = _KINDS[kind].Sums()
    for line in lines[: len(lines) // 2]:
        sums.add(line)
    saved = json.loads(json.dumps([sums.dump(), turns.usage_plain(sums.usage)]))
    sums = _KINDS[kind].Sums.load(saved[0], turns.usage_of_plain(saved[1]))
    for line in lines[len(lines) // 2 :]:
        sums.add(line)
    found: Usage = sums.usage
    return found


def claude_message(key: str, used: dict[str, Any], **more: Any) -> bytes:
    message = {"id": key, "model": OPUS, "role": "assistant", "content": [], "usage": used}
    entry = {"type": "assistant", "isSidechain": False, "message": {**message, **more}}
    return json.dumps(entry, separators=(",", ":")).encode()


# --- what was recorded ---------------------------------------------------------------------------


def test_claude() -> None:
    found = usage("claude", recording("claude"))
    assert found.tokens == (Tokens(OPUS, 80, 40, longest=10),)
    assert (found.turns, found.model, found.context) == (5, OPUS, 15)
    assert (found.answer, found.tool, found.trouble) == ("you said: third", None, None)
    assert found.window is found.cost is None


def test_a_subagent_counts_but_is_not_in_the_context_or_an_answer() -> None:
    found = usage("claude", recording("claude-subagent"))
    assert found == Usage((Tokens(OPUS, 10, 5, longest=10),))


def test_codex() -> None:
    found = usage("codex", recording("codex"))
    assert found.tokens == (Tokens("stub", 30, 15, longest=10),)
    assert (found.turns, found.model, found.context, found.window) == (3, "stub", 15, 258400)
    assert (found.answer, found.tool) == ("ran it", None)
    assert found.trouble == "exceeded retry limit, last status: 429 Too Many Requests"


def test_gemini() -> None:
    found = usage("gemini", recording("gemini"))
    pro = Tokens("gemini-2.5-pro", 60 + 53, 12 + 9, 140, longest=153)
    assert found.tokens == (pro, Tokens("gemini-2.5-flash", 200, 4, longest=200))
    assert (found.turns, found.model) == (2, "gemini-2.5-flash")
    assert (found.answer, found.trouble) == ("a and b", "quota exceeded")


def test_the_turns_of_a_recording() -> None:
    said = [turn for line in recording("claude") for turn in claude_transcript.turns(line)]
    assert [(one.role, one.text) for one in said[:2]] == [
        ("user", "hello there"),
        ("assistant", "you said: hello there"),
    ]
    assert said[3].tool == "Bash"
    assert said[3].input == {"command": "touch x", "description": "touch x"}
    assert (said[4].role, said[4].text) == ("tool", "(Bash completed with no output)")
    assert [one.error for one in said if one.error] == [
        *("failed", "interrupted", "rate limit (429)")
    ]
    said = [turn for line in recording("codex") for turn in codex_transcript.turns(line)]
    assert [(one.role, one.tool or one.text) for one in said[:4]] == [
        ("user", "hello there"),
        ("assistant", "you said: hello there"),
        ("user", "run touch x"),
        ("assistant", "exec_command"),
    ]
    assert said[0].at == 1795059890.04
    said = [turn for line in recording("gemini") for turn in gemini_transcript.turns(line)]
    assert Turn("user", "hello there", at=1795057201.0) in said


# --- properties ----------------------------------------------------------------------------------


def _sums(kind: str, lines: list[bytes]) -> tuple[Tokens, ...]:
    return tuple(sorted(usage(kind, lines).tokens, key=lambda one: one.model))


@pytest.mark.parametrize("name", ["claude", "claude-subagent", "codex", "gemini"])
def test_a_transcript_cut_anywhere_has_the_sums_of_its_whole_lines(name: str) -> None:
    kind, lines = name.partition("-")[0], recording(name)
    sums, after = _KINDS[kind].Sums(), _KINDS[kind].Sums()
    for line in lines:
        step = max(1, len(line) // 40)
        known = sums.usage.tokens
        for end in (*range(0, len(line) - 2, step), len(line) - 2):
            after = _KINDS[kind].Sums.load(sums.dump(), sums.usage)
            after.add(line[:end])
            assert after.usage.tokens == known
            assert _KINDS[kind].turns(line[:end]) == []
        sums.add(line)


@pytest.mark.parametrize("kind", ["claude", "codex", "gemini"])
@given(data=st.data())
def test_order_and_repetition_change_no_sum(kind: str, data: st.DataObject) -> None:
    lines = recording(kind)
    if kind == "codex":  # its counts belong to the model of the turn
        lines = [line for line in lines if b'"turn_context"' not in line]
    shuffled = data.draw(st.permutations(lines))
    again = data.draw(st.lists(st.sampled_from(lines), max_size=10))
    assert _sums(kind, [*shuffled, *again]) == _sums(kind, lines)


_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**30), 10**30),
        st.floats(),
        st.text(),
        st.sampled_from(
            ["msg_1", "end_turn", "tool_use", "text", "\ud800", "2026-11-19T03:00:00Z"]
        ),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
_FIELDS = st.sampled_from(
    [
        *("type", "message", "payload", "usage", "content", "id", "model", "timestamp", "info"),
        *("input_tokens", "output_tokens", "cache_creation", "total_token_usage", "total_tokens"),
        *("isSidechain", "subtype", "tokens", "input", "cached", "toolCalls", "stop_reason"),
    ]
)


def _changed(value: Any, data: st.DataObject) -> Any:
    """The same with one part replaced by anything."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 5)):
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: _changed(value[key], data)}
    if isinstance(value, list) and value and data.draw(st.integers(0, 5)):
        return [_changed(value[0], data), *value[1:]]
    return data.draw(_VALUES | st.dictionaries(_FIELDS, _VALUES, max_size=4))


@pytest.mark.parametrize("kind", ["claude", "codex", "gemini"])
@given(data=st.data())
def test_hostile_lines_raise_nothing_and_counts_stay_sane(kind: str, data: st.DataObject) -> None:
    lines = recording(kind)
    entry = _changed(json.loads(data.draw(st.sampled_from(lines))), data)
    hostile = json.dumps(entry, separators=(",", ":")).encode()
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(hostile)))
        hostile = hostile[:at] + data.draw(st.binary(max_size=4)) + hostile[at:]
    found = usage(kind, [*lines, hostile, *lines])
    for one in found.tokens:
        assert all(type(number) is int and number >= 0 for number in one.counts)
    known = {one.model: one.counts for one in usage(kind, lines).tokens}
    now = {one.model: one.counts for one in found.tokens}
    assert all(
        now[model][field] >= counts[field] for model, counts in known.items() for field in range(5)
    ) or len(now) != len(known)
    _KINDS[kind].turns(hostile)


@pytest.mark.parametrize("kind", ["claude", "codex", "gemini"])
@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"assistant","message":' + b"[" * 100_000,
        b'{"type":"assistant","payload":{"type":"token_count","id":' + b"9" * 10_000 + b"}}",
        b'{"type":"assistant","message":{"id":"x","model":"m","usage":{"input_tokens":NaN}}}',
        b'{"type":"assistant","message":{"id":"x","model":"m","usage":{"input_tokens":1e999}}}',
        b'{"type":"assistant","message":{"id":"x","model":"m","usage":{"input_tokens":true}}}',
        b"\xff\xfe\x00\n",
        b"",
        b"[]",
        b'{"type":"gemini","id":"x","tokens":{"input":-5,"output":"7","cached":[1]}}',
    ],
)
def test_nonsense_counts_nothing(kind: str, line: bytes) -> None:
    assert usage(kind, [line, line]).empty


# --- single rules --------------------------------------------------------------------------------


def test_a_message_counts_once_with_the_highest_of_each_count() -> None:
    first = claude_message("m1", {"input_tokens": 10, "output_tokens": 1})
    later = claude_message("m1", {"input_tokens": 3, "output_tokens": 50})
    other = claude_message("m2", {"input_tokens": 1, "output_tokens": 1})
    found = usage("claude", [first, *[other] * 3, later, first])
    assert found.tokens == (Tokens(OPUS, 11, 51, longest=10),)


def test_what_a_fork_has_copied_counts_where_it_was_paid_for() -> None:
    lines = []
    for key, origin in (("m1", "parent"), ("m2", "own")):
        entry = json.loads(claude_message(key, {"input_tokens": 10, "output_tokens": 7}))
        lines.append(json.dumps({**entry, "session_id": origin, "sessionId": "own"}).encode())
    found = usage("claude", lines)
    assert found.tokens == (Tokens(OPUS, 10, 7, longest=10),)
    assert usage("claude", lines[:1]).context == 17


def test_a_fork_of_codex_continues_the_totals_of_its_origin() -> None:
    def line(kind: str, **payload: Any) -> bytes:
        return json.dumps({"type": kind, "payload": payload}).encode()

    def total(sum_in: int, sum_out: int, last_in: int, last_out: int) -> bytes:
        sums = {"input_tokens": sum_in, "output_tokens": sum_out}
        last = {"input_tokens": last_in, "output_tokens": last_out}
        info = {"total_token_usage": sums, "last_token_usage": last}
        return line("event_msg", type="token_count", info=info)

    lines = [line("turn_context", model="m"), total(114, 16, 50, 9), total(174, 21, 60, 5)]
    meta = line("session_meta", id="b", forked_from_id="a")
    (forked,) = usage("codex", [meta, *lines]).tokens
    assert (forked.input, forked.output) == (110, 14)
    (whole,) = usage("codex", lines).tokens
    assert (whole.input, whole.output) == (174, 21)


def test_many_messages_are_each_known_again() -> None:
    lines = [
        claude_message(f"msg_{number}", {"input_tokens": number, "output_tokens": 1})
        for number in range(5000)
    ]
    found = usage("claude", [*lines, *lines])
    assert found.tokens[0].counts == (sum(range(5000)), 5000, 0, 0, 0)


def test_the_cache_of_claude() -> None:
    used = {
        "input_tokens": 1,
        "output_tokens": 2,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 100,
        "cache_creation": {"ephemeral_1h_input_tokens": 60, "ephemeral_5m_input_tokens": 40},
    }
    found = usage("claude", [claude_message("m", used)])
    assert found.tokens == (Tokens(OPUS, 1, 2, 4, 40, 60, longest=105),)
    assert found.context == 107


def test_synthetic_messages_do_not_count() -> None:
    line = claude_message("m", {"input_tokens": 5, "output_tokens": 5}, model="<synthetic>")
    assert usage("claude", [line]).empty


def test_compaction_leaves_a_smaller_context() -> None:
    big = claude_message("m", {"input_tokens": 90_000, "output_tokens": 5})
    compacted = {"type": "system", "subtype": "compact_boundary", "isSidechain": False}
    compacted["compactMetadata"] = {"trigger": "auto", "preTokens": 90_005, "postTokens": 700}
    line = json.dumps(compacted, separators=(",", ":")).encode()
    assert usage("claude", [big, line]).context == 700


def test_the_cost_that_claude_has_written_last() -> None:
    lines = [
        json.dumps({"type": "cost-state", "totalCostUSD": cost}, separators=(",", ":")).encode()
        for cost in (0.5, 1.25, "much", -1)
    ]
    assert usage("claude", lines).cost == 1.25


def test_the_tool_that_runs() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}
    begun = json.loads(claude_message("m", {"input_tokens": 1}, content=[call]))
    begun["timestamp"] = "2026-11-19T03:00:00Z"
    line = json.dumps(begun, separators=(",", ":")).encode()
    found = usage("claude", [line])
    assert (found.tool, found.tool_since) == ("Bash", 1795057200.0)
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": "t1", "content": "x" * 100_000}
    over = {"type": "user", "isSidechain": False, "message": {"content": [result]}}
    assert usage("claude", [line, json.dumps(over, separators=(",", ":")).encode()]).tool is None


def test_several_texts_of_a_message_are_one_answer() -> None:
    lines = [
        claude_message("m", {"output_tokens": 1}, content=[{"type": "text", "text": text}])
        for text in ("first", "second")
    ]
    assert usage("claude", lines).answer == "first\nsecond"


def test_codex_counts_the_highest_total_and_by_model() -> None:
    def context(model: str) -> bytes:
        return json.dumps({"type": "turn_context", "payload": {"model": model}}).encode()

    def total(given: int, cached: int, written: int) -> bytes:
        used = {"input_tokens": given, "cached_input_tokens": cached, "output_tokens": written}
        info = {"total_token_usage": {**used, "total_tokens": given + written}}
        payload = {"type": "token_count", "info": info}
        return json.dumps({"type": "event_msg", "payload": payload}).encode()

    lines = [context("a"), total(100, 50, 10), context("b"), total(300, 200, 15), total(120, 60, 1)]
    assert usage("codex", lines).tokens == (Tokens("a", 50, 10, 50), Tokens("b", 50, 5, 150))


def test_a_long_line_is_counted_without_its_texts() -> None:
    text = 'a "quoted" \\ text, \u00fc\U0001f600 ' * 20_000
    call = {"type": "tool_use", "id": "t", "name": "Write", "input": {"content": text}}
    line = claude_message("m", {"input_tokens": 7, "output_tokens": 8}, content=[call])
    assert len(turns.shortened(line)) < 10_000
    assert usage("claude", [line]).tokens == (Tokens(OPUS, 7, 8, longest=7),)


@given(st.text(st.characters(categories=["L", "Cs", "Po", "Cc", "So"]), min_size=700))
def test_a_shortened_line_is_json(text: str) -> None:
    for raw in (json.dumps([text * 8]), json.dumps([text.replace("\ud800", "") * 8])):
        json.loads(turns.shortened(raw.encode()))
    plain = text.encode("utf-8", "ignore").decode()
    json.loads(turns.shortened(json.dumps([plain * 8], ensure_ascii=False).encode()))


def test_other_lines_are_no_turns() -> None:
    for kind in _KINDS.values():
        assert kind.turns(b"{}") == []
        assert kind.turns(b'{"type":"assistant"}') == []


def test_a_recording_names_no_machine() -> None:
    for path in _DATA.glob("*.jsonl"):
        text = path.read_text()
        assert "/tmp/" not in text
        assert "/root" not in text.replace("</root", "")
