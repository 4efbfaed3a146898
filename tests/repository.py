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


_PROGRAMS = (
    *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass"),
    *("core.gitProxy", "core.alternateRefsCommand", "sequence.editor", "credential.helper"),
    *("pager.status", "pager.log", "alias.status", "alias.rev-list", "alias.log"),
    *("diff.external", "diff.evil.command", "diff.evil.textconv", "merge.evil.driver"),
    *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process"),
    *("gpg.program", "gpg.ssh.program", "remote.evil.uploadpack", "trailer.evil.command"),
)
_HOOKS = ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman")


def booby_trap(checkout: Path, mark: Path, git_dir: Path | None = None) -> None:
    """Have a repository's own files name a command that makes `mark`, wherever git knows of a way:
    what an agent can write that has the repository mounted in its container. No git is run."""
    shared = git_dir or checkout / ".git"
    script = shared / "evil"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >>{mark}\ncat\n')
    script.chmod(0o755)
    for directory in (shared / "hooks", shared / "evil-hooks"):
        directory.mkdir(exist_ok=True)
        for name in _HOOKS:
            (directory / name).unlink(missing_ok=True)
            (directory / name).symlink_to(script)
    lines = [
        "[core]\nhooksPath = " + str(shared / "evil-hooks"),
        '[filter "evil"]\nrequired = true',
        "[log]\nshowSignature = true",
        "[status]\nsubmoduleSummary = true",
        "[submodule]\nrecurse = true",
        f'[remote "evil"]\nurl = ext::{script}\npromisor = true\npartialclonefilter = blob:none',
        '[protocol "ext"]\nallow = always',
        f"[include]\npath = {shared / 'included'}",
        f'[includeIf "gitdir:/**"]\npath = {shared / "included"}',
    ]
    for name in _PROGRAMS:
        section, _, rest = name.partition(".")
        inner, _, key = rest.rpartition(".")
        head = f'[{section} "{inner}"]' if inner else f"[{section}]"
        alias = "!" if section == "alias" else ""
        lines.append(f"{head}\n{key} = {alias}{script}")
    with (shared / "config").open("a") as config:
        config.write("\n".join([*lines, ""]))
    (shared / "included").write_text(
        f'[filter "included"]\nclean = {script}\nprocess = {script}\nrequired = true\n'
    )
    (shared / "info").mkdir(exist_ok=True)
    (shared / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    (checkout / ".gitattributes").write_text("* filter=included diff=evil\n")
    for path in checkout.iterdir():
        if path.is_file() and path.name != ".git":
            path.touch()  # so that git has to look into it
