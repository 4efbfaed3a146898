"""Start a session.

Crash-safe in this order: files, claim (the record, `starting`), tmux, confirmation. A sesh that is
killed in between leaves a record that the next look understands from the launch's files.
"""

from __future__ import annotations

from sesh.model.configuration import Config, with_long_timeout
from sesh.model.errors import only
from sesh.model.record import AgentReport, Spec
from sesh.operations.forget import Note, bury, release
from sesh.operations.launch import claim, start_elsewhere
from sesh.operations.launch.launch import (
    Claimed,
    forget_files,
    launch,
    ready_server,
    stage,
)
from sesh.places import environment, registry
from sesh.places.environment import Environment
from sesh.places.host import tmux_server
from sesh.places.host.launch import first_place
from sesh.state import records
from sesh.state.judge import Seen
from sesh.system import processes


def start(
    name: str,
    spec: Spec,
    variables: Environment,
    config: Config,
    note: Note,
    agent: AgentReport | None = None,
) -> Seen:
    """Start a new session and confirm that it runs. `note` gets remarks for the user; `agent` has
    the conversation that it continues or copies (on this host only)."""
    elsewhere = registry.requested(spec)
    if elsewhere is not None:
        return start_elsewhere.start(name, spec, variables, elsewhere, config, note)
    config = with_long_timeout(config)
    records.prepare()
    run = processes.run_dir()
    socket = tmux_server.chosen_socket(config, run)
    server, wrap = ready_server(socket, run, config)
    before = claim.free_name(name)
    release(before, config)
    identity = claim.new_id(name)
    place = first_place(identity, spec.cwd, server)
    record, mode = claim.with_conversation(claim.new_record(identity, name, spec, place, agent))
    try:
        environment.save(place.snapshot, variables)
        stage(record, mode)
        entry = claim.claim_name(record, claim.starting(record), before)
    except BaseException:
        forget_files(record)
        raise
    bury(before, config, note)
    return only(launch([Claimed(entry, record)], server, wrap, "started"))
