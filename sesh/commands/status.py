"""sesh status: show the states of sessions, a line for each, and as the exit code."""

from __future__ import annotations

import time

from sesh.commands._declare import declare
from sesh.commands._options import NAMES, json_option, known, report
from sesh.model import errors
from sesh.model.errors import SeshError
from sesh.model.state_table import STATES
from sesh.terminal import output, session_list, session_table


@declare(
    "status",
    examples={
        "sesh status web && echo alive": "in a script",
        "sesh status": "all sessions",
    },
)
def command(
    names: tuple[str, ...] = NAMES,
    as_json: bool = json_option("the session, or an array of several"),
) -> int:
    """Print the state of sessions, one line each, and as the exit code. Without NAME: of all.

    0 alive, 3 ended, 4 no such session, 5 cannot tell, 6 damaged record, 1 orphan;
    of several: 0 all are alive, 9 some are, else that of the first.
    """
    results: dict[str, object] = dict.fromkeys(names)
    if names:
        views = [session_list.complete(one) for one in known(results)]
    else:
        views, _ = session_list.gather(everything=False, usage=False)
        views.sort(key=lambda view: str(view["name"]))
    if as_json and (views or not names):
        from sesh.model.text import quick_json

        output.write(quick_json.dumps(views[0] if len(results) == 1 else views) + "\n")
    elif not as_json:
        now = time.time()
        output.write("".join(session_table.status_line(view, now) for view in views))
        if not views and not names:
            output.note("no sessions")
    report(results)
    failed = [one.exit_code for one in results.values() if isinstance(one, SeshError)]
    return errors.of_many([*(STATES[view["state"]].exit_code for view in views), *failed])
