"""sesh restart: restart sessions, each in its own place."""

from __future__ import annotations

from collections.abc import Iterator

from sesh.commands._declare import declare, flag
from sesh.commands._options import (
    CONDITIONS,
    DRY_RUN,
    GRACE,
    GROUP,
    NAMES,
    SELECTION,
    TAGS,
    YES,
    Selection,
    agreed,
    choose,
    planned,
    report,
)
from sesh.model import errors
from sesh.model.configuration import Config
from sesh.model.errors import SeshError
from sesh.model.state_table import STATES
from sesh.model.states import State
from sesh.model.text import formatting
from sesh.operations.restart import LIVING, check_all, restart_all
from sesh.state import breakers, lookup, settings
from sesh.state.judge import Seen, readable
from sesh.terminal import output


@declare(
    "restart",
    examples={
        "sesh restart --failed": "all failed sessions",
        "sesh restart fix --fresh": "in a new conversation",
    },
)
def command(
    names: tuple[str, ...] = NAMES,
    stale: bool = flag("--stale", help="Restart all stale sessions."),
    failed: bool = flag(
        "--failed", help="Restart all failed sessions, including those ended by a limit."
    ),
    lost: bool = flag("--lost", help="Restart all lost sessions, for example after a reboot."),
    everything: bool = flag("-a", "--all", help="Restart all sessions, including living ones."),
    group: str | None = GROUP,
    tags: tuple[str, ...] = TAGS,
    conditions: tuple[str, ...] = CONDITIONS,
    _force: bool = flag("--force", hidden=True),  # of older versions
    fresh: bool = flag("--fresh", help="Start a new conversation with the agent."),
    grace: float | None = GRACE,
    dry_run: bool = DRY_RUN,
    yes: bool = YES,
) -> int:
    """Restart sessions in place: same name, same tmux session if it still exists, same
    conversation of the agent.

    Living sessions are stopped first.
    """
    config = settings.load()
    flags = {
        State.STALE: stale,
        State.FAILED: failed,
        State.TIMEOUT: failed,  # `doctor` counts both as failed
        State.LOST: lost,
    }
    states = {state for state, given in flags.items() if given}
    selection = Selection(group, tags, conditions)

    def wanted(one: Seen) -> bool:
        return one.has_process and (one.state in states if states else not one.damaged)

    def chosen() -> list[Seen]:
        how = f"--stale, --failed, --lost, --all, {SELECTION}"
        return choose(names, selection, wanted, how=how, selecting=everything or bool(states))

    nothing = not (names or selection.given or everything or states)
    if nothing and output.interactive():
        picked = _pick_one(fresh=fresh)
        if picked is None:
            return errors.INTERRUPTED
        found = picked
    else:
        found = chosen()
    if not found:
        output.note("nothing to restart")
        return errors.OK
    if dry_run:
        return planned(_plan(found, fresh=fresh))
    alive = sum(one.state in LIVING for one in found)
    if alive > 1 and not yes:
        question = f"restart {formatting.listed([one.name for one in found])} ({alive} alive)?"
        agreed_to = agreed(question, found, chosen)
        if agreed_to is None:
            return errors.FAILED
        found = agreed_to
    limit = config.stop.grace if grace is None else grace
    _note_breakers(found, config)
    results = restart_all(found, config, limit, fresh=fresh)
    restarted = [one.name for one in found if isinstance(results[one.name], Seen)]
    output.write("".join(f"{name}\n" for name in restarted))
    return report({one.name: results[one.name] for one in found})


def _pick_one(*, fresh: bool) -> list[Seen] | None:
    """The session that the user picks among those that can be restarted, first those that need it;
    none if there is none. None: the user has left."""
    from sesh.commands import _pick

    found = [one for one in _pick.shown(lookup.everything()) if one.session]
    refused = check_all(found, fresh=fresh)
    able = [one for one in found if refused[one.name] is None]
    able.sort(key=lambda one: (one.state in LIVING, STATES[one.state].rank))
    if not able:
        return []
    taken = _pick.pick(able, "restart")
    return None if taken is None else [taken]


def _plan(found: list[Seen], *, fresh: bool) -> Iterator[str]:
    """What a restart would do with each session."""
    for name, refused in check_all(found, fresh=fresh).items():
        state = next(one.state for one in found if one.name == name)
        if isinstance(refused, SeshError):
            yield f"would leave {name} ({state}): {formatting.escape(str(refused))}"
        else:
            yield f"would {'stop and restart' if state in LIVING else 'restart'} {name} ({state})"


def _note_breakers(found: list[Seen], config: Config) -> None:
    """A breaker holds back automatic retries only, never a person."""
    opened = breakers.open_for(readable(found), config)
    for circuit, until in sorted(set(opened.values())):
        output.note(breakers.sentence(circuit, until))
