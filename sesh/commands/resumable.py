"""sesh resumable: check whether a session can be resumed."""

from __future__ import annotations

import json

from sesh.agents import resumable
from sesh.commands._declare import argument, declare
from sesh.commands._options import json_option, named
from sesh.model import errors
from sesh.model.progress import Answer
from sesh.model.text import formatting
from sesh.state import lookup, settings
from sesh.state.records import Entry
from sesh.terminal import output


@declare("resumable", examples={"sesh resumable fix && sesh restart fix": "resume if that is safe"})
def command(
    name: str | None = argument(required=False, envvar="SESH_NAME"),
    as_json: bool = json_option("the answer"),
) -> int:
    """Check whether a session can be resumed: yes (exit 0), or no and why (exit 1).

    Inside a session NAME defaults to that session.
    """
    name = named(name)
    lookup.check_name(name)
    entry = resumable.find(name)
    answer = resumable.check(entry, name, settings.load())
    if as_json:
        output.write(json.dumps(_shown(name, entry, answer)) + "\n")
    else:
        word = "yes" if answer.resume else "no"
        output.write(f"{word}: {formatting.escape(answer.reason)}\n")
    return errors.OK if answer.resume else errors.FAILED


def _shown(name: str, entry: Entry | None, answer: Answer) -> dict[str, object]:
    known = entry.readable if entry else None
    return {
        "name": name,
        "id": known.id if known else None,
        "resumable": answer.resume,
        "reason": answer.reason,
        "phase": answer.phase,
        "idle": None if answer.idle is None else round(answer.idle, 3),
        "errors": known.agent.errors if known else None,
        "conversation": known.agent.conversation if known else None,
    }
