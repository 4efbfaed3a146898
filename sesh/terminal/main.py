"""The click group: commands by name, imported when they run."""

from __future__ import annotations

import importlib
from typing import Any

import click

from sesh import __version__
from sesh.model import errors
from sesh.state import settings
from sesh.terminal import exit_codes, output

# command → one line of help. Modules are imported only when their command runs.
COMMANDS = {
    "start": "Start a session.",
    "ls": "List sessions.",
    "show": "Show everything known of a session, with the evidence.",
    "status": "Say a session's state in one line and as the exit code.",
    "stop": "Stop sessions: ask, wait, kill, confirm.",
    "restart": "Start the next generation of sessions, in the same place.",
    "pause": "Hold sessions, or freeze them.",
    "resume": "Let paused sessions go on.",
    "rm": "Forget ended sessions.",
    "adopt": "Reconnect an orphan, or take over a tmux session.",
    "attach": "Attach to a session, or choose what to do with one that has ended.",
    "detach": "Send everybody home who is attached.",
    "logs": "Show what a session printed.",
    "send": "Type into a session.",
    "answer": "Answer the question that an agent asks.",
    "wait": "Wait until sessions reach a state.",
    "events": "Show what happened.",
    "stats": "Say in figures how sessions fare; also for Prometheus.",
    "update": "Say what a session is at, or that it is alive and at work.",
    "resumable": "Say whether the work of a session may be gone on with.",
    "finish": "Say that the work of a session is over.",
    "hook": "Answer what agents and orchestrators ask by their hooks.",
    "watch": "Look after all sessions in the foreground.",
    "timer": "Have gc called regularly, by systemd or cron.",
    "gc": "Clean up: finish, end, archive and remove what is due.",
    "doctor": "Say what is wrong and which command mends it; or mend it.",
    "template": "List, show, make, check and trust templates of start -t.",
    "config": "Show the settings, check them, and try out who is told.",
    "init": "Print what puts sesh into the prompt of a shell.",
    "completion": "Print the completions of a shell.",
    "man": "Show the manual, also where man(1) does not find it.",
    "pass": "Look at every session once (what call backs and timers run).",
}
_MODULES = {"pass": "pass_"}
# A typing error in the settings keeps nobody from these: they look at sessions, or end them.
_FORGIVING = {"ls", "show", "status", "logs", "attach", "detach", "stop", "wait", "events", "stats"}


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
    if context.invoked_subcommand in (None, *_FORGIVING):
        settings.forgive(output.note)
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
    """Run one command line and return its exit code."""
    return exit_codes.guarded(lambda: _run(argv))


def _run(argv: list[str]) -> int:
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
