"""The engine that the tests of containers rely on: it works, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine import BARE_IMAGE, IMAGE, Engine, EngineError
from tests.surroundings import Terminal, run
from tests.world import World, eventually

CHECKOUT = Path(__file__).parents[1]
FOR_EVER = ("sleep", "1000")

OwnEngine = Callable[..., Engine]


def run_box(engine: Engine, name: str, *options: str) -> None:
    """Start a container that does nothing and ends at once when asked to."""
    base = ("run", "--detach", "--init", "--network", "none", "--name", name)
    engine.docker(*base, *options, IMAGE, *FOR_EVER)


def state(engine: Engine, name: str) -> str:
    return engine.docker("inspect", "--format", "{{.State.Status}}", name)


# --- what the tests use ---


@pytest.mark.parametrize("user", ["root", "dev"])
def test_tmux_runs_in_the_image(boxed: World, engine: Engine, user: str) -> None:
    run_box(engine, "box", "--user", user)
    engine.docker("exec", "box", "tmux", "new-session", "-d", "-s", "inside", *FOR_EVER)
    assert engine.docker("exec", "box", "tmux", "ls", "-F", "#{session_name}") == "inside"
    assert engine.docker("exec", "box", "whoami") == user


def test_one_can_attach_from_the_usual_terminals(boxed: World, engine: Engine) -> None:
    run_box(engine, "box")
    engine.docker("exec", "box", "tmux", "new-session", "-d", "-s", "inside", *FOR_EVER)
    for name in ("xterm", "xterm-256color", "screen", "screen-256color", "tmux-256color"):
        attach = ("docker", "exec", "-it", "--env", f"TERM={name}", "box", "tmux", "attach")
        assert Terminal(boxed, *attach).shows("[inside]"), name


def test_the_other_image_has_no_tmux(boxed: World, engine: Engine) -> None:
    with pytest.raises(EngineError, match="tmux"):
        engine.docker("run", "--rm", "--network", "none", BARE_IMAGE, "tmux", "-V")
    assert engine.docker("run", "--rm", "--network", "none", BARE_IMAGE, "echo", "hi") == "hi"


def test_a_world_talks_to_the_engine(boxed: World, engine: Engine) -> None:
    run_box(engine, "box")
    assert run(boxed, "docker", "ps", "--format", "{{.Names}}").out == "box\n"


def test_containers_of_every_kind_are_removed(engine: Engine) -> None:
    run_box(engine, "plain")
    run_box(engine, "paused")
    run_box(engine, "undying", "--restart", "always")
    run_box(engine, "vanishing", "--rm")
    engine.docker("pause", "paused")
    engine.docker("create", "--network", "none", "--name", "created", IMAGE)
    running = {"plain", "paused", "undying", "vanishing"}
    assert set(engine.containers(all=False)) == running
    assert set(engine.containers()) == running | {"created"}
    engine.clear()
    assert engine.containers() == []


# --- trouble ---


def test_a_frozen_engine_does_not_answer_until_it_is_thawed(own_engine: OwnEngine) -> None:
    engine = own_engine()
    engine.freeze()
    with pytest.raises(EngineError, match="no answer"):
        engine.docker("ps", timeout=1)
    engine.thaw()
    assert engine.containers() == []


def test_a_killed_engine_comes_back_with_its_containers(own_engine: OwnEngine) -> None:
    engine = own_engine()
    run_box(engine, "box")
    engine.kill()
    with pytest.raises(EngineError, match="daemon running"):
        engine.containers()
    engine.start()
    assert engine.containers() == ["box"]
    assert eventually(lambda: state(engine, "box") == "exited", 20)


def test_live_restore_keeps_containers_running(own_engine: OwnEngine) -> None:
    engine = own_engine(live_restore=True)
    run_box(engine, "box")
    before = engine.docker("inspect", "--format", "{{.State.Pid}}", "box")
    engine.kill()
    engine.start()
    assert state(engine, "box") == "running"
    assert engine.docker("inspect", "--format", "{{.State.Pid}}", "box") == before


def test_an_engine_answers_on_a_port_as_well(own_engine: OwnEngine) -> None:
    engine = own_engine(tcp=True)
    run_box(engine, "box")
    assert engine.docker("--host", engine.tcp_host, "ps", "--format", "{{.Names}}") == "box"


# --- nothing is left ---


@pytest.mark.parametrize("trouble", ["none", "freeze", "kill"])
def test_stop_leaves_nothing(own_engine: OwnEngine, trouble: str) -> None:
    engine = own_engine()
    run_box(engine, "box")
    box = int(engine.docker("inspect", "--format", "{{.State.Pid}}", "box"))
    seen = engine.processes()
    assert {engine.pid, box} < set(seen)
    if trouble != "none":
        getattr(engine, trouble)()
    engine.stop()
    assert [pid for pid in seen if is_alive(pid)] == []
    assert engine.processes() == []
    assert engine.mounts() == []
    assert not engine.directory.exists()


def is_alive(pid: int) -> bool:
    """Does it run? A zombie, which nobody may ever wait for, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_an_engine_ends_with_a_killed_test_run(engine: Engine, tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from tests.engine import Engine\n"
        "engine = Engine(Path(sys.argv[1])); engine.start()\n"
        "engine.docker('run', '-d', '--init', '--network', 'none', 'sesh-test', 'sleep', '1000')\n"
        "print(engine.directory, *engine.processes(), flush=True); time.sleep(1000)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    directory, *pids = child.stdout.readline().split()
    assert len(pids) > 3  # dockerd, containerd, a shim, the container's
    child.kill()
    child.communicate()
    assert eventually(lambda: not [pid for pid in pids if is_alive(int(pid))], 60)
    assert directory not in Path("/proc/self/mounts").read_text()
    shutil.rmtree(directory)


@pytest.mark.parametrize(
    ("required", "code", "told"),
    [("", 0, "docker is not installed"), ("docker", 1, "docker is required here")],
)
def test_without_docker_tests_are_skipped_or_fail(
    tmp_path: Path, required: str, code: int, told: str
) -> None:
    test = f"{__file__}::test_containers_of_every_kind_are_removed"
    plain = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test],
        cwd=CHECKOUT,
        env={**plain, "PATH": str(tmp_path), "SESH_TEST_REQUIRE": required},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout
    assert told in done.stdout
