"""sesh start: make a session."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime

import click

from sesh import attaching, config, environment, launchfiles, listing, look, output, paths
from sesh.commands._options import CONTEXT, Duration, json_option
from sesh.errors import ConflictError, SeshError, UsageError
from sesh.lifecycle.start import Order, start
from sesh.look import Seen
from sesh.model import ALIVE, ENDED, Spec

_MOST_NUMBERED = 999


class _WithCommand(click.Command):
    """Everything behind the first `--` is the session's command, untouched."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.obj = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


@click.command("start", cls=_WithCommand, context_settings=CONTEXT)
@click.argument("names", nargs=-1, metavar="[NAME]")
@click.option("-C", "--dir", "directory", metavar="DIR", help="Run in DIR.")
@click.option(
    "-e",
    "--env",
    "variables",
    multiple=True,
    metavar="K[=V]",
    help="Set a variable for the session (repeatable); without V, pass on the caller's.",
)
@click.option("-g", "--group", metavar="GROUP", help="Put the session into a group.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag the session (repeatable).")
@click.option(
    "--max-age", type=Duration(), help="Let gc end the session when it has run for so long."
)
@click.option(
    "--max-idle",
    type=Duration(),
    help="Let gc end the session when it printed nothing for so long.",
)
@click.option("-a", "--attach", is_flag=True, help="Attach to it at once.")
@json_option("the session")
@click.pass_context
def command(
    ctx: click.Context,
    names: tuple[str, ...],
    directory: str | None,
    variables: tuple[str, ...],
    group: str | None,
    tags: tuple[str, ...],
    max_age: float | None,
    max_idle: float | None,
    attach: bool,
    as_json: bool,
) -> int:
    """Start a session and print its name.

    NAME defaults to the directory's name, COMMAND to your shell. A name whose session has ended is
    used again; a living one is left alone (exit 8).
    """
    if len(names) > 1:
        raise UsageError(
            f"put the command behind --: sesh start {names[0]} -- {' '.join(names[1:])}"
        )
    if attach:
        attaching.need_terminal()
    settings = config.load()
    cwd = _directory(directory)
    extra = environment.parse_options(variables)
    surroundings = {**environment.caller(), **extra}
    argv = _command(ctx.obj or (), surroundings, cwd)
    for word in (*([group] if group is not None else ()), *tags):
        _check_label(word)
    spec = Spec(
        command=argv,
        cwd=cwd,
        created=datetime.now(UTC),
        group=group,
        tags=tuple(dict.fromkeys(tags)),
        env=tuple(sorted(os.fsdecode(name) for name in extra)),
        launch_timeout=settings.start.launch_timeout,
        max_age=max_age,
        max_idle=max_idle,
    )
    name = names[0] if names else None
    if name is not None:
        look.check_name(name)
    left_out = environment.unexportable(surroundings)
    if left_out:
        output.note(f"a shell can't export these, they are left out: {', '.join(left_out)}")
    found = _start(name, spec, surroundings, settings)
    _report(found, as_json=as_json)
    if attach and found.session and found.state in ALIVE:
        attaching.attach(found.session.record, settings, read_only=False, alone=False)
    return 0


def _directory(given: str | None) -> str:
    try:
        path = os.path.abspath(given) if given is not None else os.getcwd()
    except FileNotFoundError:
        raise SeshError("the current directory is gone; choose one with -C DIR") from None
    if given == "":
        raise UsageError("-C: the directory's name is empty")
    if not os.path.isdir(path):
        raise SeshError(f"{given}: no such directory")
    if not os.access(path, os.X_OK):
        raise SeshError(f"{given or path}: no permission to enter that directory")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "the directory's name is not valid UTF-8: a record can't hold it"
        ) from None
    return path


def _command(
    given: tuple[str, ...], surroundings: environment.Environment, cwd: str
) -> tuple[str, ...]:
    argv = given or (os.environ.get("SHELL") or "/bin/sh",)
    launchfiles.check_command(argv)
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


def _check_label(word: str) -> None:
    if not word or not word.isprintable() or len(word) > 200:
        raise UsageError(f"{word!r}: a group or tag should be 1 to 200 printable characters")


def _start(
    name: str | None,
    spec: Spec,
    surroundings: environment.Environment,
    settings: config.Config,
) -> Seen:
    if name is not None:
        return start(Order(name, spec, surroundings), settings)
    stem = _name_of(spec.cwd)
    for number in range(1, _MOST_NUMBERED + 1):
        candidate = stem if number == 1 else f"{stem[:58]}-{number}"
        try:
            return start(Order(candidate, spec, surroundings), settings)
        except ConflictError:
            continue
    raise ConflictError(f"all names from {stem} to {candidate} are taken; choose one")


def _name_of(directory: str) -> str:
    """The directory's name, made valid."""
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", os.path.basename(directory))
    return base.strip("-_")[:63].rstrip("-_") or "session"


def _report(found: Seen, *, as_json: bool) -> None:
    shown = listing.complete(found)
    output.write(json.dumps(shown) + "\n" if as_json else f"{found.name}\n")
    if found.state in ENDED and shown["state"] != "completed":
        output.note(
            f"{found.name} {found.state} at once: {shown['reason']}; see sesh show {found.name}"
        )
