"""sesh start: start a session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from sesh.agents.templates import catalog
from sesh.agents.templates.template import Template
from sesh.commands import _help
from sesh.commands._declare import Parameter, argument, declare, flag, option
from sesh.commands._supervision_options import OPTIONS, taken
from sesh.model.errors import UsageError
from sesh.model.record import valid_name
from sesh.model.states import ALIVE
from sesh.model.text.shell_words import quote
from sesh.operations import attach
from sesh.operations.launch import start_request
from sesh.places import registry
from sesh.state import settings
from sesh.system import paths
from sesh.terminal import output, session_list

# The options that also apply to a session that is only a record.
_OF_A_RECORD = (
    *("name", "named", "directory", "template", "group", "tags", "as_json", "detach"),
    "record_only",
)


_OLDER = {"--memory": "--max-memory"}  # spellings of older versions: they mean the same


class _WithCommand(_help.Command):
    """After the first `--`, or else from the first word after NAME on that is no option, everything
    is the command of the session, unchanged."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args, at, is_named = [*args], 0, False
        while at < len(args) and args[at] != "--":
            older, equals, value = args[at].partition("=")
            args[at] = f"{_OLDER.get(older, older)}{equals}{value}"
            switch, value_follows = self._switch(args[at])
            if switch is None:
                if is_named:
                    break
                _check_is_name(args, at)
            is_named = is_named or switch in (None, "-n", "--name")
            at += 2 if value_follows else 1
        ctx.obj = tuple(args[at + 1 if args[at : at + 1] == ["--"] else at :])
        return super().parse_args(ctx, args[:at])

    def _switch(self, word: str) -> tuple[str | None, bool]:
        """The option that a word gives (of several letters, the last), and whether its value is the
        next word; None if the word is no option."""
        if word[:1] != "-" or word == "-":
            return None, False
        options = [one for one in self.params if isinstance(one, click.Option) and not one.is_flag]
        valued = {switch for one in options for switch in one.opts}
        if word[:2] == "--":
            switch, equals, _ = word.partition("=")
            return switch, switch in valued and not equals
        for last, letter in enumerate(word[1:], 2):
            if f"-{letter}" in valued:
                return f"-{letter}", last == len(word)
        return word, False

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[[--] COMMAND...]"]


def _check_is_name(args: list[str], at: int) -> None:
    """Refuse a command without the name of a session before it, with the right call."""
    word = args[at]
    if valid_name(word) or args[at + 1 : at + 2] == ["--"]:
        return
    if "/" in word or paths.which(word):
        call = (*args[:at], start_request.name_of(word), "--", *args[at:])
        raise UsageError(
            f"{word} is a command, not a session name; "
            f"next: sesh start {' '.join(map(quote, call))}"
        )


_CONTAINER = [
    Parameter("pull", "--pull", section="Container", is_flag=True, help="Pull the image first."),
    Parameter(
        "image",
        "-i",
        "--image",
        section="Container",
        metavar="IMAGE",
        help="Run in a new container of IMAGE.",
    ),
    Parameter(
        "container",
        "--container",
        section="Container",
        metavar="ID",
        help="Run in an existing container, which is never removed.",
    ),
    Parameter(
        "no_mount",
        "--no-mount",
        section="Container",
        is_flag=True,
        help="Do not mount the directory into the container.",
    ),
    Parameter(
        "mounts",
        "--mount",
        multiple=True,
        section="Container",
        metavar="DIR[:DIR[:ro]]",
        help="Mount another directory or volume (repeatable).",
    ),
    Parameter("user", "--user", section="Container", metavar="USER", help="User in the container."),
    Parameter(
        "network", "--network", section="Container", metavar="NET", help="Network of the container."
    ),
    Parameter(
        "cpus",
        "--cpus",
        section="Container",
        metavar="N",
        help="CPUs of the container, for example 1.5.",
    ),
    Parameter(
        "env_files",
        "--env-file",
        multiple=True,
        section="Container",
        metavar="FILE",
        help="File of NAME=VALUE lines for the container (repeatable).",
    ),
    Parameter(
        "options",
        "--docker-opt",
        multiple=True,
        section="Container",
        metavar="OPTION",
        help="Extra option for docker run, as one word (repeatable).",
    ),
]


@declare(
    "start",
    cls=_WithCommand,
    after={"max_idle": [*OPTIONS, *_CONTAINER]},
    examples={
        "sesh start web npm run dev": "a server",
        "sesh start fix -t claude -p 'fix it'": "an agent, with a first prompt",
        "sesh start -t codex --worktree search": "an agent on a new branch",
        "sesh start job --timeout 8h -- make": "a job with a time limit",
    },
)
def command(
    ctx: click.Context,
    name: str | None = argument(required=False, metavar="[NAME]"),
    named: str | None = option(
        *("-n", "--name"),
        section="Basics",
        metavar="NAME",
        help="Session name, instead of the first word.",
    ),
    directory: str | None = option(
        "-C", "--dir", section="Basics", metavar="DIR", help="Run in DIR."
    ),
    variables: tuple[str, ...] = option(
        *("-e", "--env"),
        section="Basics",
        multiple=True,
        metavar="K[=V]",
        help="Set a variable (repeatable); without V, to the caller's value.",
    ),
    group: str | None = option(
        *("-g", "--group"), section="Basics", metavar="GROUP", help="Put the session in a group."
    ),
    tags: tuple[str, ...] = option(
        "--tag",
        section="Basics",
        multiple=True,
        metavar="TAG",
        help="Tag the session (repeatable).",
    ),
    at_once: bool = flag("-a", "--attach", section="Basics", help="Attach to the session."),
    detach: bool = flag("-d", "--detach", section="Basics", help="Do not attach (default)."),
    record_only: bool = flag(
        "--record-only",
        section="Basics",
        help="Create only a record; another program runs the agent.",
    ),
    as_json: bool = flag("--json", section="Basics", help="Print the session as JSON."),
    template: str | None = option(
        *("-t", "--template"),
        section="Agent",
        metavar="NAME",
        help="Use a template: claude, codex, … (list them with: sesh template).",
    ),
    prompt: str | None = option(
        *("-p", "--prompt"),
        section="Agent",
        metavar="TEXT",
        help="First prompt for the agent (not repeated when it resumes).",
    ),
    conversation: str | None = option(
        "--conversation",
        section="Agent",
        metavar="ID",
        help="Continue a conversation that was begun elsewhere: an id, or last "
        "(sesh conversations lists them).",
    ),
    branch: str | None = option(
        "--branch",
        section="Git",
        metavar="BRANCH",
        help="Require BRANCH in the directory; report if it changes.",
    ),
    worktree: str | None = option(
        "--worktree",
        section="Git",
        metavar="BRANCH",
        help="Run in a new git worktree, on BRANCH.",
    ),
    max_age: float | None = option("--max-age", type="duration", hidden=True),  # older than
    max_idle: float | None = option("--max-idle", type="duration", hidden=True),  # --timeout
    **others: Any,
) -> int:
    """Start a session and print its name.

    NAME defaults to the directory's name, COMMAND to your shell. COMMAND begins after NAME and
    sesh's own options; put -- before it where that is ambiguous. With the template of an agent,
    options after -- are added to its command. An ended session of that name is replaced; a living
    one is left alone (exit 8).
    """
    if name is not None and named is not None:
        raise UsageError(f"two names: {name} and --name {named}; give one")
    if at_once and detach:
        raise UsageError("give --attach or --detach, but not both")
    if record_only:
        _nothing_to_run(ctx)
    if at_once:
        attach.need_terminal()
    config = settings.load()
    supervision, env_files, pull = taken(others), others.pop("env_files"), others.pop("pull")
    inside = others["no_mount"] or others["container"] is not None
    usual = _usual(template, None if inside else directory)
    box = None if record_only else registry.request(**_place(others, usual, supervision))
    if not box and (env_files or pull):
        raise UsageError("--env-file and --pull are for containers; give --image too")
    if pull and box:
        registry.pull(box, config)
    request = start_request.Request(
        *(
            name if named is None else named,
            ctx.obj or (),
            directory,
            variables,
            group,
            tags,
            max_age,
            max_idle,
        ),
        box=box,
        env_files=env_files,
        supervision=supervision,
        template=template,
        usual=usual,
        prompt=prompt,
        conversation=conversation,
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
            raise UsageError(f"{param.opts[-1]} cannot be combined with --record-only")


def _place(
    given: dict[str, Any], usual: Template, supervision: Mapping[str, Any]
) -> dict[str, Any]:
    """The options of a container, completed by the template. --max-memory is the engine's limit, in
    place of the template's."""
    given["memory"] = None
    chosen = given["image"] is not None or given["container"] is not None
    keys = ("user", "network", "cpus", *(() if chosen else ("image", "container")))
    keys += () if "max_memory" in supervision else ("memory",)
    boxed = chosen or usual.image or usual.container
    for key in keys if boxed else ():
        given[key] = given[key] if given[key] is not None else getattr(usual, key) or None
    return {**given, "mounts": (*usual.mounts, *given["mounts"]) if boxed else given["mounts"]}
