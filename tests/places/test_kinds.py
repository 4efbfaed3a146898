"""How many lines outside `places/` know a kind of place: at most 20. Each file has its number and
its reason; the numbers only go down."""

from __future__ import annotations

import re
from pathlib import Path

import sesh

ROOT = Path(sesh.__file__).parent
# The kinds themselves, and the program that speaks to engines.
HOMES = ("places/", "model/place.py", "system/container_engine.py")
KNOWS = re.compile(
    r"isinstance\([^)]*\b(?:Host|InContainer|RecordOnly)\)|\b(?:Host|RecordOnly|ContainerRequest)\("
    r"|\b(?:spec|wish)\.box\b|\bsesh\.places\.docker\b"
    r"|^from sesh\.system.*\bcontainer_engine\b|\"docker\"|\.box[/\"]"
)
# File → the number, and why.
ALLOWED = {
    "model/codec.py": (2, "the table of a kind in the record file"),
    "model/configuration.py": (1, "the default of a setting"),
    "model/reconcile.py": (2, "whose limit on memory it was that the kernel enforced"),
    "model/record.py": (1, "the capability directory_here depends on the request"),
    "model/session_json.py": (1, "a field of its own in the JSON object"),
    "operations/adopt.py": (2, "makes records of agents found on this host"),
    "operations/launch/record_only.py": (1, "makes records without a process"),
    "operations/launch/start_request.py": (5, "hands the request to its kind, which checks it"),
    "state/freshness.py": (1, "fast lane: the guard of a container"),
    "supervision/timer/timers.py": (1, "programs that a timer must find"),
}
MOST = 20


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


def test_at_most_twenty_lines_know_a_kind() -> None:
    assert sum(number for number, _ in ALLOWED.values()) <= MOST
