"""sesh doctor: what can be wrong with containers, one check each, and nothing said when all is
well."""

from __future__ import annotations

from typing import Any

from tests.engine import IMAGE, Engine
from tests.places.docker.test_adopt import forget_all, start
from tests.places.docker.test_gc import archive, stale
from tests.world import World, eventually

IDS = ("engine", "orphan-container", "container-left", "container-gone", "zombies", "image")
ALL = (*IDS, "tmux-server", "tmux-socket", "stale", "lost", "digest", "log-pipe", "permissions")


def found(world: World, *ids: str) -> dict[str, dict[str, Any]]:
    """What these checks complain about, by their ids."""
    only = [word for one in ids or ALL for word in ("--only", one)]
    findings = world.sesh("doctor", "--json", *only).json
    bad = [one for one in findings if one["level"] != "ok"]
    assert len({one["id"] for one in bad}) == len(bad), bad
    return {one["id"]: one for one in bad}


def test_living_and_archived_sessions_have_no_problems(boxed: World, engine: Engine) -> None:
    start(boxed, "box", "sleep 1000")
    start(boxed, "other", "sleep 1000", "--no-mount", "--user", "dev")
    boxed.start("host")
    assert found(boxed) == {}
    engine.docker("rm", "--force", "sesh-box")
    bad = found(boxed)
    assert list(bad) == ["container-gone"]
    assert bad["container-gone"]["mend"] == "sesh restart box"
    boxed.ok("restart", "box")
    assert found(boxed) == {}
    boxed.ok("stop", "box")
    boxed.ok("gc", "--older-than", "0")
    assert [one["name"] for one in boxed.ls()] == ["host", "other"]
    assert found(boxed) == {}


# --- engines -------------------------------------------------------------------------------------


def test_an_engine_that_is_down(boxed: World, engine: Engine) -> None:
    start(boxed, "box", "sleep 1000")
    assert found(boxed, "engine") == {}
    before = boxed.record("box").read_bytes()
    patient = boxed.configured()
    boxed.configure("[docker]\ntimeout = 0.5\n")
    engine.freeze()
    one = found(boxed, *IDS)["engine"]
    assert "no answer" in one["text"]
    assert one["mend"].endswith("version")
    engine.thaw()
    boxed.configure(patient)
    assert found(boxed, "engine") == {}
    assert boxed.record("box").read_bytes() == before
    engine.kill()
    assert engine.host in found(boxed, "engine")["engine"]["text"]


def test_without_containers_no_engine_is_checked(world: World) -> None:
    world.env["DOCKER_HOST"] = f"unix://{world.root}/nothing.sock"
    assert found(world, *IDS) == {}
    world.start("one")
    assert found(world, *IDS) == {}
    world.configure('[docker]\ncommand = "no-such-engine"\n')
    one = found(world, *IDS)["engine"]
    assert "no-such-engine is not installed" in one["text"]


# --- without a record ----------------------------------------------------------------------------


def test_an_ended_agent_is_stale_and_nothing_else_until_its_record_is_lost(boxed: World) -> None:
    start(boxed, "one", "sleep 1000")
    stale(boxed, "two")
    for _ in range(2):  # also by its digest line alone
        bad = found(boxed)
        assert list(bad) == ["stale"]
        assert bad["stale"]["mend"] == "sesh restart two"
        assert "container" in bad["stale"]["text"]
    boxed.record("one").unlink()
    single = found(boxed, *IDS)["orphan-container"]
    assert (single["level"], single["mend"]) == ("fail", "sesh adopt one")
    assert "one: container sesh-one (running" in single["text"]
    forget_all(boxed)
    both = found(boxed, *IDS)["orphan-container"]
    assert both["mend"] == "sesh doctor --fix"
    assert "two: container sesh-two (running, its agent gone" in both["text"]


def test_left_over_containers(boxed: World, engine: Engine) -> None:
    stale(boxed, "box")
    archive(boxed, "box")
    one = found(boxed, *IDS)["container-left"]
    assert (one["level"], one["mend"]) == ("warn", "sesh gc")
    assert "container sesh-box (running" in one["text"]
    assert "rebuilt" not in boxed.sesh("doctor", "--fix", "--only", "orphan-container").err


# --- with a record -------------------------------------------------------------------------------


def test_zombies_of_a_container_without_init(boxed: World, engine: Engine) -> None:
    """Its first process starts children for others and waits for none."""
    script = "(sleep 0.2 &) ; exec sleep 1000"
    engine.docker("run", "-d", "--network", "none", "--name", "bare", IMAGE, "sh", "-c", script)
    boxed.start("box", options=("--container", "bare"))
    one = eventually(lambda: found(boxed, "zombies"), 10)["zombies"]
    assert (one["level"], one["mend"]) == ("warn", "docker restart bare")
    assert one["text"].startswith("1 zombie process in container bare")


def test_a_missing_image(boxed: World, engine: Engine) -> None:
    engine.docker("tag", IMAGE, "passing:1")
    boxed.start("box", options=("--image", "passing:1"))
    assert found(boxed, "image") == {}
    engine.docker("rmi", "--no-prune", "passing:1")
    one = found(boxed, *IDS)["image"]
    assert one["mend"].endswith("pull passing:1")
    assert "restart of box" in one["text"]


# --- stop and rm ---------------------------------------------------------------------------------


def test_stop_and_rm_end_unclaimed_containers(boxed: World, engine: Engine) -> None:
    for name in ("one", "two", "three"):
        start(boxed, name, "sleep 1000")
        boxed.record(name).unlink()
    boxed.ok("stop", "one")
    assert boxed.state_of("one") == "stopped"
    boxed.ok("rm", "-f", "two")
    assert engine.containers() == ["sesh-three"]
    done = boxed.ok("stop", "--orphans", "-y")
    assert "container sesh-three, running" in done.err
    assert engine.containers() == []
    assert found(boxed) == {}
