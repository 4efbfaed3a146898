"""sesh help: the help of a command or of a topic."""

from __future__ import annotations

from collections.abc import Mapping

import click

from sesh.commands._declare import argument, declare
from sesh.commands._topics import TOPICS
from sesh.model.errors import UsageError
from sesh.terminal import command_table, output
from sesh.terminal.main import Formatter


@declare(
    "help",
    examples={
        "sesh help start": "same as sesh start --help",
        "sesh help scripting": "exit codes, JSON and calls for scripts",
    },
)
def command(
    context: click.Context, topic: str | None = argument(required=False, metavar="[COMMAND]")
) -> int:
    """Show help for sesh, a command or a topic.

    COMMAND is a command, an alias, or the topic scripting.
    """
    output.write(_text(context.find_root(), topic) + "\n")
    return 0


def _text(root: click.Context, topic: str | None) -> str:
    group = root.command
    assert isinstance(group, click.Group)
    if topic in TOPICS:
        return _page(TOPICS[topic])
    name = command_table.without_alias([topic])[0] if topic else "--help"
    if name.startswith("--"):
        return root.get_help()
    found = group.get_command(root, name)
    if found is None:
        raise UsageError(f"no help for {topic}; {command_table.hint(name, *TOPICS)}")
    return found.get_help(found.context_class(found, info_name=name, parent=root))


def _page(sections: Mapping[str, Mapping[str, str]]) -> str:
    formatter = Formatter()
    for heading, rows in sections.items():
        with formatter.section(heading):
            formatter.write_dl(rows.items(), col_max=40)
    return formatter.getvalue().rstrip("\n")
