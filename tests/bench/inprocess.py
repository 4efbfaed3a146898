"""Times of sesh's functions inside one process; a script for the interpreter that sesh is installed
for. Prints JSON: name → milliseconds (medians, fsync included).

    inprocess.py records    create, update, get: in an empty state directory
    inprocess.py list       list all sessions of the state directory
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median

from sesh import fast, look, paths, processes, store
from sesh.model import Desired, Observation, Place, Record, Spec, Status, absent
from sesh.reconcile import reconcile
from sesh.store import Entry
from sesh.values import replace

TIMES = 51
NOT_LAUNCHED = Observation(absent("not launched yet"))


def median_ms(action: Callable[[int], object], times: int = TIMES) -> float:
    took = []
    for number in range(times):
        begin = time.perf_counter()
        action(number)
        took.append((time.perf_counter() - begin) * 1000)
    return median(took)


def record(number: int) -> Record:
    now = datetime.now(UTC)
    machine = processes.here()
    run = paths.run_dir(machine.id, machine.pidns)
    name = f"s{number}"
    return Record(
        name=name,
        id=f"{name}-{now:%Y%m%d-%H%M%S}-{number:08x}",
        spec=Spec(command=("sleep", "100000"), cwd="/", created=now, env=("A_KEY", "B_KEY")),
        place=Place("host", 1, machine, run, f"{run}/{name}.env", f"{run}/tmux.sock", "main"),
        status=Status(desired=Desired.RUNNING, launched=now),
    )


def measure_records() -> dict[str, float]:
    store.prepare()
    made: list[Entry] = []

    def create(number: int) -> None:
        new = record(number)
        made.append(store.claim(new, reconcile(new, NOT_LAUNCHED, new.status.launched), None))

    def update(number: int) -> None:
        old = made[number].record
        assert isinstance(old, Record)
        new = replace(old, status=replace(old.status, reason=f"changed {number}"))
        assert store.swap(made[number], new, reconcile(new, NOT_LAUNCHED, new.status.launched))

    def get(number: int) -> None:
        found = store.entry(f"s{number}")
        assert found is not None
        assert isinstance(found.record, Record)

    return {"create": median_ms(create), "update": median_ms(update), "get": median_ms(get)}


def measure_list() -> dict[str, float]:
    return {
        "list": median_ms(lambda _: store.entries(), 11),
        "list, each looked at": median_ms(lambda _: look.everything(), 11),
        "list, fast lane": median_ms(lambda _: fast.unchanged(), 11),
    }


if __name__ == "__main__":
    print(json.dumps(measure_records() if sys.argv[1] == "records" else measure_list()))
