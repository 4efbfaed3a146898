"""The contract of `contract.py`, for each kind of place. Like restic's backend tests: a kind is one
function that makes a `Subject`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from sesh.model import codec
from sesh.places.remote import home
from tests.engine import IMAGE, Engine
from tests.places import contract
from tests.places.contract import Subject
from tests.places.docker.boxes import run_box
from tests.places.shell import MUTE, ShellPlace, ShellWorld, register
from tests.world import World, eventually


def host(world: World, request: pytest.FixtureRequest) -> Subject:
    def lose(name: str) -> None:
        os.kill(world.server_pid(), signal.SIGKILL)

    @contextmanager
    def mute() -> Iterator[None]:
        pid = world.server_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def left(name: str) -> list[str]:
        with suppress(AssertionError):  # its server has ended with the last session
            return [line for line in world.tmux("list-sessions").splitlines() if f"{name}:" in line]
        return []

    return Subject(world, (), "host", lose, mute, left)


def docker_mounted(world: World, request: pytest.FixtureRequest) -> Subject:
    engine = _with_engine(world, request)

    def left(name: str) -> list[str]:
        return [one for one in engine.containers() if one == f"sesh-{name}"]

    def lose(name: str) -> None:
        engine.docker("rm", "--force", f"sesh-{name}")

    options = ("--image", IMAGE, "--network", "none")
    return Subject(world, options, "docker", lose, _frozen(engine), left)


def docker_unmounted(world: World, request: pytest.FixtureRequest) -> Subject:
    """A container that sesh did not make: nothing can be mounted into it."""
    engine = _with_engine(world, request)
    run_box(engine, "theirs")

    def left(name: str) -> list[str]:
        shown = engine.docker("exec", "theirs", "ps", "-o", "args").splitlines()
        return [line for line in shown if f" {name} tmux" in line]

    def lose(name: str) -> None:
        engine.docker("rm", "--force", "theirs")

    options = ("--container", "theirs")
    return Subject(world, options, "docker", lose, _frozen(engine), left, adopts=False)


def shell(world: World, request: pytest.FixtureRequest) -> Subject:
    """A remote place over `sh -c`, of which sesh knows nothing but three primitives."""
    patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    register(patch.setitem)
    made = ShellWorld()
    request.addfinalizer(made.end)

    def there(name: str) -> str:
        return home(codec.decode(made.record(name).read_bytes()).id)

    homes: dict[str, str] = {}

    def lose(name: str) -> None:
        subprocess.run(["tmux", "-S", f"{there(name)}/tmux.sock", "kill-server"], check=True)
        where = there(name)  # the keeper may be writing into it
        assert eventually(lambda: _removed(where))

    @contextmanager
    def mute() -> Iterator[None]:
        sign = Path(made.env["XDG_RUNTIME_DIR"]) / MUTE
        sign.touch()
        try:
            yield
        finally:
            sign.unlink()

    def left(name: str) -> list[str]:
        if made.record(name).exists():
            homes[name] = there(name)
        list_all = ["tmux", "-S", f"{homes[name]}/tmux.sock", "list-sessions"]
        done = subprocess.run(list_all, capture_output=True, text=True, check=False)
        return done.stdout.splitlines()

    return Subject(made, (), ShellPlace.kind, lose, mute, left)


def _removed(directory: str) -> bool:
    shutil.rmtree(directory, ignore_errors=True)
    return not os.path.exists(directory)


def _with_engine(world: World, request: pytest.FixtureRequest) -> Engine:
    engine: Engine = request.getfixturevalue("engine")
    request.addfinalizer(engine.clear)
    world.env |= engine.env
    world.configure("[docker]\ntimeout = 20\n")
    return engine


def _frozen(engine: Engine) -> Callable[[], AbstractContextManager[None]]:
    @contextmanager
    def mute() -> Iterator[None]:
        engine.freeze()
        try:
            yield
        finally:
            engine.thaw()

    return mute


@pytest.fixture(
    params=[host, docker_mounted, docker_unmounted, shell], ids=lambda kind: kind.__name__
)
def subject(request: pytest.FixtureRequest, world: World) -> Subject:
    made: Subject = request.param(world, request)
    return made


def test_start(subject: Subject) -> None:
    contract.starts(subject)


@pytest.mark.parametrize("code", [0, 3, 9])
def test_exit(subject: Subject, code: int) -> None:
    contract.ends(subject, code)


def test_stop(subject: Subject) -> None:
    contract.stops(subject)


def test_restart_in_place(subject: Subject) -> None:
    contract.restarts_in_place(subject)


@pytest.mark.parametrize("options", [("--hold",), ("--freeze",)], ids=["held", "frozen"])
def test_pause(subject: Subject, options: tuple[str, ...]) -> None:
    contract.pauses(subject, *options)


def test_send_and_logs(subject: Subject) -> None:
    contract.hears(subject)


def test_attach_command(subject: Subject) -> None:
    contract.attaches(subject)


def test_lost_place(subject: Subject) -> None:
    contract.is_lost(subject)


def test_place_that_cannot_be_asked(subject: Subject) -> None:
    contract.cannot_be_asked(subject)


def test_adopt(subject: Subject) -> None:
    contract.is_adopted(subject)


def test_forget(subject: Subject) -> None:
    contract.is_forgotten(subject)


def test_odd_words(subject: Subject) -> None:
    contract.survives_odd_words(subject)
