"""sesh start: start a session."""

from __future__ import annotations

import json
from typing import Any

import click
from click.core import ParameterSource

from sesh.agents.templates import catalog
from sesh.agents.templates.template import Template
from sesh.commands import _help
from sesh.commands._declare import Parameter, argument, declare, flag, option
from sesh.commands._options import json_option
from sesh.commands._supervision_options import OPTIONS, taken
from sesh.model.errors import UsageError
from sesh.model.states import ALIVE
from sesh.operations import attach
from sesh.operations.launch import start_request
from sesh.places import registry
from sesh.state import settings
from sesh.terminal import output, session_list

# The options that also apply to a session that is only a record.
_OF_A_RECORD = (*("names", "directory", "template", "group", "tags", "as_json", "record_only"),)


class _WithCommand(_help.Command):
    """Everything after the first `--` is the command of the session, unchanged."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.obj = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


_CONTAINER = [
    Parameter("image", "-i", "--image", metavar="IMAGE", help="Run in a new container of IMAGE."),
    Parameter(
        "container",
        "--container",
        metavar="ID",
        help="Run in a container that exists; it is never removed.",
    ),
    Parameter(
        "no_mount",
        "--no-mount",
        is_flag=True,
        help="Do not mount the directory in the container.",
    ),
    Parameter(
        "mounts",
        "--mount",
        multiple=True,
        metavar="DIR[:DIR[:ro]]",
        help="Mount another directory or volume (repeatable).",
    ),
    Parameter("user", "--user", metavar="USER", help="The user in the container."),
    Parameter("network", "--network", metavar="NET", help="The container's network."),
    Parameter("memory", "--memory", metavar="SIZE", help="The container's memory, for example 2g."),
    Parameter("cpus", "--cpus", metavar="N", help="The container's processors, for example 1.5."),
    Parameter(
        "env_files",
        "--env-file",
        multiple=True,
        metavar="FILE",
        help="Variables for the container, a NAME=VALUE a line (repeatable).",
    ),
    Parameter(
        "options",
        "--docker-opt",
        multiple=True,
        metavar="OPTION",
        help="Another option for the engine's run, as one word (repeatable).",
    ),
]


@declare("start", cls=_WithCommand, after={"max_idle": [*OPTIONS, *_CONTAINER]})
def command(
    ctx: click.Context,
    names: tuple[str, ...] = argument(nargs=-1, metavar="[NAME]"),
    directory: str | None = option("-C", "--dir", metavar="DIR", help="Run in DIR."),
    variables: tuple[str, ...] = option(
        "-e",
        "--env",
        multiple=True,
        metavar="K[=V]",
        help="Set a variable for the session (repeatable); without V, pass on the caller's.",
    ),
    template: str | None = option(
        "-t", "--template", metavar="NAME", help="Start it as a template says."
    ),
    prompt: str | None = option(
        "-p",
        "--prompt",
        metavar="TEXT",
        help="What the agent is to begin with (not when it resumes).",
    ),
    group: str | None = option(
        "-g", "--group", metavar="GROUP", help="Put the session into a group."
    ),
    tags: tuple[str, ...] = option(
        "--tag", multiple=True, metavar="TAG", help="Tag the session (repeatable)."
    ),
    branch: str | None = option(
        "--branch",
        metavar="BRANCH",
        help="Only if the directory is on BRANCH; report when it leaves it.",
    ),
    worktree: str | None = option(
        "--worktree",
        metavar="BRANCH",
        help="Run in a new git worktree of the repository, on BRANCH.",
    ),
    max_age: float | None = option(
        "--max-age", type="duration", help="Let gc end the session when it has run for TIME."
    ),
    max_idle: float | None = option(
        "--max-idle",
        type="duration",
        help="Let gc end the session when it printed nothing for TIME.",
    ),
    pull: bool = flag("--pull", help="Fetch the image first."),
    at_once: bool = flag("-a", "--attach", help="Attach to it at once."),
    record_only: bool = flag(
        "--record-only", help="Create only the record: another program runs the agent."
    ),
    as_json: bool = json_option("the session"),
    **others: Any,
) -> int:
    """Start a session and print its name.

    NAME defaults to the directory's name, COMMAND to your shell. A name whose session has ended is
    used again; a living one is left alone (exit 8).
    """
    if len(names) > 1:
        raise UsageError(
            f"put the command after --: sesh start {names[0]} -- {' '.join(names[1:])}"
        )
    if record_only:
        _nothing_to_run(ctx)
    if at_once:
        attach.need_terminal()
    config = settings.load()
    name = names[0] if names else None
    care, env_files = taken(others), others.pop("env_files")
    inside = others["no_mount"] or others["container"] is not None
    usual = _usual(template, None if inside else directory)
    box = None if record_only else registry.request(**_place(others, usual))
    if not box and (env_files or pull):
        raise UsageError("--env-file and --pull are for a container; give --image too")
    if pull and box:
        registry.pull(box, config)
    request = start_request.Request(
        *(name, ctx.obj or (), directory, variables, group, tags, max_age, max_idle),
        box=box,
        env_files=env_files,
        care=care,
        template=template,
        usual=usual,
        prompt=prompt,
        branch=branch,
        worktree=worktree,
        record_only=record_only,
    )
    found = start_request.start_session(request, config, output.note)
    output.write(json.dumps(session_list.complete(found)) + "\n" if as_json else f"{found.name}\n")
    start_request.note_end(found, output.note)
    if at_once and found.session and found.state in ALIVE:
        attach.attach(found.session.record, config, read_only=False, alone=False)
    return 0


def _usual(template: str | None, directory: str | None) -> Template:
    """The template. A template of a project is looked up in the directory of the session."""
    return Template() if template is None else catalog.load(template, directory)


def _nothing_to_run(ctx: click.Context) -> None:
    """Refuse options that need a process."""
    for param in ctx.command.params:
        given = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if given and param.name not in _OF_A_RECORD:
            raise UsageError(f"{param.opts[-1]} is about a process, and --record-only makes none")


def _place(given: dict[str, Any], usual: Template) -> dict[str, Any]:
    """The options of a container, completed by the template."""
    chosen = given["image"] is not None or given["container"] is not None
    keys = ("user", "network", "memory", "cpus", *(() if chosen else ("image", "container")))
    boxed = chosen or usual.image or usual.container
    for key in keys if boxed else ():
        given[key] = given[key] if given[key] is not None else getattr(usual, key) or None
    return {**given, "mounts": (*usual.mounts, *given["mounts"]) if boxed else given["mounts"]}
