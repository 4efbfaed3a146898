"""podman speaks the language of docker's client: the same verbs, near and as root. What differs in
its words (no such container, not running) must be understood too."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine import image_archive
from tests.world import World, eventually

# Some machines let nobody raise these, and podman tries to.
LIMITS = ("--docker-opt", "--ulimit=nofile=1024:1024", "--docker-opt", "--ulimit=nproc=1000:1000")
IMAGE = "localhost/sesh-test"


@pytest.fixture
def pods(world: World, images: Path) -> Iterator[World]:
    """A world whose engine is a podman with directories of its own."""
    podman = shutil.which("podman")
    if podman is None or os.getuid() != 0:
        pytest.skip("podman is not installed, or we are not root")
    own = world.root / "pods"
    program = world.root / "podman"
    options = f"--root {own}/root --runroot {own}/run --tmpdir {own}/tmp --events-backend file"
    how = f"{options} --storage-driver vfs --cgroup-manager cgroupfs"
    program.write_text(f'#!/bin/sh\nexec {podman} {how} "$@"\n')
    program.chmod(0o755)
    world.configure(f'[docker]\ncommand = "{program}"\ntimeout = 10\n')
    with image_archive(images).open("rb") as archive:
        made = subprocess.run([program, "import", "-", IMAGE], stdin=archive, capture_output=True)
    probe = [
        str(program),
        "run",
        "--rm",
        "--init",
        "--network",
        "none",
        *LIMITS[1::2],
        IMAGE,
        "true",
    ]
    tried = subprocess.run(probe, capture_output=True, text=True)
    if made.returncode or tried.returncode:
        pytest.skip(f"podman runs no container here: {tried.stderr.strip()[-200:]}")
    yield world
    subprocess.run([program, "rm", "--force", "--all"], capture_output=True)
    subprocess.run(["umount", "-q", f"{own}/root/vfs"], capture_output=True)


def start(world: World, name: str, *command: str) -> None:
    options = ("--image", IMAGE, "--network", "none", *LIMITS)
    world.start(name, *command, options=options)


def test_a_life_in_a_pod(pods: World) -> None:
    start(pods, "a", "sh", "-c", "echo begun; cat")
    assert pods.session("a")["state"] == "running"
    pods.ok("send", "a", "hello")
    assert eventually(lambda: "hello" in pods.ok("logs", "a").out)
    pods.ok("pause", "--freeze", "a")
    assert pods.session("a")["state"] == "paused"
    pods.ok("resume", "a")
    os.kill(pods.session("a")["pid"], signal.SIGTERM)
    assert eventually(lambda: pods.session("a")["state"] == "failed")
    pods.ok("restart", "a")
    assert pods.session("a")["generation"] == 2
    podman = str(pods.root / "podman")
    subprocess.run([podman, "kill", "sesh-a"], check=True, capture_output=True)
    assert eventually(lambda: pods.session("a")["state"] == "lost")
    assert pods.session("a")["cause"] == "container-gone"
    pods.ok("restart", "a")
    subprocess.run([podman, "rm", "-f", "sesh-a"], check=True, capture_output=True)
    assert eventually(lambda: pods.session("a")["reason"] == "its container is gone")
    pods.ok("restart", "a")
    pods.ok("stop", "a")
    assert pods.session("a")["state"] == "stopped"
    listed = subprocess.run([podman, "ps", "-aq"], check=True, capture_output=True)
    assert listed.stdout == b""


def test_an_image_that_is_not_there(pods: World) -> None:
    done = pods.sesh("start", "a", "--image", "localhost/nothing", "--", "true")
    assert done.code == 1
    assert "no image localhost/nothing here" in done.err
    assert pods.ls("--all") == []
