"""The click group: commands by name, imported when they run."""

from __future__ import annotations

from typing import Any

import click

from sesh import __version__
from sesh.model import errors
from sesh.terminal import command_table, exit_codes, output
from sesh.terminal.command_table import COMMANDS


class _Lazy(click.Group):
    """A group that knows its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = command_table.load(cmd_name).click()
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, 1)
            hint = f"did you mean {near[0]}?" if near else "sesh --help lists the commands"
            raise click.UsageError(f"no command named {name}; {hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Lazy, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, "-V", "--version", prog_name="sesh", message="sesh %(version)s")
@click.pass_context
def group(context: click.Context) -> int:
    """Keep long-running terminal sessions, and know the truth about each."""
    command_table.forgive(context.invoked_subcommand)
    return _overview(context) if context.invoked_subcommand is None else errors.OK


def _overview(context: click.Context) -> int:
    """`sesh` alone: the sessions, and the three commands that a new user needs first."""
    listing = group.get_command(context, "ls")
    assert listing is not None
    with listing.make_context("ls", [], parent=context) as inner:
        listing.invoke(inner)
    output.say("\nsesh start NAME -- COMMAND   ·   sesh attach NAME   ·   sesh --help")
    return errors.OK


def run(argv: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        with group.make_context("sesh", list(argv)) as context:
            result: Any = group.invoke(context)
        return result if isinstance(result, int) else errors.OK
    except click.exceptions.Exit as asked:  # --help and --version
        return asked.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        return errors.USAGE
    except click.ClickException as error:
        output.note(_one_line(error))
        return errors.USAGE
    except click.Abort:
        return exit_codes.interrupted()


def _one_line(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "sesh"
    if "sesh" in message or message.endswith("?"):
        return message
    return f"{message[:1].lower()}{message[1:].rstrip('.')}; see {command} --help"
