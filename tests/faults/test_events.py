"""events.jsonl written by many processes at once: whole lines only, and none is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict

import pytest

from tests.faults.table import Campaign
from tests.world import World, count

pytestmark = pytest.mark.timeout(count(600, 3600))

WRITERS = 20
# Lines from a few bytes to several pages: a page is where a write could be cut.
WRITER = """\
import random, sys
from sesh.state import events, records
entry = records.entry("noted")
number, lines, rng = int(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
print("ready", flush=True)
sys.stdin.read()
for line in range(lines):
    size = rng.choice((0, 10, 300, 4000, 4096, 9000, 20000))
    events.append("ended", entry.record, writer=number, line=line, filler="é\\n" * (size // 8))
"""


def write_at_once(world: World, campaign: Campaign, lines: int) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(number), str(lines), str(campaign.seed + number)],
            env=world.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(WRITERS)
    ]
    for writer in writers:  # all begin together, once all are ready
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    for writer in writers:
        assert writer.wait() == 0
        assert writer.stdout is not None
        writer.stdout.close()


def test_events_at_once(world: World, campaign: Campaign) -> None:
    """20 processes: every line is one JSON object; each writer's lines are all there, in order."""
    world.start("noted")
    path = world.state / "events.jsonl"
    lines = count(100, 1000)
    for number in range(count(1, 10)):
        with campaign.round(f"round {number}"):
            path.unlink(missing_ok=True)
            write_at_once(world, campaign, lines)
            seen = defaultdict(list)
            data = path.read_bytes()
            assert data.endswith(b"\n"), "the last line is cut short"
            for line in data.split(b"\n")[:-1]:
                try:
                    event = json.loads(line)
                except ValueError:
                    raise AssertionError(f"not a whole line: {line[:200]!r}") from None
                seen[event["writer"]].append(event["line"])
            for writer in range(WRITERS):
                assert seen[writer] == list(range(lines)), f"lines of writer {writer} are missing"
    campaign.remark(f"{WRITERS} writers, {lines} lines each")
    campaign.conclude()
