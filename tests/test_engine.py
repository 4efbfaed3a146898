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


def test_tmux_runs_in_the_image_and_is_reached_from_the_usual_terminals(
    boxed: World, engine: Engine
) -> None:
    run_box(engine, "box")
    assert run(boxed, "docker", "ps", "--format", "{{.Names}}").out == "box\n"
    for user in ("root", "dev"):
        inside = ("exec", "--user", user, "box")
        engine.docker(*inside, "tmux", "new-session", "-d", "-s", f"of-{user}", *FOR_EVER)
        assert engine.docker(*inside, "tmux", "ls", "-F", "#{session_name}") == f"of-{user}"
        assert engine.docker(*inside, "whoami") == user
    for name in ("xterm", "xterm-256color", "screen", "screen-256color", "tmux-256color"):
        attach = ("docker", "exec", "-it", "--env", f"TERM={name}", "box", "tmux", "attach")
        assert Terminal(boxed, *attach).shows("[of-root]"), name


def test_the_other_image_has_no_tmux(boxed: World, engine: Engine) -> None:
    with pytest.raises(EngineError, match="tmux"):
        engine.docker("run", "--rm", "--network", "none", BARE_IMAGE, "tmux", "-V")
    assert engine.docker("run", "--rm", "--network", "none", BARE_IMAGE, "echo", "hi") == "hi"


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


def test_a_frozen_engine_does_not_answer_until_it_is_thawed(boxed: World, engine: Engine) -> None:
    engine.freeze()
    with pytest.raises(EngineError, match="no answer"):
        engine.docker("ps", timeout=1)
    engine.thaw()
    assert engine.containers() == []


def test_a_killed_engine_comes_back_with_its_containers(boxed: World, engine: Engine) -> None:
    run_box(engine, "box")
    engine.kill()
    with pytest.raises(EngineError, match="daemon running"):
        engine.containers()
    engine.start()
    assert engine.containers() == ["box"]
    assert eventually(lambda: state(engine, "box") == "exited", 20)


# --- nothing is left ---


@pytest.mark.parametrize("trouble", ["none", "freeze", "kill"])
def test_stop_leaves_nothing(own_engine: OwnEngine, trouble: str) -> None:
    engine = own_engine(tcp=trouble == "none")
    run_box(engine, "box")
    if engine.tcp_host:
        assert engine.docker("--host", engine.tcp_host, "ps", "--format", "{{.Names}}") == "box"
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
    assert eventually(lambda: directory not in Path("/proc/self/mounts").read_text(), 60)
    shutil.rmtree(directory)


def test_without_docker_tests_are_skipped_or_fail(tmp_path: Path) -> None:
    test = f"{__file__}::test_containers_of_every_kind_are_removed"
    plain = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    for required, code, told in (
        ("", 0, "docker is not installed"),
        ("docker", 1, "docker is required here"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test],
            cwd=CHECKOUT,
            env={**plain, "PATH": str(tmp_path), "SESH_TEST_REQUIRE": required},
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stdout
        assert told in done.stdout
