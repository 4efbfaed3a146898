"""Calls of a container engine through its command, docker or podman.

Answers are three-valued, as for tmux: "no such container" counts only as a known message. A
timeout, an engine that is down and an unknown message prove nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, SeshError
from sesh.model.place import Engine
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Value
from sesh.system import files, paths, subprocesses
from sesh.system.subprocesses import NOTHING, PIPE, Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RUN_TIMEOUT = 120.0  # to create a container: with some drivers the engine copies the whole image
PULL_TIMEOUT = 3600.0
STOP_TIMEOUT = 30.0
_ID = lazy(r"[0-9a-f]{64}")
_TIME = lazy(r"([0-9-]{10}T[0-9:]{8})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})")


class Trouble(Enum):
    DOWN = "the engine can't be reached"
    NO_ADDRESS = "the address is not one of an engine"
    DENIED = "no permission to use the engine"
    NO_CONTAINER = "no such container"
    NO_IMAGE = "no such image"
    NOT_RUNNING = "the container is not running"
    PAUSED = "the container is paused"
    NAME_TAKEN = "the container's name is taken"
    NO_PROGRAM = "the program is not in the container"
    NO_DIRECTORY = "the directory is not in the container"
    OTHER = "the engine gave no usable answer"


# Messages in lower case, and their meaning. (Compiled only after an error.)
_MESSAGES = (
    (
        r"unable to resolve docker endpoint|invalid bind address|unable to parse docker host"
        r"|context \S+ not found|is not a supported schema",
        Trouble.NO_ADDRESS,
    ),
    (r"permission denied while trying to connect", Trouble.DENIED),
    (
        r"cannot connect to (the docker daemon|podman)|error during connect"
        r"|failed to connect to the docker api|unable to connect to podman",
        Trouble.DOWN,
    ),
    (r"no such (container|object)|no container with name or id", Trouble.NO_CONTAINER),
    (r"no such image|unable to find image|image not known", Trouble.NO_IMAGE),
    (r"name \S+ is already in use", Trouble.NAME_TAKEN),
    (r"is paused, unpause|container is paused", Trouble.PAUSED),
    (r"is not running|container state improper", Trouble.NOT_RUNNING),
    (r"chdir to cwd|cwd must be an absolute", Trouble.NO_DIRECTORY),
    (r"executable file .*not found|exec: .* no such file", Trouble.NO_PROGRAM),
)
_PREFIX = r"(?i)^(docker: |podman: )?(Error response from daemon: |Error: |error: )?"
_WARNING = r"(?i)(WARNING: |\[DEPRECATION|time=\S+ level=warn)"  # printed in addition to an answer
_SUFFIX = r"\s*(See '\S+ .*--help'\.?|Run '\S+ .*--help' for more information)\s*$"


class Facts(Value):
    """What an engine reports about a container."""

    id: str
    name: str
    status: str  # created, running, paused, restarting, exited, dead …
    pid: int
    started: str
    finished: str
    exit_code: int
    oom: bool
    labels: dict[str, str]
    image: str
    directory: str
    word: str  # the last output of its health check
    created: str = ""

    @property
    def running(self) -> bool:
        return self.status in ("running", "paused")

    @property
    def paused(self) -> bool:
        return self.status == "paused"


def chosen(config: Config) -> Engine:
    """The engine that the user's docker command would use; recorded, so that cron finds it too."""
    command = _program(config.docker.command)
    if command is None:
        raise CannotTellError(
            f"{config.docker.command} is not installed; containers need it "
            "([docker] command in config.toml names another)"
        )
    host = os.environ.get("DOCKER_HOST") or None
    context = None if host else os.environ.get("DOCKER_CONTEXT") or _current_context()
    return Engine(os.path.abspath(command), host, context)


def _program(given: str) -> str | None:
    """The path of a program, by name or path."""
    if "/" not in given:
        return paths.which(given)
    path = os.path.expanduser(given)
    return path if os.access(path, os.X_OK) else None


def _current_context() -> str | None:
    directory = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    try:
        with files.open_binary(f"{directory}/config.json", follow=True) as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    name = found.get("currentContext") if isinstance(found, dict) else None
    return name if isinstance(name, str) and name not in ("", "default") else None


def far(engine: Engine) -> bool:
    """Does it run on another machine, where our directories cannot be mounted? A context may point
    anywhere, so it counts as far."""
    here = engine.host is None or engine.host.startswith(("unix:", "/"))
    return not here or engine.context is not None


def argv(engine: Engine, *args: str) -> list[str]:
    """The command line for exactly this engine."""
    program = engine.command
    if not os.path.exists(program):  # it has moved since it was recorded
        program = paths.which(os.path.basename(program)) or program
    podman = os.path.basename(program).startswith("podman")
    where: tuple[str, ...] = ()
    if engine.host:
        where = ("--url" if podman else "--host", engine.host)
    elif engine.context:
        where = ("--connection" if podman else "--context", engine.context)
    return [program, *where, *args]


def ask(
    engine: Engine, *args: str, timeout: float, stdin: int = NOTHING, stdout: int = PIPE
) -> Reply:
    answer = _call(engine, args, timeout, stdin, stdout)
    return Reply(answer.out) if answer.ok else _failure(answer)


def must(engine: Engine, *args: str, timeout: float) -> Reply:
    """The same; raises when the engine refuses."""
    return checked(engine, ask(engine, *args, timeout=timeout))


def checked(engine: Engine, reply: Reply) -> Reply:
    if not reply.ok:
        raise problem(engine, reply)
    return reply


def _call(
    engine: Engine,
    args: Sequence[str],
    timeout: float,
    stdin: int = NOTHING,
    stdout: int = PIPE,
) -> subprocesses.Answer:
    env = subprocesses.engine_environment()
    command = argv(engine, *args)
    return subprocesses.call(command, timeout=timeout, env=env, stdin=stdin, stdout=stdout)


def _failure(answer: subprocesses.Answer) -> Reply:
    text = answer.problem or answer.err.strip() or f"exit {answer.code} without a message"
    trouble = Trouble.OTHER if answer.code is None else trouble_in(text)
    return Reply(answer.out, trouble, tidy(text))


def trouble_in(text: str) -> Trouble:
    return next((t for pattern, t in _MESSAGES if re.search(pattern, text.lower())), Trouble.OTHER)


def tidy(text: str) -> str:
    """The line of a message that matters, without the name and the hints of the command."""
    lines = _without_warnings(text) or text.strip().splitlines() or [""]
    known = [line for line in lines if trouble_in(line) is not Trouble.OTHER]
    line = (known or [line for line in lines if not re.match(_SUFFIX, line)] or lines)[0]
    return re.sub(_SUFFIX, "", re.sub(_PREFIX, "", line)).rstrip(".")[:300]


def _without_warnings(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not re.match(_WARNING, line)]


def problem(engine: Engine, reply: Reply) -> SeshError:
    """The error message: what is wrong, with what, what to do."""
    where = engine.host or engine.context or "the engine of this machine"
    if reply.trouble is Trouble.NO_ADDRESS:
        return CannotTellError(_no_address(engine, reply))
    if reply.trouble is Trouble.DENIED:
        return CannotTellError(f"no permission to use {where}; members of the group docker have it")
    if reply.trouble is Trouble.DOWN:
        return CannotTellError(f"{where} does not answer; is dockerd running?")
    if reply.trouble is Trouble.NAME_TAKEN:
        return ConflictError(reply.text)
    if reply.trouble is Trouble.OTHER and "no answer within" in reply.text:
        return CannotTellError(f"{where}: {reply.text}")
    return SeshError(f"{os.path.basename(engine.command)}: {reply.text}")


def _no_address(engine: Engine, reply: Reply) -> str:
    """The message about an address that the engine's command refuses, with its origin."""
    command = os.path.basename(engine.command)
    name = "DOCKER_HOST" if engine.host else "DOCKER_CONTEXT"
    value = engine.host or engine.context
    if value is None or os.environ.get(name) != value:
        return f"{command} takes no such address: {reply.text}; next: {command} context ls"
    return f"{command} takes no such address: {name}={value}; next: unset {name}, or correct it"


# --- questions -----------------------------------------------------------------------------------


def inspect(engine: Engine, ids: Sequence[str], timeout: float) -> dict[str, Facts] | Reply:
    """The facts about these containers; a container that is missing in the answer is proven to be
    gone. If the reply proves nothing, the reply."""
    answer = _call(engine, ("container", "inspect", *ids), timeout)
    if answer.code is None:
        return _failure(answer)
    lines = _without_warnings(answer.err)
    if any(trouble_in(line) is not Trouble.NO_CONTAINER for line in lines):
        return _failure(answer)
    try:
        found = [_facts(one) for one in json.loads(answer.out or "[]")]
    except (ValueError, KeyError, TypeError, AttributeError):
        return Reply("", Trouble.OTHER, "the engine answered in an unknown form")
    if len(found) + len(lines) < len(set(ids)):
        return Reply("", Trouble.OTHER, "the engine's answer is not complete")
    return {one.id: one for one in found}


def _facts(told: dict[str, Any]) -> Facts:
    state = told["State"]
    checks = (state.get("Health") or state.get("Healthcheck") or {}).get("Log") or []
    labels = told["Config"].get("Labels") or {}
    facts = Facts(
        id=told["Id"],
        name=told["Name"].removeprefix("/"),
        status=state["Status"],
        pid=state["Pid"],
        started=str(state["StartedAt"]),
        finished=str(state.get("FinishedAt", "")),
        exit_code=state["ExitCode"],
        oom=bool(state.get("OOMKilled", False)),
        labels={str(key): str(value) for key, value in labels.items()},
        image=str(told["Config"].get("Image", "")),
        directory=str(told["Config"].get("WorkingDir") or "/"),
        word=str(checks[-1].get("Output", "")) if checks else "",
        created=str(told.get("Created", "")),
    )
    if not _ID.fullmatch(facts.id) or type(facts.pid) is not int:
        raise ValueError("not a container")
    return facts


def moment(text: str) -> datetime | None:
    """Parse a time of an engine, with more digits than Python takes and in any time zone."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    seconds, fraction, zone = found.groups(default="0")
    microseconds = f"{fraction:0<6}"[:6]
    zone = "+00:00" if zone == "Z" else zone
    try:
        return datetime.fromisoformat(f"{seconds}.{microseconds}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def labelled(engine: Engine, label: str, timeout: float) -> list[Facts] | Reply:
    """All containers with a label, running or not."""
    form = ("--format", "{{.ID}}", "--no-trunc", "--filter", f"label={label}")
    reply = ask(engine, "ps", "--all", *form, timeout=timeout)
    if not reply.ok:
        return reply
    ids = reply.out.split()
    if not ids:
        return []
    found = inspect(engine, ids, timeout)
    return list(found.values()) if isinstance(found, dict) else found


def directory_of(engine: Engine, image: str, timeout: float) -> str | Reply:
    """The working directory of an image, which proves that the image exists."""
    reply = ask(engine, "image", "inspect", "--format", "{{json .Config}}", image, timeout=timeout)
    if not reply.ok:
        return reply
    try:
        settings = json.loads(reply.out) or {}
    except ValueError:
        return Reply("", Trouble.OTHER, "the engine answered in an unknown form")
    return str(settings.get("WorkingDir") or "/")
