"""The commands by name, imported when they run; and plain calls of them, which need no click."""

from __future__ import annotations

from importlib import import_module

from sesh.terminal import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
_FORGIVING = {
    None,  # no command: a list
    "ls",
    "show",
    "status",
    "logs",
    "attach",
    "detach",
    "stop",
    "wait",
    "events",
    "stats",
}


def load(name: str) -> Any:
    """What a command declares: see commands/_declare."""
    return import_module(f"sesh.commands.{_MODULES.get(name, name)}").command


def forgive(name: str | None) -> None:
    """Let a command go on without the settings that cannot be read, if it is one of those."""
    if name in _FORGIVING:
        from sesh.state import settings

        settings.forgive(output.note)


def run_plain(argv: list[str]) -> int | None:
    """Run a well-formed call without click; None where click has to read it."""
    if not argv or argv[0] not in COMMANDS:
        return None
    command = load(argv[0])
    arguments = command.parse(argv[1:])
    if arguments is None:
        return None
    forgive(argv[0])
    code = command.function(**arguments)
    return code if isinstance(code, int) else 0
