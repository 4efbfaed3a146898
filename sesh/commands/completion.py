"""sesh completion: generate the completions of a shell from the commands."""

from __future__ import annotations

import click

from sesh.agents import rule_files
from sesh.commands import _help
from sesh.commands._declare import argument, declare
from sesh.commands._topics import TOPICS
from sesh.doctor import IDS
from sesh.model import progress
from sesh.model.agents.hook_event import ACTIVITIES
from sesh.model.states import ALIVE, Retry, State
from sesh.operations import change
from sesh.state import events
from sesh.system import paths
from sesh.terminal import completion, filters, output
from sesh.terminal.command_table import ALIASES, COMMANDS, LISTED, PLUMBING
from sesh.terminal.completion import Offer, Option, Tree, Verb

SCRIPTS = {"bash": completion.bash, "zsh": completion.zsh, "fish": completion.fish}

_STATES = tuple(state.value for state in State)
_LIVING = tuple(state for state in _STATES if state in ALIVE | {State.STALE, State.ORPHAN})
# The completions of the value of an option, and of the arguments of a command: see Offer.
_VALUES: dict[str, Offer] = {
    "--dir": "directories",
    "--env": "variables",
    "--group": "groups",
    "--tag": "tags",
    "--filter": "filters",
    "--sort": tuple(dash + key for key in filters.SORT_KEYS for dash in ("", "-")),
    "--for": ("ended", "alive", *ACTIVITIES, *(state for state in _STATES if state != "damaged")),
    "--kind": events.KINDS,
    "--only": IDS,
    "--template": "templates",
    "--conversation": "conversations",
    "--from": "templates",
    "--phase": progress.PHASES,
    "--notify": ("off", *events.NOTIFIABLE),
    "--retry-on": tuple(word.value for word in Retry),
}
_ARGUMENTS: dict[str, Offer] = {
    "start": None,  # the name of a new session
    "grep": None,  # a pattern
    "finish": "finishing",
    "man": tuple(COMMANDS),
    "help": (*LISTED, *TOPICS),
    **dict.fromkeys(("stop", "detach", "send", "answer", "ask", "wait"), "living"),
}
_REST: dict[str, Offer] = {
    "template": "templates",
    "answer": ("yes", "no", "always"),
    "set": "settable",
}


@declare("completion", examples={"source <(sesh completion bash)": "in ~/.bashrc"})
def command(
    context: click.Context, shell: str = argument(type=tuple(SCRIPTS), metavar="SHELL")
) -> int:
    """Print the completion script for bash, zsh or fish."""
    group = context.find_root().command
    assert isinstance(group, click.Group)
    output.write(SCRIPTS[shell](tree(group)))
    return 0


def tree(group: click.Group) -> Tree:
    """The commands of sesh, as the scripts and the manual need them."""
    context = click.Context(group, **group.context_settings)
    verbs = []
    names = group.list_commands(context)
    for name in names:
        found = group.get_command(context, name)
        assert found is not None
        verbs.append(_verb(name, found))
    return Tree(
        _options(group),
        tuple(verbs),
        tuple(PLUMBING),
        tuple((alias, words[0]) for alias, words in ALIASES.items() if words[0] in names),
        tuple((alias, " ".join(words)) for alias, words in ALIASES.items() if len(alias) > 1),
        _STATES,
        _LIVING,
        filters.FILTER_KEYS,
        tuple(filters.WORDS),
        tuple(rule_files.stems(paths.builtin_dir())),
        tuple(map(change.shown, change.OFFERED)),
    )


def _verb(name: str, found: click.Command) -> Verb:
    arguments = [param for param in found.params if isinstance(param, click.Argument)]
    first = arguments[0] if arguments else None
    return Verb(
        name=name,
        help=found.get_short_help_str(limit=200),
        options=_options(found),
        argument=_bare(first.metavar or first.name or "") if first else None,
        offer=_argument_offer(name, first) if first else None,
        many=first is not None and first.nargs == -1,
        rest=_REST.get(name),
        runs=name == "start",
    )


def _argument_offer(name: str, argument: click.Argument) -> Offer:
    if isinstance(argument.type, click.Choice):
        return tuple(map(str, argument.type.choices))
    return _ARGUMENTS.get(name, "sessions")


def _bare(metavar: str) -> str:
    """NAME of [NAME]..."""
    return metavar.strip("[].").upper()


def _options(found: click.Command) -> tuple[Option, ...]:
    context = click.Context(found, **found.context_settings)
    params = [param for param in found.get_params(context) if isinstance(param, click.Option)]
    shown = [param for param in params if not param.hidden]
    if not isinstance(found, _help.Command):
        return tuple(map(_option, shown))
    options = [_option(param, found.section_of(param)) for param in shown]
    order = list(dict.fromkeys(option.section for option in options))
    return tuple(sorted(options, key=lambda option: order.index(option.section)))


def _option(param: click.Option, section: str = "") -> Option:
    offer = next((_VALUES[name] for name in param.opts if name in _VALUES), None)
    metavar = None
    if not param.is_flag:
        metavar = param.metavar or param.type.name.upper()
        if isinstance(param.type, click.Choice):
            offer = tuple(map(str, param.type.choices))
            metavar = "|".join(offer)
    names = tuple(sorted(param.opts, key=lambda name: name.startswith("--")))
    text = "Show help and exit." if "--help" in names else param.help or ""
    return Option(names, text, metavar, offer, param.multiple, section)
