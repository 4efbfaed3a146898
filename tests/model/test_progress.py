"""What agents say of their work: pure, so by tables and properties."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sesh.model import codec, progress
from sesh.model.configuration import Count, Resume
from sesh.model.errors import ConflictError, UsageError
from sesh.model.observation import Observation, unknown
from sesh.model.place import RecordOnly
from sesh.model.progress import Report
from sesh.model.reconcile import reconcile
from sesh.model.record import AgentReport, Record, Step
from sesh.model.session_json import view
from sesh.model.states import Cause, Desired, State
from sesh.model.text import secrets
from sesh.model.value_object import replace
from tests import samples
from tests.samples import NOW

UNSEEN = Observation(unknown("nobody looked"))


def bare(**word: Any) -> Record:
    """A record without a process."""
    record = samples.record(launched=False, generation=1)
    place = RecordOnly(1, record.place.machine, run="", snapshot="", socket="")
    return replace(record, place=place, agent=AgentReport(**word))


# --- phases --------------------------------------------------------------------------------------


def test_each_phase_is_kept_with_its_time() -> None:
    record = samples.record()
    for number, phase in enumerate(progress.WORKING):
        record = progress.apply(record, Report(phase), NOW + timedelta(minutes=number))
    assert [step.phase for step in record.agent.history] == list(progress.WORKING)
    assert record.agent.history[2] == Step("planning", NOW + timedelta(minutes=2))
    assert record.agent.updated == NOW + timedelta(minutes=5)


def test_to_stay_in_a_phase_is_no_change() -> None:
    record = progress.apply(samples.record(), Report("planning"), NOW)
    again = progress.apply(record, Report("planning"), NOW + timedelta(minutes=1))
    assert again.agent.history == record.agent.history
    assert again.agent.updated == NOW + timedelta(minutes=1)


def test_an_unknown_phase_names_the_choices() -> None:
    with pytest.raises(UsageError, match=r"initializing, investigating.*abandoned") as caught:
        progress.apply(samples.record(), Report("thinking\x1b[31m"), NOW)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("final", progress.FINAL)
@pytest.mark.parametrize(
    "more",
    [
        Report("planning"),
        Report("completed"),
        Report(metadata={"a": 1}),
        Report(error="x"),
        Report(),
    ],
)
def test_nothing_follows_a_final_phase(final: str, more: Report) -> None:
    record = progress.apply(samples.record(), Report(final), NOW)
    assert record.agent.finished == NOW
    with pytest.raises(ConflictError, match=f"has already finished \\({final}"):
        progress.apply(record, more, NOW)


def test_a_long_history_keeps_its_beginning_and_its_end() -> None:
    record = samples.record()
    for number in range(progress.MOST_STEPS + 50):
        phase = progress.WORKING[number % 2 + 1] if number else "initializing"
        record = progress.apply(record, Report(phase), NOW + timedelta(seconds=number))
    steps = record.agent.history
    assert len(steps) == progress.MOST_STEPS
    assert steps[0] == Step("initializing", NOW)
    assert steps[-1].at == NOW + timedelta(seconds=progress.MOST_STEPS + 49)


def test_a_launch_after_the_final_report_starts_over() -> None:
    word = progress.apply(samples.record(), Report("failed", error="x", summary="y"), NOW).agent
    again = progress.restarted(word, NOW + timedelta(minutes=1))
    assert (again.phase, again.finished, again.errors) == ("initializing", None, 0)
    assert [step.phase for step in again.history] == ["failed", "initializing"]
    working = AgentReport(phase="planning", errors=2)
    assert progress.restarted(working, NOW) == working


# --- records without a process -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("final", "state", "cause"),
    [
        ("completed", State.COMPLETED, None),
        ("failed", State.FAILED, None),
        ("abandoned", State.STOPPED, Cause.STOPPED),
    ],
)
def test_its_own_report_ends_a_record_without_a_process(
    final: str, state: State, cause: Cause | None
) -> None:
    record = progress.apply(bare(), Report(final, error="no luck"), NOW)
    verdict = reconcile(record, UNSEEN, NOW)
    assert (verdict.state, verdict.cause, verdict.ended) == (state, cause, NOW)
    assert verdict.attention is None
    assert ("no luck" in (verdict.reason or "")) is (final == "failed")
    assert codec.decode(codec.encode(record)) == record


def test_until_it_reports_an_end_a_record_without_a_process_runs() -> None:
    verdict = reconcile(bare(), UNSEEN, NOW + timedelta(days=400))
    assert (verdict.state, verdict.attention) == (State.RUNNING, None)
    assert "no process" in (verdict.reason or "")


def test_a_report_does_not_end_a_process() -> None:
    record = progress.apply(samples.record(), Report("completed"), NOW)
    assert record.status == samples.record().status
    assert record.status.desired is Desired.RUNNING


@pytest.mark.parametrize("key", ["pane", "agent"])
def test_nothing_runs_without_a_place(key: str) -> None:
    place = {"pane": "%3"} if key == "pane" else {"agent": samples.AGENT}
    record = bare()
    wrong = replace(record, place=replace(record.place, **place))
    with pytest.raises(codec.DecodeError, match="nothing can run there"):
        codec.decode(codec.encode(wrong))


# --- metadata ------------------------------------------------------------------------------------


def test_text_and_json_from_a_command_line() -> None:
    given = ("a=1", "b:=1", "c:=[true, {}]", "d==x:=y", "e=", "b:=2")
    assert progress.parse(given) == {"a": "1", "b": 2, "c": [True, {}], "d": "=x:=y", "e": ""}


@pytest.mark.parametrize("given", ["novalue", "a:={", "a:=" + "[" * 100000, "a:=" + "9" * 5000])
def test_invalid_metadata(given: str) -> None:
    with pytest.raises(UsageError):
        progress.merge({}, progress.parse((given,)), force=True)


def test_keys_are_merged_and_a_null_takes_one_away() -> None:
    old = {"a": 1, "b": {"x": 1}, "c": 2}
    assert progress.merge(old, {"b": {"y": 2}, "c": None, "d": []}, force=False) == {
        "a": 1,
        "b": {"y": 2},
        "d": [],
    }


@pytest.mark.parametrize("key", ["", "a b", "ä", "a\n", "x" * 65, "-a", "a=b", "a:b", "\x1b"])
def test_bad_keys(key: str) -> None:
    with pytest.raises(UsageError, match=r"invalid key .* for metadata"):
        progress.merge({}, {key: 1}, force=True)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([None], "null inside"),
        ({"a": {"b": None}}, "null inside"),
        (float("inf"), "not finite"),
        (float("nan"), "not finite"),
        ("\ud800", "Unicode"),
        ({"\udfff": 1}, "Unicode"),
        ({"": 1}, "a key inside"),
        ({"k" * 65: 1}, "a key inside"),
        (1 << 65, "64 bits"),
        (NOW, "datetime"),
        (b"x", "bytes"),
        ([[[[[[[[1]]]]]]]], "nested deeper"),
        ("x" * (33 << 10), "bytes, at most"),
    ],
)
def test_values_that_cannot_be_kept(value: object, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        progress.merge({}, {"k": value}, force=True)


def test_not_too_many_keys() -> None:
    full = {f"k{number}": number for number in range(progress.MOST_KEYS)}
    assert len(progress.merge({}, full, force=False)) == progress.MOST_KEYS
    with pytest.raises(UsageError, match="65 keys"):
        progress.merge(full, {"more": 1}, force=False)


VALUES = st.recursive(
    st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(codec="utf-8"), min_size=1, max_size=8),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KEYS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,8}", fullmatch=True)


def _depth(value: object) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inside), default=0)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_accepted_metadata_is_kept_exactly(metadata: dict[str, Any]) -> None:
    """Through the record and through the JSON of the digest line: also what is empty in there."""
    assume(all(_depth(value) <= progress.DEEPEST for value in metadata.values()))
    word = progress.merge({}, metadata, force=True)
    assert word == metadata
    record = replace(samples.record(), agent=AgentReport(metadata=word))
    back = codec.decode(codec.encode(record))
    assert back.agent.metadata == metadata
    shown = json.loads(json.dumps(view(back, reconcile(back, UNSEEN, NOW))))
    assert shown["metadata"] == metadata


@pytest.mark.parametrize("inside", ["2026-11-15T12:00:00Z", "inf", "nan", "[1, 12:00:00]"])
def test_a_record_edited_to_hold_what_json_has_not_is_damaged(inside: str) -> None:
    raw = codec.encode(replace(samples.record(), agent=AgentReport(metadata={"mark": 77})))
    with pytest.raises(codec.DecodeError, match="metadata"):
        codec.decode(raw.replace(b"= 77", f"= {inside}".encode()))


def test_a_number_of_thousands_of_digits_is_damage_and_no_crash() -> None:
    raw = codec.encode(replace(samples.record(), agent=AgentReport(metadata={"mark": 77})))
    with pytest.raises(codec.DecodeError, match="not valid TOML"):
        codec.decode(raw.replace(b"= 77", b"= " + b"1" * 5000))


# --- secrets -------------------------------------------------------------------------------------

# Put together here, so that nothing in this file looks like one.
LOOKS_SECRET = {
    "api": "sk-" + "ant-REDACTED" * 2,
    "hub": "ghp_" + "A1b2C3d4" * 4,
    "pat": "github_pat_" + "A1b2C3d4" * 4,
    "aws": "AKIA" + "ABCDEFGH12345678",
    "pem": "-----BEGIN RSA " + "PRIVATE KEY-----\nMII",
    "jwt_like": "eyJ" + "hbGciOiJIUzI1" + ".eyJ" + "zdWIiOiIxMjM0" + ".sig",
    "url": "postgres://user:" + "hunter2@db/x",
    "header": "Bearer " + "abcdefghijklmnop1234",
}


@pytest.mark.parametrize("key", LOOKS_SECRET)
def test_values_that_look_like_secrets_are_refused(key: str) -> None:
    value = LOOKS_SECRET[key]
    for hidden in (value, f"see {value} there", [value], {"a": {"b": [value]}}, {value: 1}):
        with pytest.raises(UsageError, match="--force") as caught:
            progress.merge({}, {"note": hidden}, force=False)
        assert value not in str(caught.value)
    assert progress.merge({}, {"note": value}, force=True) == {"note": value}


@pytest.mark.parametrize(
    "key",
    [
        *("token", "TOKEN", "github_token", "githubToken", "password", "db-password", "api_key"),
        *("apiKey", "API-KEY", "client_secret", "aws.secret.access.key", "private_key", "cookie"),
    ],
)
def test_keys_with_names_of_secrets(key: str) -> None:
    for hidden in ("x", ["x"], {"value": "x"}):
        with pytest.raises(UsageError, match="a name for secrets"):
            progress.merge({}, {key: hidden}, force=False)
    with pytest.raises(UsageError, match="a name for secrets"):
        progress.merge({}, {"outer": {key: "x"}}, force=False)
    assert progress.merge({}, {key: 12}, force=False) == {key: 12}
    assert progress.merge({}, {key: ""}, force=False) == {key: ""}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_tokens", "4096"),
        ("tokens_used", "12"),
        ("note", "task-management-of-the-disk-sk-1"),
        ("secretary", "Ann"),
        ("author", "Ann"),
        ("keyboard", "de"),
        ("url", "https://example.org:8080/a@b"),
        ("sha", "9f2c" * 10),
        ("plan", "ask whoever knows how the password is checked"),
    ],
)
def test_texts_that_are_not_secrets(key: str, value: str) -> None:
    assert secrets.secret(key, value) is None


# --- going on ------------------------------------------------------------------------------------


def working(**word: Any) -> Record:
    known = {"phase": "approval", "updated": NOW, "conversation": "c-1", **word}
    return replace(samples.record(), agent=AgentReport(**known))


def test_yes() -> None:
    answer = progress.resumable(working(), NOW + timedelta(seconds=90), Resume(), True)
    assert answer.resume
    assert (answer.idle, answer.phase) == (90, "approval")


@pytest.mark.parametrize(
    ("word", "minutes", "there", "why"),
    [
        ({"phase": "completed", "finished": NOW}, 0, True, "it has finished: completed"),
        ({"phase": "abandoned"}, 0, True, "it has finished: abandoned"),
        ({"resume_ready": False}, 0, True, "not ready"),
        ({"phase": None}, 0, True, "not reported a phase"),
        ({"phase": "executing"}, 0, True, "in phase executing, not in approval"),
        ({"errors": 3, "last_error": "no disk"}, 0, True, "3 errors, of at most 2.*no disk"),
        ({}, 31, True, "idle for 31 minutes, of at most 30 minutes"),
        ({}, 30, True, "idle for 30 minutes"),
        ({}, 0, False, "no conversation"),
    ],
)
def test_no_and_why(word: dict[str, Any], minutes: int, there: bool, why: str) -> None:
    now = NOW + timedelta(minutes=minutes)
    answer = progress.resumable(working(**word), now, Resume(), there)
    assert not answer.resume
    assert re.search(why, answer.reason)


def test_just_within_each_limit() -> None:
    now = NOW + timedelta(minutes=29, seconds=59)
    assert progress.resumable(working(errors=2), now, Resume(), None).resume


def test_the_thresholds_can_be_others() -> None:
    other = Resume(60.0, Count(0), ("executing",))
    record = working(phase="executing", errors=99)
    assert progress.resumable(record, NOW + timedelta(seconds=59), other, None).resume
    assert not progress.resumable(record, NOW + timedelta(seconds=60), other, None).resume


def test_output_counts_as_a_sign_of_life_and_the_clock_may_be_set_back() -> None:
    now = NOW + timedelta(hours=2)
    heard = now - timedelta(minutes=1)
    assert progress.resumable(working(), now, Resume(), None, heard).idle == 60
    assert progress.resumable(working(), NOW - timedelta(hours=1), Resume(), None).idle == 0
