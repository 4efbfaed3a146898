"""Targets of notifications: a shell command or a web address. One try, never beyond its timeout.

An address may hold a password or a token, also in its path; a command may print one. So the name of
a target (`shown`) and the reason of a failure contain nothing of either.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum

from sesh import __version__
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Value
from sesh.system import bug_log, paths, subprocesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from urllib.parse import SplitResult

# The variables that show a process that it belongs to a session, or runs in its terminal.
_OF_A_SESSION = ("SESH_ID", "SESH_NAME", "SESH_RUN", "TMUX", "TMUX_PANE")
_ASSIGNMENT = lazy(r"\w+=")
_LONGEST = 60  # characters of a command's first word
_LONGEST_WAIT = 86400.0  # seconds: a socket takes no more milliseconds than an int holds


class Kind(StrEnum):
    COMMAND = "command"
    WEBHOOK = "webhook"


class Target(Value):
    kind: Kind
    what: str  # the command, or the address

    @property
    def shown(self) -> str:
        """Its name in messages: the first word of the command, or the host. No secrets."""
        return _program(self.what) if self.kind is Kind.COMMAND else _host(self.what)


class Sent(Value):
    """The result of one try."""

    problem: str | None = None  # None: delivered
    said: str = ""  # the output of the command; for a terminal, never for a log


def send(target: Target, data: bytes, timeout: float) -> Sent:
    """Send to one target."""
    if target.kind is Kind.COMMAND:
        return _guarded(lambda: _run(target.what, data, timeout))
    return _within(timeout, lambda: _guarded(lambda: Sent(_post(target.what, data, timeout))))


def _guarded(work: Callable[[], Sent]) -> Sent:
    """The result. A bug is written to the bug log, so that other targets are served."""
    try:
        return work()
    except Exception as error:
        bug_log.write(error)
        return Sent(f"a bug in sesh ({type(error).__name__})")


def surroundings() -> dict[str, str]:
    """The environment for a process outside of any session, even if we are in one."""
    return {name: value for name, value in os.environ.items() if name not in _OF_A_SESSION}


# --- commands ------------------------------------------------------------------------------------


def _program(command: str) -> str:
    """The first word that is not an assignment, which may hold a secret."""
    from shlex import split

    try:
        words = split(command)
    except ValueError:
        return "sh"
    first = next((word for word in words if not _ASSIGNMENT.match(word)), "sh")
    return first[:_LONGEST]


def _run(command: str, data: bytes, timeout: float) -> Sent:
    home = paths.home()
    cwd = home if os.path.isdir(home) else "/"
    argv = ("/bin/sh", "-c", command)
    answer = subprocesses.feed(argv, data, timeout=timeout, env=surroundings(), cwd=cwd)
    if answer.code is None:
        return Sent(answer.problem, answer.err.strip())
    if answer.code == 0:
        return Sent()
    how = f"killed by signal {-answer.code}" if answer.code < 0 else f"exit {answer.code}"
    return Sent(how, answer.err.strip())


# --- addresses -----------------------------------------------------------------------------------


def usable(address: str) -> bool:
    """Is it an http or https address?"""
    return _parts(address) is not None


def _parts(address: str) -> SplitResult | None:
    from urllib.parse import urlsplit

    if not address.isascii() or not address.isprintable() or " " in address:
        return None
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _host(address: str) -> str:
    parts = _parts(address)
    if parts is None:
        return "webhook"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _post(address: str, data: bytes, timeout: float) -> str | None:
    """Why an address did not accept it; None when it did. A redirection is not followed, and counts
    as a failure."""
    from http import HTTPStatus
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Stay(HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    parts = _parts(address)
    if parts is None:
        return "is not an http or https address"
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
    request = Request(plain, data, _headers(parts), method="POST")
    try:
        with build_opener(Stay).open(request, timeout=min(timeout, _LONGEST_WAIT)):
            return None
    except HTTPError as error:
        error.close()
        known = error.code in {status.value for status in HTTPStatus}
        phrase = f" {HTTPStatus(error.code).phrase}" if known else ""
        return f"answered {error.code}{phrase}"
    except URLError as error:
        return _why(error.reason, timeout)
    except (OSError, HTTPException, ValueError) as error:
        return _why(error, timeout)


def _headers(parts: SplitResult) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": f"sesh/{__version__}"}
    if parts.username is not None:
        from base64 import b64encode
        from urllib.parse import unquote

        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
    return headers


def _why(error: BaseException | str, timeout: float) -> str:
    """In words that hold nothing of the address. (Those of http.client may.)"""
    if isinstance(error, TimeoutError):
        return _no_answer(timeout)
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"no answer that can be understood ({type(error).__name__})"


def _no_answer(timeout: float) -> str:
    return f"no answer within {timeout:g} s"


def _within(timeout: float, work: Callable[[], Sent]) -> Sent:
    """The result, or a timeout: the timeout of a name server cannot be set, and a server that
    answers byte by byte would hold us for ever. (A late thread is left behind.)"""
    from threading import Thread

    came: list[Sent] = []
    thread = Thread(target=lambda: came.append(work()), daemon=True)
    thread.start()
    thread.join(timeout)
    return came[0] if came else Sent(_no_answer(timeout))
