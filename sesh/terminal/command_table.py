"""The commands by name, imported when they run; and plain calls of them, which need no click."""

from __future__ import annotations

from sesh.terminal import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# heading → command → one line of help, as in `sesh --help`. Modules are imported only when
# their command runs.
GROUPS = {
    "Run": {
        "start": "Start a session.",
        "fork": "Start a session on a copy of a conversation.",
        "restart": "Restart sessions in place.",
        "stop": "Stop sessions: ask, wait, kill, confirm.",
        "pause": "Pause sessions: freeze their processes.",
        "resume": "Resume paused sessions.",
        "rename": "Rename a session.",
        "set": "Change tags, group, limits or retries of a session.",
    },
    "Look": {
        "ls": "List sessions.",
        "show": "Show all details of a session.",
        "status": "Print a session's state in one line and as the exit code.",
        "logs": "Show the output of sessions.",
        "transcript": "Show the conversation of an agent.",
        "grep": "Search conversations and output of sessions.",
        "events": "Show the event log.",
        "stats": "Show session statistics (text, JSON, Prometheus).",
    },
    "Talk": {
        "attach": "Attach to a session.",
        "detach": "Detach all clients from a session.",
        "send": "Send text or keys to a session.",
        "answer": "Answer an agent's question.",
        "ask": "Send a prompt to an agent and print its answer.",
        "wait": "Wait until sessions reach a state.",
        "conversations": "List conversations with agents, and who is in them.",
    },
    "Clean up": {
        "rm": "Remove ended sessions.",
        "gc": "Clean up ended sessions and enforce limits.",
        "doctor": "Diagnose problems and suggest or apply fixes.",
        "adopt": "Reconnect an orphan, or take over a tmux session.",
    },
    "Set up": {
        "template": "Manage templates for start -t.",
        "config": "Show, edit or check settings; send a test notification.",
        "timer": "Schedule gc with systemd or cron.",
        "watch": "Supervise all sessions in the foreground.",
        "init": "Print shell prompt integration.",
        "completion": "Print shell completions.",
        "man": "Show a manual page.",
        "help": "Show help for a command or topic.",
    },
    "For agents and scripts": {
        "update": "Report progress or a heartbeat.",
        "resumable": "Check whether a session can be resumed.",
        "finish": "Report that a session's work is finished.",
    },
}
# Programs call these. They are in no list, but in the manual.
PLUMBING = {
    "hook": "Handle agent hook calls.",
    "pass": "Run one supervision pass.",
}
LISTED = {name: what for group in GROUPS.values() for name, what in group.items()}
COMMANDS = {**LISTED, **PLUMBING}
# What people type who know other tools → the words that it stands for.
ALIASES = {
    "list": ("ls",),
    "ps": ("ls",),
    "new": ("start",),
    "run": ("start",),
    "kill": ("stop", "--force"),
    "a": ("attach",),
    "open": ("attach",),
    "log": ("logs",),
    "tail": ("logs",),
    "inspect": ("show",),
    "info": ("show",),
    "remove": ("rm",),
    "delete": ("rm",),
    "version": ("--version",),
}
# Not suggested for a misspelt word, unless only two letters are swapped.
_CAREFUL = {*("rm", "remove", "delete", "stop", "kill", "gc")}
NO_HINT = "next: sesh --help"
_MODULES = {"pass": "pass_", "set": "set_", "help": "help_"}
# These run in spite of an error in the settings: they look at sessions, or end them. None: `sesh`.
_FORGIVING = {
    *(None, "ls", "show", "status", "logs", "attach", "detach", "stop", "wait", "events", "stats"),
}


def load(name: str) -> Any:
    """The declaration of a command: see commands/_declare."""
    module = f"sesh.commands.{_MODULES.get(name, name)}"
    return __import__(module, fromlist=["command"]).command  # importlib costs half a millisecond


def without_alias(argv: list[str]) -> list[str]:
    """The same call by the command's own name."""
    return [*ALIASES[argv[0]], *argv[1:]] if argv and argv[0] in ALIASES else argv


def aliases(name: str) -> list[str]:
    """The aliases of a command; those that stand for more than its name, with that."""
    return [
        alias if words == (name,) else f"{alias} ({' '.join(words)})"
        for alias, words in ALIASES.items()
        if words[0] == name
    ]


def all_aliases() -> list[str]:
    """The aliases by what they stand for: `start: new, run`."""
    found: dict[str, list[str]] = {}
    for alias, words in ALIASES.items():
        if words[0] in COMMANDS:
            found.setdefault(" ".join(words), []).append(alias)
    return [f"{words}: {', '.join(some)}" for words, some in found.items()]


def hint(word: str, *others: str) -> str:
    """What to do after a word that is no command: the command or alias that it resembles."""
    words = [*LISTED, *(alias for alias in ALIASES if len(alias) > 1), *others]
    near = similar(word, words, _CAREFUL)
    return f"did you mean {near}?" if near else NO_HINT


def similar(typed: str, words: Iterable[str], careful: Iterable[str]) -> str | None:
    """The word in which two neighbouring letters were swapped; else, of those that are safe to
    suggest, the most similar one, or the only one that begins so. Dashes do not count."""
    word = typed.lstrip("-")
    bare = {one: text for one in words if len(text := one.lstrip("-")) > 1}
    swapped = [one for one in bare if bare[one] in _swaps(word)]
    if swapped:
        return swapped[0]
    safe = {one: text for one, text in bare.items() if one not in {*careful}}
    changes = {one: _changes(word, text) for one, text in safe.items()}
    near = min(changes, key=lambda one: changes[one], default=None)
    if near is not None and len(word) > 1 and changes[near] <= max(1, len(word) // 3):
        return near
    begun = [one for one, text in safe.items() if len(word) > 1 and text.startswith(word)]
    return begun[0] if len(begun) == 1 else None


def _swaps(word: str) -> set[str]:
    """The words that differ by the order of two neighbouring letters."""
    pairs = range(len(word) - 1)
    return {word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in pairs}


def _changes(one: str, other: str) -> int:
    """How many letters must be added, removed or replaced."""
    above = list(range(len(other) + 1))
    for number, letter in enumerate(one, 1):
        row = [number]
        for at, theirs in enumerate(other):
            row.append(min(above[at] + (letter != theirs), above[at + 1] + 1, row[at] + 1))
        above = row
    return above[-1]


def forgive(name: str | None) -> None:
    """Warn of settings that cannot be read and use the defaults, if the command allows that."""
    if name in _FORGIVING:
        from sesh.state import freshness, settings

        settings.forgive(output.note)
        if not freshness.settings_valid():
            settings.load()


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
