"""Runs sesh for the tests without waiting for Python and its imports each time, which is most of
what a short command costs: a process that has imported everything, and nothing else, forks one for
each call. That one gets its own arguments, environment, directory and streams, and runs the very
function that the script runs. What depends on how a process was begun is for `World.exec`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

SESH = str(Path(sys.executable).with_name("sesh"))
_LANG = "C.UTF-8"
_LIMIT = 30_000  # characters; what exec and pipes make of more is their own affair
_EARLY = (
    "click psutil tomli_w tomllib sh pwd shlex difflib shutil tempfile concurrent.futures.thread"
)


def suits(argv: Sequence[str], env: Mapping[str, str], stdin: str | None) -> bool:
    """Would a process of its own behave the same? Python reads some variables when it starts, and
    others are looked up in /proc, which shows those that a process was begun with."""
    size = len(stdin or "") + sum(map(len, (*argv, *env, *env.values())))
    special = ("LC_", "PYTHON", "LD_", "SESH_ID", "MALLOC")
    return (
        size < _LIMIT
        and env.get("LANG") == _LANG
        and not any(name.startswith(special) for name in env)
    )


# --- the side of the tests -----------------------------------------------------------------------


def run(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, stdin: str | None, timeout: float
) -> tuple[int, str, str]:
    """Run sesh to its end: its exit code, or minus the signal; what it wrote to both streams.
    `argv` begins with the name by which sesh is called."""
    request = {"argv": [*argv], "env": dict(env), "cwd": str(cwd)}
    out, err, status = os.pipe(), os.pipe(), os.pipe()
    given = [_file(json.dumps(request)), _input(stdin), out[1], err[1], status[1]]
    socket.send_fds(_launcher(), [b"!"], given)
    for fd in given:
        os.close(fd)
    try:
        heard = _collect((out[0], err[0], status[0]), timeout)
    finally:
        for pipe in (out, err, status):
            os.close(pipe[0])
    if heard is None:
        raise subprocess.TimeoutExpired([*argv], timeout)
    return int(heard[2].split()[1]), _text(heard[0]), _text(heard[1])


def _file(text: str) -> int:
    """A file in memory, to be read from its beginning."""
    fd = os.memfd_create("prepared")
    os.write(fd, text.encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _input(text: str | None) -> int:
    """Standard input: a pipe that holds all of the text already, or nothing."""
    if text is None:
        return os.open(os.devnull, os.O_RDONLY)
    reading, writing = os.pipe()
    os.write(writing, text.encode(errors="surrogateescape"))
    os.close(writing)
    return reading


def _text(data: bytes) -> str:
    """As subprocess has it."""
    text = data.decode(errors="surrogateescape")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _collect(fds: Sequence[int], timeout: float) -> list[bytes] | None:
    """Read all to their ends. None if that takes too long: then the process is killed."""
    heard = {fd: bytearray() for fd in fds}
    deadline = time.monotonic() + timeout
    with selectors.PollSelector() as waiting:
        for fd in fds:
            waiting.register(fd, selectors.EVENT_READ)
        while waiting.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                os.kill(int(heard[fds[2]].split()[0]), signal.SIGKILL)
                return None
            for key, _ in waiting.select(left):
                chunk = os.read(key.fd, 1 << 16)
                heard[key.fd] += chunk
                if not chunk:
                    waiting.unregister(key.fd)
    return [bytes(heard[fd]) for fd in fds]


@cache
def _launcher() -> socket.socket:
    """The connection to the process that forks; it ends when the connection does."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        env = {"PATH": os.environ["PATH"], "LANG": _LANG}
        process = subprocess.Popen([sys.executable, __file__], stdin=its.fileno(), env=env)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# --- the side of the launcher --------------------------------------------------------------------


def _serve() -> None:
    """Fork for each request; report the exit code of each that has ended. Returns in the process
    that is to be the command, and there only."""
    connection = socket.socket(fileno=os.dup(0))
    reports: dict[int, int] = {}  # pid → where its end is to be reported
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waiting = selectors.PollSelector()
    waiting.register(connection, selectors.EVENT_READ)
    waiting.register(woken, selectors.EVENT_READ)
    while True:
        ready = [key.fd for key, _ in waiting.select()]
        if woken in ready:
            os.read(woken, 1 << 10)
            _report_ends(reports)
        if connection.fileno() in ready:
            _, fds, _, _ = socket.recv_fds(connection, 1, 5)
            if not fds:
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for fd in (connection.fileno(), woken, wake, *reports.values()):
                    os.close(fd)
                return _become(fds)
            os.write(fds[4], b"%d\n" % pid)
            reports[pid] = fds[4]
            for fd in fds[:4]:
                os.close(fd)


def _report_ends(reports: dict[int, int]) -> None:
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        report = reports.pop(pid)
        os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
        os.close(report)


def _become(fds: Sequence[int]) -> None:
    request, stdin, stdout, stderr, status = fds
    with open(request, "rb") as file:
        asked = json.load(file)
    for fd, place in ((stdin, 0), (stdout, 1), (stderr, 2)):
        os.dup2(fd, place)
        os.close(fd)
    os.close(status)
    sys.argv[:] = asked["argv"]
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])


def _import_all() -> None:
    import sesh

    for name in _EARLY.split():
        importlib.import_module(name)
    for module in pkgutil.walk_packages(sesh.__path__, "sesh."):
        importlib.import_module(module.name)


if __name__ == "__main__":
    sys.path[0] = os.path.dirname(SESH)
    gc.disable()
    _import_all()
    _serve()
    from sesh.__main__ import script

    script()
