"""A request to start a session: check it completely, then start. Does not import click: a plain
`start NAME -- COMMAND` runs without it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from types import MappingProxyType

from sesh.agents.templates import template
from sesh.agents.templates.template import Template
from sesh.model.configuration import Config, Count
from sesh.model.errors import ConflictError, SeshError, StateError, UsageError
from sesh.model.place import ContainerRequest
from sesh.model.progress import Report
from sesh.model.record import AgentReport, BreakerLimits, Spec, Supervision, Worktree
from sesh.model.states import ENDED, Retry, State
from sesh.model.text import units
from sesh.model.text.shell_words import quote
from sesh.model.value_object import Value, replace
from sesh.operations import worktrees
from sesh.operations.forget import Note
from sesh.operations.launch import claim, record_only
from sesh.operations.start import start
from sesh.places import environment, launch_files, registry
from sesh.state import lookup, settings
from sesh.state.judge import Seen
from sesh.system import git, paths, tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST_NUMBERED = 999
_ABOVE_ZERO = (
    *("retry_delay", "retry_max_delay", "retry_reset"),
    *("check_interval", "health_interval", "health_timeout"),
)


class Request(Value):
    """The options and arguments of `start`."""

    name: str | None
    command: tuple[str, ...]
    directory: str | None = None
    variables: tuple[str, ...] = ()
    group: str | None = None
    tags: tuple[str, ...] = ()
    max_age: float | None = None
    max_idle: float | None = None
    box: ContainerRequest | None = None
    env_files: tuple[str, ...] = ()
    supervision: Mapping[str, Any] = MappingProxyType(
        {}
    )  # by Care's fields, and breaker_failures …
    template: str | None = None
    usual: Template = Template()  # the values of the template
    prompt: str | None = None
    conversation: str | None = None  # begun elsewhere: its id, or `last`
    branch: str | None = None
    worktree: str | None = None  # the branch of a new worktree
    record_only: bool = False  # nothing is run


def _with_template(request: Request) -> Request:
    usual = request.usual
    directory = request.directory
    if directory is None and usual.dir:
        directory = os.path.expanduser(usual.dir)
    return replace(
        request,
        command=_with_options(request) or usual.command,
        directory=directory,
        variables=(*usual.env, *request.variables),
        group=request.group if request.group is not None else usual.group or None,
        tags=(*usual.tags, *request.tags),
    )


def _with_options(request: Request) -> tuple[str, ...]:
    """The command that was given. Options alone are further ones for the agent of the template."""
    given, kit = request.command, request.usual.agent
    if kit is None or not request.usual.command or not given or not given[0].startswith("-"):
        return given
    ours = {
        before
        for words in (kit.start, kit.resume, kit.fork)
        for before, word in pairwise(words)
        if before.startswith("--") and ("{conversation}" in word or "{parent}" in word)
    }
    for word in given:
        if word.partition("=")[0] in ours:
            how = "continue a conversation with --conversation ID, before --"
            raise UsageError(f"{word}: sesh gives the agent this option itself; {how}")
    return (*request.usual.command, *given)


def start_session(request: Request, config: Config, note: Note) -> Seen:
    """Check everything that can be checked, then start. A worktree that was made for the session is
    removed again when the start fails. `note` gets remarks for the user."""
    request = _with_template(request)
    if request.record_only:
        return _create_record(request, config, note)
    _check_git(request)
    if request.conversation is not None:
        _check_continues(request)
    if request.worktree is None:
        return _start(request, config, None, note)
    if request.name is not None:
        lookup.check_name(request.name)
        claim.free_name(request.name)
    made = worktrees.make(launch_files.directory(request.directory), request.worktree, config)
    try:
        return _start(_in_worktree(request, made), config, made.worktree, note)
    except BaseException:
        worktrees.take_back(made)
        raise


def _start(request: Request, config: Config, worktree: Worktree | None, note: Note) -> Seen:
    extra = environment.parse_options(request.variables)
    kind = registry.requested(request)
    box, launch_timeout = None, _launch_timeout(request, config)
    if kind is not None and request.box:
        variables = extra = {**environment.parse_files(request.env_files), **extra}
        box = _checked(request.box)
        in_place = launch_files.directory if box.mount else _inner_directory
        cwd = in_place(request.directory)
        argv = request.command or ("/bin/sh",)
        launch_files.check_command(argv)
        launch_timeout = kind.launch_timeout(launch_timeout)
    else:
        cwd = launch_files.directory(request.directory)
        variables = {**environment.caller(), **extra}
        argv = _command(request, variables, cwd)
    spec = replace(
        _basic_spec(request, argv, cwd),
        env=tuple(sorted(os.fsdecode(name) for name in extra)),
        launch_timeout=launch_timeout,
        max_age=_limit_of_gc(request, request.max_age, "timeout"),
        max_idle=_limit_of_gc(request, request.max_idle, "idle_timeout"),
        box=box,
        supervision=_supervision(request, config, note),
        breaker=_breaker(request, config),
        prompt=_prompt(request),
        branch=request.branch,
        worktree=worktree,
    )
    if request.branch is not None:
        check_branch(cwd, request.branch)
    begin = _continued(request, argv, variables, cwd, note)
    left_out = environment.unexportable(variables)
    if left_out:
        note(f"left out, because a shell cannot export them: {', '.join(left_out)}")
    found = _first_free(
        request.name,
        worktree.path if worktree else cwd,
        lambda name: start(name, spec, variables, config, note, begin),
    )
    _note_limits(found, spec, note)
    return found


def _limit_of_gc(request: Request, given: float | None, own: str) -> float | None:
    """The limit that gc enforces: not the one of the settings (None) if the session has a limit of
    its own."""
    is_own = own in request.supervision or own in request.usual.start
    return 0.0 if given is None and is_own else given


def _basic_spec(request: Request, command: tuple[str, ...], cwd: str) -> Spec:
    """What every session has, also one that is only a record."""
    lookup.check_labels(request.group, request.tags)
    return Spec(
        command=command,
        cwd=cwd,
        created=datetime.now(UTC),
        group=request.group,
        tags=tuple(dict.fromkeys(request.tags)),
        template=request.template,
        kit=request.usual.agent,
    )


def _note_limits(found: Seen, spec: Spec, note: Note) -> None:
    """Remark on a scope or limit that the session was given but cannot have."""
    kind = registry.requested(spec)
    if spec.supervision.scope and kind is not None:
        note("--scope is not for containers: their engine enforces limits")
    elif spec.supervision.scope and not tmux.scope_prefix():
        note("--scope: no systemd user manager answers; running without a scope")
    if found.intact.record.place.pids_here:
        return
    if spec.supervision.max_memory and not (kind and kind.limits_memory(spec)):
        note("--max-memory: it is not enforced in a container of another machine's engine")
    if spec.supervision.max_cpu_time:
        note("--max-cpu-time: on another machine's engine it applies to each process separately")


def _prompt(request: Request) -> str | None:
    """The first prompt of the agent."""
    kit = request.usual.agent
    if request.prompt is None:
        return None
    if kit is None or not kit.prompt:
        which = f"template {request.template}" if request.template else "a plain command"
        raise UsageError(f"--prompt: {which} cannot pass one; put it after --")
    launch_files.check_command((request.prompt,))
    return request.prompt


def _check_continues(request: Request) -> None:
    """Raise when a session with these options cannot continue a conversation."""
    kit = request.usual.agent
    if kit is None:
        raise UsageError("--conversation is for an agent: give its template too (-t claude)")
    if request.prompt is not None:
        raise UsageError("--prompt is for a new conversation; use sesh send after the start")
    if request.worktree is not None:
        fork = "start it here, then: sesh fork NAME --worktree BRANCH"
        raise UsageError(f"--conversation: it was begun in a directory of its own; {fork}")
    if request.box:
        raise SeshError("--conversation: the files of an agent in a container are out of reach")
    if not kit.resume or "{conversation}" not in kit.transcript:
        why = "sesh does not know where it keeps its conversations"
        raise SeshError(f"--conversation: template {request.template}: {why}")


def _continued(
    request: Request,
    argv: tuple[str, ...],
    variables: environment.Environment,
    cwd: str,
    note: Note,
) -> AgentReport | None:
    """The conversation that the session continues; None: it begins one."""
    kit = request.usual.agent
    if request.conversation is None or kit is None:
        return None
    from sesh.agents import conversations

    agent = conversations.Agent(kit, os.path.basename(argv[0]))
    found = conversations.chosen(agent, request.conversation, cwd, variables)
    if request.conversation != found.id:
        title = f": {found.outline.title}" if found.outline.title else ""
        note(f"continues conversation {found.id}{title}")
    if found.session is not None:
        note(f"it was the conversation of session {found.session}, which has ended")
    return AgentReport(conversation=found.id, prompted=True)


def _create_record(request: Request, config: Config, note: Note) -> Seen:
    """Create only the record. Its command is for people to read and is not checked."""
    cwd = launch_files.directory(request.directory)
    launch_files.check_command(request.command or ("-",))
    spec = _basic_spec(request, request.command, cwd)
    return _first_free(
        request.name, cwd, lambda name: record_only.create(name, spec, Report(), config, note)
    )


def _launch_timeout(request: Request, config: Config) -> float:
    given = float(_chosen("start", "launch_timeout", request, config))
    if given <= 0:
        raise UsageError("--launch-timeout should be above 0")
    return given


def _chosen(section: str, name: str, request: Request, config: Config) -> Any:
    """One value, from the first of: option, environment variable, template, configuration file."""
    flag = _flag(section, name)
    if flag in request.supervision:
        return request.supervision[flag]
    usual = getattr(request.usual, section)
    if name in usual and f"{section}.{name}" not in settings.from_environment():
        return usual[name]
    return getattr(getattr(config, section), name)


def _flag(section: str, name: str) -> str:
    return name if section == "start" else f"{section}_{name}"


def _supervision(request: Request, config: Config, note: Note) -> Supervision:
    """The limits, retries and health checks of the session."""
    names = [name for name in Supervision.fields if name != "notify"]
    values = {name: _plain(_chosen("start", name, request, config)) for name in names}
    notify = request.supervision.get("notify", request.usual.start.get("notify"))
    supervision = Supervision(**values, notify=notify)
    unknown = [word for word in supervision.retry_on if word not in tuple(Retry)]
    if unknown or not supervision.retry_on:
        raise _wrong_ends(request, ", ".join(unknown) or "nothing")
    check_supervision(supervision, note)
    return supervision


def check_supervision(supervision: Supervision, note: Note, before: str = "--") -> None:
    """Check what types do not; `before` comes before the name of a value."""
    if supervision.retries and supervision.retry_delay > supervision.retry_max_delay:
        least = units.time(supervision.retry_delay)
        most = units.time(supervision.retry_max_delay)
        note(f"{before}retry-delay {least} exceeds {before}retry-max-delay; using {most}")
    _check_above_zero(supervision, _ABOVE_ZERO, before)


def check_breaker(breaker: BreakerLimits, before: str = "--") -> None:
    _check_above_zero(breaker, ("within", "cooldown"), f"{before}breaker-")


def _check_above_zero(values: Value, names: Iterable[str], before: str) -> None:
    for name in names:
        if getattr(values, name) <= 0:
            raise UsageError(f"{before}{name.replace('_', '-')} should be above 0")


def _breaker(request: Request, config: Config) -> BreakerLimits | None:
    """The limits of its breaker if the request or its template sets any; else None, and the current
    settings apply at any time."""
    names = BreakerLimits.fields
    variables = settings.from_environment()
    if not any(
        name in request.usual.breaker
        or _flag("breaker", name) in request.supervision
        or f"breaker.{name}" in variables
        for name in names
    ):
        return None
    chosen = {name: _plain(_chosen("breaker", name, request, config)) for name in names}
    breaker = BreakerLimits(**chosen)
    check_breaker(breaker)
    return breaker


def _wrong_ends(request: Request, words: str) -> SeshError:
    """The error for an invalid `retry_on`, which names its source. (Templates are checked when they
    are read.)"""
    from sesh.model.text.formatting import either

    text = f"{words}: use {either(Retry)}"
    if "retry_on" in request.supervision:
        return UsageError(f"--retry-on {text}")
    if "start.retry_on" in settings.from_environment():
        return StateError(f"{settings.variable('start.retry_on')}: {text}")
    return StateError(f"{paths.config_file()}: start.retry_on: {text}")


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Count) else value


def note_end(found: Seen, note: Note) -> None:
    """Remark on a session that has failed already."""
    if found.state in ENDED and found.state is not State.COMPLETED:
        note(f"{found.name} {found.state} at once: {found.reason}; next: sesh show {found.name}")


# --- git -----------------------------------------------------------------------------------------


def _check_git(request: Request) -> None:
    """Check the options about branches before git is asked."""
    kind = registry.requested(request)
    for option, name in (("--branch", request.branch), ("--worktree", request.worktree)):
        if name is not None and not (name and name.isprintable()):
            raise UsageError(f"{option} {name!a}: invalid branch name")
        if name is not None and kind and not kind.shares_directory(request.box):
            raise UsageError(f"{option} needs the directory in the container: mount it (--image)")
    if None not in (request.branch, request.worktree) and request.branch != request.worktree:
        raise UsageError("--branch and --worktree name different branches; one is enough")


def check_branch(cwd: str, wanted: str) -> None:
    """Raise when a directory is not on the branch that a session wants."""
    if git.top(cwd) is None:
        raise SeshError(f"{cwd} is not in a git repository; --branch needs one (see -C)")
    found = git.head(cwd)
    if found.present and found.what == wanted:
        return
    if found.unknown:
        raise SeshError(f"{cwd}: {found.what}; started without a check of --branch")
    where = f"on branch {found.what}" if found.present else found.what
    switch = f"git -C {quote(cwd)} switch {quote(wanted)}"
    raise SeshError(f"{cwd} is {where}, not on {wanted}; next: {switch}, or start with --worktree")


def _in_worktree(request: Request, made: worktrees.Made) -> Request:
    """The request, in a worktree. In a container git needs the repository, too."""
    kind = registry.requested(request)
    if kind is None:
        return replace(request, directory=made.cwd)
    shared = git.common_dir(made.cwd)
    if shared is None or ":" in shared:
        raise SeshError(f"{made.worktree.repository}: its git directory can't be mounted")
    whole = () if made.cwd == made.worktree.path else (made.worktree.path,)
    box = kind.with_mounts(request.box, (shared, *whole))
    return replace(request, directory=made.cwd, box=box)


# --- containers ----------------------------------------------------------------------------------


def _checked(box: ContainerRequest) -> ContainerRequest:
    """Check the options of a container before the engine is asked."""
    for option, given in (("memory", box.memory), ("cpus", box.cpus)):
        if given is not None and (text := template.bad_limit(option, given)):
            raise UsageError(f"--{option} {text}")
    return replace(box, mounts=tuple(_mount(given) for given in box.mounts))


def _mount(given: str) -> str:
    """SOURCE:TARGET:MODE of a mount. A directory of this machine must exist; a name without a slash
    is that of a volume."""
    if text := template.bad_mount(given):
        raise UsageError(f"--mount {text}")
    source, target, mode = (*given.split(":"), "", "")[:3]
    if "/" in source or source in (".", "..", "~"):
        source = os.path.abspath(os.path.expanduser(source))
        if not os.path.exists(source):
            raise SeshError(f"--mount {given}: {source} does not exist")
    if not (target or source).startswith("/"):
        raise UsageError(f"--mount {given}: {source} should be an absolute path inside")
    return f"{source}:{target or source}:{mode or 'rw'}"


def _inner_directory(given: str | None) -> str:
    """A directory of the container; empty: its own."""
    if given is not None and not given.startswith("/"):
        raise UsageError(f"-C {given}: without a mount it should be an absolute path inside")
    return given or ""


# --- on this machine -----------------------------------------------------------------------------


def _command(request: Request, variables: environment.Environment, cwd: str) -> tuple[str, ...]:
    argv = request.command or (os.environ.get("SHELL") or "/bin/sh",)
    check_program(argv, variables, cwd, request.name)
    return argv


def check_program(
    argv: tuple[str, ...],
    variables: environment.Environment,
    cwd: str,
    name: str | None = None,
) -> None:
    """Raise when a command cannot run here. `name`: of the session, which may be a command too."""
    launch_files.check_command(argv)
    program = argv[0]
    if "/" in program:
        path = os.path.join(cwd, program)
        if not os.path.exists(path):
            raise SeshError(f"{program}: no such file")
        if os.path.isdir(path) or not os.access(path, os.X_OK):
            raise SeshError(f"{program}: not an executable file")
    elif not program or not paths.which(program, path=os.fsdecode(variables.get(b"PATH", b""))):
        problem = f"{program or repr(program)}: command not found (looked in PATH)"
        if name and paths.which(name):
            call = " ".join(map(quote, (name, *argv)))
            problem += f"; the first word is the name; next: sesh start NAME -- {call}"
        raise SeshError(problem)


def _first_free(name: str | None, cwd: str, make: Callable[[str], Seen]) -> Seen:
    """Create a session under its name or, without one, under the first free name."""
    if name is not None:
        lookup.check_name(name)
        return make(name)
    stem = name_of(cwd or os.getcwd())
    for number in range(1, _MOST_NUMBERED + 1):
        candidate = stem if number == 1 else f"{stem[:58]}-{number}"
        try:
            return make(candidate)
        except ConflictError:
            continue
    raise ConflictError(f"all names from {stem} to {candidate} are taken; choose one")


def name_of(path: str) -> str:
    """A valid name for a session in this directory, or of this command."""
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", os.path.basename(path))
    return base.strip("-_")[:63].rstrip("-_") or "session"
