"""What `sesh hook claude` costs an agent, which waits for it at every step."""

from __future__ import annotations

import json
from pathlib import Path

from tests import agent
from tests.bench.report import BARE, Times
from tests.bench.timing import Case, Runner, always, medians
from tests.world import World

EVENTS = Path(__file__).parents[1] / "data" / "hooks" / "claude"


def measure(sesh: str, python: str, rounds: int) -> Times:
    """Milliseconds of the events that come oftenest, and of the one that somebody is told of."""
    world = World()
    try:
        agent.install(world)
        session = agent.begin(world)
        [kit] = world.state.glob("run/*/*.kit")
        env = {**world.env, "SESH_ID": session["id"], "SESH_NAME": "one"}
        runner = Runner({**env, "SESH_RUN": str(kit.parent)}, world.root / "stderr")
        cases = [
            Case(f"sesh hook claude, {name}", always(sesh, "hook", "claude", event), rounds)
            for name, event in _events(session["conversation"]).items()
        ]
        return medians([Case(BARE, always(python, "-c", "pass"), rounds), *cases], runner)
    finally:
        world.end()


def _events(conversation: str) -> dict[str, str]:
    return {
        name: json.dumps(
            {**json.loads((EVENTS / f"{name}.json").read_text()), "session_id": conversation}
        )
        for name in ("pre-tool-use", "post-tool-use", "permission-request")
    }
