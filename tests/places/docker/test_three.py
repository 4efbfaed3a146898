"""Three sessions in three containers at once: held, killed, restarted, and found again."""

from __future__ import annotations

from tests.engine import Engine
from tests.places.docker.boxes import IN_A_BOX, PATIENCE, becomes, inspect, logged, told
from tests.surroundings import complains
from tests.world import World, eventually

NAMES = ("one", "two", "three")


def test_three_at_once(boxed: World, engine: Engine) -> None:
    starting = [boxed.popen("start", name, *IN_A_BOX, "--", "cat") for name in NAMES]
    assert eventually(lambda: "starting" in {one["state"] for one in boxed.ls()}, PATIENCE)
    assert [process.wait(PATIENCE) for process in starting] == [0, 0, 0]
    shown = {one["name"]: one for one in boxed.ls()}
    assert {one["state"] for one in shown.values()} == {"running"}
    assert len({one["id"] for one in shown.values()}) == 3
    assert set(engine.containers(all=False)) == {f"sesh-{name}" for name in NAMES}

    boxed.ok("pause", "--freeze", "one")
    complains(boxed.sesh("send", "one", "hello"), 8, "one is paused")
    assert inspect(engine, "sesh-one")["State"]["Status"] == "paused"
    engine.docker("kill", "sesh-two")
    assert becomes(boxed, "two", "lost")["cause"] == "container-gone"
    assert {one["name"]: one["state"] for one in boxed.ls()} == {
        "one": "paused",
        "two": "lost",
        "three": "running",
    }

    boxed.ok("resume", "one")
    boxed.ok("restart", "two")
    for name in NAMES:
        boxed.ok("send", name, f"hello {name}")
        assert logged(boxed, name, f"hello {name}")
    now = {one["name"]: one for one in boxed.ls()}
    assert {name: told(one, "state", "generation") for name, one in now.items()} == {
        "one": ("running", 1),
        "two": ("running", 2),
        "three": ("running", 1),
    }
    for name in ("one", "three"):
        assert now[name]["pid"] == shown[name]["pid"]
    boxed.ok("stop", "--all", "-y")
    assert engine.containers() == []
