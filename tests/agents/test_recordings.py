"""What was recorded of real agents: of every event that matters, and of no real machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

_DATA = Path(__file__).parents[1] / "data"
_FILES = sorted([*_DATA.glob("hooks/*/*.json"), *_DATA.glob("registry/*.json")])
_EVENTS = {
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PermissionRequest"),
    *("Notification", "Stop", "StopFailure", "SubagentStop", "SessionEnd"),
}


@pytest.mark.parametrize("path", _FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_recording_names_no_machine(path: Path) -> None:
    text = path.read_text()
    assert isinstance(json.loads(text), dict)
    paths = re.findall(r"(?<![\w.~])/\w[\w./-]*", text)
    assert [one for one in paths if not one.startswith(("/home/ada", "/login"))] == []


def test_every_event_of_claude_is_there() -> None:
    found = {
        json.loads(path.read_text())["hook_event_name"] for path in _DATA.glob("hooks/claude/*")
    }
    assert found >= _EVENTS
