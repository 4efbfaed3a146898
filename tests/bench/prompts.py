"""What a prompt costs inside bash, zsh and fish while no refresh is due: many of them in a loop,
less the same without."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from statistics import median

from tests.bench.timing import Runner

MANY = 2000
# Behind the code of `sesh init`: as many prompts as the script's argument says.
LOOPS = {
    "bash": "for ((i = 0; i < $1; i++)); do __sesh_prompt; done",
    "zsh": "for ((i = 0; i < $1; i++)); do __sesh_prompt; done",
    "fish": "for i in (seq $argv[1]); __sesh_prompt; fish_prompt; end",
}
BEFORE = {"bash": "PS1='$ '", "zsh": "PS1='$ '", "fish": "function fish_prompt; end"}


def measure(sesh: str, directory: Path, runner: Runner, rounds: int) -> dict[str, float]:
    """Microseconds a prompt, in each shell that is installed."""
    return {
        shell: _measure(sesh, shell, found, directory, runner, rounds)
        for shell in LOOPS
        if (found := shutil.which(shell))
    }


def _measure(
    sesh: str, shell: str, program: str, directory: Path, runner: Runner, rounds: int
) -> float:
    code = _sesh(sesh, runner, "init", shell)
    script = directory / f"prompts.{shell}"
    script.write_text(f"{BEFORE[shell]}\n{code}\n{LOOPS[shell]}\n")
    took = []
    for _ in range(rounds):
        _sesh(sesh, runner, "doctor", "--prompt", "--refresh")
        few = runner.time((program, str(script), "1"))
        many = runner.time((program, str(script), str(MANY + 1)))
        took.append((many - few) / MANY * 1000)
    return median(took)


def _sesh(sesh: str, runner: Runner, *words: str) -> str:
    done = subprocess.run(
        [sesh, *words], env=dict(runner.env), check=True, capture_output=True, text=True
    )
    return done.stdout
