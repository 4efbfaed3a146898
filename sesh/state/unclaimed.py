"""Containers of ours that no record claims. Found here, by their labels; taken back, ended or
removed elsewhere.

Anybody may put any label on a container, and `docker commit` copies ours. So a label is a claim:

  proven   a record, the history or the launch's own file (`.claim`) names this very container: it
           may be ended and removed
  adrift   all that sesh knew is lost, and its name, image and creation are as its labels say: it is
           shown, and a person may adopt it
  copied   the labels are another container's: it is shown, and left alone

What carries labels that sesh would not write is nobody's: it is neither shown nor touched.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress

from sesh.model import codec
from sesh.model.configuration import Config, Docker
from sesh.model.errors import CannotTellError, ConflictError
from sesh.model.place import Engine, InContainer, Process
from sesh.model.record import ID_PATTERN, Record, name_of
from sesh.model.text import quick_json
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Value
from sesh.places.docker import observe, ownership, session_files
from sesh.state import history, records
from sesh.system import container_engine, files, processes
from sesh.system.container_engine import Facts
from sesh.system.subprocesses import Reply

CLAIM_LIMIT = 64 << 10  # docker takes no longer label from us
_ID = lazy(ID_PATTERN)
# What stands in every container that sesh makes: its first process, and a tmux with its log pipe.
_FURNITURE = lazy(
    r"\S*/(docker-init|tini|catatonit|podman-init) -- .*|/bin/sh -c trap \"exit 0\" TERM INT; .*"
    r"|sleep 3600|tmux .*-S /tmp/\.sesh-[0-9a-f]{8}/tmux\.sock .*|cat"
)

Answers = Mapping[Engine, list[Facts] | Reply]


class Adrift(Value):
    """A container that sesh has made, of which no record knows."""

    engine: Engine
    facts: Facts
    session_id: str
    claim: Record | None  # the record as it was when the container was made
    busy: bool  # does something run in it, or can't that be told?
    archived: bool  # the history knows its session
    proven: bool = False  # that sesh has made it, by what sesh itself has written
    copied: bool = False  # its labels are those of another container
    spent: bool = False  # its session's start has failed, and its record does not know of it

    @property
    def name(self) -> str:
        return name_of(self.session_id)

    @property
    def container(self) -> str:
        return self.facts.name

    @property
    def key(self) -> Hashable:
        return self.facts.id

    @property
    def left_over(self) -> bool:
        """Is there nothing in it to be had back? What is not proven may be anybody's."""
        created = self.facts.status == "created"
        ended = self.claim is None or self.archived or self.spent or created
        return self.proven and not self.busy and ended

    @property
    def adoptable(self) -> bool:
        """May a person have its session back?"""
        return not (self.copied or self.left_over or self.facts.status == "created")

    @property
    def keep(self) -> str | None:
        """Why nobody may end or remove it, if so."""
        if self.proven:
            return None
        if self.copied:
            return f"sesh did not make it: it carries labels of {self.name}"
        return f"only its labels say that sesh made it (sesh adopt {self.name} rebuilds its record)"

    @property
    def sighting(self) -> tuple[Process, str]:
        """What two passes have to agree on: this container, in this state since then."""
        return Process(0, 0), f"{self.facts.id}/{self.facts.status}/{self.facts.started}"


# --- asking --------------------------------------------------------------------------------------


def ask(sessions: Iterable[Record], config: Config, run: str, *, thorough: bool) -> Answers:
    """What each engine says of the containers that were made from here: those engines that records
    name or, where none does, if `thorough` or when a box is left, the one that a start would use.
    Nobody is asked without a docker."""
    known = {r.place.engine for r in sessions if isinstance(r.place, InContainer)}
    if not known and (thorough or session_files.left(run)):
        known = {*_usual(config)}
    return ask_engines(sorted(known, key=repr), config, run)


def ask_engines(asked: Sequence[Engine], config: Config, run: str) -> Answers:
    timeout = config.docker.timeout
    return observe.at_once(
        lambda engine: container_engine.labelled(engine, f"sesh.run={run}", timeout), asked
    )


def standing(answers: Answers) -> set[str] | None:
    """The ids of sessions of which a container is there; None when that is not known for sure."""
    found = set()
    for said in answers.values():
        if isinstance(said, Reply):
            return None
        found |= {facts.labels.get(ownership.LABEL, "") for facts in said}
    return found if answers else None


def _usual(config: Config) -> list[Engine]:
    try:
        return [container_engine.chosen(config)]
    except CannotTellError:
        return []


def wanted(config: Config) -> bool:
    """Has this user said anything about an engine?"""
    return config.docker != Docker()


# --- finding -------------------------------------------------------------------------------------


def find(answers: Answers, damaged: Collection[str], config: Config) -> list[Adrift]:
    """The containers that no record claims, also none that was written since they were listed."""
    labelled = [
        (engine, facts, session_id)
        for engine, said in answers.items()
        for facts in (said if isinstance(said, list) else ())
        if (session_id := owner(facts)) is not None and name_of(session_id) not in damaged
    ]
    found = (_adrift(*one, config) for one in labelled)
    return [one for one in found if one is not None]


def _adrift(engine: Engine, facts: Facts, session_id: str, config: Config) -> Adrift | None:
    """What is to be said of a container; None: a record claims it, or it was to be kept."""
    listed, past = records.of_id(session_id), _archived(session_id)
    known = [one for one in (listed, past, *_launches(session_id)) if one is not None]
    proven = any(ownership.made_for(one, facts) for one in known)
    spent = bool(listed and not listed.place.container_name and listed.status.outcome)
    if proven and ((listed and not spent) or (past and past.status.keep)):
        return None
    claim = claim_of(facts)
    copied = not proven and (bool(known) or claim is None or not ownership.as_asked(claim, facts))
    return Adrift(
        engine,
        facts,
        session_id,
        claim,
        busy=facts.running if copied else busy(engine, facts, config.docker.timeout),
        archived=past is not None,
        proven=proven,
        copied=copied,
        spent=spent,
    )


def _archived(session_id: str) -> Record | None:
    entry = history.entry(session_id)
    record = entry.record if entry else None
    return record if isinstance(record, Record) else None


def _launches(session_id: str) -> list[Record]:
    """What its launches have kept of their records, where no container can reach it."""
    run = processes.run_dir()
    try:
        names = os.listdir(run)
    except OSError:
        return []
    kept = [n for n in names if n.startswith(f"{session_id}.") and n.endswith(".claim")]
    found = []
    for name in kept:
        with suppress(OSError):
            raw = files.read_regular(f"{run}/{name}", records.RECORD_LIMIT)
            found.append(_decoded(raw))
    return [one for one in found if one is not None and one.id == session_id]


def _decoded(raw: bytes) -> Record | None:
    try:
        return codec.decode(raw) if raw else None
    except (ValueError, RecursionError, codec.DecodeError):
        return None


def check_ours(found: Iterable[Adrift]) -> None:
    """Raise when one of them may not be ended: nothing but its labels says whose it is."""
    for one in found:
        if one.keep:
            raise ConflictError(f"{one.name}: container {one.container} is left alone: {one.keep}")


def named(name: str, config: Config) -> list[Adrift]:
    """Those of a session of this name."""
    sessions = [entry.record for entry in records.entries()]
    boxed = [record for record in sessions if isinstance(record, Record)]
    found = find(ask(boxed, config, processes.run_dir(), thorough=True), (), config)
    return [one for one in found if one.name == name and not one.copied]


def owner(facts: Facts) -> str | None:
    """The session that it was made for; None when its labels are not such as we write."""
    labels = facts.labels
    session_id = labels.get(ownership.LABEL, "")
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
        raw = quick_json.loads(text)
        record = codec.decode(raw.encode()) if isinstance(raw, str) else None
    except (ValueError, RecursionError, codec.DecodeError):
        return None
    if record is None or record.id != facts.labels.get(ownership.LABEL):
        return None
    return record if record.spec.box is not None and record.spec.box.image else None


def kept(session_id: str) -> bool:
    """Was it to be kept when its session was stopped? (The history may show that.)"""
    entry = history.entry(session_id)
    record = entry.record if entry else None
    return record is not None and (not isinstance(record, Record) or record.status.keep)


def still(found: Adrift, config: Config) -> bool:
    """Just before it is removed: is it as it was, without work in it, and still nobody's?"""
    now = again(found, config)
    if now is None or now.busy:
        return False
    return now.sighting == found.sighting


def again(found: Adrift, config: Config) -> Adrift | None:
    """The same container, looked at once more; None when it may not be removed (any more)."""
    told = container_engine.inspect(found.engine, [found.facts.id], config.docker.timeout)
    if isinstance(told, Reply):
        raise container_engine.problem(found.engine, told)
    facts = told.get(found.facts.id)
    if facts is None or owner(facts) != found.session_id:
        return None
    now = _adrift(found.engine, facts, found.session_id, config)
    return now if now is not None and now.proven else None


def busy(engine: Engine, facts: Facts, timeout: float) -> bool:
    """Does anything run in it but what keeps it up? True when that can't be told, too."""
    if not facts.running:
        return facts.status not in ("created", "exited", "dead")
    if facts.paused:
        return True
    said = container_engine.ask(engine, "top", facts.id, "-o", "pid,stat,args", timeout=timeout)
    lines = said.out.splitlines()[1:]
    return not said.ok or not lines or any(map(_is_work, lines))


def _is_work(line: str) -> bool:
    """Is it a living process that does not stand in each container of ours?"""
    words = line.split(None, 2)
    if len(words) != 3:
        return True
    return not words[1].startswith("Z") and not _FURNITURE.fullmatch(words[2].strip())
