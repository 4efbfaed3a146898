"""Facts that git knows about a directory, and the few commands that change a repository.

The branch is read from git's files, which is cheap enough for every look. Where git itself is
asked, the repository must not be able to run a command: an agent in a container may have written
its config. So git gets our own directory in place of the one that all worktrees share
(GIT_COMMON_DIR): the same objects and refs, no hooks, and our copy of the settings that name no
command. git then knows no filters, file monitors, signature programs or remotes, whenever the agent
adds them. An answer that needs them, or a timeout, is unknown, and nothing may follow from it.
(`worktree add` is the user's own action: it runs what the user's git would run.)

Commands that change a repository go through `sh`, questions do not: see `system/subprocesses`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable

from sesh.model.observation import Sight, absent, seen, unknown
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Value, replace
from sesh.system import subprocesses
from sesh.system.files import read_regular
from sesh.system.subprocesses import Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tempfile import TemporaryDirectory
    from typing import Self

TIMEOUT = 2.0  # for one question
LONG = 600.0  # to create or remove a checkout
ALL_TIMEOUT = 3.0  # for a question about many directories
IGNORED_TIMEOUT = 10.0  # to list ignored files: there may be many
_AT_ONCE = 8
_LIMIT = 4096
_HEADS = "refs/heads/"
_QUIETLY = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_SHARED = (
    *("HEAD", "objects", "refs", "packed-refs", "reftable", "logs", "info", "shallow"),
    "worktrees",
)
# Settings that questions need; none of them can name a command.
_HARMLESS = lazy(
    r"""core\.(repositoryformatversion | filemode | symlinks | ignorecase | precomposeunicode
        | autocrlf | eol | safecrlf | bigfilethreshold | checkroundtripencoding | trustctime
        | checkstat | protecthfs | protectntfs | excludesfile | attributesfile
        | sparsecheckout | sparsecheckoutcone)
    | index\.sparse
    | extensions\.(?!worktreeconfig$|partialclone$)[a-z0-9-]+
    | branch\..+\.(remote | merge)
    | remote\..+\.fetch""",
    re.VERBOSE | re.DOTALL,
)
_FILTER = lazy(r"filter\.(.+)\.(?:clean|process)", re.DOTALL)
_MOST_ASKED = 100  # changed files whose attributes are asked for
# Variables that select a repository, as in a hook: here the directory selects it.
_FOREIGN = frozenset(
    (
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"),
        *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"),
        *("GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE"),
    )
)
# No settings but those of the repository, which is our copy.
_UNCONFIGURED = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_PARAMETERS": "",
}
_ALONE = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
_LEFT = lazy(r"checkout: moving from ([0-9a-f]{40,64}) to ")  # in a reflog
# Files in the git directory of a checkout that show an operation in progress.
_UNDER_WAY = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}


class Work(Value):
    """The state of a checkout."""

    branch: str | None  # None: HEAD is detached
    ahead: int | None  # of `ahead_of`; None: there is none
    behind: int | None
    dirty: bool | None  # uncommitted changes or untracked files; None: unknown
    untracked: bool = False  # only untracked files
    ahead_of: str | None = None  # its upstream or, in `works`, the main checkout's branch


class Checkout(Value):
    """A worktree of a repository, the main one too."""

    path: str
    branch: str | None
    locked: bool = False


# --- from files ----------------------------------------------------------------------------------


def top(directory: str) -> str | None:
    """The top directory of the checkout that contains a directory."""
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
        return unknown(f"its branch cannot be read: {error}")


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
    """The branch that a rebase or a bisection will return to."""
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
    """The operation in progress in a checkout, if any."""
    try:
        git_dir = _git_dir(checkout)
    except (OSError, UnicodeDecodeError):
        return None
    found = (what for name, what in _UNDER_WAY.items() if os.path.exists(f"{git_dir}/{name}"))
    return next(found, None)


# --- questions to git ----------------------------------------------------------------------------


class _Repository(Value):
    """The directories of a repository."""

    git_dir: str  # of just this checkout
    common: str  # shared by all its worktrees
    tree: str | None  # None: a bare repository


def _repository(directory: str) -> _Repository | None:
    """The repository that contains a directory."""
    tree = top(directory)
    git_dir = os.path.realpath(directory) if tree is None else os.path.realpath(_git_dir(tree))
    if tree is None and not all(os.path.exists(f"{git_dir}/{name}") for name in ("HEAD", "refs")):
        return None
    try:
        common = os.path.join(git_dir, _word(f"{git_dir}/commondir"))
    except FileNotFoundError:
        common = git_dir
    return _Repository(git_dir, os.path.realpath(common), tree)


class _Look:
    """Questions to git about a repository that cannot run a command meanwhile. If the preparation
    fails, that failure is the answer to each question."""

    def __init__(self, directory: str, timeout: float) -> None:
        self.filters: set[str] = set()  # filters with a command
        self._directory = directory
        self._deadline = time.monotonic() + timeout
        self._env: dict[str, str] = {}
        self._own: TemporaryDirectory[str] | None = None
        self._failed: Answer | None = None

    def __enter__(self) -> Self:
        try:
            self._failed = self._prepare()
        except (OSError, UnicodeError) as error:
            self._failed = Answer(None, "", "", f"{self._directory}: {error}")
        return self

    def __exit__(self, *error: object) -> None:
        if self._own:
            self._own.cleanup()

    def ask(self, *words: str) -> Answer:
        return self._failed or self._call(self._env, *words)

    def act(self, *words: str) -> Answer:
        """Change the repository, with the same protection."""
        return self._failed or _do(self._directory, *_QUIETLY, *words, env={**_ALONE, **self._env})

    def _prepare(self) -> Answer | None:
        from tempfile import TemporaryDirectory

        found = _repository(self._directory)
        if found is None:
            return Answer(None, "", "", f"{self._directory}: not a git repository")
        listed = self._call({"GIT_DIR": found.git_dir}, "config", "--list", "-z")
        if not listed.ok:
            return listed
        settings = [entry.partition("\n") for entry in listed.out.split("\0")[:-1]]
        self.filters = {match[1] for key, _, _ in settings if (match := _FILTER.fullmatch(key))}
        self._own = TemporaryDirectory(prefix="sesh-git-")
        own = self._own.name
        for name in _SHARED:
            if os.path.exists(f"{found.common}/{name}"):
                os.symlink(f"{found.common}/{name}", f"{own}/{name}")
        with open(f"{own}/config", "w", errors="surrogateescape") as config:
            config.writelines(_line(*each) for each in settings if _HARMLESS.fullmatch(each[0]))
        work_tree = {"GIT_WORK_TREE": found.tree} if found.tree else {}
        self._env = {**_UNCONFIGURED, **work_tree, "GIT_DIR": found.git_dir, "GIT_COMMON_DIR": own}
        return None

    def _call(self, env: dict[str, str], *words: str) -> Answer:
        left = self._deadline - time.monotonic()
        return _call(self._directory, *words, timeout=left, env=env)


def _line(key: str, equals: str, value: str) -> str:
    """A setting as lines of a config file, each in its own section."""
    section, _, rest = key.partition(".")
    inner, _, name = rest.rpartition(".")
    quoted = [text.replace("\\", r"\\").replace('"', r"\"") for text in (inner, value)]
    head = f'[{section} "{quoted[0]}"]' if inner else f"[{section}]"
    given = quoted[1].replace("\n", r"\n")
    return f'{head}\n{name} = "{given}"\n' if equals else f"{head}\n{name}\n"


def ask(directory: str, *words: str, timeout: float = TIMEOUT) -> Answer:
    """Ask a question: changes nothing, and runs no command of the repository."""
    with _Look(directory, timeout) as look:
        return look.ask(*words)


def _call(directory: str, *words: str, timeout: float, env: dict[str, str] | None = None) -> Answer:
    """Ask git without protection; only for questions that read no objects and no files."""
    used = {**_environment(), **_ALONE, **(env or {})}
    argv = ["git", "-C", directory, *_QUIETLY, *words]
    return subprocesses.call(argv, timeout=timeout, env=used, errors="surrogateescape")


def _do(directory: str, *words: str, env: dict[str, str] | None = None) -> Answer:
    """Change a repository, which may take long if it is large."""
    used = {**_environment(), **(env or {})}
    return subprocesses.tool(["git", "-C", directory, *words], timeout=LONG, env=used)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    return {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}


def why(answer: Answer) -> str:
    """Why git failed, in one line."""
    if answer.problem:
        return answer.problem
    errors = [line for line in answer.err.splitlines() if line.startswith(("fatal: ", "error: "))]
    text = errors[-1].partition(": ")[2] if errors else answer.err.strip().replace("\n", "; ")
    return text.rstrip(";") or f"git: exit {answer.code}"


def work(directory: str, timeout: float = TIMEOUT) -> Work | None:
    """The state of the checkout of a directory; None outside of a checkout, or when unknown."""
    checkout = top(directory) if os.path.isdir(directory) else None
    if checkout is None:
        return None
    with _Look(directory, timeout) as look:
        answer = look.ask(
            *("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal"),
            "--ignore-submodules=dirty",  # a question to one would run commands of its config
        )
        if not answer.ok:
            return None
        found, changed = _work(answer.out)
        doubtful = changed and _all_filtered(look, changed)
    if doubtful or (not found.dirty and os.path.lexists(f"{checkout}/.gitmodules")):
        return replace(found, dirty=None)
    return found


def _all_filtered(look: _Look, changed: list[str]) -> bool:
    """Does each of these files have a filter, without which git cannot tell whether it changed?"""
    if not look.filters:
        return False
    answer = look.ask("check-attr", "-z", "filter", "--", *changed[:_MOST_ASKED])
    return not answer.ok or set(answer.out.split("\0")[2::3]) <= look.filters


def _work(status: str) -> tuple[Work, list[str]]:
    """Parse git's status; also returns the files whose content differs from the index, if there are
    no other changes."""
    entries = iter(status.split("\0")[:-1])
    facts: dict[str, str] = {}
    changes: list[str] = []
    for entry in entries:
        if entry.startswith("# "):
            name, _, value = entry[2:].partition(" ")
            facts[name] = value
            continue
        changes.append(entry)
        if entry.startswith("2 "):
            next(entries, None)  # its old name
    on, distance = facts.get("branch.head"), facts.get("branch.ab")
    ahead, behind = map(int, distance.split()) if distance else (None, None)
    found = Work(
        branch=None if on in (None, "(detached)") else on,
        ahead=ahead,
        behind=None if behind is None else -behind,
        dirty=bool(changes),
        untracked=bool(changes) and all(line.startswith("? ") for line in changes),
        ahead_of=facts.get("branch.upstream") if distance else None,
    )
    contents = [entry.split(" ", 8)[8] for entry in changes if entry.startswith("1 .M N...")]
    return found, contents if len(contents) == len(changes) else []


def works(directories: Iterable[str]) -> dict[str, Work | None]:
    """The same for many directories: one question per checkout, several at a time."""
    deadline = time.monotonic() + ALL_TIMEOUT
    tops = {directory: top(directory) for directory in directories}
    asked = sorted({one for one in tops.values() if one is not None})

    def left() -> float:
        return min(TIMEOUT, deadline - time.monotonic())

    def one(checkout: str) -> Work | None:
        found = work(checkout, left()) if left() > 0 else None
        return found and _beside_main(checkout, found, left())

    if len(asked) < 2:
        known = {checkout: one(checkout) for checkout in asked}
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            known = dict(zip(asked, pool.map(one, asked), strict=True))
    return {directory: known.get(found or "") for directory, found in tops.items()}


def _beside_main(checkout: str, found: Work, timeout: float) -> Work:
    """Compare a branch without an upstream with the branch of the main checkout."""
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
    """The branch of the main checkout of a worktree; None: this is the main checkout."""
    try:
        git_dir = _git_dir(checkout)
        sight = _branch_in(os.path.join(git_dir, _word(f"{git_dir}/commondir")))
    except (OSError, UnicodeDecodeError):
        return None
    return sight.what if sight.present else None


# --- worktrees -----------------------------------------------------------------------------------


def checkouts(directory: str) -> list[Checkout] | Answer:
    """All worktrees of a repository, the main checkout first; or the answer of git if it failed."""
    answer = _call(directory, "worktree", "list", "--porcelain", timeout=TIMEOUT)
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
    return _call(directory, "check-ref-format", f"{_HEADS}{name}", timeout=TIMEOUT).ok


def commit(directory: str, name: str) -> str | None:
    """The commit of a name; None when there is none, or it is unknown."""
    answer = ask(directory, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    return answer.out.strip() if answer.ok else None


def branch_commit(directory: str, name: str) -> str | None:
    return commit(directory, f"{_HEADS}{name}")


def common_dir(directory: str) -> str | None:
    """The git directory that all worktrees of a repository share."""
    try:
        found = _repository(directory)
    except (OSError, UnicodeDecodeError):
        return None
    return found.common if found else None


def add_worktree(directory: str, path: str, name: str, *, new: bool) -> Answer:
    """Check out a branch at `path`; a new branch starts at the HEAD of `directory`."""
    words = ("--no-track", "-b", name, path, "HEAD") if new else (path, name)
    return _do(directory, "worktree", "add", *words)


def remove_worktree(repository: str, path: str, *, force: int = 0) -> Answer:
    """Without force, git refuses to lose changes; force twice also removes a half-made worktree."""
    with _Look(repository, LONG) as look:
        return look.act("worktree", "remove", *["--force"] * force, path)


def delete_merged(directory: str, name: str) -> bool:
    """Delete a branch, if all of it is in the HEAD of `directory`. git checks that again."""
    with _Look(directory, LONG) as look:
        merged = look.ask("merge-base", "--is-ancestor", f"{_HEADS}{name}", "HEAD")
        deleted = merged.ok and look.act("branch", "-d", "--", name).ok
    if deleted:  # git has removed its settings only from our copy
        _do(directory, "config", "--remove-section", f"branch.{name}")
    return deleted


def only_here(checkout: str, name: str) -> int | None:
    """How many commits of a worktree, and of the branch that it was made for, are neither in the
    HEAD of the main checkout nor in a known branch of a remote repository. None: unknown."""
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
    """How many commits were made on a detached HEAD and left, so that only the reflog of the
    worktree has them. Commits that a reset or an amend dropped do not count. None: unknown."""
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


def hidden_changes(checkout: str) -> bool | None:
    """May files have changed that git is configured to treat as unchanged? None: unknown."""
    answer = ask(checkout, "ls-files", "-v", "--stage", "-z")
    if not answer.ok:
        return None
    return any(_may_have_changed(checkout, line) for line in answer.out.split("\0") if line)


def _may_have_changed(checkout: str, line: str) -> bool:
    """A lower-case tag means assume-unchanged, S skip-worktree (missing in a sparse checkout)."""
    facts, _, path = line.partition("\t")
    tag, _, known, _ = facts.split(" ")
    return tag.islower() or (tag == "S" and _differs(os.path.join(checkout, path), known))


def _differs(path: str, known: str) -> bool:
    """Does a file exist whose bytes differ from this object? Filters are not run: a filtered file
    differs, too."""
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
    """The files that git ignores; empty when unknown."""
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "-z")
    answer = ask(checkout, *words, timeout=IGNORED_TIMEOUT)
    return answer.out.split("\0")[:-1] if answer.ok else []
