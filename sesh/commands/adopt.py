"""sesh adopt: give an orphan a record, so that it is a session again."""

from __future__ import annotations

from sesh.commands._declare import argument, declare, flag, option
from sesh.commands._options import json_option
from sesh.model import errors
from sesh.model.configuration import Config
from sesh.model.errors import ConflictError, NoSessionError, SeshError, UsageError
from sesh.model.record import Damaged
from sesh.model.states import State
from sesh.model.text import quick_json
from sesh.operations import adopt, recover
from sesh.places.unclaimed import Orphan, Unclaimed, UnclaimedPlace
from sesh.state import lookup, orphans, records, settings
from sesh.state.judge import Seen
from sesh.state.records import Entry
from sesh.terminal import output, session_list

Found = Orphan | Seen | UnclaimedPlace


@declare("adopt", examples={"sesh adopt --tmux work": "take over a session of your tmux"})
def command(
    name: str | None = argument(required=False),
    everything: bool = flag("-a", "--all", help="Adopt all orphans."),
    session: str | None = option(
        "--tmux",
        metavar="SESSION",
        help="Take over a session of your own tmux that sesh did not start.",
    ),
    as_json: bool = json_option("the adopted sessions"),
) -> int:
    """Reconnect an orphan: a living agent that has no record or an ended one, or a container
    without a record. Without NAME: the only orphan.

    The record is rebuilt from the files of the launch, from the processes, or from the labels of
    the container.
    """
    if (name is not None) + everything + (session is not None) > 1:
        raise UsageError("give a name, or --all, or --tmux, but only one of them")
    config = settings.load()
    if session is not None:
        adopted, failed = [adopt.take_over(session, config)], 0
    else:
        adopted, failed = _each(_chosen(name, config, everything=everything), config)
    _print(adopted, as_json=as_json)
    return errors.of_many([errors.OK] * len(adopted) + [errors.FAILED] * failed)


def _chosen(name: str | None, config: Config, *, everything: bool) -> list[Found]:
    census = orphans.census(config)
    places = [one for one in census.places if not one.copied]
    found: list[Found] = [*census.agents, *census.orphan_sessions, *places]
    if name is not None:
        lookup.check_name(name)
        mine = [one for one in found if one.name == name]
        entry = records.entry(name)
        if not mine or (entry and isinstance(entry.record, Damaged)):
            raise _no_agent(name, census, entry) or _not_an_orphan(name, entry)
        return mine
    if not found:
        raise NoSessionError("no orphans to adopt; next: sesh ls --all")
    if len(found) > 1 and not everything:
        names = ", ".join(sorted(one.name for one in found))
        raise UsageError(f"several orphans: {names}; give a name, or --all")
    return found


def _no_agent(name: str, census: orphans.Census, entry: Entry | None) -> SeshError | None:
    """The error for what was left of a session without an agent, which no record could claim."""
    left: list[Unclaimed] = [*census.strays, *(census.places if entry is None else ())]
    refusals = (one.refusal for one in (*left, *census.leftovers) if one.name == name)
    return next((ConflictError(why) for why in refusals if why), None)


def _not_an_orphan(name: str, entry: Entry | None) -> SeshError:
    if entry is None:
        return NoSessionError(f"no orphan named {name}; next: sesh ls --all")
    if isinstance(entry.record, Damaged):
        return ConflictError(f"{name}: its record is damaged; next: sesh doctor --fix")
    lookup.need_process(lookup.one(name))
    return ConflictError(f"{name} is not an orphan; next: sesh show {name}")


def _each(chosen: list[Found], config: Config) -> tuple[list[Seen], int]:
    """Adopt them. Returns the sessions, and the number of errors, which are reported; the error of
    a single one is raised."""
    adopted, failed = [], 0
    for one in chosen:
        try:
            adopted.append(_adopt(one, config))
        except SeshError as error:
            if len(chosen) == 1:
                raise
            output.note(str(error))
            failed += 1
    return adopted, failed


def _adopt(one: Found, config: Config) -> Seen:
    if isinstance(one, UnclaimedPlace):
        return recover.rebuild(one, config)
    return adopt.rebuild(one, config) if isinstance(one, Orphan) else adopt.accept(one)


def _print(adopted: list[Seen], *, as_json: bool) -> None:
    if as_json:
        output.write(quick_json.dumps([session_list.complete(one) for one in adopted]) + "\n")
        return
    output.write("".join(f"{one.name}\n" for one in adopted))
    for one in adopted:
        if one.state is not State.RUNNING:
            output.note(f"{one.name} is {one.state}")
