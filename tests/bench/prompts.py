"""What a prompt costs inside bash, zsh and fish while no refresh is due: many of them in a loop,
less one. In processor time, since a prompt waits for nothing, and other load would be counted."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from statistics import median

MANY = 2000
BEFORE = {"bash": "PS1='$ '", "zsh": "PS1='$ '", "fish": "function fish_prompt; end"}
# Behind the code of `sesh init`: as many prompts as the script's argument says.
LOOPS = {
    "bash": "for ((i = 0; i < $1; i++)); do __sesh_prompt; done",
    "zsh": "for ((i = 0; i < $1; i++)); do __sesh_prompt; done",
    "fish": "for i in (seq $argv[1]); __sesh_prompt; fish_prompt; end",
}


def measure(sesh: str, directory: Path, env: Mapping[str, str], rounds: int) -> dict[str, float]:
    """Microseconds a prompt, in each shell that is installed."""
    return {
        shell: _measure(sesh, shell, directory / f"prompts.{shell}", env, rounds)
        for shell in LOOPS
        if shutil.which(shell)
    }


def _measure(sesh: str, shell: str, script: Path, env: Mapping[str, str], rounds: int) -> float:
    code = _run(env, sesh, "init", shell)
    script.write_text(f"{BEFORE[shell]}\n{code}\n{LOOPS[shell]}\n")
    took = []
    for _ in range(rounds):
        _run(env, sesh, "doctor", "--prompt", "--refresh")
        one = _time(env, shell, str(script), "1")
        many = _time(env, shell, str(script), str(MANY + 1))
        took.append((many - one) / MANY)
    return median(took)


def _time(env: Mapping[str, str], *command: str) -> float:
    """Microseconds of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _run(env, *command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1e6


def _run(env: Mapping[str, str], *command: str) -> str:
    done = subprocess.run(command, env=dict(env), check=True, capture_output=True, text=True)
    return done.stdout
