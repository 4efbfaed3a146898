"""What git's files and git itself say of a directory, whatever state that is in."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sesh.model.observation import Presence
from sesh.system import git
from sesh.system.git import Checkout, Work
from tests.repository import PLAIN, Repository, booby_trap, repository


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
def test_an_unreadable_branch_is_unknown(repo: Repository, damage: object) -> None:
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


def test_no_work_is_reported_if_git_cannot_tell(repo: Repository, tmp_path: Path) -> None:
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
    # one each, and one that compares the worktree's branch, which has no upstream, with main; each
    # after one for the settings
    assert (tmp_path / "calls").read_text() == "x\n" * 6


def test_a_git_that_hangs_is_not_waited_for(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(git, "TIMEOUT", 0.2)
    assert git.works([str(repo.path)]) == {str(repo.path): None}


def looks(path: Path) -> None:
    """Every question that sesh has for git, and that changes nothing."""
    text = str(path)
    git.works([text])
    git.checkouts(text)
    git.only_here(text, "main")
    git.left_behind(text)
    git.hidden_changes(text)
    git.ignored(text)
    git.commit(text, "HEAD")
    git.common_dir(text)


def test_a_look_runs_nothing_of_the_repository(repo: Repository, tmp_path: Path) -> None:
    """Whatever its config names: and nothing is written there either."""
    mark = tmp_path / "was-run"
    (repo.path / "unstaged").write_text("first\n")
    repo.git("add", "unstaged")
    booby_trap(repo.path, mark)
    (repo.path / "unstaged").write_text("other\n")
    before = (repo.path / ".git" / "index").stat().st_mtime_ns
    looks(repo.path)
    assert not mark.exists(), mark.read_text()
    assert (repo.path / ".git" / "index").stat().st_mtime_ns == before
    assert list(tmp_path.glob("sesh-git-*")) == []
    subprocess.run(["git", "status"], cwd=repo.path, env=repo.env, capture_output=True)
    assert mark.exists(), "the trap is none"


def test_a_look_runs_nothing_of_a_submodule(repo: Repository, tmp_path: Path) -> None:
    """What is in it can't be told."""
    mark = tmp_path / "was-run"
    inner = tmp_path / "inner"
    inner.mkdir()
    other = repository(inner, dict(os.environ))
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.path), "sub")
    repo.git("commit", "-q", "-m", "with a submodule")
    booby_trap(repo.path / "sub", mark, repo.path / ".git" / "modules" / "sub")
    looks(repo.path)
    assert not mark.exists(), mark.read_text()
    found = git.work(str(repo.path))
    assert found is not None
    assert (found.branch, found.dirty) == ("main", None)
    (repo.path / "new").touch()
    assert (found := git.work(str(repo.path)))
    assert found.dirty


@pytest.mark.parametrize("owner", [None, 12345])
def test_a_look_runs_nothing_that_a_forged_pointer_names(
    repo: Repository, tmp_path: Path, owner: int | None
) -> None:
    """A `.git` file that points at a git directory which the agent made; as another user, even."""
    mark, forged = tmp_path / "was-run", tmp_path / "forged"
    shutil.copytree(repo.path / ".git", forged)
    booby_trap(repo.path, mark, forged)
    shutil.rmtree(repo.path / ".git")
    (repo.path / ".git").write_text(f"gitdir: {forged}\n")
    if owner is not None and os.getuid() == 0:
        os.chown(forged, owner, owner)
        os.chown(repo.path, owner, owner)
    looks(repo.path)
    assert not mark.exists(), mark.read_text()


def test_a_look_fetches_nothing(repo: Repository, tmp_path: Path) -> None:
    """A missing object is not fetched from where the config says that it is: that is a command."""
    mark = tmp_path / "was-run"
    tip = repo.commit()
    booby_trap(repo.path, mark)
    with (repo.path / ".git" / "config").open("a") as config:
        config.write("[extensions]\npartialClone = evil\n[core]\nrepositoryformatversion = 1\n")
    (repo.path / ".git" / "objects" / tip[:2] / tip[2:]).unlink()
    looks(repo.path)
    assert git.commit(str(repo.path), "HEAD") is None
    assert not mark.exists(), mark.read_text()


def test_changes_that_only_a_filter_could_show_are_unknown(repo: Repository) -> None:
    """A file that has other bytes than git's, and a filter that might make them the same."""
    path = str(repo.path)
    repo.git("config", "filter.up.clean", "tr a-z A-Z")
    (repo.path / ".gitattributes").write_text("*.up filter=up\n*.not filter=unknown\n")
    (repo.path / "a.up").write_text("loud\n")
    (repo.path / "a.not").write_text("text\n")
    os.utime(repo.path / "a.up", (1, 1))  # long before the index: git need not look into it
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "filtered")
    assert git.work(path) == Work("main", None, None, dirty=False), "as it was when it was added"
    os.utime(repo.path / "a.up", (2, 2))
    assert git.work(path) == Work("main", None, None, dirty=None)
    (repo.path / "a.not").write_text("changed\n")
    assert git.work(path) == Work("main", None, None, dirty=True), "no filter is for this one"
    repo.git("checkout", "-q", "a.not")
    (repo.path / "new").touch()
    assert git.work(path) == Work("main", None, None, dirty=True)


def test_settings_of_the_repository_count_as_for_git(repo: Repository, tmp_path: Path) -> None:
    """Names and values with everything that a config file quotes."""
    ignored = tmp_path / 'ig"no\\red'
    ignored.write_text("*.tmp\n")
    repo.git("config", "core.excludesFile", str(ignored))
    (repo.path / "x.tmp").touch()
    assert git.work(str(repo.path)) == Work("main", None, None, dirty=False)
    repo.git("switch", "-q", "-c", 'a"b')
    there = tmp_path / "origin.git"
    repo.git("init", "-q", "--bare", str(there))
    repo.git("remote", "add", "o.r", str(there))
    repo.git("push", "-q", "-u", "o.r", "HEAD")
    expected = Work('a"b', 0, 0, dirty=False, ahead_of='o.r/a"b')
    assert git.work(str(repo.path)) == expected
    repo.git("config", "--unset", "core.excludesFile")
    repo.git("config", "core.fileMode", "false")
    (repo.path / "first").chmod(0o755)
    (repo.path / "x.tmp").unlink()
    assert git.work(str(repo.path)) == expected


@pytest.mark.parametrize("form", ["sha256", "reftable", "packed", "shallow", "sparse", "separate"])
def test_repositories_of_every_form_are_looked_at(
    repo: Repository, tmp_path: Path, form: str
) -> None:
    there, path = tmp_path / "there", str(tmp_path / "there")
    repo.commit()
    if form in ("shallow", "separate"):
        words = {"shallow": "--depth=1", "separate": f"--separate-git-dir={tmp_path}/sep.git"}[form]
        repo.git("clone", "-q", words, f"file://{repo.path}", path)
    elif form in ("sha256", "reftable"):
        option = {"sha256": "--object-format=sha256", "reftable": "--ref-format=reftable"}[form]
        if form == "reftable" and "ref-format" not in subprocess.getoutput("git init -h"):
            pytest.skip("this git knows no tables of refs")
        there.mkdir()
        repo.git("init", "-q", "-b", "main", option, ".", cwd=there)
        repo.commit(cwd=there)
    else:
        repo.git("worktree", "add", "-q", "-b", "other", path)
        repo.git("pack-refs", "--all")
        if form == "sparse":
            repo.git("sparse-checkout", "set", "--no-cone", "/first", cwd=there)
            assert not (there / "file").exists()
    found = git.work(path)
    assert found is not None
    assert found.dirty is False
    assert git.commit(path, "HEAD") == repo.git("rev-parse", "HEAD", cwd=there)
    assert git.left_behind(path) == 0
    (there / "new").touch()
    assert (found := git.work(path))
    assert found.dirty


def test_a_packed_branch_is_deleted_with_its_settings(repo: Repository) -> None:
    repo.git("branch", "-q", "--track", "done")
    repo.git("branch", "-q", "kept")
    repo.commit()
    repo.git("pack-refs", "--all")
    assert git.delete_merged(str(repo.path), "done")
    assert repo.branches == {"main", "kept"}
    assert "done" not in (repo.path / ".git" / "config").read_text()
    assert not git.delete_merged(str(repo.path), "main"), "it is checked out"


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
