"""A request to start a session: check it completely, then start. Does not import click: a plain
`start NAME -- COMMAND` runs without it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from sesh.agents.templates import template
from sesh.agents.templates.template import Template
from sesh.model.configuration import Config, Count
from sesh.model.errors import ConflictError, SeshError, StateError, UsageError
from sesh.model.place import ContainerRequest
from sesh.model.progress import Report
from sesh.model.record import BreakerLimits, Care, Spec, Worktree
from sesh.model.states import ENDED, Retry, State
from sesh.model.text.shell_words import quote
from sesh.model.text.units import span
from sesh.model.value_object import Value, replace
from sesh.operations import worktrees
from sesh.operations.forget import Tell
from sesh.operations.launch import claim, record_only
from sesh.operations.launch.claim import Order
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


class Wish(Value):
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
    care: Mapping[str, Any] = MappingProxyType({})  # by Care's fields, and breaker_failures …
    template: str | None = None
    usual: Template = Template()  # what the template says
    prompt: str | None = None
    branch: str | None = None
    worktree: str | None = None  # the branch to make one of
    record_only: bool = False  # nothing is run


def asked(wish: Wish) -> Wish:
    """The request, completed by its template."""
    usual = wish.usual
    directory = wish.directory
    if directory is None and usual.dir:
        directory = os.path.expanduser(usual.dir)
    return replace(
        wish,
        command=wish.command or usual.command,
        directory=directory,
        variables=(*usual.env, *wish.variables),
        group=wish.group if wish.group is not None else usual.group or None,
        tags=(*usual.tags, *wish.tags),
    )


def fulfil(wish: Wish, config: Config, tell: Tell) -> Seen:
    """Check everything that can be checked, then start. A worktree that was made for the session is
    removed again when the start fails. `tell` gets remarks for the user."""
    wish = asked(wish)
    if wish.record_only:
        return _record(wish, config, tell)
    _check_git(wish)
    if wish.worktree is None:
        return _fulfil(wish, config, None, tell)
    if wish.name is not None:
        lookup.check_name(wish.name)
        claim.free_name(wish.name)
    made = worktrees.make(launch_files.directory(wish.directory), wish.worktree, config)
    try:
        return _fulfil(_in_worktree(wish, made), config, made.worktree, tell)
    except BaseException:
        worktrees.take_back(made)
        raise


def _fulfil(wish: Wish, config: Config, worktree: Worktree | None, tell: Tell) -> Seen:
    extra = environment.parse_options(wish.variables)
    kind = registry.requested(wish)
    if kind is not None and wish.box:
        extra = {**environment.parse_files(wish.env_files), **extra}
        box = _checked(wish.box)
        cwd = (
            launch_files.directory(wish.directory)
            if box.mount
            else _inner_directory(wish.directory)
        )
        surroundings = extra
        argv = wish.command or ("/bin/sh",)
        launch_files.check_command(argv)
        patience = kind.launch_timeout(_patience(wish, config))
    else:
        box, patience = None, _patience(wish, config)
        cwd = launch_files.directory(wish.directory)
        surroundings = {**environment.caller(), **extra}
        argv = _command(wish.command, surroundings, cwd)
    lookup.check_labels(wish.group, wish.tags)
    spec = Spec(
        command=argv,
        cwd=cwd,
        created=datetime.now(UTC),
        group=wish.group,
        tags=tuple(dict.fromkeys(wish.tags)),
        env=tuple(sorted(os.fsdecode(name) for name in extra)),
        launch_timeout=patience,
        max_age=wish.max_age,
        max_idle=wish.max_idle,
        box=box,
        care=_care(wish, config, tell),
        breaker=_breaker(wish, config),
        template=wish.template,
        kit=wish.usual.agent,
        prompt=_prompt(wish),
        branch=wish.branch,
        worktree=worktree,
    )
    if wish.branch is not None:
        _check_branch(cwd, wish.branch)
    if wish.name is not None:
        lookup.check_name(wish.name)
    left_out = environment.unexportable(surroundings)
    if left_out:
        tell(f"a shell can't export these, they are left out: {', '.join(left_out)}")
    found = _start(wish.name, spec, surroundings, config, tell)
    if spec.care.scope:
        _tell_scope(spec, tell)
    if found.session and not found.session.record.place.pids_here:
        _tell_far_limits(spec, tell)
    return found


def _tell_scope(spec: Spec, tell: Tell) -> None:
    """Remark on a session that does not get the scope that was asked for."""
    if registry.requested(spec) is not None:
        tell("--scope is not for containers: its engine limits what it uses")
    elif not tmux.scope_prefix():
        tell("--scope: no systemd user manager answers; it runs without a scope of its own")


def _tell_far_limits(spec: Spec, tell: Tell) -> None:
    """Remark on limits of a session on another machine, whose processes cannot be observed."""
    kind = registry.requested(spec)
    if spec.care.max_memory and not (kind and kind.limits_memory(spec.box)):
        tell("--max-memory: nobody looks at it in a container of another machine's engine")
    if spec.care.max_cpu_time:
        tell("--max-cpu-time: on another machine's engine it is for each process alone")


def _prompt(wish: Wish) -> str | None:
    """The first prompt of the agent."""
    kit = wish.usual.agent
    if wish.prompt is None:
        return None
    if kit is None or not kit.prompt:
        which = f"template {wish.template}" if wish.template else "a plain command"
        raise UsageError(f"--prompt: {which} cannot pass one; put it after --")
    launch_files.check_command((wish.prompt,))
    return wish.prompt


def _record(wish: Wish, config: Config, tell: Tell) -> Seen:
    """Create only the record. Its command is for people to read and is not checked."""
    cwd = launch_files.directory(wish.directory)
    launch_files.check_command(wish.command or ("-",))
    lookup.check_labels(wish.group, wish.tags)
    spec = Spec(
        command=wish.command,
        cwd=cwd,
        created=datetime.now(UTC),
        group=wish.group,
        tags=tuple(dict.fromkeys(wish.tags)),
        template=wish.template,
        kit=wish.usual.agent,
    )
    if wish.name is not None:
        lookup.check_name(wish.name)
    return _first_free(
        wish.name, cwd, lambda name: record_only.create(name, spec, Report(), config, tell)
    )


def _patience(wish: Wish, config: Config) -> float:
    given = float(_chosen("start", "launch_timeout", wish, config))
    if given <= 0:
        raise UsageError("--launch-timeout should be above 0")
    return given


def _chosen(section: str, name: str, wish: Wish, config: Config) -> Any:
    """One value, from the first of: option, environment variable, template, configuration file."""
    flag = _flag(section, name)
    if flag in wish.care:
        return wish.care[flag]
    usual = getattr(wish.usual, section)
    if name in usual and f"{section}.{name}" not in settings.from_environment():
        return usual[name]
    return getattr(getattr(config, section), name)


def _flag(section: str, name: str) -> str:
    return name if section == "start" else f"{section}_{name}"


def _care(wish: Wish, config: Config, tell: Tell) -> Care:
    """The limits, retries and health checks of the session."""
    values = {name: _chosen("start", name, wish, config) for name in Care.fields}
    care = Care(**{name: _plain(value) for name, value in values.items()})
    unknown = [word for word in care.retry_on if word not in tuple(Retry)]
    if unknown or not care.retry_on:
        raise _wrong_ends(wish, ", ".join(unknown) or "nothing")
    if care.retries and care.retry_delay > care.retry_max_delay:
        least, most = span(care.retry_delay), span(care.retry_max_delay)
        tell(f"the retry delay ({least}) is longer than the longest one: it is {most}")
    for name in _ABOVE_ZERO:
        if getattr(care, name) <= 0:
            raise UsageError(f"--{name.replace('_', '-')} should be above 0")
    return care


def _breaker(wish: Wish, config: Config) -> BreakerLimits | None:
    """The limits of its breaker if the request or its template sets any; else None, and the current
    settings apply at any time."""
    names = BreakerLimits.fields
    said = {*wish.usual.breaker} | {name for name in names if _flag("breaker", name) in wish.care}
    variables = settings.from_environment()
    said |= {name for name in names if f"breaker.{name}" in variables}
    if not said:
        return None
    chosen = {name: _plain(_chosen("breaker", name, wish, config)) for name in names}
    for name in ("within", "cooldown"):
        if chosen[name] <= 0:
            raise UsageError(f"--breaker-{name} should be above 0")
    return BreakerLimits(**chosen)


def _wrong_ends(wish: Wish, words: str) -> SeshError:
    """The error for an invalid `retry_on`, which names its source. (Templates are checked when they
    are read.)"""
    told = f"{words}: should be of {', '.join(Retry)}"
    if "retry_on" in wish.care:
        return UsageError(f"--retry-on {told}")
    if "start.retry_on" in settings.from_environment():
        return StateError(f"{settings.variable('start.retry_on')}: {told}")
    return StateError(f"{paths.config_file()}: start.retry_on: {told}")


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Count) else value


def tell_end(found: Seen, tell: Tell) -> None:
    """Remark on a session that has failed already."""
    if found.session and found.state in ENDED and found.state is not State.COMPLETED:
        reason = found.session.verdict.reason
        tell(f"{found.name} {found.state} at once: {reason}; see sesh show {found.name}")


# --- git -----------------------------------------------------------------------------------------


def _check_git(wish: Wish) -> None:
    """Check the options about branches before git is asked."""
    kind = registry.requested(wish)
    for option, name in (("--branch", wish.branch), ("--worktree", wish.worktree)):
        if name is not None and not (name and name.isprintable()):
            raise UsageError(f"{option} {name!a}: invalid branch name")
        if name is not None and kind and not kind.shares_directory(wish.box):
            raise UsageError(f"{option} needs the directory in the container: mount it (--image)")
    if None not in (wish.branch, wish.worktree) and wish.branch != wish.worktree:
        raise UsageError("--branch and --worktree name different branches; one is enough")


def _check_branch(cwd: str, wanted: str) -> None:
    if git.top(cwd) is None:
        raise SeshError(f"{cwd} is in no git repository; --branch needs one (see -C)")
    found = git.head(cwd)
    if found.present and found.what == wanted:
        return
    if found.unknown:
        raise SeshError(f"{cwd}: {found.what}; started without --branch, it is not checked")
    where = f"on branch {found.what}" if found.present else found.what
    switch = f"git -C {quote(cwd)} switch {quote(wanted)}"
    raise SeshError(f"{cwd} is {where}, not on {wanted}; {switch}, or start with --worktree")


def _in_worktree(wish: Wish, made: worktrees.Made) -> Wish:
    """The request, in a worktree. In a container git needs the repository, too."""
    kind = registry.requested(wish)
    if kind is None:
        return replace(wish, directory=made.cwd)
    shared = git.common_dir(made.cwd)
    if shared is None or ":" in shared:
        raise SeshError(f"{made.worktree.repository}: its git directory can't be mounted")
    whole = () if made.cwd == made.worktree.path else (made.worktree.path,)
    box = kind.with_mounts(wish.box, (shared, *whole))
    return replace(wish, directory=made.cwd, box=box)


# --- containers ----------------------------------------------------------------------------------


def _checked(box: ContainerRequest) -> ContainerRequest:
    """Check the options of a container before the engine is asked."""
    for option, given in (("memory", box.memory), ("cpus", box.cpus)):
        if given is not None and (told := template.bad_limit(option, given)):
            raise UsageError(f"--{option} {told}")
    return replace(box, mounts=tuple(_mount(given) for given in box.mounts))


def _mount(given: str) -> str:
    """SOURCE:TARGET:MODE of a mount. A directory of this machine must exist; a name without a slash
    is that of a volume."""
    if told := template.bad_mount(given):
        raise UsageError(f"--mount {told}")
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


def _command(
    given: tuple[str, ...], surroundings: environment.Environment, cwd: str
) -> tuple[str, ...]:
    argv = given or (os.environ.get("SHELL") or "/bin/sh",)
    launch_files.check_command(argv)
    program = argv[0]
    if "/" in program:
        path = os.path.join(cwd, program)
        if not os.path.exists(path):
            raise SeshError(f"{program}: no such file")
        if os.path.isdir(path) or not os.access(path, os.X_OK):
            raise SeshError(f"{program}: not an executable file")
    elif not program or not paths.which(program, path=os.fsdecode(surroundings.get(b"PATH", b""))):
        raise SeshError(f"{program or repr(program)}: command not found (looked in PATH)")
    return argv


def _start(
    name: str | None,
    spec: Spec,
    surroundings: environment.Environment,
    config: Config,
    tell: Tell,
) -> Seen:
    named_after = spec.worktree.path if spec.worktree else spec.cwd
    return _first_free(
        name, named_after, lambda name: start(Order(name, spec, surroundings, tell), config)
    )


def _first_free(name: str | None, cwd: str, make: Callable[[str], Seen]) -> Seen:
    """Create a session under its name or, without one, under the first free name."""
    if name is not None:
        return make(name)
    stem = _name_of(cwd or os.getcwd())
    for number in range(1, _MOST_NUMBERED + 1):
        candidate = stem if number == 1 else f"{stem[:58]}-{number}"
        try:
            return make(candidate)
        except ConflictError:
            continue
    raise ConflictError(f"all names from {stem} to {candidate} are taken; choose one")


def _name_of(directory: str) -> str:
    """The directory's name, made valid."""
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", os.path.basename(directory))
    return base.strip("-_")[:63].rstrip("-_") or "session"
