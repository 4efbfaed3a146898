"""sesh rm: forget record, transcript, snapshot; living ones only by force."""

from __future__ import annotations

from pathlib import Path

from tests.surroundings import complains
from tests.world import World, eventually


def traces(world: World, session_id: str) -> list[str]:
    """Every file of a session that is left, by name."""
    return [str(p) for p in world.root.rglob(f"*{session_id}*")]


def test_an_ended_session_leaves_nothing_behind(world: World) -> None:
    world.start("other")
    shown = world.start("a", "sh", "-c", "echo words; exit 3")
    assert eventually(lambda: world.state_of("a") == "failed")
    assert len(traces(world, shown["id"])) >= 3
    done = world.ok("rm", "a")
    assert (done.out, done.err) == ("", "")
    assert traces(world, shown["id"]) == []
    assert not world.record("a").exists()
    assert [one["name"] for one in world.ls("--all")] == ["other"]
    assert world.tmux("list-panes", "-a", "-F", "#{session_name}") == "other"
    assert world.events()[-1]["kind"] == "removed"


def test_a_restarted_session_leaves_nothing_of_any_generation(world: World) -> None:
    shown = world.start("a", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("a") == "failed")
    world.ok("restart", "a")
    assert eventually(lambda: world.state_of("a") == "failed")
    world.ok("rm", "a")
    assert traces(world, shown["id"]) == []


def test_a_living_one_is_refused(world: World) -> None:
    pid = world.start("a")["pid"]
    complains(world.sesh("rm", "a"), 8, "a is running", "sesh stop a", "--force")
    assert world.state_of("a") == "running"
    assert world.session("a")["pid"] == pid


def test_force_stops_it_first(world: World) -> None:
    shown = world.start("a")
    world.ok("rm", "--force", "a")
    assert not Path(f"/proc/{shown['pid']}").exists()
    assert traces(world, shown["id"]) == []
    assert world.ls("--all") == []
    kinds = [e["kind"] for e in world.events()]
    assert kinds == ["started", "stopping", "stopped", "removed"]


def test_force_of_a_missing_one_is_fine(world: World) -> None:
    done = world.ok("rm", "-f", "nope")
    assert (done.out, done.err) == ("", "")
    complains(world.sesh("rm", "nope"), 4, "nope")


def test_several_and_some_of_them_refused(world: World) -> None:
    world.start("a", "true")
    world.start("b")
    assert eventually(lambda: world.state_of("a") == "completed")
    done = world.sesh("rm", "a", "b", "nope")
    assert done.code == 9
    assert [line.split()[1] for line in done.err.splitlines()] == ["b", "no"]
    assert [one["name"] for one in world.ls("--all")] == ["b"]


def test_a_second_window_of_the_user_stays(world: World) -> None:
    world.start("a", "sh", "-c", "exit 3")
    world.tmux("new-window", "-d", "-t", "=a:", "sleep", "1000")
    assert eventually(lambda: world.state_of("a") == "failed")
    world.ok("rm", "a")
    assert len(world.tmux("list-panes", "-a").splitlines()) == 1


def test_a_damaged_record_only_by_force(world: World) -> None:
    pid = world.start("a")["pid"]
    world.record("a").write_text("x")
    complains(world.sesh("rm", "a"), 6, "damaged", "--force")
    assert world.record("a").read_text() == "x"
    world.ok("rm", "--force", "a")
    assert not world.record("a").exists()
    assert not Path(f"/proc/{pid}").exists()
    assert world.ls() == []


def test_wants_a_name(world: World) -> None:
    complains(world.sesh("rm"), 2, "names")
