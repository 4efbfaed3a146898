"""sesh start: make a session."""

from __future__ import annotations

import json

import click

from sesh import attaching, config, listing, ordering, output
from sesh.commands._options import CONTEXT, Duration, json_option
from sesh.errors import UsageError
from sesh.model import ALIVE


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
    name = names[0] if names else None
    wish = ordering.Wish(name, ctx.obj or (), directory, variables, group, tags, max_age, max_idle)
    found = ordering.fulfil(wish, settings)
    output.write(json.dumps(listing.complete(found)) + "\n" if as_json else f"{found.name}\n")
    ordering.tell_end(found)
    if attach and found.session and found.state in ALIVE:
        attaching.attach(found.session.record, settings, read_only=False, alone=False)
    return 0
