"""Fields of a view, read without parsing it: the same as JSON says, whatever texts are around."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.model import digest
from sesh.model.observation import Verdict
from sesh.model.record import BreakerLimits, Supervision
from sesh.model.session_json import view
from sesh.model.states import State
from sesh.model.value_object import replace
from tests.samples import record

texts = st.text(max_size=30) | st.sampled_from(['","place":"none"', "\\", '\\"', 'a\\","ended":"1'])
TEXTS = ("name", "id", "state", "reason", "place", "group", "cwd", "socket", "pane", "ended")


def line(shown: object) -> bytes:
    return json.dumps(shown, separators=(",", ":")).encode()


@given(texts, texts, texts, st.none() | texts, st.lists(texts, max_size=3))
def test_texts_are_read_as_json_reads_them(
    reason: str, cwd: str, socket: str, group: str | None, tags: list[str]
) -> None:
    made = record()
    made = replace(
        made,
        spec=replace(made.spec, cwd=cwd, group=group, tags=tuple(tags), command=(socket, cwd)),
        place=replace(made.place, socket=socket),
    )
    shown = view(made, Verdict(State.FAILED, reason=reason, attention=reason))
    assert {name: digest.text(line(shown), name) for name in TEXTS} == {
        name: shown[name] for name in TEXTS
    }
    assert digest.is_of(line(shown), "demo")
    assert not digest.is_of(line(shown), "dem")
    assert digest.needs_attention(line(shown))


def test_the_requested_options_of_a_session() -> None:
    made = record()
    plain = line(view(made, Verdict(State.RUNNING)))
    assert not digest.supervised(plain)
    assert not digest.has_breaker(plain)
    assert not digest.is_limited(plain)
    assert digest.agent(plain) is None
    assert not digest.needs_attention(plain)
    spec = replace(
        made.spec, supervision=Supervision(retries=1), breaker=BreakerLimits(), max_idle=0.0
    )
    asked = line(view(replace(made, spec=spec), Verdict(State.RUNNING)))
    assert digest.supervised(asked)
    assert digest.has_breaker(asked)
    assert digest.is_limited(asked)


def test_attention_is_added_where_there_is_none() -> None:
    shown = view(record(), Verdict(State.RUNNING))
    added = digest.with_attention(line(shown), 'waits: "go on?"')
    assert json.loads(added) == {**shown, "attention": 'waits: "go on?"'}


@pytest.mark.parametrize("name", TEXTS)
def test_a_field_that_is_missing_is_no_text(name: str) -> None:
    assert digest.text(b'{"crc":1}', name) is None
    assert digest.field(b'{"crc":1}', name) == b""


def test_only_the_digest_knows_how_a_view_is_laid_out() -> None:
    """Elsewhere a field is asked for by its name."""
    package = Path(digest.__file__).parents[1]
    matches = ("in one.view", "in found.view", "view.startswith(", "view.find(", "view.replace(")
    found = [
        path.name
        for path in package.rglob("*.py")
        if any(match in path.read_text() for match in matches)
    ]
    assert found == ["digest.py"]
