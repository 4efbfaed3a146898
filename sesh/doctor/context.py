"""What the checks share: the form of a check, a finding and a fix, and one look at everything.

Each part of the context is read once, when the first check asks for it: a server that hangs is not
asked again by the next check.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from sesh.model.configuration import Config
from sesh.model.record import Record
from sesh.model.session_json import LASTING, View, view
from sesh.model.states import State
from sesh.model.text import formatting, quick_json
from sesh.model.text.formatting import few as few
from sesh.model.value_object import Value, replace
from sesh.places.finding import Finding as Finding
from sesh.places.finding import Level as Level
from sesh.places.host import tmux_server
from sesh.places.interface import Answers, Examined
from sesh.places.launch_files import mount_owner
from sesh.state import orphans, records
from sesh.state.judge import Seen
from sesh.state.orphans import Census
from sesh.state.records import Entry
from sesh.system import directory_tree, paths, processes
from sesh.system.subprocesses import Reply

PATIENCE = 1.5  # seconds that a server or an engine gets; the whole is to take no more than three
HURRY = 0.5  # seconds that further servers get once one hangs
_FIELDS = frozenset(LASTING)
FIX = "sesh doctor --fix"


class Step(Value):
    """A part of a fix. It proves again what it acts on; a step that ends something has a question.
    Nothing is deleted but temporary files; a damaged record is moved, never removed."""

    what: str
    do: Callable[[], object]
    question: str | None = None


class Check(Value):
    id: str
    what: str  # what is true when all is well
    find: Callable[[Context], list[Finding]]
    fix: Callable[[Context], list[Step]] | None = None


class Context:
    """Everything that checks look at."""

    def __init__(self, config: Config, trouble: str | None = None) -> None:
        self.settings = config  # with the user's own timeouts
        patience = min(config.tmux.timeout, PATIENCE)
        docker = replace(config.docker, timeout=min(config.docker.timeout, PATIENCE))
        self.config: Config = replace(
            config, tmux=replace(config.tmux, timeout=patience), docker=docker
        )
        self.trouble = trouble  # why the settings are the defaults and not the user's

    @cached_property
    def census(self) -> Census:
        return orphans.census(self.config)

    @cached_property
    def run(self) -> str:
        return processes.run_dir()

    @cached_property
    def views(self) -> list[View]:
        """Every readable session as `ls --json` shows it. (The digest check reports digest lines
        that cannot be parsed.)"""
        held = filter(None, (_parsed(one.view) for one in self.census.held))
        judged = (one.session for one in self.census.found if one.session)
        return [*held, *(view(one.record, one.verdict) for one in judged)]

    @cached_property
    def answers(self) -> Answers:
        """Socket → the answer of its server; also for sessions that were not judged."""
        answers = dict(self.census.answers)
        more = {view["socket"] for view in self.living}
        for socket in sorted(more - answers.keys()):
            timeout = HURRY if any(map(hangs, answers.values())) else self.config.tmux.timeout
            server = tmux_server.server(socket, self.run, self.config)
            answers[socket] = replace(server, timeout=timeout).panes()
        return answers

    @cached_property
    def held_entries(self) -> list[Entry]:
        """The records that were not judged, read in full."""
        entries = (records.entry(one.name) for one in self.census.held)
        return [one for one in entries if one is not None and one.readable]

    @cached_property
    def living(self) -> list[View]:
        """Sessions on this host whose agent was seen alive."""
        alive = (State.RUNNING, State.PAUSED)
        return [v for v in self.views if v["state"] in alive and v["place"] == "host"]

    @cached_property
    def elsewhere(self) -> list[Record]:
        """The records of all sessions that are not in a tmux of this host."""
        return orphans.records_elsewhere(self.census.found, self.census.held)

    def examined(self, kind: str) -> Examined:
        """What the checks of one kind of place look at."""
        mine = tuple(record for record in self.elsewhere if record.place.kind == kind)
        inventory = self.census.inventories[kind]
        return Examined(mine, inventory, self.settings, self.config, self.mounts)

    @cached_property
    def sessions(self) -> int:
        return len(self.census.found) + len(self.census.held)

    @cached_property
    def table(self) -> processes.Table:
        return processes.table()

    @cached_property
    def mounts(self) -> dict[str, directory_tree.Measure]:
        """Session id → how much is in its private mount."""
        try:
            names = os.listdir(self.run)
        except OSError:
            return {}
        owners = {owner: name for name in sorted(names) if (owner := mount_owner(name))}
        return {
            owner: directory_tree.measure(f"{self.run}/{name}") for owner, name in owners.items()
        }

    @cached_property
    def files(self) -> list[tuple[str, os.stat_result]]:
        """Everything of ours on disk: the state directory and that of environments."""
        roots = [paths.state_dir(), paths.runtime_dir()]
        return [found for root in roots if root for found in _walk(root)]

    def judged(self, wanted: Callable[[Seen], bool]) -> list[Seen]:
        return [one for one in self.census.found if one.session and wanted(one)]


def hangs(answer: object) -> bool:
    return isinstance(answer, Reply) and answer.text.startswith("no answer within")


def _parsed(raw: bytes) -> View | None:
    try:
        view = quick_json.loads(raw)
    except ValueError:
        return None
    return view if isinstance(view, dict) and view.keys() >= _FIELDS else None


def _walk(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """A directory and all below it, without following links. Files that vanish meanwhile are left
    out, and so are the mounts of containers, which are not ours (see `mounts`)."""
    pending = [root]
    while pending:
        path = pending.pop()
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            status = os.lstat(path)
            yield path, status
            if stat.S_ISDIR(status.st_mode) and not mount_owner(path):
                pending += [child.path for child in os.scandir(path)]


def number(texts: Sequence[object], noun: str) -> str:
    return formatting.number(len(texts), noun)


def shown(path: str) -> str:
    """A path of ours as people know it: below the state directory, or from home."""
    for root, short in ((paths.state_dir() + "/", ""), (paths.home() + "/", "~/")):
        if path.startswith(root):
            return short + path.removeprefix(root)
    return path
