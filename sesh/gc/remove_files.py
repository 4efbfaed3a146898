"""gc's steps that remove files: history, transcripts, files of launches and containers, notices.

Each checks again, under the lock where records are concerned, that its reason still holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from sesh.gc.plan import Options, Outcome, Step, done, failed, skipped
from sesh.model.configuration import Config
from sesh.places import launch_files
from sesh.state import events, records, unclaimed
from sesh.supervision.notify import notices
from sesh.system import files, paths


def remove_history(step: Step, *_: object) -> Outcome:
    """Remove transcripts first: a record without one is still found by its age."""
    assert step.session_id is not None
    record = f"{paths.history_dir()}/{step.session_id}.toml"
    with records.lock():
        if not _unchanged(record, step.changed) or claimed(step.session_id):
            return skipped(step)
        _unlink((*paths.of_transcript(step.session_id), record))
    return done(step)


def remove_files(step: Step, *_: object) -> Outcome:
    with records.lock():
        newest = max((files.changed(path) or 0.0 for path in step.paths), default=0.0)
        if newest != step.changed or claimed(step.session_id):
            return skipped(step)
        _unlink(step.paths)
    return done(step)


def drop_notice(step: Step, *_: object) -> Outcome:
    """Give up a notification that is too old to deliver, and record that."""
    if not _unchanged(step.subject, step.changed):
        return skipped(step)
    try:
        notices.drop(step.subject, notices.LATE)
    except FileNotFoundError:  # delivered at the last moment
        return skipped(step)
    return done(step)


def remove_mount(step: Step, config: Config, options: Options) -> Outcome:
    """Remove the private mount of a place, if it is proven again that the place is gone."""
    standing = unclaimed.ids(unclaimed.ask_again(step.asked or {}, config)) if step.asked else None
    gone = standing is not None and step.session_id not in standing
    if not gone or claimed(step.session_id) or not _unchanged(step.subject, step.changed):
        return skipped(step)
    if launch_files.remove_mount(step.subject):
        return done(step)
    return failed(step, "not all of it is ours to remove")


def rotate(step: Step, *_: object) -> Outcome:
    events.rotate()
    return done(step)


def _unlink(doomed: Iterable[str]) -> None:
    for path in doomed:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _unchanged(path: str, changed: float) -> bool:
    return files.changed(path) == changed


def claimed(session_id: str | None) -> bool:
    """Does a record in the list name this id by now? One that can't be read may."""
    return session_id is not None and records.claimed(session_id)
