"""What is left behind: agents, processes, tmux sessions and places of ours that no record claims.
Data only. A subclass holds what proves the thing again just before it is ended. What users see of
it is written here, once for all commands."""

from __future__ import annotations

import os
from collections.abc import Hashable
from datetime import datetime

from sesh.model.place import Agent, Process
from sesh.model.record import Record, name_of
from sesh.model.session_json import View, orphan_view
from sesh.model.text import formatting
from sesh.model.value_object import Value


class Unclaimed(Value):
    """Something without a record."""

    session_id: str
    since: datetime | None
    command: tuple[str, ...]

    noun = "agent"

    @property
    def name(self) -> str:
        """The name of its session."""
        return name_of(self.session_id)

    def age(self, now: float) -> float:
        """Seconds since it began; 0 when that is not known."""
        return now - self.since.timestamp() if self.since else 0.0

    @property
    def what(self) -> str:
        """What it is, in a few words."""
        raise NotImplementedError

    @property
    def about(self) -> tuple[str, ...]:
        """What else lists show of it."""
        return ()

    @property
    def runs(self) -> str:
        """The commands that run in it, for that list."""
        return ""

    @property
    def reason(self) -> str:
        """Why it is an orphan, as `ls` shows it."""
        raise NotImplementedError

    @property
    def pid(self) -> int | None:
        return None

    @property
    def size(self) -> int | None:
        """The memory that it uses, in bytes, where that is known."""
        return None

    @property
    def keep(self) -> str | None:
        """Why sesh must not end it; None: it may."""
        return None

    @property
    def remedy(self) -> str:
        """The command for a user who wants to end it or to have it back."""
        return "sesh stop --orphans"

    @property
    def refusal(self) -> str | None:
        """Why it cannot be adopted; None: it can."""
        return None

    @property
    def key(self) -> Hashable:
        """What stays the same while it is the same thing."""
        raise NotImplementedError

    @property
    def sighting(self) -> tuple[Process, str] | None:
        """What two passes of gc must agree on before it is ended; None: gc does not end it."""
        return None

    @property
    def extra(self) -> View:
        """The fields of its JSON object that only its kind of thing has."""
        return {}


def _details(one: Unclaimed, now: float) -> list[str]:
    """Its state, its age and its size, as far as they are known."""
    known = [*one.about]
    if one.since is not None:
        known.append(formatting.short_time(one.age(now)))
    if one.size is not None:
        known.append(formatting.size(one.size))
    return known


def brief(one: Unclaimed, now: float) -> str:
    """How a sentence names it: `process 12 sleep (3m, 4 MB)`."""
    return f"{one.what} ({', '.join(_details(one, now))})"


def why(one: Unclaimed) -> str:
    """How gc reports it: whose it is, and why it is an orphan."""
    return f"of {one.name}: {one.reason}"


def row(one: Unclaimed, now: float) -> tuple[str, str]:
    """A line of the list of `stop --orphans`."""
    claim = () if one.size is not None else ("without a record",)
    shown = ", ".join([one.what, *_details(one, now), *claim])
    kept = f"left alone: {one.keep}" if one.keep else ""
    more = "   ".join(filter(None, (one.runs, kept)))
    return one.name, f"{formatting.escape(shown)}   {more}"


def view(one: Unclaimed) -> View:
    """Its JSON object."""
    shown = orphan_view(one.session_id, one.reason, one.pid, one.since, command=one.command)
    return {**shown, "memory_bytes": one.size, **one.extra}


class Orphan(Unclaimed):
    """An agent that lives although no record claims it."""

    generation: int
    agent: Agent

    reason = "alive, but without a record"

    @property
    def id(self) -> str:
        return self.session_id

    @property
    def what(self) -> str:
        return f"process {self.pid}"

    @property
    def pid(self) -> int:
        return self.agent.process.pid

    @property
    def remedy(self) -> str:
        return f"sesh adopt {self.name}"

    @property
    def key(self) -> Hashable:
        return self.session_id, self.generation, self.agent.process

    @property
    def extra(self) -> View:
        return {"generation": self.generation}


class Leftover(Unclaimed):
    """A living process that outlives its session."""

    process: Process
    memory_bytes: int
    keep: str | None = None

    noun = "process"

    @property
    def program(self) -> str:
        return os.path.basename(self.command[0]) if self.command else "?"

    @property
    def what(self) -> str:
        return f"process {self.pid} {self.program}"

    @property
    def runs(self) -> str:
        return formatting.command_line(self.command)

    @property
    def reason(self) -> str:
        return f"outlives its session ({self.keep})" if self.keep else "outlives its session"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def size(self) -> int:
        return self.memory_bytes

    @property
    def refusal(self) -> str:
        gone = f"processes that outlive {self.name} cannot be adopted: its agent is gone"
        return f"{gone}; next: sesh stop --orphans"

    @property
    def key(self) -> Hashable:
        return self.process, self.session_id

    @property
    def sighting(self) -> tuple[Process, str]:
        return self.process, self.session_id


class UnclaimedPlace(Unclaimed):
    """A place that sesh made for a session, and that no record knows. A kind of place finds it by
    labels or names, which are only claims:

      proven   a record, the history or the launch's own file (`.claim`) names this very place: it
               may be ended and removed
      neither  all that sesh knew is lost, and everything is as the labels say: it is shown, and a
               user may adopt it
      copied   the labels are those of another place: it is shown, and left alone
    """

    kind: str  # of place, as in records
    label: str  # the place's own name
    status: str  # created, running, exited …
    claim: Record | None  # the record as it was when the place was made
    busy: bool  # something runs in it, or that is unknown
    archived: bool  # the history knows its session
    proven: bool
    copied: bool
    spent: bool  # its session's start failed, and its record does not know the place

    noun = "place"

    @property
    def what(self) -> str:
        return f"{self.noun} {self.label}"

    @property
    def about(self) -> tuple[str, ...]:
        idle = self.status in ("running", "paused") and not self.busy
        return (f"{self.status}, its agent gone" if idle else self.status,)

    @property
    def inspect(self) -> str | None:
        """The command that shows more of it."""
        return None

    @property
    def left_over(self) -> bool:
        """Is there nothing to recover? A place that is not proven to be ours may hold anything."""
        ended = self.claim is None or self.archived or self.spent or self.status == "created"
        return self.proven and not self.busy and ended

    @property
    def adoptable(self) -> bool:
        """Can a user have its session back?"""
        return not (self.copied or self.left_over or self.status == "created")

    @property
    def reason(self) -> str:
        if self.copied:
            return f"{self.what} has its labels, but was not created by sesh"
        does = "is in use" if self.busy else f"is {self.status}"
        doubt = "; only its labels claim that sesh created it" if self.keep else ""
        return f"its {self.noun} {does}, but without a record{doubt}"

    @property
    def keep(self) -> str | None:
        if self.proven:
            return None
        if self.copied:
            return f"not created by sesh, although it has labels of {self.name}"
        how = f"sesh adopt {self.name} rebuilds its record"
        return f"only its labels claim that sesh created it ({how})"

    @property
    def remedy(self) -> str:
        return f"sesh adopt {self.name}"

    @property
    def refusal(self) -> str | None:
        return f"{self.name}: {self.what} is left alone: {self.keep}" if self.keep else None

    @property
    def key(self) -> Hashable:
        return self.kind, self.label

    @property
    def sighting(self) -> tuple[Process, str] | None:
        return None if self.busy else (Process(0, 0), f"{self.session_id}/{self.status}")

    @property
    def extra(self) -> View:
        claim = self.claim
        return {
            "generation": claim.place.generation if claim else None,
            "place": self.kind,
            "container": self.label,
            "cwd": claim.spec.cwd if claim else None,
        }
