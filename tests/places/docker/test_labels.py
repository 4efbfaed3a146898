"""A label is a claim, not a proof: `docker commit` copies ours into an image. A container is ours
only as a record, or a launch's own files, say it; what only carries labels is shown and kept."""

from __future__ import annotations

import shutil

from tests.engine import IMAGE, Engine
from tests.places.docker.boxes import start
from tests.places.docker.test_gc import a_minute_later, gc, told
from tests.surroundings import complains
from tests.world import World


def commit(engine: Engine, name: str) -> None:
    """A person's own containers, made of an image of a session's: one runs, one was never started,
    one has ended."""
    engine.docker("commit", f"sesh-{name}", "committed:1")
    for how, container, *script in (
        ("run", "mine-runs"),
        ("create", "mine-new"),
        ("run", "mine-ended", "-c", "true"),
    ):
        options = ("--detach",) if how == "run" else ()
        base = ("--network", "none", "--name", container)
        engine.docker(how, *options, *base, "committed:1", *script)


MINE = ["mine-ended", "mine-new", "mine-runs"]


def survives(world: World, engine: Engine, others: list[str]) -> None:
    """Nothing that cleans up takes a person's containers."""
    for _ in range(3):
        steps = gc(world, "--kill-orphans")
        assert ("remove", True) not in told(steps, "container")
        a_minute_later(world)
    world.sesh("stop", "--orphans", "--yes")
    world.sesh("doctor", "--fix")
    assert sorted(engine.containers()) == sorted([*MINE, *others])


def test_a_users_container_of_a_committed_image_is_never_removed(
    boxed: World, engine: Engine
) -> None:
    start(boxed, "box")
    commit(engine, "box")
    shown = [(one["state"], one["container"]) for one in boxed.ls("--all")]
    assert sorted(shown) == [("orphan", one) for one in MINE] + [("running", "sesh-box")]
    assert {one["mend"] for one in gc(boxed) if one["what"] == "container"} == {None}
    survives(boxed, engine, ["sesh-box"])
    boxed.ok("stop", "box")
    survives(boxed, engine, [])
    complains(boxed.sesh("adopt", "box"), 8, "not an orphan")
    boxed.ok("rm", "box")
    survives(boxed, engine, [])
    complains(boxed.sesh("adopt", "box"), 8, "mine-")
    boxed.sesh("stop", "box")
    boxed.sesh("rm", "-f", "box")
    shutil.rmtree(boxed.state)
    start(boxed, "other")
    survives(boxed, engine, ["sesh-other"])
    assert "not created by sesh" in boxed.sesh("doctor").out
    assert [one["name"] for one in boxed.ls()] == ["other"]


def test_a_container_that_only_its_labels_know_is_adopted_and_never_removed(
    boxed: World, engine: Engine
) -> None:
    """Its record, and all else that sesh knew of it, is lost."""
    start(boxed, "box")
    shutil.rmtree(boxed.state)
    start(boxed, "other")
    shown, _ = boxed.ls("--all")
    assert "only its labels" in shown["reason"]
    for _ in range(2):
        assert told(gc(boxed, "--kill-orphans"), "container") == [("keep", False)]
        a_minute_later(boxed)
    boxed.ok("rm", "--force", "other")
    done = boxed.sesh("stop", "--orphans", "--yes")
    assert "left alone: only its labels" in done.err
    complains(boxed.sesh("stop", "box"), 8, "sesh adopt box")
    complains(boxed.sesh("rm", "--force", "box"), 8, "sesh adopt box")
    assert engine.containers(all=False) == ["sesh-box"]
    boxed.ok("doctor", "--fix", "--only", "orphan-container")
    assert boxed.state_of("box") == "running"
    boxed.ok("rm", "--force", "box")
    assert engine.containers() == []


def test_another_container_of_the_same_name_is_not_ours(boxed: World, engine: Engine) -> None:
    """The same labels, name and image; but neither the id nor the creation."""
    labels = "{{range $k, $v := .Config.Labels}}--label\n{{$k}}={{$v}}\n{{end}}"
    start(boxed, "box")
    words = engine.docker("inspect", "--format", labels, "sesh-box").splitlines()
    engine.docker("rm", "--force", "sesh-box")
    base = ("run", "--detach", "--network", "none", "--name", "sesh-box")
    engine.docker(*base, *words, IMAGE, "sleep", "1000")
    assert boxed.state_of("box") == "lost"
    boxed.ok("stop", "box")
    assert engine.containers() == ["sesh-box"]
    complains(boxed.sesh("restart", "box"), 8, "sesh-box")
    boxed.ok("rm", "box")
    assert engine.containers() == ["sesh-box"]
