"""Sessions in containers, and what their engine says of them: the words that the tests share."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.engine import IMAGE, Engine
from tests.world import World, eventually

IN_A_BOX = ("--image", IMAGE, "--network", "none")
PATIENCE = 30.0  # seconds


def start(
    world: World, name: str, *command: str, options: Sequence[str] = IN_A_BOX
) -> dict[str, Any]:
    """Start a session in a new container of the tests' image."""
    return world.start(name, *(command or ("cat",)), options=options)


def start_also(world: World, name: str, *options: str, command: Sequence[str] = ()) -> Any:
    """The same, with further options."""
    return start(world, name, *command, options=(*IN_A_BOX, *options))


def becomes(world: World, name: str, *states: str) -> dict[str, Any]:
    """Wait until the session is in one of these states; the session."""
    found = eventually(lambda: _if_in(world.session(name), states), PATIENCE)
    assert found, world.session(name)
    return dict(found)


def _if_in(session: dict[str, Any], states: Sequence[str]) -> dict[str, Any] | None:
    return session if session["state"] in states else None


def logged(world: World, name: str, text: str) -> bool:
    """Wait until a session has printed a text."""
    return bool(eventually(lambda: text in world.ok("logs", name).out, PATIENCE, pause=0.15))


def told(session: dict[str, Any], *fields: str) -> tuple[Any, ...]:
    """Some fields of a session, to compare."""
    return tuple(session[field] for field in fields)


# --- the engine's side ---


def inspect(engine: Engine, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(engine.docker("inspect", name))
    return found[0]


def id_of(engine: Engine, name: str) -> str:
    return str(inspect(engine, name)["Id"])


def inside(engine: Engine, name: str, script: str, *options: str) -> str:
    """What a shell prints in the container of a session."""
    return engine.docker("exec", *options, f"sesh-{name}", "sh", "-c", script)


def processes_in(engine: Engine, container: str) -> list[str]:
    """The command lines of all that runs in a container."""
    shown = engine.docker("exec", container, "ps", "-o", "args").splitlines()
    return sorted(line.strip() for line in shown[1:] if "ps -o args" not in line)


def run_box(engine: Engine, name: str, *options: str, image: str = IMAGE) -> str:
    """A container that somebody else has made; its id."""
    base = ("run", "--detach", "--init", "--network", "none", "--name", name)
    return engine.docker(*base, *options, image, "sleep", "1000")


# --- who calls docker ---


class Calls:
    """Notes each call of the docker command by the sessions that are started from now on."""

    def __init__(self, world: World) -> None:
        self._log = world.root / "docker-calls"
        directory = world.root / "bin"
        directory.mkdir()
        self._wrapper = directory / "docker"
        self._wrapper.write_text(
            f'#!/bin/sh\necho "$*" >>{self._log}\nexec {shutil.which("docker")} "$@"\n'
        )
        self._wrapper.chmod(0o755)
        world.env["PATH"] = f"{directory}:{world.env['PATH']}"

    def made(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    def forget(self) -> None:
        self._log.unlink(missing_ok=True)


# --- processes ---


def command_lines() -> bytes:
    """The command lines of all processes of this machine."""
    return b"\n".join(_read(entry / "cmdline") for entry in Path("/proc").glob("[0-9]*"))


def environ(pid: int) -> bytes:
    return _read(Path(f"/proc/{pid}/environ"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def lives(pid: int) -> bool:
    """Does it run? A zombie does not."""
    line = _read(Path(f"/proc/{pid}/stat"))
    return bool(line) and line.rpartition(b")")[2].split()[0] not in b"ZX"


def owner(path: Path) -> int:
    return os.lstat(path).st_uid
