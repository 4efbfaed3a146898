"""What git's files and git itself say of a directory, whatever state that is in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sesh import git
from sesh.git import Checkout, Work
from sesh.model import Presence
from tests.repository import PLAIN, Repository, repository


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "shop").mkdir()
    return repository(tmp_path / "shop", dict(os.environ))


# --- the branch, from files ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["main", "fix/log-in", "a.b@c", "ünïcode/日本", "$(x)'\"&;"])
def test_the_branch_of_a_directory_and_of_those_below(repo: Repository, name: str) -> None:
    repo.git("switch", "-q", "-C", name)
    deep = repo.path / "a" / "b"
    deep.mkdir(parents=True)
    assert git.branch(str(repo.path)) == git.branch(str(deep)) == name


def test_through_a_link(repo: Repository, tmp_path: Path) -> None:
    """A directory is where it really is, as for git."""
    (repo.path / "sub").mkdir()
    (tmp_path / "link").symlink_to(repo.path / "sub")
    assert git.branch(str(tmp_path / "link")) == "main"
    assert git.top(str(tmp_path / "link")) == str(repo.path)


def test_a_worktree_has_a_branch_of_its_own(repo: Repository, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    assert git.branch(str(tmp_path / "tree")) == "other"
    assert git.branch(str(repo.path)) == "main"


def test_a_branch_without_a_commit(tmp_path: Path, repo: Repository) -> None:
    (tmp_path / "new").mkdir()
    repo.git("init", "-q", "-b", "begin", ".", cwd=tmp_path / "new")
    assert git.branch(str(tmp_path / "new")) == "begin"


def test_no_branch(repo: Repository, tmp_path: Path) -> None:
    repo.git("checkout", "-q", "--detach")
    found = git.head(str(repo.path))
    assert (found.presence, "detached" in found.what) == (Presence.ABSENT, True)
    assert git.branch(str(repo.path)) is None
    assert git.head(str(tmp_path)).what == "in no git repository"
    repo.git("init", "-q", "--bare", str(tmp_path / "bare"))
    assert git.head(str(tmp_path / "bare")).absent


def test_a_rebase_or_a_bisection_has_not_left_its_branch(repo: Repository) -> None:
    repo.git("switch", "-q", "-c", "topic")
    repo.commit()
    repo.git("-c", "sequence.editor=sed -i s/^pick/edit/", "rebase", "-q", "-i", "HEAD~1")
    assert git.branch(str(repo.path)) == "topic"
    assert git.under_way(str(repo.path)) == "a rebase"
    repo.git("rebase", "--abort")
    assert git.under_way(str(repo.path)) is None
    repo.commit()
    repo.git("bisect", "start", "HEAD", "HEAD~2")
    assert git.branch(str(repo.path)) == "topic"
    assert git.under_way(str(repo.path)) == "a bisection"


@pytest.mark.parametrize(
    "damage",
    [
        lambda head: head.unlink(),
        lambda head: head.write_bytes(b"ref: refs/heads/\xff\n"),
        lambda head: head.write_bytes(b"x" * 5000),
        lambda head: (head.unlink(), subprocess.run(["mkfifo", str(head)], check=True)),
        lambda head: (head.unlink(), head.symlink_to("/dev/zero")),
        lambda head: head.write_text("ref: refs/heads/.invalid\n"),
    ],
)
def test_what_cannot_be_read_is_unknown(repo: Repository, damage: object) -> None:
    assert callable(damage)
    damage(repo.path / ".git" / "HEAD")
    assert git.head(str(repo.path)).unknown
    assert git.branch(str(repo.path)) is None


# --- the work, from git --------------------------------------------------------------------------


def test_work(repo: Repository) -> None:
    path = str(repo.path)
    assert git.work(path) == Work("main", None, None, dirty=False)
    repo.origin()
    upstream = "origin/main"
    assert git.work(path) == Work("main", 0, 0, dirty=False, ahead_of=upstream)
    repo.commit()
    repo.commit()
    assert git.work(path) == Work("main", 2, 0, dirty=False, ahead_of=upstream)
    repo.git("push", "-q")
    repo.git("reset", "-q", "--hard", "HEAD~1")
    assert git.work(path) == Work("main", 0, 1, dirty=False, ahead_of=upstream)
    (repo.path / "new").touch()
    assert git.work(path) == Work("main", 0, 1, dirty=True, untracked=True, ahead_of=upstream)
    (repo.path / "first").write_text("changed")
    assert git.work(path) == Work("main", 0, 1, dirty=True, ahead_of=upstream)
    repo.git("checkout", "-q", "--detach", "-f")
    assert git.work(path) == Work(None, None, None, dirty=True, untracked=True)


def test_settings_that_hide_files_hide_nothing(repo: Repository) -> None:
    repo.git("config", "status.showUntrackedFiles", "no")
    (repo.path / "new").touch()
    found = git.work(str(repo.path))
    assert found is not None
    assert found.dirty


def test_no_work_where_nobody_can_tell(repo: Repository, tmp_path: Path) -> None:
    assert git.work(str(tmp_path)) is None
    assert git.work(str(tmp_path / "missing")) is None
    (repo.path / ".git" / "HEAD").write_text("nonsense")
    assert git.work(str(repo.path)) is None


def test_many_at_once_each_checkout_once(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted by a git of our own, which writes down that it was called."""
    repo.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    (repo.path / "sub").mkdir()
    real = next(
        f"{path}/git" for path in os.environ["PATH"].split(":") if os.path.exists(f"{path}/git")
    )
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").write_text(f'#!/bin/sh\necho x >>{tmp_path}/calls\nexec {real} "$@"\n')
    (tools / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    asked = [str(repo.path), str(repo.path / "sub"), str(tmp_path / "tree"), str(tmp_path)]
    found = git.works(asked)
    assert [one and one.branch for one in map(found.get, asked)] == ["main", "main", "other", None]
    # one each, and one that compares the worktree's branch, which has no upstream, with main
    assert (tmp_path / "calls").read_text() == "x\nx\nx\n"


def test_a_git_that_hangs_is_not_waited_for(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(git, "TIMEOUT", 0.2)
    assert git.works([str(repo.path)]) == {str(repo.path): None}


def test_a_look_runs_nothing_of_the_repository(repo: Repository, tmp_path: Path) -> None:
    """No monitor of files, no hooks; nothing is written there either."""
    mark = tmp_path / "was-run"
    script = repo.path / ".git" / "evil"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    repo.git("config", "core.fsmonitor", str(script))
    repo.git("config", "core.hooksPath", str(repo.path / ".git" / "evil-hooks"))
    hooks = repo.path / ".git" / "evil-hooks"
    hooks.mkdir()
    for name in ("post-index-change", "reference-transaction", "post-checkout"):
        (hooks / name).symlink_to(script)
    (repo.path / "first").touch()
    mark.unlink(missing_ok=True)
    before = (repo.path / ".git" / "index").stat().st_mtime_ns
    assert git.work(str(repo.path)) is not None
    assert isinstance(git.checkouts(str(repo.path)), list)
    assert git.only_here(str(repo.path), "main") == 0
    assert not mark.exists()
    assert (repo.path / ".git" / "index").stat().st_mtime_ns == before


def test_variables_for_another_repository_do_not_mislead(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a hook, where git says which repository is meant."""
    (tmp_path / "other").mkdir()
    repo.git("init", "-q", "-b", "elsewhere", ".", cwd=tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    found = git.work(str(repo.path))
    assert found is not None
    assert found.branch == "main"


# --- worktrees -----------------------------------------------------------------------------------


def test_checkouts(repo: Repository, tmp_path: Path) -> None:
    tree, loose = tmp_path / "a tree", tmp_path / "loose"
    repo.git("worktree", "add", "-q", "-b", "x/y", str(tree))
    repo.git("worktree", "add", "-q", "--detach", str(loose))
    repo.git("worktree", "lock", str(loose))
    expected = [
        Checkout(str(repo.path), "main"),
        Checkout(str(tree), "x/y"),
        Checkout(str(loose), None, locked=True),
    ]
    assert git.checkouts(str(tree)) == expected


@pytest.mark.parametrize("name", ["a", "a/b", "ü", "a'b", "a$b"])
def test_valid_branches(repo: Repository, name: str) -> None:
    assert git.valid_branch(str(repo.path), name)


@pytest.mark.parametrize("name", ["-a", "a..b", "a b", "a~1", "HEAD", "@", "a/", "/a", "a.lock"])
def test_invalid_branches(repo: Repository, name: str) -> None:
    assert not git.valid_branch(str(repo.path), name)


def test_commits_that_are_only_here(repo: Repository, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    repo.git("worktree", "add", "-q", "-b", "topic", str(tree))
    assert git.only_here(str(tree), "topic") == 0
    repo.commit(cwd=tree)
    repo.commit(cwd=tree)
    assert git.only_here(str(tree), "topic") == 2
    repo.git("checkout", "-q", "--detach", "HEAD~1", cwd=tree)
    assert git.only_here(str(tree), "topic") == 2, "what the branch has counts, too"
    repo.commit("loose", cwd=tree)
    assert git.only_here(str(tree), "topic") == 3, "and what no branch has"
    repo.git("switch", "-q", "topic", cwd=tree)
    repo.origin()
    assert git.only_here(str(tree), "topic") == 2
    repo.git("push", "-q", "origin", "topic")
    assert git.only_here(str(tree), "topic") == 0, "pushed"
    repo.commit(cwd=tree)
    assert git.only_here(str(tree), "topic") == 1
    repo.git("merge", "-q", "topic")
    assert git.only_here(str(tree), "topic") == 0, "merged"
    repo.git("switch", "-q", "-c", "later", cwd=tree)
    repo.git("branch", "-q", "-D", "topic")
    assert git.only_here(str(tree), "topic") == 0, "a branch that is gone has nothing"
    assert git.only_here(str(tmp_path), "topic") is None
