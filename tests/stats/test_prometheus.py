"""The text for Prometheus: what promtool would say of it is in tests/commands/test_stats.py."""

from __future__ import annotations

import re
from typing import Any

from sesh.stats import prometheus
from sesh.stats.measures import report


def session(name: str, **facts: Any) -> dict[str, Any]:
    return {"name": name, "id": name, "state": "running", "generation": 1, **facts}


def samples(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


def test_unknown_values_are_left_out_and_never_zero() -> None:
    text = prometheus.text(report([], [], []))
    found = samples(text)
    assert found['sesh_sessions{state="running"}'] == found["sesh_launches"] == "0"
    assert found['sesh_failures{cause="oom"}'] == "0"
    assert not [name for name in found if "ratio" in name or "seconds" in name or "bytes" in name]
    assert "_group_" not in text
    assert "_template_" not in text
    assert text.endswith("\n")


def test_every_metric_is_a_gauge_with_help_in_front() -> None:
    text = prometheus.text(report([session("a", group="web", memory_bytes=5)], [], []))
    for block in text.split("# HELP ")[1:]:
        about, kind, *lines = block.splitlines()
        name = about.split()[0]
        assert len(about.split()) > 2
        assert kind == f"# TYPE {name} gauge"
        assert lines
        assert all(re.match(rf"{name}(\{{.*\}})? [0-9.]+$", line) for line in lines)
    assert samples(text)["sesh_memory_bytes"] == "5"


def test_a_percentile_between_two_values_is_interpolated() -> None:
    """Of two launches, half ran longer than it."""
    ended = [
        session(str(length), started="2026-11-15T12:00:00Z", ended=f"2026-11-15T12:00:{length}Z")
        for length in (10, 50)
    ]
    text = prometheus.text(report([], [{**one, "state": "completed"} for one in ended], []))
    name = "sesh_session_duration_seconds_p95"
    assert samples(text)[name] == "48.0"
    assert f"# HELP {name} 95th percentile of the duration of ended launches.\n" in text


def test_labels_are_escaped() -> None:
    names = ['quote"d', "back\\slash", "two\nlines", "half \ud800", "ä"]
    sessions = [session(str(at), group=name) for at, name in enumerate(names)]
    found = samples(prometheus.text(report(sessions, [], [])))
    for label in (r"quote\"d", r"back\\slash", r"two\nlines", "half ?", "ä"):
        assert found[f'sesh_group_sessions{{group="{label}"}}'] == "1"


def test_sessions_without_a_group_are_counted_separately() -> None:
    found = samples(
        prometheus.text(report([session("a", template="claude"), session("b")], [], []))
    )
    assert found['sesh_template_sessions{template="claude"}'] == "1"
    assert found['sesh_template_sessions{template=""}'] == "1"
    assert not [name for name in found if name.startswith("sesh_group_")]
