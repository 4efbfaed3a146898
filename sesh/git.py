"""What git knows of a session's directory."""

from __future__ import annotations

import os

from sesh import run
from sesh.files import read_regular
from sesh.values import Value

TIMEOUT = 2.0
_HEAD = b"ref: refs/heads/"


class Work(Value):
    branch: str | None
    ahead: int
    behind: int
    dirty: bool


def branch(directory: str) -> str | None:
    """The checked-out branch, read from git's files: cheap enough for every start."""
    while True:
        dot_git = os.path.join(directory, ".git")
        if os.path.exists(dot_git):
            return _head(dot_git)
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def _head(dot_git: str) -> str | None:
    try:
        if os.path.isfile(dot_git):  # a worktree: the file names the real directory
            pointer = read_regular(dot_git, 4096).decode().strip().removeprefix("gitdir: ")
            dot_git = os.path.join(os.path.dirname(dot_git), pointer)
        head = read_regular(f"{dot_git}/HEAD", 4096).strip()
        return head.removeprefix(_HEAD).decode() if head.startswith(_HEAD) else None
    except (OSError, UnicodeDecodeError):
        return None


def work(directory: str) -> Work | None:
    """Branch, distance from upstream and uncommitted work; None outside a repository."""
    if not os.path.isdir(directory) or branch(directory) is None:
        return None
    answer = run.tool(
        ["git", "-C", directory, "status", "--porcelain=v2", "--branch"], timeout=TIMEOUT
    )
    if not answer.ok:
        return None
    lines = answer.out.splitlines()
    facts = dict(line[2:].partition(" ")[::2] for line in lines if line.startswith("# "))
    ahead, _, behind = facts.get("branch.ab", "+0 -0").partition(" ")
    return Work(
        branch=facts.get("branch.head"),
        ahead=abs(int(ahead)),
        behind=abs(int(behind)),
        dirty=any(not line.startswith("# ") for line in lines),
    )
