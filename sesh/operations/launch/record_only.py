"""A session without a process of sesh: another program runs the agent, sesh keeps the record."""

from __future__ import annotations

from sesh.model import progress
from sesh.model.configuration import Config
from sesh.model.observation import Session
from sesh.model.place import RecordOnly
from sesh.model.progress import Report
from sesh.model.reconcile import reconcile
from sesh.model.record import Spec
from sesh.model.value_object import replace
from sesh.operations.forget import Note, bury, release
from sesh.operations.launch import claim
from sesh.state import events, observe, records
from sesh.state.judge import Seen
from sesh.system import processes


def create(
    name: str, spec: Spec, report: Report, config: Config, note: Note = lambda _: None
) -> Seen:
    """Create the record of a session that has begun, with the first report of its progress."""
    records.prepare()
    before = claim.free_name(name)
    release(before, config)
    place = RecordOnly(1, processes.here(), run="", snapshot="", socket="")
    record = claim.new_record(claim.new_id(name), name, spec, place)
    record = replace(record, status=replace(record.status, started=record.spec.created))
    first = replace(report, phase=report.phase or progress.WORKING[0])
    record = progress.apply(record, first, record.spec.created)
    sight = observe.by_files(record)
    verdict = reconcile(record, sight, record.spec.created)
    entry = claim.claim_name(record, verdict, before)
    bury(before, config, note)
    events.append("started", record, command=list(record.spec.command))
    return Seen(entry, Session(record, sight, verdict))
