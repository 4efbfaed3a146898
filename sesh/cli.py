"""The click group, and the one place where an error becomes an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from sesh import __version__, errors, output, paths
from sesh.errors import SeshError

# command → one line of help. Modules are imported only when their command runs.
COMMANDS = {
    "start": "Start a session.",
    "ls": "List sessions.",
    "show": "Show everything known of a session, with the evidence.",
    "status": "Say a session's state in one line and as the exit code.",
    "stop": "Stop sessions: ask, wait, kill, confirm.",
    "restart": "Start the next generation of sessions, in the same place.",
    "rm": "Forget ended sessions.",
    "attach": "Attach to a session, or choose what to do with one that has ended.",
    "detach": "Send everybody home who is attached.",
    "logs": "Show what a session printed.",
    "send": "Type into a session.",
    "wait": "Wait until sessions reach a state.",
    "events": "Show what happened.",
    "doctor": "Say what is wrong and which command mends it; or mend it.",
    "completion": "Print the completions of a shell.",
    "pass": "Look at every session once (what call backs and timers run).",
}
_MODULES = {"pass": "pass_"}


class _Lazy(click.Group):
    """A group that knows its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"sesh.commands.{_MODULES.get(cmd_name, cmd_name)}")
        command = module.command
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
    return _overview(context) if context.invoked_subcommand is None else errors.OK


def _overview(context: click.Context) -> int:
    """`sesh` alone: the sessions, and the three commands that one needs first."""
    listing = group.get_command(context, "ls")
    assert listing is not None
    with listing.make_context("ls", [], parent=context) as inner:
        listing.invoke(inner)
    output.say("\nsesh start NAME -- COMMAND   ·   sesh attach NAME   ·   sesh --help")
    return errors.OK


def run(argv: list[str]) -> int:
    """Run one command line and return its exit code. No traceback ever reaches a user."""
    _replace_missing_streams()
    try:
        with group.make_context("sesh", list(argv)) as context:
            result: Any = group.invoke(context)
        sys.stdout.flush()
        return result if isinstance(result, int) else errors.OK
    except click.exceptions.Exit as asked:  # --help and --version
        return _flushed(asked.exit_code)
    except SeshError as error:
        output.note(str(error))
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        return errors.USAGE
    except click.ClickException as error:
        output.note(_one_line(error))
        return errors.USAGE
    except (click.Abort, KeyboardInterrupt):
        output.note("interrupted", after_echo=True)
        return errors.INTERRUPTED
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return errors.OK
        if error.filename is None:
            return stdout_failed(error)
        output.note(f"{error.filename}: {error.strerror}")
        return errors.STATE
    except Exception as error:
        return _bug(error)


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return errors.OK
    except OSError as error:
        return stdout_failed(error)
    return code


def _one_line(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "sesh"
    if "sesh" in message or message.endswith("?"):
        return message
    return f"{message[:1].lower()}{message[1:].rstrip('.')}; see {command} --help"


def _replace_missing_streams() -> None:
    """Python has no sys.stdout when it was started with a closed one; __main__ has reopened it."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def stdout_failed(error: OSError) -> int:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python tries again, and tells, at its end
    output.note(f"cannot write to standard output: {error.strerror}")
    return errors.FAILED


def _bug(error: Exception) -> int:
    """Write the traceback to a file and say where: a bug in sesh is not the user's business."""
    import traceback

    where = ""
    try:
        path = paths.bug_log()
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(f"sesh {__version__}: {sys.argv[1:2]}\n")
            traceback.print_exception(error, file=file)
        where = f"; the details are in {path}"
    except (OSError, SeshError):
        pass
    output.note(f"a bug in sesh: {type(error).__name__}: {error}{where}")
    return errors.BUG
