"""sesh fork: a new session with a copy of the conversation of another one."""

from __future__ import annotations

from sesh.commands._declare import argument, declare, flag, option
from sesh.commands._options import json_option
from sesh.model.states import ALIVE
from sesh.model.text import quick_json
from sesh.operations import attach
from sesh.operations.launch import fork, start_request
from sesh.state import lookup, settings
from sesh.terminal import output, session_list


@declare(
    "fork",
    examples={
        "sesh fork fix": "try something else from here on, as fix-2",
        "sesh fork fix idea --worktree idea": "in a git worktree of its own",
    },
)
def command(
    name: str = argument(),
    new: str | None = argument(required=False),
    worktree: str | None = option(
        "--worktree", metavar="BRANCH", help="Run in a new git worktree, on BRANCH."
    ),
    prompt: str | None = option(
        "-p", "--prompt", metavar="TEXT", help="The first prompt of the new session."
    ),
    group: str | None = option(
        "-g", "--group", metavar="GROUP", help="Put it into GROUP (that of the other session)."
    ),
    tags: tuple[str, ...] = option(
        "--tag", multiple=True, metavar="TAG", help="Give it another tag (repeatable)."
    ),
    at_once: bool = flag("-a", "--attach", help="Attach to it."),
    as_json: bool = json_option("the new session"),
) -> int:
    """Start a new session with a copy of the conversation of another one, and print its name.

    The other session may be alive; it and its conversation are not changed. Command, directory,
    environment, group, tags and limits are the same. Without NEW the name is NAME-2, NAME-3, …
    """
    if at_once:
        attach.need_terminal()
    config = settings.load()
    wanted = fork.Fork(new, worktree, group, tags, prompt)
    found = fork.fork(lookup.one(name), wanted, config, output.note)
    text = quick_json.dumps(session_list.complete(found)) if as_json else found.name
    output.write(f"{text}\n")
    start_request.note_end(found, output.note)
    if at_once and found.session and found.state in ALIVE:
        attach.attach(found.session.record, config, read_only=False, alone=False)
    return 0
