"""The real agents, from npm, into a directory of the tests' own: `.agents` in the checkout.

Each is asked for by its newest version: left to itself, npm takes an old release when the newest
wants another Node, which agents that are native programs do not need.

python -m tests.agents.install     install the newest now; says which versions, or why not
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex"}
DIRECTORY = Path(__file__).resolve().parents[2] / ".agents"
BIN = DIRECTORY / "node_modules" / ".bin"
_MINUTES = 10


class NotInstalled(Exception):
    """Says why not, in a line."""


def installed(agent: str) -> str:
    """The version of a real agent, which is installed where it is not yet."""
    if not (BIN / agent).exists():
        _install(f"{PACKAGES[agent]}@{newest(agent)}")
    return _version(agent)


def updated(agent: str) -> str:
    """The same after an update to the newest; without a network, the one that is there."""
    try:
        wanted = newest(agent)
    except NotInstalled as error:
        if not (BIN / agent).exists():
            raise
        return f"{installed(agent)}, installed before ({error})"
    if present(agent) != wanted:
        _install(f"{PACKAGES[agent]}@{wanted}")
    return f"{_version(agent)}, the newest on npm ({wanted})"


def newest(agent: str) -> str:
    """The newest version that its publisher has released."""
    return _npm("view", PACKAGES[agent], "dist-tags.latest").strip()


def present(agent: str) -> str | None:
    """The version that is installed; None: none."""
    path = DIRECTORY / "node_modules" / PACKAGES[agent] / "package.json"
    try:
        return str(json.loads(path.read_bytes())["version"])
    except (OSError, ValueError, KeyError):
        return None


def _install(package: str) -> None:
    DIRECTORY.mkdir(exist_ok=True)
    _npm("install", "--no-audit", "--no-fund", "--engine-strict=false", package)


def _npm(command: str, *words: str) -> str:
    """What npm prints."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is not installed")
    options = ["--prefix", str(DIRECTORY), "--fetch-retries", "1", "--fetch-timeout", "30000"]
    told = f"npm {command} {words[-1]}"
    try:
        done = subprocess.run(
            [npm, command, *options, *words],
            capture_output=True,
            text=True,
            timeout=_MINUTES * 60,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{told} took over {_MINUTES} minutes") from None
    if done.returncode != 0:
        raise NotInstalled(f"{told}: {_reason(done.stderr)}")
    return done.stdout


def _reason(errors: str) -> str:
    """The first line in which npm says what happened."""
    lines = [line.removeprefix("npm error ") for line in errors.splitlines() if "error" in line]
    told = [line for line in lines if not line.startswith(("code ", "errno ", "syscall "))]
    return (told or lines or ["no reason given"])[0][:200]


def _version(agent: str) -> str:
    """It must start: what npm brought may be for another machine."""
    try:
        done = subprocess.run(
            [BIN / agent, "--version"],
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": os.environ["PATH"], "HOME": str(DIRECTORY)},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{agent} does not start: {error}") from None
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise NotInstalled(f"{agent} does not start: {words[-1][:200]}")
    return done.stdout.strip()


def main() -> int:
    for agent in PACKAGES:
        try:
            print(f"{agent}: {updated(agent)}")
        except NotInstalled as error:
            print(f"without {agent}: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
