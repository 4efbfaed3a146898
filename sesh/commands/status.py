"""sesh status: show a session's state in one line and as the exit code."""

from __future__ import annotations

import time

from sesh.commands._declare import argument, declare
from sesh.commands._options import json_option
from sesh.model.state_table import STATES
from sesh.state import lookup
from sesh.terminal import output, session_list, session_table


@declare("status", examples={"sesh status web && echo alive": "in a script"})
def command(name: str = argument(), as_json: bool = json_option("the session")) -> int:
    """Print a session's state in one line and as the exit code.

    0 alive, 3 ended, 4 no such session, 5 cannot tell, 6 damaged record, 1 orphan.
    """
    found = lookup.one(name)
    shown = session_list.complete(found)
    if as_json:
        from sesh.model.text import quick_json

        output.write(quick_json.dumps(shown) + "\n")
    else:
        output.write(session_table.status_line(shown, time.time()))
    return STATES[found.state].exit_code
