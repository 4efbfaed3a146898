"""Start a session.

Crash-safe in this order: files, claim (the record, `starting`), tmux, confirmation. A sesh that is
killed in between leaves a record that the next look understands from the launch's files.
"""

from __future__ import annotations

from sesh.model.configuration import Config, with_long_timeout
from sesh.operations.forget import bury, release
from sesh.operations.launch import claim, start_elsewhere
from sesh.operations.launch.claim import Order
from sesh.operations.launch.launch import (
    Claimed,
    forget_files,
    launch,
    ready_server,
    stage,
)
from sesh.operations.results import only
from sesh.places import environment, registry
from sesh.places.host import tmux_server
from sesh.places.host.launch import first_place
from sesh.state import records
from sesh.state.judge import Seen
from sesh.system import processes


def start(order: Order, config: Config) -> Seen:
    """Start a new session and see that it runs."""
    elsewhere = registry.requested(order.spec)
    if elsewhere is not None:
        return start_elsewhere.start(order, elsewhere, config)
    config = with_long_timeout(config)
    records.prepare()
    run = processes.run_dir()
    socket = tmux_server.chosen_socket(config, run)
    server, wrap = ready_server(socket, run, config)
    before = claim.free_name(order.name)
    release(before, config)
    identity = claim.new_id(order.name)
    place = first_place(identity, order.spec.cwd, server)
    record = claim.with_conversation(claim.new_record(order, identity, place))
    try:
        environment.save(place.snapshot, order.environment)
        stage(record, resuming=False)
        entry = claim.claim_name(record, claim.starting(record), before)
    except BaseException:
        forget_files(record)
        raise
    if before and before.session:
        bury(before.session.record, config, order.tell)
    return only(launch([Claimed(entry, record)], server, wrap, "started"))
