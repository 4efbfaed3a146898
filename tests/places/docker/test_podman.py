"""podman speaks the language of docker's client: the same verbs, near and as root. What differs in
its words (no such container, not running) must be understood too."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import do_without
from tests.engine import image_archive
from tests.places.docker.test_gc import a_minute_later, gc, told
from tests.world import World, eventually

# Some machines let nobody raise these, and podman tries to.
LIMITS = ("--docker-opt", "--ulimit=nofile=1024:1024", "--docker-opt", "--ulimit=nproc=1000:1000")
IMAGE = "localhost/sesh-test"


class Podman:
    """A podman with directories of its own."""

    def __init__(self, directory: Path, podman: str) -> None:
        self.program = directory / "podman"
        self._storage = directory / "root" / "vfs"
        options = [f"--root={directory}/root", f"--runroot={directory}/run"]
        options += [f"--tmpdir={directory}/tmp", "--events-backend=file", "--storage-driver=vfs"]
        options += ["--cgroup-manager=cgroupfs"]
        if shutil.which("runc"):  # crun can't live with two versions of cgroups
            options.append("--runtime=runc")
        self.program.write_text(f'#!/bin/sh\nexec {podman} {" ".join(options)} "$@"\n')
        self.program.chmod(0o755)

    def __call__(self, *args: str) -> str:
        done = subprocess.run([self.program, *args], check=True, capture_output=True, text=True)
        return done.stdout

    def problem(self, archive: Path) -> str:
        """Why it can't run containers of our image here; empty if it can."""
        imported = subprocess.run([self.program, "import", archive, IMAGE], capture_output=True)
        probe = ("run", "--rm", "--init", "--network=none", *LIMITS[1::2], IMAGE, "true")
        tried = subprocess.run([self.program, *probe], capture_output=True, text=True)
        if not (imported.returncode or tried.returncode):
            return ""
        return f"podman runs no container here: {tried.stderr.strip()[-200:]}"

    def containers(self) -> list[str]:
        return self("ps", "--all", "--format={{.Names}}").split()

    def clear(self) -> None:
        self("rm", "--force", "--all", "--time=0")

    def end(self) -> None:
        subprocess.run([self.program, "rm", "--force", "--all", "--time=0"], capture_output=True)
        subprocess.run(["umount", "-q", self._storage], capture_output=True)


@pytest.fixture(scope="module")
def podman(shared: Path) -> Iterator[Podman]:
    found = shutil.which("podman")
    if found is None or os.getuid() != 0:
        do_without("podman", "podman is not installed, or we are not root")
    directory = Path(tempfile.mkdtemp(prefix="sesh-podman-", dir="/tmp"))
    made = Podman(directory, found)
    try:
        if problem := made.problem(image_archive(shared)):
            do_without("podman", problem)
        yield made
    finally:
        made.end()
        shutil.rmtree(directory)


@pytest.fixture
def pods(world: World, podman: Podman) -> Iterator[World]:
    """A world whose engine it is."""
    world.configure(f'[docker]\ncommand = "{podman.program}"\ntimeout = 10\n')
    yield world
    podman.clear()


def start(world: World, name: str, script: str) -> None:
    options = ("--image", IMAGE, "--network", "none", *LIMITS)
    world.start(name, "sh", "-c", script, options=options)


def ends(world: World, name: str, state: str) -> bool:
    return bool(eventually(lambda: world.state_of(name) == state))


def test_a_life_in_a_pod(pods: World, podman: Podman) -> None:
    start(pods, "a", "echo begun; cat")
    assert pods.state_of("a") == "running"
    pods.ok("send", "a", "hello")
    assert eventually(lambda: "hello" in pods.ok("logs", "a").out)
    pods.ok("pause", "--freeze", "a")
    assert pods.state_of("a") == "paused"
    pods.ok("resume", "a")
    os.kill(pods.session("a")["pid"], signal.SIGTERM)
    assert ends(pods, "a", "failed")
    pods.ok("restart", "a")
    assert pods.session("a")["generation"] == 2
    pods.ok("stop", "a")
    assert pods.state_of("a") == "stopped"
    assert podman.containers() == []


def test_a_container_that_is_removed(pods: World, podman: Podman) -> None:
    start(pods, "a", "cat")
    podman("kill", "sesh-a")
    assert ends(pods, "a", "lost")
    assert pods.session("a")["cause"] == "container-gone"
    pods.ok("restart", "a")
    podman("rm", "--force", "--time=0", "sesh-a")
    assert eventually(lambda: pods.session("a")["reason"] == "its container is gone")
    pods.ok("restart", "a")
    assert (pods.state_of("a"), podman.containers()) == ("running", ["sesh-a"])


def test_exit_codes(pods: World, podman: Podman) -> None:
    for name, script in (("good", "exit 0"), ("bad", "exit 7"), ("slain", "kill -KILL $$")):
        start(pods, name, f"sleep 0.2; {script}")
    assert pods.sesh("wait", "good").code == 0
    assert ends(pods, "bad", "failed")
    assert ends(pods, "slain", "failed")
    shown = {one["name"]: (one["exit_code"], one["signal"]) for one in pods.ls()}
    assert shown == {"good": (0, None), "bad": (7, None), "slain": (137, 9)}
    pods.ok("stop", "--all", "--yes")
    assert podman.containers() == []


def test_an_agent_that_ignores_signals_is_killed(pods: World, podman: Podman) -> None:
    start(pods, "a", "trap '' TERM INT HUP; while :; do sleep 1; done")
    pods.ok("stop", "--grace", "1s", "a")
    assert (pods.state_of("a"), podman.containers()) == ("stopped", [])
    pods.ok("restart", "a")
    assert (pods.state_of("a"), podman.containers()) == ("running", ["sesh-a"])


def test_gc_removes_unclaimed_containers(pods: World, podman: Podman) -> None:
    start(pods, "kept", "cat")
    start(pods, "gone", "cat")
    podman("kill", "sesh-gone")
    assert ends(pods, "gone", "lost")
    pods.record("gone").unlink()
    gc(pods)
    a_minute_later(pods)
    assert told(gc(pods, "--kill-orphans"), "container") == [("remove", True)]
    assert podman.containers() == ["sesh-kept"]
    assert pods.state_of("kept") == "running"


def test_an_image_that_is_not_there(pods: World) -> None:
    done = pods.sesh("start", "a", "--image", "localhost/nothing", "--", "true")
    assert done.code == 1
    assert "no local image localhost/nothing" in done.err
    assert pods.ls("--all") == []
