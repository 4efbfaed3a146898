"""A git repository for a test: real git, none of whoever runs the tests has configured."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import need
from tests.world import World

PLAIN = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "Somebody" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "somebody@example.org" for who in ("AUTHOR", "COMMITTER")},
}


@dataclass
class Repository:
    """A checkout, and git in it."""

    path: Path
    env: dict[str, str]

    def git(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *words],
            env=self.env,
            cwd=cwd or self.path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.strip()

    def commit(self, name: str = "file", *, cwd: Path | None = None) -> str:
        """Commit a change of a file."""
        where = cwd or self.path
        with (where / name).open("a") as file:
            file.write("+\n")
        self.git("add", name, cwd=where)
        self.git("commit", "-q", "-m", f"more of {name}", cwd=where)
        return self.git("rev-parse", "HEAD", cwd=where)

    @property
    def branches(self) -> set[str]:
        return set(self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split())

    @property
    def worktrees(self) -> list[str]:
        """All but the main one."""
        said = self.git("worktree", "list", "--porcelain").splitlines()
        return [line.split(" ", 1)[1] for line in said if line.startswith("worktree ")][1:]

    def origin(self) -> Path:
        """A repository to push to, which has what is here."""
        there = self.path.parent / "origin.git"
        self.git("init", "-q", "--bare", str(there))
        self.git("remote", "add", "origin", str(there))
        self.git("push", "-q", "-u", "origin", "HEAD")
        return there


def repository(path: Path, env: dict[str, str]) -> Repository:
    """A repository with one commit on `main`."""
    need("git")
    made = Repository(path, {**env, **PLAIN})
    made.git("init", "-q", "-b", "main", ".")
    made.commit("first")
    return made


def with_repository(world: World) -> Repository:
    """The same in the directory of a world, whose sesh then uses a plain git, too."""
    world.env |= PLAIN
    return repository(world.cwd, world.env)
