"""sesh adopt: containers whose records are lost come back from their labels."""

from __future__ import annotations

import json
import shutil
from typing import Any

from tests.engine import IMAGE, Engine
from tests.surroundings import complains
from tests.world import World, eventually

BOX = ("--image", IMAGE)


def start(world: World, name: str, script: str, *options: str) -> dict[str, Any]:
    return world.start(name, "sh", "-c", script, options=(*BOX, *options))


def stale(world: World, name: str, code: int = 0) -> None:
    """A session whose agent has ended while its container runs on."""
    start(world, name, f"echo working; echo kept >/tmp/mine; exit {code}")
    assert eventually(lambda: world.state_of(name) in ("stale", "failed"), 10)


def second_launch(world: World, name: str) -> None:
    """A session at its second launch, which lives on."""
    start(world, name, "[ -e /tmp/second ] && exec sleep 1000; touch /tmp/second")
    assert eventually(lambda: world.state_of(name) == "stale", 10)
    world.ok("restart", name)


def forget_all(world: World) -> None:
    """As if nobody had ever started anything here."""
    shutil.rmtree(world.state)


def files_inside(engine: Engine, name: str) -> str:
    return engine.docker("exec", f"sesh-{name}", "cat", "/tmp/mine")


# --- the agent is gone ---------------------------------------------------------------------------


def test_a_stale_session_is_found_without_any_memory_and_restarted_with_its_files(
    boxed: World, engine: Engine
) -> None:
    stale(boxed, "box")
    before = boxed.session("box")
    forget_all(boxed)
    (shown,) = boxed.ls("--all")
    assert (shown["name"], shown["state"], shown["container"]) == ("box", "orphan", "sesh-box")
    assert shown["command"] == before["command"]
    doctor = boxed.sesh("doctor", "--only", "orphan-container")
    assert doctor.code == 10
    assert "fix: sesh adopt box" in doctor.out
    assert boxed.ok("adopt", "box").out == "box\n"
    after = boxed.session("box")
    assert after["state"] == "stale"
    assert after["exit_code"] == 0
    assert "working" in boxed.ok("logs", "box").out
    for field in ("id", "command", "cwd", "created", "generation", "container", "image"):
        assert after[field] == before[field], field
    boxed.ok("restart", "box")
    assert eventually(lambda: boxed.state_of("box") == "stale", 10)
    assert boxed.session("box")["generation"] == 2
    assert files_inside(engine, "box") == "kept"
    assert engine.containers() == ["sesh-box"]
    boxed.ok("stop", "box")
    assert engine.containers() == []


# --- the agent lives -----------------------------------------------------------------------------


def test_an_adopted_container_keeps_running_and_its_end_is_seen(
    boxed: World, engine: Engine
) -> None:
    script = "echo before; while [ ! -e /tmp/go ]; do echo tick; sleep 0.1; done; exit 4"
    pid = start(boxed, "box", script)["pid"]
    forget_all(boxed)
    boxed.ok("adopt", "box")
    shown = boxed.session("box")
    assert (shown["state"], shown["pid"], shown["generation"]) == ("running", pid, 1)
    assert eventually(lambda: boxed.ok("logs", "box").out.count("tick") > 3)
    assert "before" in boxed.ok("logs", "box").out
    engine.docker("exec", "sesh-box", "touch", "/tmp/go")
    assert eventually(lambda: boxed.state_of("box") == "failed")
    assert boxed.session("box")["exit_code"] == 4


def test_the_newest_launch_is_known_whatever_is_left_outside(boxed: World, engine: Engine) -> None:
    """While only the record is lost, what is mounted still stands, and is used as before."""
    second_launch(boxed, "box")
    before = boxed.session("box")
    assert before["generation"] == 2
    boxed.record("box").unlink()
    boxed.ok("adopt")
    after = boxed.session("box")
    assert {**after, "checked_at": ""} == {**before, "checked_at": ""}
    assert "mounted = true" in boxed.record("box").read_text()
    forget_all(boxed)
    boxed.ok("adopt", "box")
    shown = boxed.session("box")
    assert (shown["state"], shown["generation"], shown["pid"]) == ("running", 2, before["pid"])
    boxed.ok("stop", "box")
    assert boxed.state_of("box") == "stopped"
    assert engine.containers() == []


def test_a_restart_needs_no_mount(boxed: World, engine: Engine) -> None:
    """The record is there, but what was mounted of `run` was deleted under the container."""
    stale(boxed, "box")
    shutil.rmtree(boxed.state / "run")
    boxed.ok("restart", "box")
    assert eventually(lambda: boxed.state_of("box") == "stale", 10)
    shown = boxed.session("box")
    assert (shown["generation"], shown["exit_code"]) == (2, 0)
    assert files_inside(engine, "box") == "kept"


# --- the container has stopped -------------------------------------------------------------------


def test_a_paused_container_is_not_looked_into_and_a_stopped_one_is_started_again(
    boxed: World, engine: Engine
) -> None:
    start(boxed, "box", "echo kept >/tmp/mine; exec sleep 1000")
    forget_all(boxed)
    engine.docker("pause", "sesh-box")
    complains(boxed.sesh("adopt", "box"), 8, "docker unpause sesh-box")
    engine.docker("unpause", "sesh-box")
    engine.docker("kill", "sesh-box")
    boxed.ok("adopt", "box")
    shown = boxed.session("box")
    assert (shown["state"], shown["cause"]) == ("lost", "container-gone")
    assert "137" in shown["reason"]
    boxed.ok("restart", "box")
    assert boxed.state_of("box") == "running"
    assert files_inside(engine, "box") == "kept"
    assert "mounted = true" in boxed.record("box").read_text()


# --- many, and none ------------------------------------------------------------------------------


def test_doctor_brings_all_back(boxed: World) -> None:
    start(boxed, "one", "sleep 1000")
    stale(boxed, "two")
    stale(boxed, "three", code=3)
    forget_all(boxed)
    done = boxed.ok("doctor", "--fix", "--only", "orphan-container")
    assert "rebuilt the record of one" in done.err
    assert "no problems" in done.out
    assert {one["name"]: (one["state"], one["exit_code"]) for one in boxed.ls()} == {
        "one": ("running", None),
        "two": ("stale", 0),
        "three": ("failed", 3),  # its dead pane knows
    }


def test_on_a_remote_engine_everything_goes_through_it(boxed: World, engine: Engine) -> None:
    boxed.env["DOCKER_CONTEXT"] = "far"
    host = boxed.env.pop("DOCKER_HOST")
    made = ("context", "create", "far", "--docker", f"host={host}")
    config = boxed.root / "home" / ".docker"
    engine.docker("--config", str(config), *made)
    start(boxed, "box", "while [ ! -e /tmp/go ]; do sleep 0.1; done; exit 4", "--no-mount")
    forget_all(boxed)
    boxed.ok("adopt", "box")
    assert boxed.state_of("box") == "running"
    engine.docker("exec", "sesh-box", "touch", "/tmp/go")
    assert eventually(lambda: boxed.state_of("box") == "failed", 20)
    assert boxed.session("box")["exit_code"] == 4


# --- forged --------------------------------------------------------------------------------------


def labels_of(engine: Engine, name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(
        engine.docker("inspect", "--format", "{{json .Config.Labels}}", name)
    )
    return found


def forge(engine: Engine, name: str, labels: dict[str, str]) -> None:
    words = [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
    engine.docker("create", "--network", "none", "--name", name, *words, IMAGE, "sleep", "1000")


HOSTILE = {
    "control characters": {"sesh.id": "\033[31mred", "sesh.name": "\033[31mred"},
    "no id": {"sesh.id": ""},
    "no name": {"sesh.name": "../other"},
    "another machine": {"sesh.machine": "elsewhere"},
    "no TOML": {"sesh.claim": json.dumps("nonsense")},
    "no JSON": {"sesh.claim": "{"},
    "no text": {"sesh.claim": "[1]"},
    "a huge claim": {"sesh.claim": json.dumps("x" * 70_000)},
    "too deep": {"sesh.claim": "[" * 50_000},
}


def test_forged_labels_are_no_session(boxed: World, engine: Engine) -> None:
    start(boxed, "box", "sleep 1000")
    forged = labels_of(engine, "sesh-box")
    boxed.ok("rm", "-f", "box")
    for number, labels in enumerate(HOSTILE.values()):
        forge(engine, f"foreign-{number}", {**forged, **labels})
    assert boxed.ls("--all") == []
    assert boxed.ok("doctor", "--only", "orphan-container", "--fix").err == ""
    complains(boxed.sesh("adopt"), 4, "no orphan")
    boxed.sesh("stop", "--orphans", "-y")
    boxed.ok("gc")
    assert len(engine.containers()) == len(HOSTILE)


def test_labels_with_another_name_are_shown_and_left_alone(boxed: World, engine: Engine) -> None:
    start(boxed, "box", "sleep 1000")
    forged = labels_of(engine, "sesh-box")
    boxed.ok("rm", "-f", "box")
    forge(engine, "foreign", {**forged, "sesh.name": "other"})
    (shown,) = boxed.ls("--all")
    assert (shown["container"], shown["state"]) == ("foreign", "orphan")
    assert "not created by sesh" in shown["attention"]
    complains(boxed.sesh("adopt", shown["name"]), 8, "not created by sesh")
    boxed.sesh("stop", "--orphans", "-y")
    boxed.ok("gc")
    boxed.ok("gc")
    assert engine.containers() == ["foreign"]


def test_a_claim_of_another_session_is_refused(boxed: World, engine: Engine) -> None:
    for name in ("one", "two"):
        start(boxed, name, "sleep 1000")
    one, two = labels_of(engine, "sesh-one"), labels_of(engine, "sesh-two")
    forge(engine, "foreign", {**one, "sesh.claim": two["sesh.claim"]})
    forge(engine, "twin", one)
    listed = {(shown["container"], shown["state"]) for shown in boxed.ls("--all")}
    assert listed == {("sesh-one", "running"), ("sesh-two", "running"), ("twin", "orphan")}
    before = boxed.record("one").read_bytes()
    complains(boxed.sesh("adopt", "one"), 8, "not an orphan")
    assert boxed.record("one").read_bytes() == before
    forget_all(boxed)
    boxed.ok("adopt", "one")
    assert boxed.session("one")["container"] == "sesh-one"
    boxed.ok("rm", "-f", "one")
    assert sorted(engine.containers()) == ["foreign", "sesh-two", "twin"]


def test_a_name_that_is_taken_is_not_overwritten(boxed: World, engine: Engine) -> None:
    start(boxed, "box", "sleep 1000")
    engine.docker("rename", "sesh-box", "renamed")
    boxed.record("box").unlink()
    boxed.start("box")
    complains(boxed.sesh("adopt", "box"), 8, "exists")
    assert boxed.session("box")["place"] == "host"
