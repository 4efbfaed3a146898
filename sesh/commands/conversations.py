"""sesh conversations: those that agents keep in their files, and who is in them."""

from __future__ import annotations

import os
import time

from sesh.agents import conversations
from sesh.agents.conversations import Agent, Conversation
from sesh.agents.templates import catalog, template
from sesh.agents.templates.catalog import Bad
from sesh.agents.templates.template import Template
from sesh.commands._declare import declare, flag, option
from sesh.commands._options import json_option
from sesh.model import errors
from sesh.model.errors import SeshError
from sesh.model.text import formatting, quick_json
from sesh.model.value_object import Any
from sesh.places import environment, launch_files
from sesh.terminal import output

_SHORTEST = 8  # characters of an id
_TITLE, _DIRECTORY = 20, 12  # columns that a title and a directory keep


@declare(
    "conversations",
    examples={"sesh conversations -a": "of all directories"},
)
def command(
    directory: str | None = option(
        "-C", "--dir", metavar="DIR", help="Conversations started in DIR."
    ),
    name: str | None = option(
        "-t", "--template", metavar="NAME", help="Only those of this template's agent."
    ),
    everywhere: bool = flag("-a", "--all", help="Those of all directories."),
    as_json: bool = json_option("an array of conversations"),
) -> int:
    """List the conversations with agents that were begun in this directory, newest first: also
    those that no session was in.

    ID is as long as it takes to tell them apart; sesh start --conversation takes it.
    """
    cwd = launch_files.directory(directory)
    variables = environment.caller()
    found, more = conversations.listed(_agents(name, cwd), None if everywhere else cwd, variables)
    if as_json:
        shown = (quick_json.dumps(_plain(one), separators=(",", ":")) for one in found)
        output.write("[" + ",\n".join(shown) + "]\n")
    elif found:
        _print(found, everywhere=everywhere)
    else:
        where = "" if everywhere else f" in {output.from_home(cwd)}; -a shows all directories"
        output.note(f"no conversation was begun{where}")
    if more and not as_json:
        output.note(f"only the newest {len(found)} are shown")
    return errors.OK


def _agents(name: str | None, directory: str) -> list[Agent]:
    """The agents whose conversations sesh can find; only that of a template, if one is given."""
    if name is not None:
        found = [catalog.load(name, directory)]
        if not _finds(found[0]):
            raise SeshError(f"template {name}: sesh does not know where its agent keeps them")
    else:
        known = [one for one in catalog.every(directory) if not isinstance(one, Bad)]
        found = [template.examine(one.path, one.raw)[0] for one in known if one.trusted]
    agents: dict[tuple[str, str], Agent] = {}
    for one in found:
        if one.agent and _finds(one):
            program = os.path.basename(one.command[0]) if one.command else one.agent.kind
            agents.setdefault((one.agent.kind, one.agent.transcript), Agent(one.agent, program))
    return list(agents.values())


def _finds(one: Template) -> bool:
    return one.agent is not None and "{conversation}" in one.agent.transcript


def _print(found: list[Conversation], *, everywhere: bool) -> None:
    ids = _short([one.id for one in found])
    titles = ["ID", "AGENT", "TITLE", "CHANGED", "TURNS", "IN IT"]
    now = time.time()
    rows = [_row(one, ids[one.id], now) for one in found]
    if everywhere:
        titles.insert(3, "DIRECTORY")
        for one, row in zip(found, rows, strict=True):
            row.insert(3, formatting.escape(output.from_home(one.directory or "")) or "–")
    shrink = {titles.index("TITLE"): _TITLE}
    if everywhere:
        shrink[titles.index("DIRECTORY")] = _DIRECTORY
    drop = [
        titles.index(one) for one in ("AGENT", "TURNS", "DIRECTORY", "CHANGED") if one in titles
    ]
    lines = formatting.table([titles, *rows], output.terminal_width(), shrink=shrink, drop=drop)
    output.write("".join(f"{line}\n" for line in lines))


def _row(one: Conversation, short: str, now: float) -> list[str]:
    turns = one.outline.turns
    return [
        short,
        formatting.escape(one.kind),
        formatting.escape(one.outline.title or formatting.NOTHING),
        formatting.ago(one.changed, now),
        formatting.NOTHING if turns is None else str(turns),
        _who(one),
    ]


def _who(one: Conversation) -> str:
    """Who is in it now, or was."""
    if one.user is not None:
        return one.user.session or str(one.user)
    return f"({one.session})" if one.session else formatting.NOTHING


def _short(ids: list[str]) -> dict[str, str]:
    """The beginning of each id that no other one has."""
    ordered = sorted({*ids})
    found = {}
    for at, one in enumerate(ordered):
        beside = [*ordered[max(0, at - 1) : at], *ordered[at + 1 : at + 2]]
        length = _SHORTEST
        while any(other.startswith(one[:length]) for other in beside) and length < len(one):
            length += 1
        found[one] = one[:length]
    return found


def _plain(one: Conversation) -> dict[str, Any]:
    return {
        "id": one.id,
        "agent": one.kind,
        "title": one.outline.title,
        "directory": one.directory,
        "changed": formatting.stamp(one.changed),
        "turns": one.outline.turns,
        "forked_from": one.outline.forked_from,
        "in_use": one.user is not None,
        "session": (one.user.session if one.user else None) or one.session,
        "pid": one.user.pid if one.user else None,
        "size_bytes": one.size,
        "path": one.path,
    }
