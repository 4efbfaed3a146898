"""Which tmux server a launch goes to. What a logout leaves of it: tests/systemd/test_scopes.py."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import closing
from pathlib import Path

import pytest

from sesh.places.host import tmux_server
from sesh.system import tmux
from tests.schedulers import put_first
from tests.world import World, eventually


@pytest.fixture
def alive(world: World) -> World:
    """With a server of ours."""
    world.start("a")
    return world


def kill(world: World) -> None:
    pid = world.server_pid()
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: world.state_of("a") == "lost")


def test_a_socket_that_nobody_answers_on_is_cold(alive: World) -> None:
    path = alive.socket
    assert tmux.listens(path)
    kill(alive)
    assert os.path.exists(path)
    assert not tmux.listens(path)
    os.unlink(path)
    assert not tmux.listens(path)
    Path(path).touch()
    assert not tmux.listens(path)


def test_a_server_without_time_is_warm(tmp_path: Path) -> None:
    """It hangs, and no more connections are queued for it."""
    path = str(tmp_path / "socket")
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(path)
        server.listen(0)
        assert all(tmux.listens(path) for _ in range(5))


def test_a_server_in_place_of_a_dead_one_gets_a_scope(
    alive: World, here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(alive)
    server = tmux.Tmux("tmux", alive.socket, os.path.dirname(alive.socket))
    assert tmux_server.ready(server, lambda _: None) == ()
    with closing(socket.socket(socket.AF_UNIX)) as manager:
        private = Path(alive.env["XDG_RUNTIME_DIR"]) / "systemd" / "private"
        private.parent.mkdir()
        manager.bind(str(private))
        manager.listen()
        put_first(alive, "systemd-run", "exit 1")
        monkeypatch.setenv("PATH", alive.env["PATH"])
        assert tmux_server.ready(server, lambda _: None)[1:3] == ("--user", "--scope")
    assert private.exists()
    assert tmux_server.ready(server, lambda _: None) == ()  # the manager has gone
