"""The git worktree of a session: created for it, and removed only when no work would be lost.

git proves that right before each removal; without a proof the worktree stays. The branch stays too,
unless sesh created it and all of it is merged.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from sesh.model.configuration import Config
from sesh.model.errors import SeshError, UsageError
from sesh.model.record import Record, Worktree
from sesh.model.states import ENDED
from sesh.model.text import formatting
from sesh.model.text.shell_words import quote
from sesh.model.value_object import Value
from sesh.state import judge, records
from sesh.system import git
from sesh.system.git import Checkout

_MOST_NUMBERED = 999
_LOCKED = "it is locked (git worktree unlock)"


class Made(Value):
    """A new worktree."""

    worktree: Worktree
    source: str  # a new branch starts at the HEAD of this directory
    cwd: str  # the session's directory: in the worktree, at the same depth as `source`
    commit: str | None


# --- making --------------------------------------------------------------------------------------


def make(source: str, branch: str, config: Config) -> Made:
    """Check out a branch in its own worktree; a missing branch is created from HEAD."""
    known = _checkouts(source)
    if not git.valid_branch(source, branch):
        raise UsageError(f"--worktree {branch!a}: invalid branch name")
    _check_free(branch, known)
    new = git.branch_commit(source, branch) is None
    if new and git.commit(source, "HEAD") is None:
        raise SeshError(f"{source}: the repository has no commits; next: git commit")
    repository = known[0].path
    path = _reserve(_parent(repository, config), branch)
    made = Made(Worktree(path, repository, branch, made_branch=new), source, path, None)
    try:
        answer = git.add_worktree(source, path, branch, new=new)
        if not answer.ok:
            raise SeshError(f"git cannot create a worktree of {branch}: {git.why(answer)}")
    except BaseException:
        _withdraw(made)
        raise
    return Made(made.worktree, source, _same_depth(source, path), git.commit(path, "HEAD"))


def _checkouts(source: str) -> list[Checkout]:
    known = git.checkouts(source)
    if isinstance(known, list):
        return known
    if known.code is not None and "not a git repository" in known.err:
        raise SeshError(f"{source} is not in a git repository; --worktree needs one (see -C)")
    raise SeshError(f"--worktree: {git.why(known)}")


def _check_free(branch: str, known: list[Checkout]) -> None:
    for one in known:
        if one.branch == branch and os.path.isdir(one.path):
            there = f"sesh start -C {quote(one.path)} --branch {quote(branch)}"
            raise SeshError(f"branch {branch} is already checked out at {one.path}; next: {there}")
        if one.branch == branch:
            fix = f"git -C {quote(known[0].path)} worktree prune"
            raise SeshError(
                f"branch {branch} has its worktree at {one.path}, which is gone; next: {fix}"
            )


def _parent(repository: str, config: Config) -> str:
    """The directory for new worktrees of a repository: beside it, or from the settings."""
    base = os.path.basename(repository).removesuffix(".git")
    above = os.path.dirname(repository)
    name = base if base and not base.startswith(".") else os.path.basename(above)
    given = config.git.worktree_dir
    if not given:
        return os.path.join(above, f"{name or 'git'}.worktrees")
    return os.path.normpath(os.path.join(repository, os.path.expanduser(given), name or "git"))


def _reserve(parent: str, branch: str) -> str:
    """Create a directory named after the branch; mkdir makes sure that it is ours."""
    stem = re.sub(r"[^\w.+@=-]+", "-", branch).strip("-.")[:100] or "worktree"
    try:
        os.makedirs(parent, exist_ok=True)
        for number in range(1, _MOST_NUMBERED + 1):
            path = os.path.join(parent, stem if number == 1 else f"{stem}-{number}")
            with suppress(FileExistsError):
                os.mkdir(path)
                path.encode()
                return path
    except OSError as error:
        raise SeshError(
            f"cannot make a worktree below {parent}: {error.strerror}; see [git] worktree_dir "
            "in sesh-config(5)"
        ) from None
    except UnicodeEncodeError:
        os.rmdir(path)
        raise SeshError(f"{parent!a}: not valid UTF-8: a record cannot contain it") from None
    raise SeshError(f"all names from {stem} on are taken in {parent}")


def _same_depth(source: str, path: str) -> str:
    top = git.top(source)
    inner = os.path.relpath(os.path.realpath(source), top) if top else "."
    cwd = os.path.normpath(os.path.join(path, inner))
    return cwd if os.path.isdir(cwd) else path


def _withdraw(made: Made) -> None:
    """Undo a creation that failed or was interrupted: nothing can have worked in it."""
    git.remove_worktree(made.source, made.worktree.path, force=2)
    _tidy(made.worktree, made.source)


def take_back(made: Made) -> None:
    """After a failed start: remove the worktree, if it has no changes and no session runs in it."""
    tree = made.worktree
    entries = [
        entry for entry in records.entries() if entry.readable and _uses(entry.readable, tree.path)
    ]
    if any(seen.state not in ENDED for seen in judge.judge(entries)):
        return
    work = git.work(tree.path)
    if work is None or work.dirty is not False or git.commit(tree.path, "HEAD") != made.commit:
        return
    if git.remove_worktree(made.source, tree.path).ok:
        _tidy(tree, made.source)


# --- while it is needed --------------------------------------------------------------------------


def check(record: Record) -> None:
    """Raise when a session cannot be restarted because its worktree is gone."""
    tree = record.spec.worktree
    if tree is not None and not os.path.isdir(tree.path):
        where = f"-C {quote(tree.repository)} worktree add -f {quote(tree.path)}"
        fix = f"git {where} {quote(tree.branch)}"
        raise SeshError(f"{record.name}: its worktree {tree.path} is gone; next: {fix}")


def existing(record: Record) -> Worktree | None:
    """The worktree of a session, if it is still there."""
    tree = record.spec.worktree
    return tree if tree is not None and os.path.isdir(tree.path) else None


# --- removing ------------------------------------------------------------------------------------


def why_it_stays(record: Record) -> str | None:
    """What would be lost with the worktree of an ended session, or why that is unknown; None when
    it may be removed or does not exist."""
    tree = existing(record)
    return (needed(record, tree) or _doubt(tree) or _work_in(tree)) if tree else None


def needed(record: Record, tree: Worktree) -> str | None:
    """Why another session needs it; a damaged record may belong to such a session."""
    for entry in records.entries():
        if entry.readable:
            if entry.readable.id != record.id and _uses(entry.readable, tree.path):
                return f"it is the directory of session {entry.record.name}"
        elif not entry.raw or tree.path.encode() in entry.raw:
            return f"the record of {entry.record.name}, which cannot be read, may need it"
    return None


def _uses(record: Record, path: str) -> bool:
    tree = record.spec.worktree
    inside = os.path.realpath(record.spec.cwd) + "/"
    within = inside.startswith(os.path.realpath(path) + "/")
    return within or (tree is not None and tree.path == path)


def _doubt(tree: Worktree) -> str | None:
    """Why it is not certain that this is still the worktree, or that nothing goes on in it."""
    known = _registered(tree)
    if isinstance(known, str):
        return known
    if known is None or os.path.islink(tree.path):
        return "it is no longer a worktree of its repository"
    if known.locked:
        return _LOCKED
    under_way = git.under_way(tree.path)
    return f"{under_way} is under way" if under_way else None


def _registered(tree: Worktree) -> Checkout | str | None:
    """The worktree as git knows it, if it does; a text: why that is unknown."""
    known = git.checkouts(tree.repository)
    if not isinstance(known, list):
        return f"git does not answer: {git.why(known)}"
    real = os.path.realpath(tree.path)
    return next((one for one in known[1:] if os.path.realpath(one.path) == real), None)


def _work_in(tree: Worktree) -> str | None:
    work = git.work(tree.path)
    if work is None or work.dirty is None:
        return "git could not tell whether there is work in it"
    if work.dirty:
        return "untracked files" if work.untracked else "uncommitted changes"
    hidden = git.hidden_changes(tree.path)
    if hidden is None:
        return "git could not tell which files it ignores as unchanged"
    if hidden:
        return "changes that git is configured to ignore (git ls-files -v)"
    return _commits_in(tree)


def _commits_in(tree: Worktree) -> str | None:
    count = git.only_here(tree.path, tree.branch)
    if count is None:
        return "git could not tell whether its commits are merged or pushed"
    if count:
        return f"{formatting.number(count, 'commit')} neither merged nor pushed"
    count = git.left_behind(tree.path)
    if count is None:
        return "git could not tell whether only its reflog has commits"
    only = f"{formatting.number(count, 'commit')} on no branch, only in its reflog (git reflog)"
    return only if count else None


def why_not_discarded(record: Record) -> str | None:
    """Why it stays even if its work may be discarded."""
    tree = existing(record)
    if tree is None:
        return None
    if why := needed(record, tree):
        return why
    known = _registered(tree)
    if isinstance(known, str):
        return known
    return _LOCKED if known and known.locked else None


def remove(record: Record, *, discard: bool = False) -> str | None:
    """Remove the worktree of an ended session if no work would be lost, or with `discard`; returns
    why it stays."""
    tree = existing(record)
    if tree is None:
        return None
    stays = why_not_discarded(record) if discard else why_it_stays(record)
    if stays:
        return stays
    answer = git.remove_worktree(tree.repository, tree.path, force=1 if discard else 0)
    if not answer.ok:
        return f"git did not remove it: {git.why(answer)}"
    _tidy(tree, tree.repository)
    return None


def _tidy(tree: Worktree, repository: str) -> None:
    """Remove the directories that were made for it, if they are empty, and its branch, if all of
    that is merged."""
    for directory in (tree.path, os.path.dirname(tree.path)):
        with suppress(OSError):
            os.rmdir(directory)
    if tree.made_branch:
        git.delete_merged(repository, tree.branch)
