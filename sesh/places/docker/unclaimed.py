"""Containers of ours that no record claims: found by their labels, proven by what sesh wrote.

Containers with labels that sesh would not write are ignored: they are neither shown nor touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, SeshError
from sesh.model.place import Engine, InContainer, Process
from sesh.model.record import ID_PATTERN, Record, valid_name
from sesh.model.session_json import View
from sesh.model.text import quick_json
from sesh.model.text.pattern import lazy
from sesh.model.text.shell_words import join
from sesh.places import claims, launch_files
from sesh.places.docker import container, observe, ownership, recover, session_files
from sesh.places.interface import Elsewhere, Inventory, Recorded
from sesh.places.unclaimed import UnclaimedPlace
from sesh.system import container_engine, processes
from sesh.system.container_engine import Facts, Trouble
from sesh.system.subprocesses import Reply

CLAIM_LIMIT = 64 << 10  # docker takes no longer label from us
_ID = lazy(ID_PATTERN)
# What runs in every container that sesh makes: its first process, and a tmux with its log pipe.
_OWN_PROCESSES = lazy(
    r"\S*/(docker-init|tini|catatonit|podman-init) -- .*|/bin/sh -c trap \"exit 0\" TERM INT; .*"
    r"|sleep 3600|tmux .*-S /tmp/\.sesh-[0-9a-f]{8}/tmux\.sock .*|cat"
)
Answers = Mapping[Engine, list[Facts] | Reply]


class Containers(Inventory):
    """What each engine says of the containers that were made from here."""

    answers: Answers

    def covers(self, record: Record) -> bool:
        return isinstance(record.place, InContainer) and record.place.engine in self.answers

    def has(self, record: Record) -> bool | None:
        answer = self.answers[session_files.place(record).engine]
        return None if isinstance(answer, Reply) else record.id in _owners(answer)


class UnclaimedContainer(UnclaimedPlace):
    """A container that sesh has made, and that no record knows."""

    engine: Engine
    facts: Facts

    noun = "container"

    @property
    def sighting(self) -> tuple[Process, str] | None:
        since = f"{self.facts.id}/{self.status}/{self.facts.started}"
        return None if self.busy else (Process(0, 0), since)

    @property
    def inspect(self) -> str:
        return join(container_engine.argv(self.engine, "inspect", self.label))

    @property
    def key(self) -> str:
        return self.facts.id

    @property
    def extra(self) -> View:
        return {**super().extra, "image": self.facts.image}


class UnclaimedContainers(Elsewhere):
    """The part of the kind that is about containers without a record."""

    def inventory(
        self, sessions: Sequence[Record], config: Config, *, thorough: bool
    ) -> Containers:
        """Asks the engines that records name or, where none does, if `thorough` or when files of a
        container are left, the engine that a start would use. Without docker, none."""
        known = {r.place.engine for r in sessions if isinstance(r.place, InContainer)}
        if not known and (thorough or launch_files.mounts_left(processes.run_dir())):
            known = {*_usual(config)}
        return _ask(sorted(known, key=repr), config)

    def ask_again(self, inventory: Inventory, config: Config) -> Containers:
        assert isinstance(inventory, Containers)
        return _ask([*inventory.answers], config)

    def unclaimed(
        self, inventory: Inventory, recorded: Recorded, config: Config
    ) -> list[UnclaimedPlace]:
        assert isinstance(inventory, Containers)
        labelled = [
            (engine, facts, session_id)
            for engine, said in inventory.answers.items()
            for facts in (said if isinstance(said, list) else ())
            if (session_id := owner(facts)) is not None
        ]
        found = (_unclaimed(*one, recorded, config) for one in labelled)
        return [one for one in found if one is not None]

    def still_unclaimed(
        self, found: UnclaimedPlace, recorded: Recorded, config: Config
    ) -> UnclaimedPlace | None:
        assert isinstance(found, UnclaimedContainer)
        facts = container.find(found.engine, found.facts.id, config.docker.timeout)
        if facts is None or owner(facts) != found.session_id:
            return None
        return _unclaimed(found.engine, facts, found.session_id, recorded, config)

    def rebuild(self, found: UnclaimedPlace, config: Config) -> Record:
        assert isinstance(found, UnclaimedContainer)
        facts = container.find(found.engine, found.facts.id, config.docker.timeout)
        if facts is None:
            raise SeshError(f"{found.name}: its container is gone")
        return recover.rebuild(_recoverable(found, facts), found.engine, facts, config)

    def remove_unclaimed(self, found: UnclaimedPlace, config: Config) -> bool:
        assert isinstance(found, UnclaimedContainer)
        removing = ("rm", "--force", found.facts.id)
        said = container_engine.ask(found.engine, *removing, timeout=container_engine.STOP_TIMEOUT)
        if said.ok or said.trouble is Trouble.NO_CONTAINER:
            launch_files.remove_mount(
                launch_files.mount_path(processes.run_dir(), found.session_id)
            )
            return True
        return False


def _ask(engines: Sequence[Engine], config: Config) -> Containers:
    label, timeout = f"sesh.run={processes.run_dir()}", config.docker.timeout
    answers: Answers = observe.at_once(
        lambda engine: container_engine.labelled(engine, label, timeout), engines
    )
    ids: set[str] | None = set() if answers else None
    for said in answers.values():
        ids = None if ids is None or isinstance(said, Reply) else ids | _owners(said)
    return Containers(None if ids is None else frozenset(ids), answers)


def _owners(found: Sequence[Facts]) -> set[str]:
    return {facts.labels.get(ownership.LABEL, "") for facts in found}


def _usual(config: Config) -> list[Engine]:
    try:
        return [container_engine.chosen(config)]
    except CannotTellError:
        return []


def _unclaimed(
    engine: Engine, facts: Facts, session_id: str, recorded: Recorded, config: Config
) -> UnclaimedContainer | None:
    """What is known of a container; None: a record claims it, or the user wants to keep it."""
    listed, past = recorded.listed(session_id), recorded.archived(session_id)
    kept = claims.kept(processes.run_dir(), session_id)
    known = [one for one in (listed, past, *kept) if one is not None]
    proven = any(ownership.made_for(one, facts) for one in known)
    spent = bool(listed and not listed.place.container_name and listed.status.outcome)
    if proven and ((listed and not spent) or (past and past.status.keep)):
        return None
    claim = claim_of(facts)
    copied = not proven and (bool(known) or claim is None or not ownership.as_asked(claim, facts))
    return UnclaimedContainer(
        session_id=session_id,
        since=claim.spec.created if claim else None,
        command=claim.spec.command if claim else (),
        kind=InContainer.kind,
        label=facts.name,
        status=facts.status,
        claim=claim,
        busy=facts.running if copied else _busy(engine, facts, config.docker.timeout),
        archived=past is not None,
        proven=proven,
        copied=copied,
        spent=spent,
        engine=engine,
        facts=facts,
    )


def owner(facts: Facts) -> str | None:
    """The session that it was made for; None when its labels are not as sesh writes them."""
    labels = facts.labels
    session_id = labels.get(ownership.LABEL, "")
    here = (processes.run_dir(), processes.here().id)
    ours = (labels.get("sesh.run"), labels.get("sesh.machine")) == here
    fits = _ID.fullmatch(session_id) and valid_name(labels.get("sesh.name", ""))
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
    except (ValueError, RecursionError):
        return None
    record = claims.decoded(raw.encode()) if isinstance(raw, str) else None
    if record is None or record.id != facts.labels.get(ownership.LABEL):
        return None
    return record if record.spec.box is not None and record.spec.box.image else None


def _busy(engine: Engine, facts: Facts, timeout: float) -> bool:
    """Does anything run in it but what keeps it up? True when that is unknown, too."""
    if not facts.running:
        return facts.status not in ("created", "exited", "dead")
    if facts.paused:
        return True
    said = container_engine.ask(engine, "top", facts.id, "-o", "pid,stat,args", timeout=timeout)
    lines = said.out.splitlines()[1:]
    return not said.ok or not lines or any(map(_is_work, lines))


def _is_work(line: str) -> bool:
    """Is it a living process that does not run in each container of ours?"""
    words = line.split(None, 2)
    if len(words) != 3:
        return True
    return not words[1].startswith("Z") and not _OWN_PROCESSES.fullmatch(words[2].strip())


def _recoverable(found: UnclaimedContainer, facts: Facts) -> Record:
    """The record that its labels hold; raises when nothing can be rebuilt from it."""
    claim = claim_of(facts)
    if claim is None:
        raise SeshError(
            f"{found.name}: the labels of {facts.name} do not show what it was started with; "
            f"next: sesh stop {found.name}"
        )
    if facts.status == "created":
        end = "next: sesh gc" if found.proven else f"next: docker rm {facts.name}"
        raise SeshError(f"{found.name}: its container was never started; {end}")
    if facts.paused:
        raise ConflictError(
            f"{found.name}: its container is paused; next: docker unpause {facts.name}"
        )
    return claim
