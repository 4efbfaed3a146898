"""The click group: commands by name, imported when they run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from sesh import __version__
from sesh.model import errors
from sesh.terminal import command_table, exit_codes, output
from sesh.terminal.command_table import COMMANDS, GROUPS, LISTED

_WIDEST = 80  # columns of help
_LEAST = 24  # columns for explanations beside what they explain; else they are below it
_EXAMPLES = {
    "sesh start api -- ./server": "start a session",
    "sesh start fix -t claude -p 'fix it'": "start an agent",
    "sesh attach fix": "open it (Ctrl-b d detaches)",
}
# Not suggested for a misspelt option, unless only two letters are swapped.
_CAREFUL = {
    *("--all", "--ended", "--fix", "--force", "--kill-orphans", "--orphans", "--remove"),
    *("--discard", "--yes"),
}


class Formatter(click.HelpFormatter):
    """Help that can be read on a narrow terminal too."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__(width=max(min(_columns(), _WIDEST) - 2, _LEAST))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        rows = list(rows)
        column = min(max(len(first) for first, _ in rows), col_max) + col_spacing
        if self.width - self.current_indent - column >= _LEAST:
            super().write_dl(rows, col_max, col_spacing)
            return
        for first, second in rows:
            self.write(f"{'':{self.current_indent}}{first.rstrip()}\n")
            with self.indentation(), self.indentation():
                self.write_text(second)

    def write_examples(self, examples: Mapping[str, str]) -> None:
        with self.section("Examples"):
            self.write_dl(examples.items(), col_max=40)


def _columns() -> int:
    """Of the terminal, also where it shows only errors because a pager reads the output."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    for fd in (1, 2):
        try:
            return os.get_terminal_size(fd).columns or _WIDEST
        except OSError:
            continue
    return _WIDEST


class Context(click.Context):
    formatter_class = Formatter


class _Lazy(click.Group):
    """A group that knows its commands without importing them."""

    context_class = Context

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = command_table.load(cmd_name).click()
        assert isinstance(command, click.Command)
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, each group under its heading, and the options."""
        width = max(map(len, LISTED))
        formatter.write_paragraph()
        for heading, commands in GROUPS.items():
            formatter.write_heading(heading)
            with formatter.indentation():
                formatter.write_dl([(f"{name:<{width}}", what) for name, what in commands.items()])
        formatter.write_text(f"Aliases: {'; '.join(command_table.all_aliases())}")
        formatter.write_heading("Options")
        with formatter.indentation():
            records = [param.get_help_record(ctx) for param in self.get_params(ctx)]
            formatter.write_dl([record for record in records if record])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        assert isinstance(formatter, Formatter)
        formatter.write_examples(_EXAMPLES)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise click.UsageError(f"no command named {name}; {command_table.hint(name)}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Lazy, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(
    __version__,
    *("-v", "-V", "--version"),
    prog_name="sesh",
    message="sesh %(version)s",
    help="Show the version; also: sesh version.",
)
@click.pass_context
def group(context: click.Context) -> int:
    """Named, supervised terminal sessions for coding agents and other long-running commands."""
    command_table.forgive(context.invoked_subcommand)
    return _overview(context) if context.invoked_subcommand is None else errors.OK


def _overview(context: click.Context) -> int:
    """`sesh` alone: the sessions, and the three commands that a new user needs first. Without
    sessions, the list names the first of these."""
    listing = group.get_command(context, "ls")
    assert listing is not None
    with listing.make_context("ls", ["--exit-code"], parent=context) as inner:
        empty = listing.invoke(inner) != errors.OK
    others = "sesh --help lists the commands"
    first = "sesh start NAME COMMAND   ·   sesh attach NAME   ·   sesh --help"
    output.say(others if empty else f"\n{first}")
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
        output.note(_one_line(error, argv))
        return errors.USAGE
    except click.Abort:
        return exit_codes.interrupted()


def _one_line(error: click.ClickException, argv: Sequence[str]) -> str:
    """What is wrong, and what was meant or which help to read: that of the command that was
    called."""
    message = " ".join(error.format_message().split())
    if isinstance(error, click.NoSuchOption):
        message, near = f"no such option {error.option_name}", _similar(error)
        if near:
            return f"{message}; did you mean {near}?"
    if message.endswith(("?", command_table.NO_HINT)):
        return message
    command = f"sesh {argv[0]}" if argv and argv[0] in COMMANDS else "sesh"
    return f"{message[:1].lower()}{message[1:].rstrip('.')}; next: {command} --help"


def _similar(error: click.NoSuchOption) -> str | None:
    """The option that a misspelt one resembles."""
    context = error.ctx
    params = context.command.get_params(context) if context else []
    options = [one for one in params if isinstance(one, click.Option) and not one.hidden]
    words = [word for option in options for word in option.opts]
    return command_table.similar(error.option_name, words, _CAREFUL)
