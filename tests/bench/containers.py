"""Sessions in containers, measured on an engine of the bench's own: lists that need no engine,
lists that ask a far one, and a start beside `docker run`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress

from tests.bench.report import BARE, BOXED_START, Times
from tests.bench.timing import Case, Runner, always, medians
from tests.engine import IMAGE, Engine, EngineError, lacking
from tests.world import World

COUNT = 10
Command = Callable[[int], Sequence[str]]
Undo = Callable[[int], None]


def measure(sesh: str, python: str, rounds: int, slow_rounds: int) -> Times | str:
    """The median time of each case with ten sessions in containers; or why there is none."""
    if reason := lacking():
        return reason
    world = World()
    engine = Engine(world.root, tcp=True)
    try:
        engine.start()
        return _measure(sesh, python, rounds, slow_rounds, world, engine)
    except EngineError as error:
        return str(error)
    finally:
        with suppress(EngineError):
            engine.stop()
        world.end()


def _measure(
    sesh: str, python: str, rounds: int, slow_rounds: int, world: World, engine: Engine
) -> Times:
    docker = shutil.which("docker") or "docker"
    near = {**world.env, "DOCKER_HOST": engine.host}
    far = {**near, "DOCKER_HOST": engine.tcp_host, "XDG_STATE_HOME": str(world.root / "far")}
    said = world.root / "stderr"
    _grow(sesh, near, "near")
    cases = [
        Case(BARE, always(python, "-c", "pass"), rounds),
        Case("sesh ls --json", always(sesh, "ls", "--json"), rounds),
        Case("sesh doctor --prompt", always(sesh, "doctor", "--prompt"), rounds),
        Case("docker ps", always(docker, "ps"), rounds),
        Case("docker exec", always(docker, "exec", "sesh-near0", "true"), slow_rounds),
        Case("docker run -d", _run(docker, world), slow_rounds, _remove(docker, near, world)),
        Case(BOXED_START, _start(sesh), slow_rounds, _forget(sesh, near)),
    ]
    times = medians(cases, Runner(near, said))
    _grow(sesh, far, "far")
    from_afar = Case("sesh ls --json, far engine", always(sesh, "ls", "--json"), slow_rounds)
    return {**times, **medians([from_afar], Runner(far, said))}


def _grow(sesh: str, env: dict[str, str], stem: str) -> None:
    for number in range(COUNT):
        argv = [sesh, "start", f"{stem}{number}", "--image", IMAGE, "--network", "none"]
        _must([*argv, "--no-mount", "--", "sleep", "100000"], env)


def _must(argv: list[str], env: dict[str, str]) -> None:
    done = subprocess.run(argv, env=env, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"


def _start(sesh: str) -> Command:
    options = ("--image", IMAGE, "--network", "none", "--no-mount", "--", "sleep", "100000")
    return lambda n: (sesh, "start", f"new{n}", *options)


def _forget(sesh: str, env: dict[str, str]) -> Undo:
    return lambda n: _must([sesh, "rm", "--force", "--grace", "0s", f"new{n}"], env)


def _run(docker: str, world: World) -> Command:
    options = ("run", "-d", "--init", "--network", "none")
    return lambda n: (docker, *options, "--name", f"{world.root.name}-{n}", IMAGE, "sleep", "1000")


def _remove(docker: str, env: dict[str, str], world: World) -> Undo:
    return lambda n: _must([docker, "rm", "-f", f"{world.root.name}-{n}"], env)
