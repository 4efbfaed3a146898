"""sesh completion: the script of a shell, ready to be sourced."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import need
from tests.world import SESH, World

COMPLETIONS = Path(__file__).parents[2] / "completions"
COMMITTED = {"bash": "bash/sesh", "zsh": "zsh/_sesh", "fish": "fish/sesh.fish"}
# Source what the command prints, as sesh-completion(1) says, and show that it counts.
SOURCED = {
    "bash": (
        "source <(sesh completion bash); complete -p sesh\n"
        "COMP_LINE='sesh sto' COMP_POINT=8; _sesh; echo ${COMPREPLY[@]}",
        "complete -F _sesh sesh\nstop\n",
    ),
    "zsh": (
        "autoload -Uz compinit; compinit -u -d $HOME/dump\n"
        "source <(sesh completion zsh); print $_comps[sesh] $+functions[_sesh_find]",
        "_sesh 1\n",
    ),
    "fish": ("sesh completion fish | source; complete -C 'sesh sto'", "stop\tStop sessions\n"),
}


@pytest.mark.parametrize("shell", COMMITTED)
def test_prints_what_is_installed(world: World, shell: str) -> None:
    assert world.ok("completion", shell).out == (COMPLETIONS / COMMITTED[shell]).read_text()


@pytest.mark.parametrize("shell", COMMITTED)
def test_can_be_sourced(world: World, shell: str) -> None:
    need(shell)
    env = {**world.env, "PATH": f"{Path(SESH).parent}:{world.env['PATH']}"}
    script, expected = SOURCED[shell]
    done = subprocess.run(
        [shell, "-c", script], env=env, capture_output=True, text=True, timeout=30
    )
    assert (done.stdout, done.stderr) == (expected, "")


@pytest.mark.parametrize("arguments", [(), ("tcsh",), ("bash", "zsh")], ids=" ".join)
def test_anything_but_one_known_shell_is_refused(world: World, arguments: tuple[str, ...]) -> None:
    done = world.sesh("completion", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("sesh: ")


def test_needs_neither_tmux_nor_home(world: World) -> None:
    env = {"PATH": "/nowhere"}
    assert world.ok("completion", "bash", env=env).out.endswith("complete -F _sesh sesh\n")
