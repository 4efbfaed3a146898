"""The topics of `sesh help` that are no command."""

from __future__ import annotations

from sesh.model import errors

# topic → heading → lines: a call and what it does, or a text alone
TOPICS = {
    "scripting": {
        "Sessions": {
            "sesh start job -d -- make": "start it; prints the name",
            "sesh wait job --for ended --timeout 1h": "exit 124 after an hour",
            "sesh status job": "one line, and the state as the exit code",
            "sesh ls --json": "all sessions as JSON, the fastest call",
            "sesh logs job -n 50": "the last 50 lines of output",
            "sesh send job 'and the docs'": "type into it",
            "sesh answer job yes": "answer the agent's question",
            "sesh stop job && sesh rm job": "stop it, remove it",
        },
        "Inside a session": {
            "sesh update --phase planning": "report progress",
            "sesh finish completed": "report that the work is finished",
            "sesh resumable NAME": "exit 0 if the work can be resumed",
        },
        "Exit codes": {str(code): what for code, what in errors.EXIT_CODES.items()},
        "Rules": {
            "data on stdout, messages on stderr": "sesh asks nothing without a terminal",
            "JSON fields are only added": "sesh man json lists them",
        },
    },
}
