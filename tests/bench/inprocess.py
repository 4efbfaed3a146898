"""Times of sesh.api inside one process; a script for the interpreter that sesh is installed for.
Prints JSON: name → milliseconds (medians, fsync included).

    inprocess.py records    create, update, should_resume, get, finish, list and cleanup, in an
                            empty state directory
    inprocess.py list       list all sessions of the state directory
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from statistics import median

from sesh import api
from sesh.state import lookup, records
from sesh.terminal import fast_answers

TIMES = 51
ROUNDS = 3  # of what takes long
MANY = 1000


def median_ms(action: Callable[[int], object], times: int = TIMES) -> float:
    took = []
    for number in range(times):
        begin = time.perf_counter()
        action(number)
        took.append((time.perf_counter() - begin) * 1000)
    return median(took)


def measure_records() -> dict[str, float]:
    plan = {"plan": {"steps": ["look", "mend", "try"]}, "issue": 7}
    found = {
        "create": median_ms(lambda n: api.create(f"s{n}", command=("agent",), metadata=plan)),
        "update": median_ms(lambda n: api.update(f"s{n}", phase="planning", metadata={"turn": n})),
        "should_resume": median_ms(lambda n: api.should_resume(f"s{n}")),
        "get": median_ms(lambda n: api.get(f"s{n}")),
    }
    fill(100)
    found["list 100 records"] = median_ms(lambda _: api.list(), 11)
    found["finish"] = median_ms(lambda n: api.finish(f"s{n}", "completed"))
    found["cleanup 1000"] = median_ms_of_cleanup()
    return found


def fill(count: int) -> None:
    """So many records."""
    for number in range(len(api.list()), count):
        api.create(f"s{number}", phase="planning", metadata={"turn": number})


def median_ms_of_cleanup() -> float:
    """Each time with as many that are over as there shall be."""
    api.cleanup()
    took = []
    for _ in range(ROUNDS):
        for number in range(MANY):
            api.create(f"over{number}", phase="completed")
        begin = time.perf_counter()
        assert len(api.cleanup()) == MANY
        took.append((time.perf_counter() - begin) * 1000)
    return median(took)


def measure_list() -> dict[str, float]:
    return {
        "list": median_ms(lambda _: api.list(), 11),
        "list, each parsed": median_ms(lambda _: records.entries(), 11),
        "list, each looked at": median_ms(lambda _: lookup.everything(), 11),
        "list, fast lane": median_ms(lambda _: fast_answers.unchanged(), 11),
    }


if __name__ == "__main__":
    print(json.dumps(measure_records() if sys.argv[1] == "records" else measure_list()))
