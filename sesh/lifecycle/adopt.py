"""STAND-IN until the real `adopt` is merged: take the other side's file whole. Gives an agent that
no record claims its record back, from the copy that its launch has kept or from its processes."""

from __future__ import annotations

import os

from sesh import (
    codec,
    environment,
    git,
    launchfiles,
    look,
    observe,
    orphans,
    paths,
    processes,
    store,
    tmux,
)
from sesh.config import Config
from sesh.errors import SeshError
from sesh.lifecycle import servers
from sesh.look import Orphan, Seen
from sesh.model import Desired, LaunchWord, Observation, Place, Record, Spec, Status, seen
from sesh.reconcile import reconcile
from sesh.values import replace


def rebuild(orphan: Orphan, config: Config) -> Seen:
    """Give a living agent that no record claims its record back."""
    store.prepare()
    here = processes.here()
    run = paths.run_dir(here.id, here.pidns)
    word = orphans.launch_word(orphan, run)
    if word is None:
        raise SeshError(f"{orphan.name}: its agent is gone, or can't be told from others")
    launchfiles.write_callback(run, paths.own_command())
    launchfiles.write_word(run, orphan.id, word)
    record = _by_claim(orphan, word, run) or _by_processes(orphan, word, run)
    server = observe.server_of(record, config, tmux.find_binary())
    if not os.path.exists(server.socket):
        servers.restore_socket(server, word.server)
    sight = Observation(seen("adopted"), seen("adopted"))
    store.claim(record, reconcile(record, sight, word.at), None)
    if not os.path.exists(paths.transcript(record.id)):
        launchfiles.make_transcript(record.id)
        server.pipe(word.pane)
    return look.one(record.name)


def _by_claim(orphan: Orphan, word: LaunchWord, run: str) -> Record | None:
    raw = launchfiles.read_claim(run, orphan.id, orphan.generation)
    try:
        record = codec.decode(raw) if raw else None
    except codec.DecodeError:
        return None
    if record is None or record.id != orphan.id:
        return None
    place = replace(record.place, agent=word.agent, pane=word.pane, server=word.server)
    status = Status(Desired.RUNNING, record.status.launched, started=word.at)
    return replace(record, place=place, status=status)


def _by_processes(orphan: Orphan, word: LaunchWord, run: str) -> Record:
    pid = word.agent.process.pid
    cwd = processes.directory(pid) or "/"
    socket = processes.environment(word.agent.leader).get("TMUX", "").split(",")[0]
    snapshot = environment.snapshot_path(orphan.id, run)
    place = Place("host", word.generation, processes.here(), run, snapshot, socket)
    return Record(
        name=orphan.name,
        id=orphan.id,
        spec=Spec(tuple(processes.command(pid)), cwd, word.at),
        place=replace(
            place,
            branch=git.branch(cwd),
            pane=word.pane,
            server=word.server,
            agent=word.agent,
        ),
        status=Status(Desired.RUNNING, word.at, started=word.at),
    )
