"""Branches and worktrees of sessions in containers: the directory is mounted, and its git too."""

from __future__ import annotations

from pathlib import Path

from tests.engine import Engine
from tests.places.docker.boxes import inside, start_also
from tests.repository import with_repository
from tests.world import World


def test_a_worktree_is_mounted_with_its_repository(boxed: World, engine: Engine) -> None:
    repo = with_repository(boxed)
    (repo.path / "sub").mkdir()
    repo.commit("sub/file")
    shown = start_also(boxed, "a", "--worktree", "topic", "-C", "sub")
    tree = Path(shown["worktree"])
    assert (shown["state"], shown["branch"], shown["cwd"]) == ("running", "topic", f"{tree}/sub")
    seen = inside(engine, "a", f"cat {tree}/sub/file $(sed 's/gitdir: //' {tree}/.git)/HEAD")
    assert seen.split() == ["+", "ref:", "refs/heads/topic"]
    inside(engine, "a", f"echo work >{tree}/new")
    boxed.ok("rm", "--force", "a")
    assert (tree / "new").read_text() == "work\n"
    assert engine.containers() == []


def test_a_directory_that_leaves_its_branch(boxed: World) -> None:
    repo = with_repository(boxed)
    start_also(boxed, "a", "--branch", "main")
    assert boxed.session("a")["attention"] is None
    repo.git("switch", "-q", "-c", "other")
    assert boxed.session("a")["attention"] == "on branch other, should be on main"
    assert boxed.ok("doctor", "--prompt").out == "1 off-branch\n"
