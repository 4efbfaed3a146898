"""The tmux server that a launch goes to: which one it is, and that it is the only one."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, SeshError
from sesh.model.place import Process
from sesh.model.record import Record
from sesh.places import panes
from sesh.system import files, processes, subprocesses, tmux
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Tmux, Trouble

SOCKET_PATIENCE = 1.0
LOGIND_PATIENCE = 2.0
_FEWEST_FILES = 64  # enough for some sessions
_MOST_FILES = 65536


def server(socket: str, run: str, config: Config) -> Tmux:
    return Tmux(
        tmux.find_binary(),
        socket,
        run,
        own=socket == f"{run}/tmux.sock",
        include=config.tmux.include,
        timeout=config.tmux.timeout,
    )


def chosen_socket(config: Config, run: str) -> str:
    """Where new sessions go."""
    if not config.tmux.socket:
        return f"{run}/tmux.sock"
    if config.tmux.socket == "default":
        base = os.environ.get("TMUX_TMPDIR") or "/tmp"
        return f"{base}/tmux-{os.getuid()}/default"
    return config.tmux.socket


def need_terminal(record: Record) -> None:
    """An orphan whose terminal is gone for good may have been adopted."""
    if record.place.pane is None and record.place.agent is not None and record.place.calls_back:
        raise ConflictError(
            f"{record.name} was adopted without a terminal; next: sesh restart {record.name}"
        )


def reach(record: Record, server: Tmux) -> None:
    """Prove that the server that answers has the pane of the session. A socket that was deleted
    under its living server is restored."""
    own = record.place.server
    if own is not None and not os.path.exists(server.socket) and processes.alive(own):
        restore_socket(server, own)
    listed = server.panes()
    if isinstance(listed, Reply) and listed.trouble is not Trouble.NO_SERVER:
        raise CannotTellError(f"{record.name}: tmux: {listed.text}")
    found = panes.find(record, listed)
    if found is None:
        raise CannotTellError(
            f"{record.name} is running, but its tmux server cannot be reached at {server.socket}; "
            "next: sesh doctor"
        )
    if found.name != record.name:  # `rename` was killed
        server.rename(found, record.name)


def scope(record: Record) -> tuple[str, ...]:
    """The command prefix that runs a session in a systemd scope of its own; empty where no user
    manager answers."""
    supervision = record.spec.supervision
    prefix = tmux.scope_prefix() if supervision.scope else ()
    if not prefix:
        return ()
    limit = ("-p", f"MemoryMax={supervision.max_memory}") if supervision.max_memory else ()
    return (*prefix[:-1], *limit, "--")


def ready(server: Tmux, hidden: Callable[[str], Process | None]) -> tuple[str, ...]:
    """Make sure that a launch reaches the one right server; returns the command prefix that starts
    it if it does not run. `hidden` finds a living server whose socket is gone."""
    tmux.check_trust(server.socket)
    if tmux.listens(server.socket):
        return ()
    tmux.check_version(server.binary, server.timeout)
    found = hidden(server.socket)
    if found is not None:
        restore_socket(server, found)
        return ()
    files.make_parents(os.path.dirname(server.socket))  # tmux makes it only for sockets it chose
    tmux.check_trust(server.socket)  # another user may have been faster
    server.write_config()
    _check_room()
    return cold(server)


def _check_room() -> None:
    """A server that has run out of file descriptors does not answer any more, ever."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _FEWEST_FILES:
        raise SeshError(
            f"only {hard} open files are allowed, a tmux server needs {_FEWEST_FILES} or more; "
            "raise the limit with ulimit -n"
        )


@contextmanager
def room() -> Iterator[None]:
    """A server that is started in this context may open more files than sesh: each session needs
    some. (An agent gets the caller's limits, from its launch file.)"""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= most:
        yield
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def cold(server: Tmux) -> tuple[str, ...]:
    """The command prefix that starts a server outside of our login or unit, if that helps."""
    if not server.own or server.prefix:
        return ()
    prefix = tmux.scope_prefix()
    return () if prefix and _manager_ends_first() else prefix


def _manager_ends_first() -> bool:
    """Does a logout end the user manager with every scope in it, and spare what runs in the login
    itself? It does where logind kills nothing and the user does not linger."""
    with open("/proc/self/cgroup") as file:
        if f"/user@{os.getuid()}.service/" in file.read():
            return False  # we are in the manager ourselves
    return _logind("show-session", "KillUserProcesses") == "no" and (
        _logind("show-user", "Linger", str(os.getuid())) == "no"
    )


def _logind(verb: str, name: str, *user: str) -> str:
    """A property of logind, or of a user of it; empty when it does not answer."""
    argv = ("loginctl", verb, "--property", name, "--value", *user)
    answer = subprocesses.call(argv, timeout=LOGIND_PATIENCE)
    return answer.out.strip() if answer.ok else ""


def restore_socket(server: Tmux, process: Process) -> None:
    """The socket was removed under a living server: SIGUSR1 makes the server restore it.

    One caller at a time, and never while a server answers there: a server that makes its socket
    once more removes it first, and a client that connects in that moment starts a second server."""
    files.make_private(server.run)  # may have gone with the socket
    with files.locked(f"{server.run}/socket.lock"):
        if not server.answers():
            _restore_socket(server, process)


def _restore_socket(server: Tmux, process: Process) -> None:
    server.write_config()  # the next server needs it
    stat = processes.look(process.pid)
    if (
        stat is None
        or not stat.comm.startswith("tmux")
        or not processes.send(process, signal.SIGUSR1)
    ):
        raise CannotTellError(f"the tmux socket {server.socket} is gone and can't be restored")
    deadline = time.monotonic() + SOCKET_PATIENCE
    while time.monotonic() < deadline:
        if os.path.exists(server.socket) and server.answers():
            return
        time.sleep(0.02)
    raise CannotTellError(
        f"tmux server {process.pid} is alive, but its socket {server.socket} is gone"
    )
