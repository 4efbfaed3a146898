"""gc's steps that remove files: history, transcripts, what launches and containers left, notices.

Each looks once more, under the lock where records are concerned, whether what it was planned for is
still so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from sesh.gc.plan import CHANGED, Outcome, Outcomes, Step
from sesh.model import digest
from sesh.model.configuration import Config
from sesh.model.record import name_of
from sesh.places.docker import mailbox
from sesh.state import events, records, unclaimed
from sesh.supervision.notify import notices
from sesh.system import paths, processes, quick_read


def remove_history(steps: list[Step]) -> Outcomes:
    """Transcripts first: a record without one is still found by its age."""
    for step in steps:
        record = f"{paths.history_dir()}/{step.session_id}.toml"
        with records.lock():
            held = _unchanged(record, step.changed) and not claimed(step.session_id)
            if held:
                _unlink((*step.paths, record))
        yield Outcome(step, done=held, skipped=None if held else CHANGED)


def remove_files(steps: list[Step]) -> Outcomes:
    for step in steps:
        with records.lock():
            newest = max((_changed(path) for path in step.paths), default=0.0)
            held = newest == step.changed and not claimed(step.session_id)
            if held:
                _unlink(step.paths)
        yield Outcome(step, done=held, skipped=None if held else CHANGED)


def drop_notices(steps: list[Step]) -> Outcomes:
    """Give up what could not be delivered for so long; each is recorded."""
    for step in steps:
        held = _unchanged(step.subject, step.changed)
        try:
            if held:
                notices.drop(step.subject, notices.LATE)
        except FileNotFoundError:  # delivered at the last moment
            held = False
        yield Outcome(step, done=held, skipped=None if held else CHANGED)


def remove_boxes(steps: list[Step], config: Config) -> Outcomes:
    """Remove what containers had outside of them, if every engine says again that they are gone."""
    run = processes.run_dir()
    for step in steps:
        standing = unclaimed.standing(unclaimed.ask_engines(step.engines, config, run))
        gone = standing is not None and step.session_id not in standing
        held = gone and not claimed(step.session_id) and _unchanged(step.subject, step.changed)
        done = held and mailbox.remove(step.subject)
        left = held and not done
        skipped = "not all of it is ours to remove" if left else None if done else CHANGED
        yield Outcome(step, done=done, skipped=skipped, failed=left)


def rotate(steps: list[Step]) -> Outcomes:
    for step in steps:
        events.rotate()
        yield Outcome(step, done=True)


def _unlink(doomed: Iterable[str]) -> None:
    for path in doomed:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _unchanged(path: str, changed: float) -> bool:
    return _changed(path) == changed


def _changed(path: str) -> float:
    try:
        return os.stat(path, follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return 0.0


def claimed(session_id: str | None) -> bool:
    """Does a record in the list name this id by now? One that can't be read may."""
    if session_id is None:
        return False
    try:
        raw = quick_read.read(f"{paths.sessions_dir()}/{name_of(session_id)}.toml")
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return session_id.encode() in raw or not digest.intact(raw)
