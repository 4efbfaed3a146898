"""The one launcher of programs. A timeout on every call; nothing here judges what was said.

`sh` runs git where git changes a repository. Everything else stays with `subprocess`. Looks at git,
tmux and the container engines are on budgeted paths, and the import of `sh` takes longer than most
of their answers. Users' own commands need what `sh` does not do: on a timeout it kills the command
but not its process group; it collects an endless answer until the timeout; and it forks in Python
while other threads run (a notification has a thread for each target, a look at many checkouts has
eight) and then waits without a timeout for the child to reach exec. A health command must outlive
the pass that starts it, and `sh` keeps threads in its caller for every command.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum

from sesh.model.errors import SCARCE
from sesh.model.value_object import Value

NOTHING, PIPE = subprocess.DEVNULL, subprocess.PIPE
OUTPUT_LIMIT = 16 << 20
_USUAL = 0.01  # seconds that the start of a program takes at most; on an idle machine 1 to 3 ms
_SLOWEST = 5.0  # the largest factor by which a timeout grows
_HANDLES = 6  # files that Popen opens, or one more: /dev/null and two pipes
_NAP = 3600.0  # seconds of one poll, whose milliseconds must fit an int
_LOOK = 0.1  # seconds until we notice the end of a command whose stderr stays open
_MOMENT = 0.3  # seconds to read from background processes after the command has ended


def engine_environment() -> dict[str, str]:
    """Our environment without variables that choose an engine: each call names its engine."""
    outer = ("DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "CONTAINER_CONNECTION")
    return {name: value for name, value in os.environ.items() if name not in outer}


class Answer(Value):
    """What a program said. `code` is None when it gave no answer at all; `problem` says why."""

    code: int | None
    out: str
    err: str
    problem: str | None = None
    scarce: bool = False  # no program could be started: too many files or processes

    @property
    def ok(self) -> bool:
        return self.code == 0


class Reply(Value):
    """An answer of tmux or a container engine. `trouble` is None when it did what we asked; else
    it is one of the `Trouble`s of that module, and `text` is the message."""

    out: str
    trouble: Enum | None = None
    text: str = ""

    @property
    def ok(self) -> bool:
        return self.trouble is None


def call(
    argv: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stdin: int = NOTHING,
    stdout: int = PIPE,
    errors: str = "replace",
    adapting: bool = False,
) -> Answer:
    """Run a program to its end, or kill it after `timeout` seconds. With `errors` set to
    "surrogateescape" the answer keeps every byte; `stdout` may be a file instead. `adapting` gives
    the program more time on a slow machine."""
    begun = time.perf_counter()
    process = _start(argv, env, cwd, stdin, stdout)
    slow = _slowness(time.perf_counter() - begun) if adapting else 1.0
    return process if isinstance(process, Answer) else _answer(process, timeout, errors, slow)


def begin(argv: Sequence[str], *, timeout: float, env: Mapping[str, str]) -> Callable[[], Answer]:
    """The same, adapting, in two steps: the returned function waits for the answer, and must be
    called."""
    begun = time.perf_counter()
    process = _start(argv, env)
    if isinstance(process, Answer):
        return lambda: process
    slow = _slowness(time.perf_counter() - begun)
    return lambda: _answer(process, timeout, "replace", slow)


def _slowness(taken: float) -> float:
    """How much slower than usual this machine is, judged by the start of a program."""
    return min(max(1.0, taken / _USUAL), _SLOWEST)


def _start(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str | None = None,
    stdin: int = NOTHING,
    stdout: int = PIPE,
) -> subprocess.Popen[bytes] | Answer:
    """The process, or the reason why it could not start."""
    try:
        _check_room()
        return subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=PIPE, env=env, cwd=cwd)
    except FileNotFoundError as error:
        return Answer(None, "", "", f"{error.filename}: not found")
    except OSError as error:
        scarce = error.errno in SCARCE
        return Answer(None, "", "", f"{argv[0]}: {error.strerror}", scarce=scarce)


def _check_room() -> None:
    """Raise now if Popen would run out of open files halfway: before Python 3.11.4 it leaves open
    what it has opened until then, and the files that say why no agent runs can't be written."""
    opened: list[int] = []
    try:
        while len(opened) < _HANDLES:
            opened += os.pipe()
    finally:
        for fd in opened:
            os.close(fd)


def _answer(process: subprocess.Popen[bytes], timeout: float, errors: str, slow: float) -> Answer:
    with process:
        return _communicate(process, timeout, errors, slow)


def detach(argv: Sequence[str], *, env: Mapping[str, str]) -> int:
    """Start a program in a session of its own, without waiting for it or reading from it; returns
    its pid. (A tenth of the cost of `Popen`: a pass may start a hundred.)"""
    nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    ours = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores these; other programs must not
    return os.posix_spawn(
        argv[0], list(argv), env, file_actions=nothing, setsid=True, setsigdef=ours
    )


def reap(pid: int = -1) -> None:
    """Reap a program that `detach` started, or all of them, if they have ended: a watch would
    collect zombies."""
    with suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG)[0] and pid == -1:
            pass


def _communicate(
    process: subprocess.Popen[bytes], timeout: float, errors: str, slow: float
) -> Answer:
    """Read both streams until they end, the time is up, or the output is too long. The message
    names the timeout as it was set, however slow the machine was."""
    out, err = bytearray(), bytearray()
    streams = ((process.stdout, out), (process.stderr, err))
    said = {stream.fileno(): heard for stream, heard in streams if stream is not None}
    deadline = time.monotonic() + timeout * slow
    poll = select.poll()
    for fd in said:
        poll.register(fd, select.POLLIN | select.POLLHUP)
    waiting = len(said)
    try:
        while waiting:
            left = deadline - time.monotonic()
            if left <= 0:
                return _give_up(process, f"no answer within {timeout:g} s")
            for fd, _ in poll.poll(min(left, _NAP) * 1000):
                chunk = os.read(fd, 1 << 16)
                said[fd] += chunk
                if not chunk:
                    poll.unregister(fd)
                    waiting -= 1
            if len(out) + len(err) > OUTPUT_LIMIT:
                return _give_up(process, "an answer without end")
        code = process.wait(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return _give_up(process, f"no end within {timeout:g} s")
    except BaseException:
        process.kill()
        raise
    return Answer(code, _text(out, errors), _text(err, errors))


def _give_up(process: subprocess.Popen[bytes], problem: str) -> Answer:
    process.kill()
    return Answer(None, "", "", problem)


def _text(data: bytes | bytearray, errors: str = "replace") -> str:
    return data.decode(errors=errors)


def feed(
    argv: Sequence[str], data: bytes, *, timeout: float, env: Mapping[str, str], cwd: str
) -> Answer:
    """Run a user's command with `data` on its standard input; only its stderr is kept. After
    `timeout` seconds its whole process group is killed."""
    with open(os.memfd_create("sesh-feed"), "w+b") as given:
        given.write(data)
        given.seek(0)
        try:
            _check_room()
            with subprocess.Popen(
                argv,
                stdin=given,
                stdout=NOTHING,
                stderr=PIPE,
                env=env,
                cwd=cwd,
                start_new_session=True,
            ) as process:
                answer = _listen(process, timeout)
                if answer.code is None:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                return answer
        except OSError as error:
            return Answer(None, "", "", f"{error.filename or argv[0]}: {error.strerror}")
        except ValueError as error:  # an embedded null byte
            return Answer(None, "", "", f"{argv[0]}: {error}")


def _listen(process: subprocess.Popen[bytes], timeout: float) -> Answer:
    """Read its stderr until it ends or its time is up. Background processes that keep its stderr
    open after its end are not waited for."""
    assert process.stderr is not None
    said, fd, poll = bytearray(), process.stderr.fileno(), select.poll()
    poll.register(fd, select.POLLIN | select.POLLHUP)
    deadline = time.monotonic() + timeout
    ended = False
    while (left := deadline - time.monotonic()) > 0 and len(said) <= OUTPUT_LIMIT:
        if not ended and process.poll() is not None:
            ended, deadline = True, min(deadline, time.monotonic() + _MOMENT)
        if poll.poll(min(left, _LOOK) * 1000):
            chunk = os.read(fd, 1 << 16)
            if not chunk:
                break
            said += chunk
    if len(said) > OUTPUT_LIMIT:
        return Answer(None, "", "", "an answer without end")
    try:
        code = process.wait(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return Answer(None, "", _text(said), f"no answer within {timeout:g} s")
    return Answer(code, "", _text(said))


def tool(
    argv: Sequence[str],
    *,
    timeout: float,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Answer:
    """Run a slow program to its end, or kill it after `timeout` seconds."""
    import sh

    try:
        command = sh.Command(argv[0])
    except sh.CommandNotFound:
        return Answer(None, "", "", f"{argv[0]}: not found")
    nothing = open(os.devnull, "rb")  # noqa: SIM115  # sh reads it: closed below
    try:
        done = command(
            *argv[1:],
            _timeout=timeout,
            _cwd=cwd,
            _env=None if env is None else dict(env),
            _ok_code=tuple(range(256)),
            _return_cmd=True,
            _in=nothing,
            _tty_out=False,
        )
    except sh.TimeoutException:
        return Answer(None, "", "", f"no answer within {timeout:g} s")
    except sh.SignalException as error:
        return Answer(None, "", "", f"{argv[0]}: killed by signal {-error.exit_code}")
    except (sh.ForkException, OSError) as error:
        reason = str(error).strip().rpartition("\n")[2].strip()
        return Answer(None, "", "", f"{argv[0]}: {reason}")
    finally:
        nothing.close()
    return Answer(done.exit_code, _text(done.stdout), _text(done.stderr))
