"""One gc from beginning to end: the pass that keepers and timers make, then the plan and its steps.
Only one gc works at a time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from sesh.gc import apply, plan, scan
from sesh.gc.plan import Options, Outcome, Step, Verb, What, done, skipped
from sesh.gc.scan import Scene
from sesh.model.configuration import Config
from sesh.model.due import Kind
from sesh.model.errors import ConflictError, StateError
from sesh.model.value_object import replace
from sesh.places.unclaimed import Unclaimed
from sesh.state import clocks, lookup, records, settings, sightings
from sesh.state.judge import Seen
from sesh.supervision import run_pass, supervise
from sesh.system import files, paths, processes

# The outcomes, and the error that kept the pass from doing all that was due.
Done = tuple[list[Outcome], Exception | None]


def run(options: Options, *, dry_run: bool, auto: bool, by_hand: bool) -> Done | None:
    """One maintenance pass; None when another gc is running, which a timer (`auto`) ignores."""
    try:
        config = settings.load()
    except StateError:
        if auto and not dry_run:
            run_pass.run_anyway()  # timers supervise sessions even when gc may not clean
        raise
    if dry_run or not records.exists():  # without records, living processes are only reported
        return rehearse(config, options), None
    run_dir = processes.run_dir()
    files.make_private(run_dir)
    # On a full disk a pass may lock the run directory itself: gc needs another lock.
    with files.only_one(f"{run_dir}/gc.lock", on_full_disk=paths.history_dir()) as mine:
        if mine:
            outcomes = clean(config, options, run_dir)
            if auto or not by_hand:  # a gc by hand does not prove that a timer works
                with suppress(StateError):  # a full disk
                    files.write_private(paths.gc_stamp(run_dir), b"", durable=False)
            return outcomes
    if auto:
        return None
    raise ConflictError("another sesh gc is running")


def rehearse(config: Config, options: Options) -> list[Outcome]:
    """The plan alone: nothing is done."""
    scene = _with_worktrees(scan.survey(config), config, options)
    steps = _overdue(_attended(scene, config), config)
    steps += plan.decide(scene, config.gc, options, time.time())
    return [apply.kept(step) or skipped(step, "dry run") for step in steps]


def clean(config: Config, options: Options, run: str) -> Done:
    """Run the pass, then plan and carry out the steps. An error in the pass does not keep gc
    from cleaning."""
    trouble: Exception | None = None
    clocks.note(run)
    scene = scan.survey(config)
    attended = _attended(scene, config)
    overdue = _overdue(attended, config)
    if attended:
        trouble = next(iter(run_pass.run_pass(config).troubles), None)
        scene = scan.survey(config)
    scene = _with_worktrees(scene, config, options)
    steps = plan.decide(scene, config.gc, options, time.time())
    _remember(scene, steps, run)
    outcomes = [*map(_was_done, overdue), *apply.apply(steps, config, options)]
    found, held = scene.census.found, scene.census.held
    if any(one.done for one in outcomes):
        fresh = lookup.held()
        found, held = tuple(lookup.everything(leaving_out=fresh)), tuple(fresh.values())
    run_pass.tend(found, held, config, run, answers=scene.census.answers)
    return outcomes, trouble


def _with_worktrees(scene: Scene, config: Config, options: Options) -> Scene:
    """Add worktrees. git is asked only about sessions that would leave the list now."""
    due = plan.leaving(scene, config.gc, options, time.time())
    return replace(scene, worktrees=scan.worktrees_of(due))


def _attended(scene: Scene, config: Config) -> list[Seen]:
    return supervise.supervised(scene.census.found, scene.census.held, config)


def _overdue(found: Sequence[Seen], config: Config) -> list[Step]:
    """What a pass will do for these sessions."""
    steps = []
    for seen, action in supervise.overdue(found, config):
        record = seen.intact.record
        verb, why = _VERBS[action.kind]
        step = Step(verb, What.SESSION, record.name, why or action.why, record.id)
        steps.append(replace(step, generation=record.place.generation))
    return steps


_VERBS = {
    Kind.END: (Verb.END, ""),
    Kind.RETRY: (Verb.RESTART, "whose retry is due"),
    Kind.GIVE_UP: (Verb.GIVE_UP, "whose timeout is over before its retry"),
}


def _was_done(step: Step) -> Outcome:
    """The outcome of a step that the pass, or another sesh, has taken."""
    record = records.of_id(step.session_id or "")
    if record is None:
        return skipped(step)
    again, status = record.place.generation > step.generation, record.status
    over = {Verb.END: status.outcome is not None, Verb.GIVE_UP: status.gave_up is not None}
    if again or over.get(step.verb, False):
        return done(step)
    return skipped(step, status.waits_for or "not yet")


def _remember(scene: Scene, steps: Iterable[Step], run: str) -> None:
    """Note which orphans this gc sees: only an orphan that the next gc sees too is ended."""
    keys = [key for step in steps if (key := _sighting(step)) is not None]
    sightings.remember(run, processes.here().boot, scene.seen, keys, scene.uptime)


def _sighting(step: Step) -> sightings.Key | None:
    if isinstance(step.target, Unclaimed):
        return step.target.sighting
    return (step.target, step.session_id) if step.target and step.session_id else None
