"""The commands by name, imported when they run; and plain calls of them, which need no click."""

from __future__ import annotations

from sesh.terminal import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# command → one line of help. Modules are imported only when their command runs.
COMMANDS = {
    "start": "Start a session.",
    "ls": "List sessions.",
    "show": "Show all details of a session, with the evidence.",
    "status": "Print a session's state in one line and as the exit code.",
    "stop": "Stop sessions: ask, wait, kill, confirm.",
    "restart": "Restart sessions in place.",
    "pause": "Hold sessions, or freeze them.",
    "resume": "Continue paused sessions.",
    "rm": "Forget ended sessions.",
    "adopt": "Reconnect an orphan, or take over a tmux session.",
    "attach": "Attach to a session, or choose what to do with one that has ended.",
    "detach": "Detach all clients from a session.",
    "logs": "Show what a session printed.",
    "send": "Type into a session.",
    "answer": "Answer the question that an agent asks.",
    "wait": "Wait until sessions reach a state.",
    "events": "Show what happened.",
    "stats": "Show session statistics (text, JSON, Prometheus).",
    "update": "Report progress or a heartbeat.",
    "resumable": "Check whether a session can be resumed.",
    "finish": "Report that the work of a session is finished.",
    "hook": "Handle agent hook calls.",
    "watch": "Supervise all sessions in the foreground.",
    "timer": "Schedule gc with systemd or cron.",
    "gc": "Clean up ended sessions and enforce limits.",
    "doctor": "Diagnose problems and suggest or apply fixes.",
    "template": "List, show, make, check and trust templates of start -t.",
    "config": "Show, edit or check settings; send a test notification.",
    "init": "Print shell prompt integration.",
    "completion": "Print the completions of a shell.",
    "man": "Show the manual, also where man(1) does not find it.",
    "pass": "Run one supervision pass.",
}
_MODULES = {"pass": "pass_"}
# These run in spite of an error in the settings: they look at sessions, or end them. None: `sesh`.
_FORGIVING = {
    *(None, "ls", "show", "status", "logs", "attach", "detach", "stop", "wait", "events", "stats"),
}


def load(name: str) -> Any:
    """The declaration of a command: see commands/_declare."""
    module = f"sesh.commands.{_MODULES.get(name, name)}"
    return __import__(module, fromlist=["command"]).command  # importlib costs half a millisecond


def forgive(name: str | None) -> None:
    """Use the defaults for settings that cannot be read, if the command allows that."""
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
