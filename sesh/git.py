"""What git knows of a directory, and the few things that sesh has it do.

The branch is read from git's files: cheap enough for every look. Where git is asked, it is asked so
that a repository can run nothing of its own for that, as far as git has a way: no hooks, no monitor
of files, no fetching of what is missing. (Its filters can't be turned off.) What does not answer is
unknown, and nothing may follow from it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable

from sesh import run
from sesh.files import read_regular
from sesh.model import Sight, absent, seen, unknown
from sesh.run import Answer
from sesh.values import Value, replace

TIMEOUT = 2.0  # for one question
LONG = 600.0  # for a checkout, and to remove one
ALL_TIMEOUT = 3.0  # for a question about many directories
IGNORED_TIMEOUT = 10.0  # there may be many
_AT_ONCE = 8
_LIMIT = 4096
_HEADS = "refs/heads/"
_QUIETLY = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "status.showUntrackedFiles=normal"),
)
# What says to git which repository is meant, as for a hook: here the directory says it.
_FOREIGN = frozenset(
    (
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"),
        *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"),
        *("GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE"),
    )
)
_LEFT = re.compile(r"checkout: moving from ([0-9a-f]{40,64}) to ")  # in a reflog
# Files in a checkout's own git directory that say what is under way.
_UNDER_WAY = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}


class Work(Value):
    """What is in a checkout."""

    branch: str | None  # None: HEAD is detached
    ahead: int | None  # of `ahead_of`; None: there is none
    behind: int | None
    dirty: bool  # uncommitted changes, or files that git does not know
    untracked: bool = False  # nothing but such files
    ahead_of: str | None = None  # its upstream or, in `works`, the main checkout's branch


class Checkout(Value):
    """A worktree of a repository, the main one too."""

    path: str
    branch: str | None
    locked: bool = False


# --- from files ----------------------------------------------------------------------------------


def top(directory: str) -> str | None:
    """The checkout that a directory is in."""
    directory = os.path.realpath(directory)
    while not os.path.exists(os.path.join(directory, ".git")):
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent
    return directory


def branch(directory: str) -> str | None:
    """The checked-out branch, if there is one."""
    sight = head(directory)
    return sight.what if sight.present else None


def head(directory: str) -> Sight:
    """PRESENT with the name of the branch that is checked out, ABSENT when there is none."""
    found = top(directory)
    if found is None:
        return absent("in no git repository")
    try:
        return _branch_in(_git_dir(found))
    except (OSError, UnicodeDecodeError) as error:
        return unknown(f"its branch can't be read: {error}")


def _git_dir(checkout: str) -> str:
    """The git directory of just this checkout."""
    dot_git = os.path.join(checkout, ".git")
    if not os.path.isfile(dot_git):
        return dot_git
    pointer = read_regular(dot_git, _LIMIT).decode().strip().removeprefix("gitdir: ")
    return os.path.join(checkout, pointer)


def _branch_in(git_dir: str) -> Sight:
    text = _word(f"{git_dir}/HEAD")
    if text.startswith("ref: "):
        name = text.removeprefix("ref: ").strip()
        if name == f"{_HEADS}.invalid":  # the branches are in a table that only git reads
            return unknown("only git can read its branch")
        return seen(name.removeprefix(_HEADS)) if name.startswith(_HEADS) else absent(f"on {name}")
    return _being_worked_on(git_dir) or absent("on no branch (HEAD is detached)")


def _being_worked_on(git_dir: str) -> Sight | None:
    """The branch that a rebase or a bisection will come back to."""
    for name in ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"):
        try:
            text = _word(f"{git_dir}/{name}")
        except (OSError, UnicodeDecodeError):
            continue
        if text.startswith(_HEADS) or (name == "BISECT_START" and not _is_commit(text)):
            return seen(text.removeprefix(_HEADS))
    return None


def _is_commit(text: str) -> bool:
    return len(text) >= 40 and not text.strip("0123456789abcdef")


def _word(path: str) -> str:
    return read_regular(path, _LIMIT).decode().strip()


def under_way(checkout: str) -> str | None:
    """What was begun there and is not finished."""
    try:
        git_dir = _git_dir(checkout)
    except (OSError, UnicodeDecodeError):
        return None
    found = (what for name, what in _UNDER_WAY.items() if os.path.exists(f"{git_dir}/{name}"))
    return next(found, None)


# --- asked of git --------------------------------------------------------------------------------


def ask(directory: str, *words: str, timeout: float = TIMEOUT) -> Answer:
    """A look: changes nothing."""
    argv = ["git", "-C", directory, *_QUIETLY, *words]
    env = {**_environment(), "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
    return run.call(argv, timeout=timeout, env=env, errors="surrogateescape")


def _do(directory: str, *words: str) -> Answer:
    """Something that changes a repository: slowly, if it is large."""
    return run.tool(["git", "-C", directory, *words], timeout=LONG, env=_environment())


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    return {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}


def why(answer: Answer) -> str:
    """Why git did not do it, in one line."""
    if answer.problem:
        return answer.problem
    said = [line for line in answer.err.splitlines() if line.startswith(("fatal: ", "error: "))]
    text = said[-1].partition(": ")[2] if said else answer.err.strip().replace("\n", "; ")
    return text.rstrip(";") or f"git: exit {answer.code}"


def work(directory: str, timeout: float = TIMEOUT) -> Work | None:
    """What is in the checkout of a directory; None outside of one, and when that is not known."""
    if not os.path.isdir(directory) or top(directory) is None:
        return None
    answer = ask(
        *(directory, "status", "--porcelain=v2", "--branch"),
        *("--untracked-files=normal", "--ignore-submodules=none"),
        timeout=timeout,
    )
    return _work(answer.out) if answer.ok else None


def _work(said: str) -> Work:
    lines = said.splitlines()
    facts = dict(line[2:].partition(" ")[::2] for line in lines if line.startswith("# "))
    changes = [line for line in lines if not line.startswith("# ")]
    on, distance = facts.get("branch.head"), facts.get("branch.ab")
    ahead, behind = map(int, distance.split()) if distance else (None, None)
    return Work(
        branch=None if on in (None, "(detached)") else on,
        ahead=ahead,
        behind=None if behind is None else -behind,
        dirty=bool(changes),
        untracked=bool(changes) and all(line.startswith("? ") for line in changes),
        ahead_of=facts.get("branch.upstream") if distance else None,
    )


def works(directories: Iterable[str]) -> dict[str, Work | None]:
    """The same of many directories: each checkout is asked about once, several at a time."""
    from concurrent.futures import ThreadPoolExecutor

    deadline = time.monotonic() + ALL_TIMEOUT
    tops = {directory: top(directory) for directory in directories}
    asked = sorted({one for one in tops.values() if one is not None})

    def left() -> float:
        return min(TIMEOUT, deadline - time.monotonic())

    def one(checkout: str) -> Work | None:
        found = work(checkout, left()) if left() > 0 else None
        return found and _beside_main(checkout, found, left())

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        known = dict(zip(asked, pool.map(one, asked), strict=True))
    return {directory: known.get(found or "") for directory, found in tops.items()}


def _beside_main(checkout: str, found: Work, timeout: float) -> Work:
    """Without an upstream, a worktree's branch is compared with that of the main checkout."""
    base = _main_branch(checkout)
    if found.ahead is not None or None in (base, found.branch) or timeout <= 0:
        return found
    both = f"{_HEADS}{base}...HEAD"
    answer = ask(checkout, "rev-list", "--left-right", "--count", both, "--", timeout=timeout)
    numbers = answer.out.split()
    if not answer.ok or len(numbers) != 2:
        return found
    return replace(found, behind=int(numbers[0]), ahead=int(numbers[1]), ahead_of=base)


def _main_branch(checkout: str) -> str | None:
    """The branch that the main checkout of a worktree is on; None: it is the main one itself."""
    try:
        git_dir = _git_dir(checkout)
        sight = _branch_in(os.path.join(git_dir, _word(f"{git_dir}/commondir")))
    except (OSError, UnicodeDecodeError):
        return None
    return sight.what if sight.present else None


# --- worktrees -----------------------------------------------------------------------------------


def checkouts(directory: str) -> list[Checkout] | Answer:
    """All worktrees of a repository, the main one first; or what git said instead."""
    answer = ask(directory, "worktree", "list", "--porcelain")
    if not answer.ok:
        return answer
    found = []
    for block in answer.out.split("\n\n"):
        facts = dict(line.partition(" ")[::2] for line in block.splitlines())
        if "worktree" in facts:
            on = facts.get("branch", "").removeprefix(_HEADS)
            found.append(Checkout(facts["worktree"], on or None, "locked" in facts))
    return found or answer


def valid_branch(directory: str, name: str) -> bool:
    if name.startswith("-") or name in ("HEAD", "@"):
        return False
    return ask(directory, "check-ref-format", f"{_HEADS}{name}").ok


def commit(directory: str, name: str) -> str | None:
    """The commit that a name stands for; None when there is none, or that is not known."""
    answer = ask(directory, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    return answer.out.strip() if answer.ok else None


def branch_commit(directory: str, name: str) -> str | None:
    return commit(directory, f"{_HEADS}{name}")


def common_dir(directory: str) -> str | None:
    """The git directory that all worktrees of a repository share."""
    answer = ask(directory, "rev-parse", "--git-common-dir")
    if not answer.ok:
        return None
    return os.path.realpath(os.path.join(directory, answer.out.removesuffix("\n")))


def add_worktree(directory: str, path: str, name: str, *, new: bool) -> Answer:
    """Check a branch out there; a new one begins at the HEAD of `directory`."""
    words = ("--no-track", "-b", name, path, "HEAD") if new else (path, name)
    return _do(directory, "worktree", "add", *words)


def remove_worktree(repository: str, path: str, *, force: int = 0) -> Answer:
    """Without force git itself refuses when there are changes; twice means: even half made."""
    words = ("worktree", "remove", *["--force"] * force, path)
    return _do(repository, *_QUIETLY, *words)


def delete_merged(directory: str, name: str) -> bool:
    """Delete a branch, if all of it is in the HEAD of `directory`. git itself looks again."""
    merged = ask(directory, "merge-base", "--is-ancestor", f"{_HEADS}{name}", "HEAD")
    return merged.ok and _do(directory, "branch", "-d", "--", name).ok


def only_here(checkout: str, name: str) -> int | None:
    """How many commits of a worktree, and of the branch that it was made for, are neither in the
    HEAD of the main checkout nor, as far as is known here, in any remote repository. None: that is
    not known."""
    tips = ["HEAD"]
    if branch_commit(checkout, name) is not None:
        tips.append(f"{_HEADS}{name}")
    upstream = commit(checkout, f"{_HEADS}{name}@{{upstream}}")
    known = [upstream] if upstream else []
    answer = ask(
        *(checkout, "rev-list", "--count", *tips),
        *("--not", "main-worktree/HEAD", *known, "--remotes", "--"),
    )
    return _number(answer)


def left_behind(checkout: str) -> int | None:
    """How many commits were made in a worktree on no branch, and left, so that only its own reflog
    still has them. What a branch was reset from, or a commit amended, was meant to go. None: that
    is not known."""
    answer = ask(
        *(checkout, "log", "--no-show-signature", "--walk-reflogs", "--format=%gs", "HEAD", "--")
    )
    if not answer.ok:
        return None
    left = sorted(set(_LEFT.findall(answer.out)))
    if not left:
        return 0
    kept = ("--branches", "--tags", "--remotes", "main-worktree/HEAD")
    return _number(
        ask(checkout, "rev-list", "--count", "--ignore-missing", *left, "--not", *kept, "--")
    )


def _number(answer: Answer) -> int | None:
    text = answer.out.strip()
    return int(text) if answer.ok and text.isdecimal() else None


def overlooked(checkout: str) -> bool | None:
    """Are there files that git was told to take for unchanged, and that may have changed? None:
    that is not known."""
    answer = ask(checkout, "ls-files", "-v", "--stage", "-z")
    if not answer.ok:
        return None
    return any(_overlooked(checkout, line) for line in answer.out.split("\0") if line)


def _overlooked(checkout: str, line: str) -> bool:
    """A lower-case tag: assumed unchanged. S: skipped; in a sparse checkout it is not there."""
    facts, _, path = line.partition("\t")
    tag, _, known, _ = facts.split(" ")
    return tag.islower() or (tag == "S" and _differs(os.path.join(checkout, path), known))


def _differs(path: str, known: str) -> bool:
    """Is a file there that has other bytes than this object of git's? No filter is asked: what one
    has changed differs, too."""
    from hashlib import sha1, sha256
    from pathlib import Path

    try:
        link = os.path.islink(path)
        if not link and not os.path.isfile(path):
            return os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path))
        data = os.fsencode(os.readlink(path)) if link else Path(path).read_bytes()
    except OSError:
        return True
    made = sha1 if len(known) == 40 else sha256
    return made(b"blob %d\0%b" % (len(data), data)).hexdigest() != known


def ignored(checkout: str) -> list[str]:
    """The files that git ignores, as far as that is known."""
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "-z")
    answer = ask(checkout, *words, timeout=IGNORED_TIMEOUT)
    return answer.out.split("\0")[:-1] if answer.ok else []
