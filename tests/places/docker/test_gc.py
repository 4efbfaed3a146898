"""sesh gc: containers and what they had outside are removed when nobody claims them, and not before
two passes agree; what is in use, unknown, kept or forged stays."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tests.engine import IMAGE, Engine
from tests.places.docker.test_adopt import start
from tests.world import World, eventually

Step = dict[str, Any]


def gc(world: World, *options: str) -> list[Step]:
    found: list[Step] = world.ok("gc", "--json", *options).json
    return found


def told(steps: list[Step], what: str) -> list[tuple[str, bool]]:
    """The verb of each step of a kind, and whether it was done."""
    return [(one["verb"], one["done"]) for one in steps if one["what"] == what]


def run_of(world: World) -> Path:
    (found,) = (world.state / "run").iterdir()
    return found


def a_minute_later(world: World) -> None:
    """As if the passes until now had been a minute ago."""
    path = run_of(world) / "orphans.seen"
    boot, *lines = path.read_text().splitlines() if path.exists() else [""]
    parts = [line.rpartition(" ") for line in lines]
    path.write_text("\n".join([boot, *(f"{key} {float(at) - 61}" for key, _, at in parts), ""]))


def stale(world: World, name: str) -> None:
    start(world, name, "exit 0")
    assert eventually(lambda: world.state_of(name) == "stale", 10)


# --- containers ----------------------------------------------------------------------------------


def archive(world: World, name: str) -> None:
    """As gc was killed in the middle: the record is in the history, the container is there."""
    identity = world.session(name)["id"]
    (world.state / "history").mkdir(mode=0o700, exist_ok=True)
    world.record(name).rename(world.state / "history" / f"{identity}.toml")


def test_gc_removes_idle_containers_on_request_and_archived_ones_always(
    boxed: World, engine: Engine
) -> None:
    stale(boxed, "idle")
    start(boxed, "exited", "sleep 1000")
    stale(boxed, "past")
    boxed.record("idle").unlink()
    boxed.record("exited").unlink()
    engine.docker("kill", "sesh-exited")
    archive(boxed, "past")
    kept = [("keep", False)] * 3
    assert told(gc(boxed), "container") == kept
    assert told(gc(boxed), "container") == kept
    a_minute_later(boxed)
    assert sorted(told(gc(boxed), "container")) == [*kept[:2], ("remove", True)]
    assert sorted(engine.containers()) == ["sesh-exited", "sesh-idle"]
    rehearsed = told(gc(boxed, "--kill-orphans", "--dry-run"), "container")
    assert rehearsed == [("remove", False)] * 2
    assert told(gc(boxed, "--kill-orphans"), "container") == [("remove", True)] * 2
    assert engine.containers() == []
    assert not list(run_of(boxed).glob("*.box"))


def test_containers_in_use_claimed_kept_or_foreign_stay(boxed: World, engine: Engine) -> None:
    start(boxed, "busy", "sleep 1000")
    boxed.record("busy").unlink()
    stale(boxed, "claimed")
    stale(boxed, "visited")
    boxed.record("visited").unlink()
    engine.docker("exec", "--detach", "sesh-visited", "sleep", "1001")
    engine.docker("create", "--network", "none", "--name", "foreign", IMAGE, "sh")
    before = sorted(engine.containers())
    for _ in range(2):
        steps = gc(boxed)
        assert told(steps, "container") == [("keep", False)] * 2
        assert {one["mend"] for one in steps} == {"sesh adopt busy", "sesh adopt visited"}
        a_minute_later(boxed)
    assert sorted(engine.containers()) == before


def test_a_container_used_between_two_passes_is_not_removed(boxed: World, engine: Engine) -> None:
    stale(boxed, "box")
    boxed.record("box").unlink()
    gc(boxed)
    a_minute_later(boxed)
    engine.docker("restart", "--time", "0", "sesh-box")
    assert told(gc(boxed, "--kill-orphans"), "container") == [("keep", False)]
    assert engine.containers() == ["sesh-box"]


def test_an_engine_that_does_not_answer_loses_nothing(boxed: World, engine: Engine) -> None:
    stale(boxed, "box")
    stale(boxed, "ended")
    boxed.record("box").unlink()
    gc(boxed)
    a_minute_later(boxed)
    for box in run_of(boxed).glob("*.box"):
        os.utime(box, (time.time() - 600,) * 2)
    before = sorted(run_of(boxed).glob("*.box"))
    boxed.configure("[docker]\ntimeout = 0.5\n")
    engine.freeze()
    assert not any(one["done"] for one in gc(boxed, "--kill-orphans"))
    engine.thaw()
    assert sorted(engine.containers()) == ["sesh-box", "sesh-ended"]
    assert sorted(run_of(boxed).glob("*.box")) == before


# --- archiving -----------------------------------------------------------------------------------


def test_a_container_goes_with_its_record_unless_it_is_kept(boxed: World, engine: Engine) -> None:
    boxed.configure("[gc]\narchive_failed_after = 0.001\n")
    start(boxed, "failed", "exit 3")
    stale(boxed, "stale")
    start(boxed, "kept", "exit 0")
    assert eventually(lambda: boxed.state_of("kept") == "stale", 10)
    boxed.ok("stop", "--keep", "kept")
    assert eventually(lambda: boxed.state_of("failed") == "failed", 10)
    kept = boxed.session("kept")["id"]
    time.sleep(0.01)
    steps = gc(boxed, "--older-than", "0")
    done = {one["subject"] for one in steps if one["verb"] == "archive" and one["done"]}
    assert "failed" in done
    assert "stale" not in done
    assert sorted(engine.containers()) == ["sesh-kept", "sesh-stale"]
    for _ in range(2):
        assert told(gc(boxed), "container") == []
        a_minute_later(boxed)
    assert sorted(engine.containers()) == ["sesh-kept", "sesh-stale"]
    assert (run_of(boxed) / f"{kept}.box").exists()


# --- what they had outside -----------------------------------------------------------------------


def test_mounts_without_a_record_are_removed_with_their_container(
    boxed: World, engine: Engine
) -> None:
    stale(boxed, "gone")
    stale(boxed, "stands")
    start(boxed, "known", "sleep 1000")
    for name in ("gone", "stands"):
        boxed.record(name).unlink()
    engine.docker("rm", "--force", "sesh-gone")
    assert told(gc(boxed), "container mount") == []  # too young
    for box in run_of(boxed).glob("*.box"):
        os.utime(box, (time.time() - 600,) * 2)
    boxed.ok("pass")
    assert len(list(run_of(boxed).glob("*.box"))) == 3
    assert told(gc(boxed), "container mount") == [("remove", True)]
    left = {path.name.rsplit("-", 3)[0] for path in run_of(boxed).glob("*.box")}
    assert left == {"known", "stands"}


def test_a_link_in_a_mount_is_not_followed(boxed: World, engine: Engine) -> None:
    stale(boxed, "box")
    outside = boxed.root / "precious"
    outside.mkdir()
    (outside / "file").touch()
    (box,) = run_of(boxed).glob("*.box")
    (box / "link").symlink_to(outside)
    boxed.record("box").unlink()
    engine.docker("rm", "--force", "sesh-box")
    os.utime(box, (time.time() - 600,) * 2)
    assert told(gc(boxed), "container mount") == [("remove", True)]
    assert (outside / "file").exists()


def test_sessions_on_the_host_never_call_an_engine(world: World) -> None:
    world.start("one")
    calls = world.root / "calls"
    fake = world.root / "bin" / "docker"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho called >>{calls}\nexit 1\n")
    fake.chmod(0o755)
    world.env["PATH"] = f"{fake.parent}:{world.env['PATH']}"
    for command in (("ls",), ("ls", "--json"), ("doctor", "--prompt"), ("show", "one")):
        world.ok(*command)
        assert not calls.exists(), command
    world.ok("doctor", "--only", "engine", "--only", "orphan-container")
    world.ok("gc")
    assert calls.read_text().count("called") == 1  # doctor's; and its failure is no news
