"""The real agents, from npm, once, into a directory of the tests' own: `.agents` in the checkout.

python -m tests.agents.install     install them now; says which versions, or why not
"""

from __future__ import annotations

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
        _install(PACKAGES[agent])
    return _version(agent)


def _install(package: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is not installed")
    DIRECTORY.mkdir(exist_ok=True)
    options = ["--no-audit", "--no-fund", "--fetch-retries", "1", "--fetch-timeout", "30000"]
    try:
        done = subprocess.run(
            [npm, "install", "--prefix", str(DIRECTORY), *options, package],
            capture_output=True,
            text=True,
            timeout=_MINUTES * 60,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm install {package} took over {_MINUTES} minutes") from None
    if done.returncode != 0:
        raise NotInstalled(f"npm install {package}: {_reason(done.stderr)}")


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
            print(installed(agent))
        except NotInstalled as error:
            print(f"without {agent}: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
