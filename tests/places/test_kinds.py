"""How many lines outside `places/` know a kind of place. Each file has its number and its reason;
the numbers only go down. The goal is 20 lines."""

from __future__ import annotations

import re
from pathlib import Path

import sesh

ROOT = Path(sesh.__file__).parent
# The kinds themselves, and the program that speaks to engines.
HOMES = ("places/", "model/place.py", "system/container_engine.py")
KNOWS = re.compile(
    r"isinstance\([^)]*\b(?:Host|InContainer|RecordOnly)\)|\b(?:Host|RecordOnly|Boxing)\("
    r"|\b(?:spec|wish)\.box\b|\bsesh\.places\.docker\b"
    r"|^from sesh\.system.*\bcontainer_engine\b|\"docker\"|\.box[/\"]"
)
# File → the number, and why. Those marked "to go" are not yet behind the interface.
ALLOWED = {
    "agents/activity.py": (1, "fast lane: where hooks of a container leave their last event"),
    "commands/start.py": (3, "the options of `start` make the request"),
    "commands/stop.py": (1, "to go: containers of ended sessions, asked once an engine"),
    "doctor/containers.py": (5, "checks that only containers have"),
    "doctor/files.py": (1, "to go: transcripts of containers are open on purpose"),
    "doctor/scene.py": (1, "feeds the checks that only containers have"),
    "gc/apply.py": (2, "to go: the container of an ended session"),
    "gc/remove_files.py": (1, "to go: removes private mounts"),
    "model/codec.py": (2, "the table of a kind in the record file"),
    "model/configuration.py": (1, "the default of a setting"),
    "model/reconcile.py": (2, "whose limit on memory it was that the kernel enforced"),
    "model/record.py": (1, "the capability directory_here depends on the request"),
    "model/session_json.py": (1, "a field of its own in the JSON object"),
    "operations/adopt.py": (2, "makes records of agents found on this host"),
    "operations/launch/record_only.py": (1, "makes records without a process"),
    "operations/recover.py": (4, "to go: makes records of containers"),
    "operations/launch/start_request.py": (9, "checks the request"),
    "state/freshness.py": (1, "fast lane: the guard of a container"),
    "state/orphans.py": (1, "to go: which records are asked for containers"),
    "state/unclaimed.py": (5, "to go: containers that no record claims"),
    "supervision/timer/timers.py": (1, "programs that a timer must find"),
    "terminal/session_list.py": (1, "lists containers that no record claims"),
}


def lines() -> dict[str, list[str]]:
    """File → its lines that know a kind."""
    found: dict[str, list[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if not name.startswith(HOMES):
            known = [line.strip() for line in path.read_text().splitlines() if KNOWS.search(line)]
            if known:
                found[name] = known
    return found


def test_lines_that_know_a_kind_of_place_do_not_grow() -> None:
    more = {
        name: known for name, known in lines().items() if len(known) > ALLOWED.get(name, (0, ""))[0]
    }
    assert more == {}


def test_each_file_that_knows_a_kind_says_why() -> None:
    assert all(reason for _, reason in ALLOWED.values())
