"""Codex: the program that it calls after every turn, and what that is told. PURE.

`sesh start -t codex` passes the program with `-c notify=[…]`, for that launch only. What Codex is
doing meanwhile, its title says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sesh.agents.said import IDLE, Said, text

TURN_COMPLETE = "agent-turn-complete"


def notify(command: Sequence[str]) -> str:
    """The text for -c: a TOML array of strings, which JSON's are."""
    return f"notify={json.dumps(list(command))}"


def meaning(event: Mapping[str, object], now: float) -> Said | None:
    """What it says after a turn; None: nothing that we know."""
    if event.get("type") != TURN_COMPLETE:
        return None
    conversation = text(event.get("thread-id"))
    return Said(now, TURN_COMPLETE, IDLE, conversation=conversation, prompted=True)
