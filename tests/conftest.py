"""Fixtures. What needs tmux or docker is skipped without it, unless SESH_TEST_REQUIRE names it."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

from tests.engine import Engine, EngineError, lacking
from tests.world import World, count

# Timings are never asserted: a busy machine makes no test wrong.
settings.register_profile(
    "sesh",
    deadline=None,
    max_examples=count(40, 100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("sesh")

# A shell's background job ignores Ctrl-C; programs that a test interrupts must not inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: begins first, so that a run does not end with it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first: if it began last, the other workers would wait for it."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


# Thousands of tests are collected and stay to the end: no garbage collection looks at them.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Also in the process that only distributes tests to workers."""
    gc.freeze()
    gc.enable()


_REQUIRED = os.environ.get("SESH_TEST_REQUIRE", "").split(",")


def need(program: str) -> None:
    """Skip the test without `program`, or fail where it is required."""
    if shutil.which(program) is None:
        do_without(program, f"{program} is not installed")


def do_without(program: str, reason: str) -> NoReturn:
    if program in _REQUIRED:
        pytest.fail(f"{program} is required here (SESH_TEST_REQUIRE): {reason}")
    pytest.skip(reason)


@pytest.fixture
def world() -> Iterator[World]:
    with a_world() as made:
        yield made


@pytest.fixture
def here(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose directories are those of this process too."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, world.env[name])
    monkeypatch.chdir(world.cwd)
    return world


@contextmanager
def a_world() -> Iterator[World]:
    """For fixtures of a wider scope: a world that several tests only look at."""
    need("tmux")
    made = World()
    try:
        yield made
    finally:
        made.end()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for what is made once: one for all workers of a test run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def engine(shared: Path) -> Iterator[Engine]:
    """The engine that the tests of a worker share; see `boxed`."""
    with _started(shared) as made:
        yield made


@pytest.fixture
def own_engine(shared: Path) -> Iterator[Callable[..., Engine]]:
    """Starts engines that the test may stop, kill and start again; options as of `Engine`."""
    with ExitStack() as made:
        yield lambda **options: made.enter_context(_started(shared, **options))


@pytest.fixture
def boxed(engine: Engine, world: World) -> Iterator[World]:
    """A world with an engine, which has no containers at its start."""
    world.env |= engine.env
    yield world
    engine.clear()


@contextmanager
def _started(images: Path, **options: bool) -> Iterator[Engine]:
    """A running engine. As root one may still lack what it takes: in most containers, say."""
    if reason := lacking():
        do_without("docker", reason)
    made = Engine(images, **options)
    try:
        made.start()
    except EngineError as error:
        made.stop()
        do_without("docker", str(error))
    try:
        yield made
    finally:
        made.stop()
