"""The one launcher of programs. Every call has a timeout; nothing here interprets an answer.

`sh` runs git where git changes a repository. Everything else is spawned here: looks at git, tmux
and the container engines are on budgeted paths, and the import of `sh` or `subprocess` takes longer
than most of their answers. Users' own commands need what `sh` does not do: on a timeout it kills
the command but not its process group; it collects an endless answer until the timeout; and it forks
in Python while other threads run (a notification has a thread for each target, a look at many
checkouts has eight) and then waits without a timeout for the child to reach exec. A health command
must outlive the pass that starts it, and `sh` keeps threads in its caller for every command.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from errno import ENOENT

from sesh.model.errors import SCARCE
from sesh.model.value_object import Value
from sesh.system import paths
from sesh.system.files import unnamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from enum import Enum
    from typing import Self

NOTHING, PIPE = -3, -1  # in place of a file descriptor: /dev/null, a pipe that is read here
OUTPUT_LIMIT = 16 << 20
_USUAL = 0.01  # seconds that the start of a program takes at most; on an idle machine 1 to 3 ms
_SLOWEST = 5.0  # the largest factor by which a timeout grows
_NAP = 3600.0  # seconds of one poll, whose milliseconds must fit an int
_LOOK = 0.1  # seconds until we notice the end of a command whose stderr stays open
_MOMENT = 0.3  # seconds to read from background processes after the command has ended
_PARTING = 1.0  # seconds for a program at the terminal to restore it
_OURS = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores these; other programs must not


def engine_environment() -> dict[str, str]:
    """Our environment without variables that choose an engine: each call names its engine."""
    outer = ("DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "CONTAINER_CONNECTION")
    return {name: value for name, value in os.environ.items() if name not in outer}


class Answer(Value):
    """The answer of a program. `code` is None when there is none at all; `problem` says why."""

    code: int | None
    out: str
    err: str
    problem: str | None = None
    scarce: bool = False  # no program could be started: too many files or processes

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def message(self) -> str:
        """Why the program failed, in one line."""
        said = " ".join((self.err.strip() or self.out.strip()).split())
        return self.problem or said.encode(errors="replace").decode() or f"exit {self.code}"


class Reply(Value):
    """An answer of tmux or a container engine. `trouble` is None when it did what we asked; else
    it is one of the `Trouble`s of that module, and `text` is the message."""

    out: str
    trouble: Enum | None = None
    text: str = ""

    @property
    def ok(self) -> bool:
        return self.trouble is None


# --- starting ------------------------------------------------------------------------------------


class _Child:
    """A program that was started, and the ends of its pipes that are read here."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        stdin: int,
        stdout: int,
        cwd: str | None = None,
        *,
        stderr: int = PIPE,
        leader: bool = False,
    ) -> None:
        self.code: int | None = None
        self.pipes: list[int] = []  # of its stdout and of its stderr, if they are read
        given = [os.open(os.devnull, os.O_RDWR)]
        try:
            null, out, err = given[0], stdout, stderr
            if out == PIPE:
                out = self._pipe(given)
            if err == PIPE:
                err = self._pipe(given)
            streams = (null if stdin == NOTHING else stdin, null if out == NOTHING else out, err)
            self.pid = _spawn(argv, os.environ if env is None else env, streams, cwd, leader=leader)
        except BaseException:
            self._close()
            raise
        finally:
            for fd in given:
                os.close(fd)

    def _pipe(self, given: list[int]) -> int:
        """Make a pipe that is read here; returns the end for the program."""
        end, its = os.pipe()
        self.pipes.append(end)
        given.append(its)
        return its

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait(None)

    def _close(self) -> None:
        for fd in self.pipes:
            os.close(fd)

    def wait(self, deadline: float | None) -> int | None:
        """Its exit code; None when it still runs at the deadline. Without one: wait for its end."""
        pause = 0.0005
        while self.code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG if deadline is not None else 0)
            except ChildProcessError:  # our parent ignores SIGCHLD, and so do we
                pid, status = self.pid, 0
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            elif deadline is None or (left := deadline - time.monotonic()) <= 0:
                break
            else:
                time.sleep(min(pause, left))
                pause = min(2 * pause, 0.05)
        return self.code

    def kill(self) -> None:
        if self.wait(0.0) is None:
            os.kill(self.pid, signal.SIGKILL)


def _spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    streams: tuple[int, int, int],
    cwd: str | None,
    *,
    leader: bool,
) -> int:
    """Start a program with these streams and no other file of ours; its pid."""
    if cwd is not None or min(streams) < 3:  # posix_spawn cannot change the directory
        import subprocess

        stdin, stdout, stderr = streams
        process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=env,
            cwd=cwd,
            start_new_session=leader,
        )
        process.returncode = 0  # we wait for it
        return process.pid
    program = argv[0] if "/" in argv[0] else paths.which(argv[0], env.get("PATH", os.defpath))
    if program is None:
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), argv[0])
    actions: list[tuple[int, ...]] = [
        *((os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(streams)),
        *((os.POSIX_SPAWN_CLOSE, fd) for fd in _inherited()),
    ]
    return os.posix_spawn(
        program, list(argv), env, file_actions=actions, setsid=leader, setsigdef=_OURS
    )


def _inherited() -> list[int]:
    """The files, beside the three streams, that our caller has passed on to us: a program must not
    keep them open."""
    found = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # the directory itself, which is closed by now
            if fd > 2 and os.get_inheritable(fd):
                found.append(fd)
    return found


def detach(argv: Sequence[str], *, env: Mapping[str, str]) -> int:
    """Start a program in a session of its own, without waiting for it or reading from it; returns
    its pid."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        return _spawn(argv, env, (null, null, null), None, leader=True)
    finally:
        os.close(null)


def reap(pid: int = -1) -> None:
    """Reap a program that `detach` started, or all of them, if they have ended: a watch would
    collect zombies."""
    with suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG)[0] and pid == -1:
            pass


# --- asking --------------------------------------------------------------------------------------


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
    child = _start(argv, env, cwd, stdin, stdout)
    slow = _slowness(time.perf_counter() - begun) if adapting else 1.0
    return child if isinstance(child, Answer) else _answer(child, timeout, errors, slow)


def begin(argv: Sequence[str], *, timeout: float, env: Mapping[str, str]) -> Callable[[], Answer]:
    """The same, adapting, in two steps: the returned function waits for the answer, and must be
    called."""
    begun = time.perf_counter()
    child = _start(argv, env)
    if isinstance(child, Answer):
        return lambda: child
    slow = _slowness(time.perf_counter() - begun)
    return lambda: _answer(child, timeout, "replace", slow)


def _slowness(taken: float) -> float:
    """How much slower than usual this machine is, judged by the start of a program."""
    return min(max(1.0, taken / _USUAL), _SLOWEST)


def _start(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str | None = None,
    stdin: int = NOTHING,
    stdout: int = PIPE,
) -> _Child | Answer:
    """The program, or the reason why it could not start."""
    try:
        return _Child(argv, env, stdin, stdout, cwd)
    except FileNotFoundError as error:
        return Answer(None, "", "", f"{error.filename}: not found")
    except OSError as error:
        scarce = error.errno in SCARCE
        return Answer(None, "", "", f"{argv[0]}: {error.strerror}", scarce=scarce)


def _answer(child: _Child, timeout: float, errors: str, slow: float) -> Answer:
    """Read both streams until they end, the time is up, or the output is too long. The message
    names the timeout as it was set, however slow the machine was."""
    said = {fd: bytearray() for fd in child.pipes}
    deadline = time.monotonic() + timeout * slow
    poll = select.poll()
    for fd in said:
        poll.register(fd, select.POLLIN | select.POLLHUP)
    waiting = len(said)
    with child:
        try:
            while waiting:
                left = deadline - time.monotonic()
                if left <= 0:
                    return _give_up(child, f"no answer within {timeout:g} s")
                for fd, _ in poll.poll(min(left, _NAP) * 1000):
                    chunk = os.read(fd, 1 << 16)
                    said[fd] += chunk
                    if not chunk:
                        poll.unregister(fd)
                        waiting -= 1
                if sum(map(len, said.values())) > OUTPUT_LIMIT:
                    return _give_up(child, "an answer without end")
            code = child.wait(deadline)
        except BaseException:
            child.kill()
            raise
        if code is None:
            return _give_up(child, f"no end within {timeout:g} s")
    *out, err = (_text(data, errors) for data in said.values())
    return Answer(code, "".join(out), err)


def _give_up(child: _Child, problem: str) -> Answer:
    child.kill()
    return Answer(None, "", "", problem)


def _text(data: bytes | bytearray, errors: str = "replace") -> str:
    return data.decode(errors=errors)


def feed(
    argv: Sequence[str], data: bytes, *, timeout: float, env: Mapping[str, str], cwd: str
) -> Answer:
    """Run a user's command with `data` on its standard input; only its stderr is kept. After
    `timeout` seconds its whole process group is killed."""
    try:
        with (
            unnamed(data) as given,
            _Child(argv, env, given, NOTHING, cwd, leader=True) as child,
        ):
            answer = _listen(child, timeout)
            if answer.code is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            return answer
    except OSError as error:
        return Answer(None, "", "", f"{error.filename or argv[0]}: {error.strerror}")
    except ValueError as error:  # an embedded null byte
        return Answer(None, "", "", f"{argv[0]}: {error}")


def converse(argv: Sequence[str], data: bytes, wakes: int, ended: Callable[[], bool]) -> Answer:
    """Run a program that talks to the user at the terminal, with `data` on its standard input, and
    read its output. The user takes the time that it needs; but when `wakes` can be read and `ended`
    is true, the program is asked to end."""
    err = os.dup(2)
    try:
        with unnamed(data) as given, _Child(argv, None, given, PIPE, stderr=err) as child:
            said, poll = bytearray(), select.poll()
            [out] = child.pipes
            poll.register(out, select.POLLIN | select.POLLHUP)
            poll.register(wakes, select.POLLIN)
            while len(said) <= OUTPUT_LIMIT:
                ready = [fd for fd, _ in poll.poll()]
                if wakes in ready:
                    os.read(wakes, 64)
                if ended():
                    _ask_to_end(child)
                    break
                if out in ready:
                    chunk = os.read(out, 1 << 16)
                    said += chunk
                    if not chunk:
                        break
            return Answer(child.wait(None), _text(said), "")
    except OSError as error:
        return Answer(None, "", "", f"{error.filename or argv[0]}: {error.strerror}")
    finally:
        os.close(err)


def _ask_to_end(child: _Child) -> None:
    """Ask a program to end, also one that was stopped; kill it if it does not."""
    for number in (signal.SIGTERM, signal.SIGCONT):
        if child.wait(0.0) is None:
            os.kill(child.pid, number)
    if child.wait(time.monotonic() + _PARTING) is None:
        child.kill()


def _listen(child: _Child, timeout: float) -> Answer:
    """Read its stderr until it ends or its time is up. Background processes that keep its stderr
    open after its end are not waited for."""
    said, poll = bytearray(), select.poll()
    [fd] = child.pipes
    poll.register(fd, select.POLLIN | select.POLLHUP)
    deadline = time.monotonic() + timeout
    ended = False
    while (left := deadline - time.monotonic()) > 0 and len(said) <= OUTPUT_LIMIT:
        if not ended and child.wait(0.0) is not None:
            ended, deadline = True, min(deadline, time.monotonic() + _MOMENT)
        if poll.poll(min(left, _LOOK) * 1000):
            chunk = os.read(fd, 1 << 16)
            if not chunk:
                break
            said += chunk
    if len(said) > OUTPUT_LIMIT:
        return Answer(None, "", "", "an answer without end")
    code = child.wait(deadline)
    if code is None:
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
