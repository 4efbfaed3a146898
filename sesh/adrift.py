"""Containers of ours that no record claims. Found here, by their labels; taken back, ended or
removed elsewhere.

Anybody may put any label on a container: one counts as ours if it carries our run directory, and a
session id that fits its name and, where there is one, its claim. What is forged is left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from sesh import boxes, codec, containers, engines, files, paths, processes, store
from sesh.config import Config, Docker
from sesh.engines import Facts, Said
from sesh.errors import CannotTellError
from sesh.model import ID_PATTERN, Engine, Process, Record, name_of
from sesh.values import Value

CLAIM_LIMIT = 64 << 10  # docker takes no longer label from us
_ID = re.compile(ID_PATTERN)
# What stands in every container that sesh makes: its first process, and a tmux with its log pipe.
_FURNITURE = re.compile(
    r"\S*/(docker-init|tini|catatonit|podman-init) -- .*|/bin/sh -c trap \"exit 0\" TERM INT; .*"
    r"|sleep 3600|tmux .*-S /tmp/\.sesh-[0-9a-f]{8}/tmux\.sock .*|cat"
)

Answers = Mapping[Engine, list[Facts] | Said]


class Adrift(Value):
    """A container that sesh has made, of which no record knows."""

    engine: Engine
    facts: Facts
    session_id: str
    claim: Record | None  # the record as it was when the container was made
    busy: bool  # does something run in it, or can't that be told?
    archived: bool  # the history knows its session

    @property
    def name(self) -> str:
        return name_of(self.session_id)

    @property
    def container(self) -> str:
        return self.facts.name

    @property
    def left_over(self) -> bool:
        """Is there nothing in it to be had back?"""
        ended = self.claim is None or self.archived or self.facts.status == "created"
        return not self.busy and ended

    @property
    def sighting(self) -> tuple[Process, str]:
        """What two passes have to agree on: this container, in this state since then."""
        return Process(0, 0), f"{self.facts.id}/{self.facts.status}/{self.facts.started}"


# --- asking --------------------------------------------------------------------------------------


def ask(records: Iterable[Record], config: Config, run: str, *, thorough: bool) -> Answers:
    """What each engine says of the containers that were made from here: those engines that records
    name or, where none does, if `thorough` or when a box is left, the one that a start would use.
    Nobody is asked without a docker."""
    known = {record.place.engine for record in records if record.place.engine}
    if not known and (thorough or boxes.left(run)):
        known = {*_usual(config)}
    return ask_engines(sorted(known, key=repr), config, run)


def ask_engines(asked: Sequence[Engine], config: Config, run: str) -> Answers:
    timeout = config.docker.timeout
    return containers.at_once(
        lambda engine: engines.labelled(engine, f"sesh.run={run}", timeout), asked
    )


def standing(answers: Answers) -> set[str] | None:
    """The ids of sessions of which a container is there; None when that is not known for sure."""
    found = set()
    for said in answers.values():
        if isinstance(said, Said):
            return None
        found |= {facts.labels.get(boxes.LABEL, "") for facts in said}
    return found if answers else None


def _usual(config: Config) -> list[Engine]:
    try:
        return [engines.chosen(config)]
    except CannotTellError:
        return []


def wanted(config: Config) -> bool:
    """Has this user said anything about an engine?"""
    return config.docker != Docker()


# --- finding -------------------------------------------------------------------------------------


def find(answers: Answers, damaged: Collection[str], config: Config) -> list[Adrift]:
    """The containers that no record claims, also none that was written since they were listed."""
    return [
        _adrift(engine, facts, session_id, config)
        for session_id, (engine, facts) in _owned(answers).items()
        if name_of(session_id) not in damaged and not claimed(session_id) and not kept(session_id)
    ]


def _owned(answers: Answers) -> dict[str, tuple[Engine, Facts]]:
    """Session id → the container that was made for it. Of several, all but one have copied labels:
    it is the one with the name that we give, which no other can have."""
    found: dict[str, list[tuple[Engine, Facts]]] = {}
    for engine, said in answers.items():
        for facts in said if isinstance(said, list) else ():
            session_id = owner(facts)
            if session_id is not None:
                found.setdefault(session_id, []).append((engine, facts))
    named = {
        session_id: [one for one in some if one[1].name == f"sesh-{name_of(session_id)}"]
        for session_id, some in found.items()
        if len(some) > 1
    }
    return {i: some[0] for i, some in {**found, **named}.items() if len(some) == 1}


def named(name: str, config: Config) -> list[Adrift]:
    """Those of a session of this name."""
    records = [entry.record for entry in store.entries()]
    boxed = [record for record in records if isinstance(record, Record)]
    found = find(ask(boxed, config, processes.run_dir(), thorough=True), (), config)
    return [one for one in found if one.name == name]


def owner(facts: Facts) -> str | None:
    """The session that it was made for; None when its labels are not such as we write."""
    labels = facts.labels
    session_id = labels.get(boxes.LABEL, "")
    here = (processes.run_dir(), processes.here().id)
    ours = (labels.get("sesh.run"), labels.get("sesh.machine")) == here
    fits = _ID.fullmatch(session_id) and labels.get("sesh.name") == name_of(session_id)
    if not ours or not fits:
        return None
    if "sesh.claim" in labels and claim_of(facts) is None:
        return None
    return session_id


def claim_of(facts: Facts) -> Record | None:
    """The record that its label holds, if it is one, and of this very session."""
    text = facts.labels.get("sesh.claim", "")
    if not 0 < len(text) <= CLAIM_LIMIT:
        return None
    try:
        raw = json.loads(text)
        record = codec.decode(raw.encode()) if isinstance(raw, str) else None
    except (ValueError, RecursionError, codec.DecodeError):
        return None
    if record is None or record.id != facts.labels.get(boxes.LABEL):
        return None
    return record if record.spec.box is not None and record.spec.box.image else None


def claimed(session_id: str) -> bool:
    """Does a record in the list name this session? One that can't be read may."""
    entry = store.entry(name_of(session_id))
    if entry is None:
        return False
    return not isinstance(entry.record, Record) or entry.record.id == session_id


def kept(session_id: str) -> bool:
    """Was it to be kept when its session was stopped? (The history may know.)"""
    return b"\nkeep = true\n" in _archived(session_id)


def _archived(session_id: str) -> bytes:
    try:
        return files.read_regular(f"{paths.history_dir()}/{session_id}.toml", store.RECORD_LIMIT)
    except OSError:
        return b""


def _adrift(engine: Engine, facts: Facts, session_id: str, config: Config) -> Adrift:
    return Adrift(
        engine,
        facts,
        session_id,
        claim_of(facts),
        busy=busy(engine, facts, config.docker.timeout),
        archived=bool(_archived(session_id)),
    )


def still(found: Adrift, config: Config) -> bool:
    """Just before it is removed: is it as it was, without work in it, and still nobody's?"""
    told = engines.inspect(found.engine, [found.facts.id], config.docker.timeout)
    if isinstance(told, Said):
        raise engines.problem(found.engine, told)
    facts = told.get(found.facts.id)
    if facts is None or claimed(found.session_id) or kept(found.session_id):
        return False
    same = (facts.status, facts.started) == (found.facts.status, found.facts.started)
    idle = same and not busy(found.engine, facts, config.docker.timeout)
    return idle and owner(facts) == found.session_id


def busy(engine: Engine, facts: Facts, timeout: float) -> bool:
    """Does anything run in it but what keeps it up? True when that can't be told, too."""
    if not facts.running:
        return facts.status not in ("created", "exited", "dead")
    if facts.paused:
        return True
    said = engines.ask(engine, "top", facts.id, "-o", "pid,stat,args", timeout=timeout)
    lines = said.out.splitlines()[1:]
    return not said.ok or not lines or any(map(_is_work, lines))


def _is_work(line: str) -> bool:
    """Is it a living process that does not stand in each container of ours?"""
    words = line.split(None, 2)
    if len(words) != 3:
        return True
    return not words[1].startswith("Z") and not _FURNITURE.fullmatch(words[2].strip())
