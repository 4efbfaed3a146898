"""Figures on sessions in containers."""

from __future__ import annotations

from tests.places.docker.boxes import becomes, start
from tests.world import World


def test_memory_in_a_container_counts_and_one_that_outlives_its_agent_is_stale(
    boxed: World,
) -> None:
    start(boxed, "runs")
    start(boxed, "ends", "true")
    becomes(boxed, "ends", "stale")
    for _ in range(2):  # the second time by what the digest lines say
        found = boxed.ok("stats", "--json").json
        assert (found["states"]["running"], found["stale"], found["attention"]) == (1, 1, 1)
        assert found["memory_bytes"] > 0
        assert (found["ends"], found["failures"]) == (1, 0)
