"""start --branch and --worktree: the right branch, a worktree of its own, and no work ever lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import pace
from tests.repository import Repository, booby_trap, with_repository
from tests.surroundings import Terminal, complains, read_record
from tests.world import SESH, World, eventually


@pytest.fixture
def repo(world: World) -> Repository:
    return with_repository(world)


def start(world: World, name: str = "a", branch: str = "topic", *options: str) -> Path:
    """A session in a worktree of its own; where that is."""
    shown = world.start(name, options=["--worktree", branch, *options])
    assert shown["state"] == "running"
    return Path(shown["worktree"])


def ended(world: World, name: str = "a") -> None:
    world.ok("stop", name, "--grace", "0.1")


def gc(world: World) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = world.ok("gc", "--older-than", "0", "--json").json
    return [one for one in told if one["what"] == "worktree"]


# --- work that is nowhere else -------------------------------------------------------------------


def uncommitted(repo: Repository, tree: Path) -> None:
    (tree / "first").write_text("changed")


def staged(repo: Repository, tree: Path) -> None:
    (tree / "first").write_text("changed")
    repo.git("add", "first", cwd=tree)


def untracked(repo: Repository, tree: Path) -> None:
    (tree / "new").write_text("new")


def hidden(repo: Repository, tree: Path) -> None:
    """Not shown by `git status` as it is set here."""
    repo.git("config", "status.showUntrackedFiles", "no")
    untracked(repo, tree)


def unpushed(repo: Repository, tree: Path) -> None:
    repo.commit("first", cwd=tree)


def behind_a_push(repo: Repository, tree: Path) -> None:
    """Pushed, and then gone on."""
    repo.origin()
    repo.commit("first", cwd=tree)
    repo.git("push", "-q", "-u", "origin", "topic", cwd=tree)
    repo.commit("first", cwd=tree)


def detached(repo: Repository, tree: Path) -> None:
    """A commit that no branch has."""
    repo.git("checkout", "-q", "--detach", cwd=tree)
    repo.commit("first", cwd=tree)


def under_way(repo: Repository, tree: Path) -> None:
    """A rebase that stopped half-way, with nothing changed and nothing of its own."""
    repo.commit()
    repo.git("merge", "-q", "--ff-only", "main", cwd=tree)
    repo.git("-c", "sequence.editor=sed -i s/^pick/edit/", "rebase", "-i", "HEAD~1", cwd=tree)


def skipped(repo: Repository, tree: Path) -> None:
    """Changed, and git was told not to look."""
    repo.git("update-index", "--skip-worktree", "first", cwd=tree)
    uncommitted(repo, tree)


def assumed_unchanged(repo: Repository, tree: Path) -> None:
    repo.git("update-index", "--assume-unchanged", "first", cwd=tree)
    uncommitted(repo, tree)


def left_behind(repo: Repository, tree: Path) -> None:
    """A commit that nothing but the worktree's reflog knows."""
    detached(repo, tree)
    repo.git("checkout", "-q", "topic", cwd=tree)


WORK = [
    *(uncommitted, staged, untracked, hidden, unpushed, behind_a_push, detached, under_way),
    *(skipped, assumed_unchanged, left_behind),
]
Worker = Callable[[Repository, Path], None]


def contents(repo: Repository, tree: Path) -> tuple[str, dict[str, str]]:
    """What would be lost: the commit, and every file."""
    files = [path for path in tree.rglob("*") if path.is_file() and path.name != ".git"]
    return (
        repo.git("rev-parse", "HEAD", cwd=tree),
        {str(path): path.read_text() for path in files},
    )


@pytest.mark.parametrize("work", WORK)
def test_work_survives_everything_but_an_explicit_yes(
    world: World, repo: Repository, work: Worker
) -> None:
    """stop, restart, gc, rm without a yes, rm --force: it stays, and one is told where."""
    tree = start(world)
    work(repo, tree)
    before = contents(repo, tree)

    ended(world)
    assert contents(repo, tree) == before
    world.ok("restart", "a")
    world.ok("restart", "a", "--grace", "0.1")
    assert contents(repo, tree) == before
    assert world.session("a")["cwd"] == str(tree)
    assert gc(world) == [], "what lives is not looked at"
    ended(world)

    (kept,) = gc(world)
    assert (kept["verb"], kept["done"], kept["mend"]) == ("keep", False, "sesh rm --discard a")
    assert str(tree) in kept["why"]
    assert contents(repo, tree) == before
    assert [one["name"] for one in world.ls("--all")] == ["a"], "its record knows of it"

    complains(world.sesh("rm", "--discard", "a"), 2, "discard the work of a", str(tree), "-y")
    assert contents(repo, tree) == before
    world.ok("restart", "a")
    done = world.sesh("rm", "--force", "--grace", "0.1", "a")
    complains(done, 0, f"its worktree stays at {tree}")
    assert contents(repo, tree) == before
    assert "topic" in repo.branches
    assert not world.record("a").exists()


@pytest.mark.parametrize("work", [uncommitted, untracked, unpushed])
def test_a_plain_rm_leaves_work_alone(world: World, repo: Repository, work: Worker) -> None:
    tree = start(world)
    work(repo, tree)
    before = contents(repo, tree)
    ended(world)
    complains(world.sesh("rm", "a"), 0, f"its worktree stays at {tree}")
    assert contents(repo, tree) == before


@pytest.mark.parametrize("work", [uncommitted, untracked, unpushed, detached])
def test_an_explicit_yes_discards_it_but_no_branch(
    world: World, repo: Repository, work: Worker
) -> None:
    tree = start(world)
    work(repo, tree)
    tip = repo.git("rev-parse", "topic")
    ended(world)
    done = world.ok("rm", "--discard", "-y", "a")
    assert (done.out, done.err) == ("", "")
    assert not tree.exists()
    assert repo.worktrees == []
    if work is unpushed:
        assert repo.git("rev-parse", "topic") == tip


def test_the_question_is_asked_and_no_is_no(world: World, repo: Repository) -> None:
    tree = start(world)
    untracked(repo, tree)
    ended(world)
    terminal = Terminal(world, SESH, "rm", "--discard", "a")
    assert terminal.shows("untracked files")
    terminal.type("n", "Enter")
    assert terminal.finish()[0] == 1
    assert (tree / "new").exists()
    assert world.state_of("a") == "stopped"
    terminal = Terminal(world, SESH, "rm", "--discard", "a")
    assert terminal.shows("untracked files")
    terminal.type("y", "Enter")
    assert terminal.finish()[0] == 0
    assert not tree.exists()


def test_a_stash_is_the_repositorys(world: World, repo: Repository) -> None:
    tree = start(world)
    uncommitted(repo, tree)
    repo.git("stash", "-q", cwd=tree)
    ended(world)
    assert world.ok("rm", "a").err == ""
    assert not tree.exists()
    assert repo.git("stash", "show", "--name-only") == "first"


# --- what may go ---------------------------------------------------------------------------------


def test_a_clean_worktree_goes_with_rm_and_its_branch_too(world: World, repo: Repository) -> None:
    tree = start(world)
    ended(world)
    done = world.ok("rm", "a")
    assert (done.out, done.err) == ("", "")
    assert not tree.parent.exists()
    assert repo.worktrees == []
    assert repo.branches == {"main"}


def test_a_clean_worktree_goes_with_gc(world: World, repo: Repository) -> None:
    tree = start(world)
    ended(world)
    (planned,) = [
        one
        for one in world.ok("gc", "-n", "--older-than", "0", "--json").json
        if one["what"] == "worktree"
    ]
    assert tree.exists()
    (done,) = gc(world)
    assert {**planned, "done": True, "skipped": None} == done
    assert not tree.exists()
    assert repo.branches == {"main"}
    assert world.ls() == []


def test_a_merged_branch_goes_an_unmerged_one_stays(world: World, repo: Repository) -> None:
    repo.origin()
    merged, pushed = start(world, "a", "merged"), start(world, "b", "pushed")
    repo.commit(cwd=merged)
    repo.git("merge", "-q", "merged")
    repo.commit("other", cwd=pushed)
    repo.git("push", "-q", "origin", "pushed")
    for name in "ab":
        ended(world, name)
        assert world.ok("rm", name).err == ""
    assert not merged.exists()
    assert not pushed.exists()
    assert repo.branches == {"main", "pushed"}


def test_a_branch_that_existed_stays(world: World, repo: Repository) -> None:
    repo.git("branch", "topic")
    start(world)
    ended(world)
    world.ok("rm", "a")
    assert repo.branches == {"main", "topic"}


@pytest.fixture
def ignoring(repo: Repository) -> Repository:
    """A repository that ignores some files."""
    (repo.path / ".gitignore").write_text("built\n")
    repo.commit(".gitignore")
    return repo


def test_ignored_files_are_no_work_but_told_of(world: World, ignoring: Repository) -> None:
    tree = start(world)
    (tree / "built").touch()
    ended(world)
    complains(
        world.sesh("rm", "a"), 0, "a: 1 file that git ignores were removed with", str(tree), "built"
    )
    assert not tree.exists()


def test_many_ignored_files_are_counted(world: World, ignoring: Repository) -> None:
    tree = start(world)
    for name in "abcdef":
        (tree / name).mkdir()
        (tree / name / "built").touch()
    ended(world)
    done = world.ok("start", "a", "--", "sleep", "1000")
    assert "6 files that git ignores were removed with" in done.err
    assert "a/built, b/built, c/built …" in done.err
    assert not tree.exists()


def test_gc_says_that_ignored_files_go(world: World, ignoring: Repository) -> None:
    tree = start(world)
    (tree / "built").touch()
    ended(world)
    (done,) = gc(world)
    assert "without work that git does not have elsewhere" in done["why"]
    assert not tree.exists()


def test_files_that_are_not_checked_out_are_no_work(world: World, repo: Repository) -> None:
    """A sparse checkout; and one that git does not look at, as it was."""
    for name in ("one", "two"):
        (repo.path / name).mkdir()
        repo.commit(f"{name}/file")
    tree = start(world)
    repo.git("sparse-checkout", "set", "one", cwd=tree)
    assert not (tree / "two").exists()
    repo.git("update-index", "--skip-worktree", "one/file", cwd=tree)
    ended(world)
    assert world.ok("rm", "a").err == ""
    assert not tree.exists()


def test_looking_around_is_no_work(world: World, repo: Repository) -> None:
    """An old commit was checked out, and one of its own replaced."""
    repo.commit()
    tree = start(world)
    repo.git("checkout", "-q", "HEAD~1", cwd=tree)
    repo.git("checkout", "-q", "topic", cwd=tree)
    repo.commit("first", cwd=tree)
    repo.git("commit", "-q", "--amend", "-m", "better", cwd=tree)
    repo.git("merge", "-q", "topic")
    ended(world)
    assert world.ok("rm", "a").err == ""
    assert not tree.exists()


def test_using_the_name_again_keeps_work_and_tells(world: World, repo: Repository) -> None:
    tree = start(world)
    untracked(repo, tree)
    ended(world)
    done = world.ok("start", "a", "--", "sleep", "1000")
    assert f"its worktree stays at {tree}: untracked files" in done.err
    assert (tree / "new").exists()
    other = start(world, "b", "clean")
    ended(world, "b")
    assert world.ok("start", "b", "--", "sleep", "1000").err == ""
    assert not other.exists()


# --- what can't be told --------------------------------------------------------------------------


def without_git(world: World) -> dict[str, str]:
    """The environment, with everything on PATH but git."""
    tools = world.root / "tools"
    tools.mkdir()
    for directory in world.env["PATH"].split(":"):
        for path in Path(directory).iterdir() if os.path.isdir(directory) else ():
            if path.name != "git" and not (tools / path.name).exists():
                (tools / path.name).symlink_to(path)
    return {**world.env, "PATH": str(tools)}


def test_without_git_everything_stays(world: World, repo: Repository) -> None:
    tree = start(world)
    ended(world)
    env = without_git(world)
    (kept,) = [
        one
        for one in world.ok("gc", "--older-than", "0", "--json", env=env).json
        if one["what"] == "worktree"
    ]
    assert (kept["verb"], "not found" in kept["why"]) == ("keep", True)
    complains(world.sesh("rm", "--discard", "-y", "a", env=env), 1, "git: not found", str(tree))
    assert world.state_of("a") == "stopped"
    complains(world.sesh("rm", "a", env=env), 0, "stays", "git: not found")
    assert tree.exists()
    assert "topic" in repo.branches


def test_without_git_there_is_no_worktree_but_branches_are_known(
    world: World, repo: Repository
) -> None:
    env = without_git(world)
    complains(world.sesh("start", "a", "--worktree", "x", "--", "sleep", "9", env=env), 1, "git")
    world.ok("start", "a", "--branch", "main", "--", "sleep", "1000", env=env)
    complains(world.sesh("start", "b", "--branch", "x", "--", "sleep", "9", env=env), 1, "main")
    assert "branch main" in world.ok("show", "a", env=env).out
    assert "main" in world.ok("ls", "--wide", env=env).out


def test_a_git_that_fails_or_hangs_keeps_everything(world: World, repo: Repository) -> None:
    tree = start(world)
    ended(world)
    tools = world.root / "tools"
    tools.mkdir()
    for script in ("exit 128", "exec sleep 1000"):
        (tools / "git").write_text(f"#!/bin/sh\n{script}\n")
        (tools / "git").chmod(0o755)
        env = {**world.env, "PATH": f"{tools}:{world.env['PATH']}"}
        told = world.ok("gc", "--older-than", "0", "--json", env=env).json
        assert [one["verb"] for one in told if one["what"] == "worktree"] == ["keep"]
    assert tree.exists()
    assert world.state_of("a") == "stopped"


def test_a_repository_that_moved_away_keeps_it(world: World, repo: Repository) -> None:
    tree = start(world)
    ended(world)
    (repo.path / ".git").rename(repo.path / "moved")
    complains(world.sesh("rm", "a"), 0, f"its worktree stays at {tree}")
    assert (tree / "first").exists()


def test_a_locked_worktree_stays(world: World, repo: Repository) -> None:
    tree = start(world)
    ended(world)
    repo.git("worktree", "lock", str(tree))
    complains(world.sesh("rm", "--discard", "-y", "a"), 1, "lock")
    complains(world.sesh("rm", "a"), 0, "locked")
    assert tree.exists()


def test_what_can_not_be_discarded_is_not_stopped_for_that(world: World, repo: Repository) -> None:
    tree = start(world)
    repo.git("worktree", "lock", str(tree))
    done = world.sesh("rm", "--force", "--discard", "-y", "a")
    complains(done, 1, f"a: its worktree {tree} stays: it is locked (git worktree unlock); not")
    assert ";;" not in done.err
    assert world.state_of("a") == "running"
    repo.git("worktree", "unlock", str(tree))
    world.start("b", options=["-C", str(tree)])
    complains(world.sesh("rm", "--force", "--discard", "-y", "a"), 1, "session b")
    assert world.state_of("a") == "running"


def test_something_else_in_its_place_stays(world: World, repo: Repository) -> None:
    """A link to another worktree, which is clean."""
    tree = start(world)
    ended(world)
    other = world.root / "other"
    repo.git("worktree", "add", "-q", "-b", "other", str(other))
    tree.rename(world.root / "moved")
    tree.symlink_to(other)
    complains(world.sesh("rm", "a"), 0, "no longer a worktree of its repository")
    assert other.exists()


@pytest.mark.parametrize("living", [True, False])
def test_a_worktree_that_another_session_is_in_stays(
    world: World, repo: Repository, living: bool
) -> None:
    tree = start(world)
    (tree / "sub").mkdir()
    link = world.root / "link"
    link.symlink_to(tree)
    world.start("b", options=["-C", str(link / "sub")])
    ended(world)
    if not living:
        ended(world, "b")
    complains(world.sesh("rm", "--discard", "-y", "a"), 1, "session b", str(tree))
    complains(world.sesh("rm", "a"), 0, "session b", str(tree))
    assert tree.exists()


def test_a_damaged_record_that_names_it_keeps_it(world: World, repo: Repository) -> None:
    tree = start(world)
    ended(world)
    world.record("b").write_text(f'cwd = "{tree}"\nnonsense')
    complains(world.sesh("rm", "a"), 0, "the record of b")
    assert tree.exists()


# --- making one ----------------------------------------------------------------------------------


def test_the_session_runs_in_a_worktree_beside_the_repository(
    world: World, repo: Repository
) -> None:
    done = world.ok("start", "--worktree", "fix/login", "--json", "--", "sleep", "1000").json
    tree = world.root / "work.worktrees" / "fix-login"
    assert (done["name"], done["cwd"], done["worktree"]) == ("fix-login", str(tree), str(tree))
    assert done["branch"] == "fix/login"
    assert os.readlink(f"/proc/{done['pid']}/cwd") == str(tree)
    assert repo.worktrees == [str(tree)]
    assert repo.git("rev-parse", "fix/login") == repo.git("rev-parse", "main")
    made = read_record(world, "fix-login").spec.worktree
    assert made is not None
    assert (made.repository, made.branch, made.made_branch) == (str(repo.path), "fix/login", True)
    out = world.ok("show", "fix-login").out
    assert "branch fix/login (clean)\n" in out
    assert f"worktree   {tree}, of {repo.path}, made for branch fix/login\n" in out


@pytest.mark.parametrize(
    ("branch", "name"),
    [
        ("a/b/c", "a-b-c"),
        ("ünïcode", "ünïcode"),
        ("$(touch-x)'\"", "touch-x"),
        ("x" * 150, "x" * 100),
        ("%s;&|", "s"),
    ],
)
def test_branches_with_odd_names(world: World, repo: Repository, branch: str, name: str) -> None:
    tree = start(world, "a", branch)
    assert repo.git("symbolic-ref", "--short", "HEAD", cwd=tree) == branch
    assert tree.name == name
    assert branch[:20] in world.ok("ls", "--wide").out
    ended(world)
    world.ok("rm", "a")
    assert repo.branches == {"main"}


@pytest.mark.parametrize("branch", ["", "-x", "a..b", "a b", "a\nb", "HEAD", "@{-1}", "\x1b[2J"])
@pytest.mark.parametrize("option", ["--branch", "--worktree"])
def test_what_is_no_branch(world: World, repo: Repository, branch: str, option: str) -> None:
    done = world.sesh("start", "a", f"{option}={branch}", "--", "sleep", "9")
    printable = branch and branch.isprintable()
    complains(done, 1 if option == "--branch" and printable else 2)
    assert "\x1b" not in done.err
    assert repo.worktrees == []
    assert not (world.root / "work.worktrees").exists()


def test_two_branches_that_look_alike(world: World, repo: Repository) -> None:
    assert start(world, "a", "x/y").name == "x-y"
    assert start(world, "b", "x-y").name == "x-y-2"


def test_a_subdirectory_stays_one(world: World, repo: Repository) -> None:
    (repo.path / "sub").mkdir()
    repo.commit("sub/file")
    tree = start(world, "a", "topic", "-C", "sub")
    assert world.session("a")["cwd"] == str(tree / "sub")
    (repo.path / "new").mkdir()
    other = start(world, "b", "other", "-C", "new")
    assert world.session("b")["cwd"] == str(other), "the branch does not have that one"


def test_where_they_are_made_can_be_set(world: World, repo: Repository) -> None:
    world.configure('[git]\nworktree_dir = "~/trees"\n')
    tree = start(world)
    assert tree == world.root / "home" / "trees" / "work" / "topic"
    world.configure('[git]\nworktree_dir = ".trees"\n')
    assert start(world, "b", "other") == repo.path / ".trees" / "work" / "other"
    world.configure('[git]\nworktree_dir = "/proc/trees"\n')
    done = world.sesh("start", "c", "--worktree", "third", "--", "sleep", "9")
    complains(done, 1, "/proc/trees", "worktree_dir")


def test_from_a_worktree_and_from_a_bare_repository(world: World, repo: Repository) -> None:
    """A new branch begins at the HEAD of where one is."""
    first = start(world)
    commit = repo.commit(cwd=first)
    second = start(world, "b", "second", "-C", str(first))
    assert repo.git("rev-parse", "HEAD", cwd=second) == commit
    assert second.parent == first.parent
    bare = repo.origin()
    repo.git("symbolic-ref", "HEAD", "refs/heads/main", cwd=bare)
    third = start(world, "c", "third", "-C", str(bare))
    assert third == world.root / "origin.worktrees" / "third"
    ended(world, "c")
    assert world.ok("rm", "c").err == ""
    assert not third.exists()


def test_what_is_in_the_way(world: World, repo: Repository) -> None:
    command = ("--", "sleep", "9")
    outside = world.root / "home"
    done = world.sesh("start", "a", "-C", str(outside), "--worktree", "x", *command)
    complains(done, 1, str(outside), "not in a git repository")
    complains(world.sesh("start", "a", "--worktree", "main", *command), 1, str(repo.path), "-C")
    tree = start(world)
    done = world.sesh("start", "b", "--worktree", "topic", *command)
    complains(done, 1, f"topic is already checked out at {tree}", f"-C {tree} --branch topic")
    world.ok("start", "b", "-C", str(tree), "--branch", "topic", "--", "sleep", "1000")
    repo.git("worktree", "add", "-q", "-b", "gone", str(world.root / "gone"))
    (world.root / "gone").rename(world.root / "elsewhere")
    complains(world.sesh("start", "c", "--worktree", "gone", *command), 1, "gone", "prune")
    done = world.sesh("start", "c", "--worktree", "x", "--branch", "y", *command)
    complains(done, 2, "different branches")
    (world.root / "empty").mkdir()
    repo.git("init", "-q", ".", cwd=world.root / "empty")
    done = world.sesh("start", "c", "-C", str(world.root / "empty"), "--worktree", "x", *command)
    complains(done, 1, "no commits")
    assert [one["name"] for one in world.ls()] == ["a", "b"]


@pytest.mark.parametrize("options", [("--container", "x"), ("--image", "x", "--no-mount")])
@pytest.mark.parametrize("option", ["--branch", "--worktree"])
def test_not_in_a_container_without_a_mount(
    world: World, repo: Repository, options: tuple[str, ...], option: str
) -> None:
    complains(world.sesh("start", "a", *options, option, "main"), 2, option, "mount")


# --- a start that fails --------------------------------------------------------------------------


def test_a_start_that_fails_takes_back_what_it_made(world: World, repo: Repository) -> None:
    world.start("taken")
    no_tmux = {**without_git(world), "GIT": "1"}
    tools = Path(no_tmux["PATH"])
    (tools / "tmux").unlink()
    git = next(p for p in world.env["PATH"].split(":") if (Path(p) / "git").exists())
    (tools / "git").symlink_to(Path(git) / "git")
    for code, name, command, env in (
        (1, "a", "no-such-command", world.env),
        (1, "a", "./no-such-file", world.env),
        (2, "not valid", "sleep", world.env),
        (8, "taken", "sleep", world.env),
        (5, "a", "sleep", no_tmux),
    ):
        complains(world.sesh("start", name, "--worktree", "x", "--", command, env=env), code)
        assert repo.worktrees == []
        assert repo.branches == {"main"}
        assert not (world.root / "work.worktrees").exists()
    repo.git("branch", "x")
    complains(world.sesh("start", "a", "--worktree", "x", "--", "no-such-command"), 1)
    assert repo.branches == {"main", "x"}, "it was there before"
    assert repo.worktrees == []


def test_but_nothing_that_was_done_in_it(world: World, repo: Repository) -> None:
    """A hook of the repository has made a file before the start failed."""
    hook = repo.path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho work >made\n")
    hook.chmod(0o755)
    complains(world.sesh("start", "a", "--worktree", "x", "--", "no-such-command"), 1)
    assert Path(repo.worktrees[0], "made").read_text() == "work\n"


def test_a_checkout_that_fails_leaves_nothing(world: World, repo: Repository) -> None:
    hook = repo.path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 3\n")
    hook.chmod(0o755)
    complains(world.sesh("start", "a", "--worktree", "x", "--", "sleep", "9"), 1, "worktree")
    assert repo.worktrees == []
    assert repo.branches == {"main"}
    assert not (world.root / "work.worktrees").exists()


def test_many_at_once_for_one_branch(world: World, repo: Repository) -> None:
    """One gets it; the others make nothing and remove nothing."""
    waiting = [
        world.popen("start", f"s{n}", "--worktree", "x", "--", "sleep", "1000") for n in range(5)
    ]
    codes = sorted(one.wait(pace.seconds(60)) for one in waiting)
    assert codes == [0, 1, 1, 1, 1]
    (shown,) = world.ls()
    assert repo.worktrees == [shown["worktree"]]
    assert git_is_well(repo, Path(shown["worktree"]))
    assert list((world.root / "work.worktrees").iterdir()) == [Path(shown["worktree"])]


def git_is_well(repo: Repository, tree: Path) -> bool:
    return repo.git("status", "--porcelain", cwd=tree) == ""


# --- restart -------------------------------------------------------------------------------------


def test_a_worktree_that_is_gone_is_told(world: World, repo: Repository) -> None:
    tree = start(world)
    tree.rename(world.root / "elsewhere")
    pid = world.session("a")["pid"]
    complains(world.sesh("restart", "a"), 1, f"its worktree {tree} is gone", "worktree add -f")
    assert world.session("a")["pid"] == pid, "it was not stopped for nothing"
    ended(world)
    done = world.sesh("restart", "a")
    complains(done, 1, "is gone")
    assert "(gone)" in world.ok("show", "a").out
    command = done.err.split("; next: ")[1].split()
    repo.git(*command[1:])
    world.ok("restart", "a")
    assert world.session("a")["cwd"] == str(tree)


def test_a_worktree_that_is_gone_is_no_obstacle_to_gc(world: World, repo: Repository) -> None:
    tree = start(world)
    ended(world)
    tree.rename(world.root / "elsewhere")
    assert gc(world) == []
    assert world.ls() == []


# --- the branch ----------------------------------------------------------------------------------


def test_a_start_on_another_branch_is_refused(world: World, repo: Repository) -> None:
    done = world.sesh("start", "a", "--branch", "topic", "--", "sleep", "9")
    complains(done, 1, "on branch main, not on topic", f"git -C {repo.path} switch topic")
    repo.git("checkout", "-q", "--detach")
    complains(world.sesh("start", "a", "--branch", "main", "--", "sleep", "9"), 1, "detached")
    home = str(world.root / "home")
    done = world.sesh("start", "a", "-C", home, "--branch", "main", "--", "sleep", "9")
    complains(done, 1, "not in a git repository; --branch needs one")
    assert world.ls() == []


def test_a_directory_that_leaves_its_branch_is_shown_everywhere(
    world: World, repo: Repository
) -> None:
    world.start("a", options=["--branch", "main"])
    world.start("b")
    assert [one["attention"] for one in world.ls()] == [None, None]
    assert world.ok("doctor", "--only", "branch").code == 0
    repo.git("switch", "-q", "-c", "other")
    wrong = "on branch other, should be on main"
    a, b = world.ls()
    assert (a["state"], a["attention"], b["attention"]) == ("running", wrong, None)
    assert wrong in world.ok("ls").out
    assert wrong in world.ok("show", "a").out
    assert wrong in world.ok("show", "a", "--json").json["attention"]
    done = world.sesh("doctor", "--only", "branch")
    assert done.code == 10
    assert wrong in done.out
    assert f"fix: git -C {repo.path} switch main" in done.out
    assert world.ok("doctor", "--prompt").out == "1 off-branch\n"
    repo.git("checkout", "-q", "--detach")
    assert "detached" in world.session("a")["attention"]
    world.ok("pause", "a")
    assert "should be on main" in world.session("a")["attention"]
    assert world.sesh("doctor", "--only", "branch").code == 10
    world.ok("resume", "a")
    repo.git("switch", "-q", "main")
    assert [one["attention"] for one in world.ls()] == [None, None]
    assert world.ok("doctor", "--prompt").out == ""
    assert world.ok("doctor", "--only", "branch").code == 0


def test_an_ended_session_has_no_branch_to_be_on(world: World, repo: Repository) -> None:
    world.start("a", options=["--branch", "main"])
    repo.git("switch", "-q", "-c", "other")
    ended(world)
    assert world.session("a")["attention"] is None
    assert world.ok("doctor", "--only", "branch").code == 0
    world.ok("restart", "a")
    assert world.session("a")["attention"] == "on branch other, should be on main"


def test_a_branch_whose_name_would_hurt_a_terminal(world: World, repo: Repository) -> None:
    world.start("a", options=["--branch", "main"])
    (repo.path / ".git" / "HEAD").write_text("ref: refs/heads/\x1b[31mred\n")
    for command in (("ls",), ("ls", "--wide"), ("show", "a"), ("doctor", "--only", "branch")):
        done = world.sesh(*command)
        assert "red" in done.out
        assert "\x1b" not in done.out + done.err


# --- ls and show ---------------------------------------------------------------------------------


def test_ls_wide_and_show_tell_of_the_work(world: World, repo: Repository) -> None:
    repo.origin()
    tree = start(world)
    repo.git("push", "-q", "-u", "origin", "topic", cwd=tree)
    repo.commit(cwd=tree)
    repo.commit(cwd=tree)
    untracked(repo, tree)
    world.start("b", options=["-C", str(world.root / "home")])
    a, b = world.ls("--wide")
    assert (a["branch"], a["ahead"], a["behind"], a["dirty"]) == ("topic", 2, 0, True)
    assert (b["branch"], b["ahead"], b["behind"], b["dirty"]) == (None, None, None, None)
    plain = world.session("a")
    assert (plain["branch"], plain["ahead"], plain["dirty"]) == ("topic", None, None)
    assert "topic ↑2 *" in world.ok("ls", "--wide").out
    assert (
        "branch topic (2 ahead of origin/topic, uncommitted changes)" in world.ok("show", "a").out
    )
    repo.git("push", "-q", cwd=tree)
    repo.git("reset", "-q", "--hard", "HEAD~1", cwd=tree)
    shown = world.ok("show", "a", "--json").json
    assert (shown["ahead"], shown["behind"], shown["dirty"]) == (0, 1, True)
    repo.git("checkout", "-q", "--detach", cwd=tree)
    assert world.ok("show", "a", "--json").json["branch"] is None
    assert "no branch (uncommitted changes)" in world.ok("show", "a").out


def test_a_branch_without_an_upstream_is_compared_with_the_main_checkout(
    world: World, repo: Repository
) -> None:
    tree = start(world)

    def told() -> tuple[str, int, int, str]:
        shown = world.ok("show", "a", "--json").json
        assert shown == {**shown, **world.ls("--wide")[0], "checked_at": shown["checked_at"]}
        out = world.ok("show", "a").out
        words = out.partition("branch topic (")[2].partition(", clean)")[0]
        return words, shown["ahead"], shown["behind"], shown["ahead_of"]

    assert told()[1:] == (0, 0, "main")
    assert "branch topic (clean)" in world.ok("show", "a").out
    repo.commit("first", cwd=tree)
    repo.commit("first", cwd=tree)
    assert told() == ("2 ahead of main", 2, 0, "main")
    assert "topic ↑2 " in world.ok("ls", "--wide").out
    repo.commit()
    assert told() == ("2 ahead, 1 behind main", 2, 1, "main")
    repo.git("merge", "-q", "topic")
    assert told() == ("2 behind main", 0, 2, "main")
    repo.git("checkout", "-q", "--detach")
    assert world.ok("show", "a", "--json").json["ahead"] is None


def test_the_main_checkout_is_compared_with_its_upstream_alone(
    world: World, repo: Repository
) -> None:
    world.start("a")
    shown = world.ok("show", "a", "--json").json
    assert (shown["branch"], shown["ahead"], shown["ahead_of"]) == ("main", None, None)
    repo.origin()
    repo.commit()
    assert world.ok("show", "a", "--json").json["ahead_of"] == "origin/main"
    assert "branch main (1 ahead of origin/main, clean)" in world.ok("show", "a").out


def test_work_during_a_gc_is_not_lost(world: World, repo: Repository) -> None:
    """Work that appears just before git is told to remove: git itself refuses. (A git of our own
    makes the file between the question and the deed.)"""
    tree = start(world)
    ended(world)
    tools = world.root / "tools"
    tools.mkdir()
    real = next(p for p in world.env["PATH"].split(":") if (Path(p) / "git").exists())
    (tools / "git").write_text(
        f'#!/bin/sh\ncase " $* " in *" worktree remove "*) echo work >{tree}/late;; esac\n'
        f'exec {real}/git "$@"\n'
    )
    (tools / "git").chmod(0o755)
    env = {**world.env, "PATH": f"{tools}:{world.env['PATH']}"}
    told = world.ok("gc", "--older-than", "0", "--json", env=env).json
    (step,) = [one for one in told if one["what"] == "worktree"]
    assert (step["verb"], step["done"]) == ("remove", False)
    assert (tree / "late").read_text() == "work\n"
    assert world.state_of("a") == "stopped", "its record stays with it"
    assert eventually(lambda: "topic" in repo.branches)


def test_no_command_runs_what_a_repository_names(world: World, repo: Repository) -> None:
    """Config, attributes and hooks that an agent may have written, in a container even."""
    mark = world.root / "was-run"
    trees = [start(world), start(world, "d", "other")]
    world.start("b")
    booby_trap(repo.path, mark)
    for tree in trees:
        (tree / "first").touch()
    look = (("show", "a"), ("show", "b"), ("ls", "--wide"), ("ls", "--wide", "--json"))
    for words in (*look, ("status", "a"), ("gc", "--dry-run"), ("restart", "b")):
        world.ok(*words)
        assert not mark.exists(), (words, mark.read_text())
    assert world.ok("show", "b", "--json").json["dirty"], "a file that git does not know"
    world.sesh("doctor")
    world.ok("start", "c", "--branch", "main", "--", "sleep", "1000")
    ended(world)
    ended(world, "d")
    world.ok("rm", "a")
    gc(world)
    assert not mark.exists(), mark.read_text()
    assert not any(tree.exists() for tree in trees), "nothing is lost with them"


def test_what_cannot_be_told_is_not_shown(world: World, repo: Repository) -> None:
    """Only the filter could tell whether the file has changed: its worktree stays."""
    repo.git("config", "filter.up.clean", "tr a-z A-Z")
    (repo.path / ".gitattributes").write_text("*.up filter=up\n")
    (repo.path / "a.up").write_text("loud\n")
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "filtered")
    tree = start(world)
    (tree / "a.up").write_text("changed, or not\n")
    (shown,) = world.ok("ls", "--wide", "--json").json
    assert (shown["branch"], shown["ahead"], shown["dirty"]) == ("topic", 0, None)
    assert "branch topic\n" in world.ok("show", "a").out
    ended(world)
    complains(world.sesh("rm", "a"), 0, "git could not tell whether there is work in it", str(tree))
    assert (tree / "a.up").exists()
