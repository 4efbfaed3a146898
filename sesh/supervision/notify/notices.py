"""Notifications: new events go to an outbox, and a separate process delivers them.

`collect` is part of the pass and never waits; `deliver` runs apart. The outbox is a directory:

  cursor                  INODE OFFSET BATCH: how far events.jsonl was read, the last valid batch
  STEM.BATCH.NUMBER.json  one event for one target: the message, tries so far, time of the next
  .lock                   held by the process that collects
  .TARGET.lock            held by the process that delivers to a target
  .TARGET.again           a request to that process to look once more

An event is taken once: files are valid when the cursor, which is written after them, has reached
their batch. Files beyond it were left by a `collect` that was killed; the next makes them again.
Each target has its own file, so that a failure at one does not repeat a delivery to another. A try
is counted before it is made: a `deliver` that is killed again and again sends no more often than
`[notify] tries` allows.
"""

from __future__ import annotations

import os
import time
from binascii import crc32
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime

from sesh.model import digest
from sesh.model.configuration import Config, Notify
from sesh.model.digest import Digest
from sesh.model.errors import SeshError
from sesh.model.record import ID_PATTERN
from sesh.model.session_json import View
from sesh.model.states import State
from sesh.model.text import formatting, quick_json
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Any, Value, replace
from sesh.state import events, freshness, log_files, records
from sesh.state.events import BEGIN, NOWHERE, Event, Place
from sesh.supervision.notify import targets
from sesh.supervision.notify.targets import Kind, Sent, Target
from sesh.system import files, paths, processes, quick_read, subprocesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Thread

DELAYS = (10.0, 60.0, 300.0, 900.0, 3600.0)  # seconds before the next try
KEEP = 86400.0  # seconds after which a notification is too old to deliver
LATE = "not delivered within a day"
FRESH = 60.0  # at the first collection, the age in seconds up to which events are new
_EDITED = 60.0  # seconds for which config.toml may not be complete after a change
AGAIN = 60.0  # seconds until the next look at due notifications
_LIMIT = 4 << 20  # bytes of a file: the JSON of a session may have 1 MiB before it is escaped
_NAME = lazy(r".+\.(\d+)\.(\d+)\.json")
_ID = lazy(ID_PATTERN)
_NEVER = {*events.KINDS} - {*events.NOTIFIABLE}
_UNSAFE = lazy(r"[^A-Za-z0-9_:.-]")
_LONGEST = 160  # characters of a file's stem
_ANY = ("utf-8", "surrogatepass")


class Notice(Value):
    """A file of the outbox."""

    path: str
    target: Target
    body: Event
    tries: int = 0
    due: float = 0.0

    def is_due(self, now: float) -> bool:
        """Is it time? If the time is further off than any delay, the clock was set: then it is."""
        return not now < self.due <= now + DELAYS[-1]


# --- in the pass ---------------------------------------------------------------------------------


def send_new(config: Config) -> None:
    """Collect events and start the delivery of due notifications: the last step of a pass. Never
    waits. On a full disk the cursor stays where it is, and a later pass collects the events."""
    events.written.clear()
    with suppress(SeshError, OSError):
        now = time.time()
        if not collect(config):
            return
        due = {notice.target for notice in _outbox() if notice.is_due(now)}
        if any(map(_unserved, due)):
            argv = [*paths.own_command(), "pass", "--deliver"]
            subprocesses.detach(argv, env=targets.surroundings())


def call_pass(config: Config) -> None:
    """Start a pass if notifications are wanted for the events of this process."""
    if not targets_of(config.notify):
        return
    if not events.written.isdisjoint(config.notify.on) or not events.written.isdisjoint(_chosen()):
        subprocesses.detach([*paths.own_command(), "pass"], env=targets.surroundings())


def _chosen() -> set[str]:
    """The kinds that sessions in the list have chosen for themselves."""
    found: set[str] = set()
    with suppress(OSError):
        for name in freshness.names(paths.sessions_dir()):
            found.update(_choice(_digest(f"{paths.sessions_dir()}/{name}.toml")) or ())
    return found


def collect(config: Config) -> bool:
    """Put notifications of new events into the outbox. True when the outbox is not empty."""
    directory = paths.notices_dir()
    cursor = _cursor(directory)
    new = cursor is None or events.grown(cursor[0])
    if new and (targets_of(config.notify) or not _are_settings_new()):
        first = NOWHERE if os.path.exists(directory) else BEGIN
        files.make_private(directory)
        with files.locked(f"{directory}/.lock"):
            _collect(directory, config.notify, first)
    return bool(waiting())


def _are_settings_new() -> bool:
    """Was config.toml changed just now? An editor may have emptied it for a moment: a later pass
    may find targets in it."""
    with suppress(SeshError):
        changed = files.changed(paths.config_file())
        return changed is not None and abs(time.time() - changed) < _EDITED
    return False


def wake() -> float | None:
    """Seconds until the next notification is due; None when the outbox is empty."""
    now = time.time()
    waits = [AGAIN if one.is_due(now) else one.due - now for one in _outbox()]
    return min(waits) if waits else None


def _unserved(target: Target) -> bool:
    """Does no process deliver to it? A process that does looks once more."""
    with _serving(target) as mine:
        return mine


def _collect(directory: str, settings: Notify, first: Place) -> None:
    """Under the lock. Without a cursor, collecting begins at `first`."""
    cursor, known = _cursor(directory), _files(directory)
    place, batch = cursor or (first, max((written for _, written in known), default=0))
    found, end = events.since(place)
    if cursor is None:
        found = [event for event in found if _age(event) < FRESH]
    for name, written in known:
        if written > batch:  # left by a `collect` that was killed: its events are read again
            os.unlink(f"{directory}/{name}")
    receivers = targets_of(settings)
    wanted = list(_wanted(found, settings.on)) if receivers else []
    if wanted:
        batch += 1
        _write_batch(directory, wanted, receivers, batch)
    if cursor != (end, batch):
        text = f"{end.inode} {end.offset} {batch}\n"
        files.write_private(f"{directory}/cursor", text.encode(), durable=bool(wanted))


def _age(event: Event) -> float:
    return time.time() - datetime.fromisoformat(event["time"]).timestamp()


def targets_of(settings: Notify) -> list[Target]:
    command = [Target(Kind.COMMAND, settings.command)] if settings.command.strip() else []
    webhooks = dict.fromkeys(settings.webhooks)
    return command + [Target(Kind.WEBHOOK, address) for address in webhooks]


# --- which events --------------------------------------------------------------------------------


def _wanted(found: Sequence[Event], usual: Sequence[str]) -> Iterator[tuple[Event, View | None]]:
    """The events that are wanted, with their sessions: of the `usual` kinds or, where a session has
    a choice of its own, of these."""
    retried = {_launch(e): number for number, e in enumerate(found) if e["kind"] == "recovering"}
    for number, event in enumerate(found):
        kind = event["kind"]
        ended = kind == "ended"
        if kind in _NEVER:
            continue
        listed, choice = _of_session(event)
        on = usual if choice is None else choice
        if not (kind in on or (ended and event.get("state") in on)):
            continue
        session = _view(listed) if listed else None
        retry_follows = number < retried.get(_launch(event), -1) or _recovers(event, session)
        if not (ended and retry_follows) or "recovering" in on:
            yield event, session


def _launch(event: Event) -> tuple[Any, Any]:
    return str(event.get("id")), str(event.get("generation"))


def _recovers(event: Event, session: View | None) -> bool:
    """Does the record show it already? It is written before its events."""
    if session is None or session.get("state") != State.RECOVERING:
        return False
    return bool(session.get("generation") == event.get("generation"))


def _of_session(event: Event) -> tuple[Digest | None, Sequence[str] | None]:
    """The digest line of its session, if that is in the list, and the kinds that it has chosen for
    itself; None: none."""
    session_id = event.get("id")
    if not isinstance(session_id, str) or not _ID.fullmatch(session_id):
        return None, None
    for name in reversed(records.names_of(session_id)):
        found = _digest(f"{paths.sessions_dir()}/{name}.toml")
        if found and found.id == session_id:
            return found, _choice(found)
    return None, _choice(_digest(f"{paths.history_dir()}/{session_id}.toml"))


def _digest(path: str) -> Digest | None:
    try:
        return digest.parse(quick_read.read(path))
    except OSError:
        return None


def _choice(found: Digest | None) -> Sequence[str] | None:
    if found is None or not digest.has_own_notifications(found.view):
        return None
    supervision = quick_json.loads(found.view.decode()).get("care") or {}
    choice: list[str] | None = supervision.get("notify")
    return choice


def _view(found: Digest) -> View:
    """The session as `ls --json` shows it, by the digest line of its record."""
    from sesh.agents import activity
    from sesh.places import agent_files

    shown = quick_json.loads(found.view.decode())
    launch = agent_files.launch_in(found, processes.run_dir())
    doing = activity.of(launch) if launch else None
    last = log_files.last_output(shown["id"])
    return {
        **activity.add_to(shown, doing),
        "last_output": None if last is None else formatting.stamp(last),
        "checked_at": formatting.stamp(time.time()),
    }


# --- a test --------------------------------------------------------------------------------------


def try_out(settings: Notify) -> list[tuple[Target, Sent]]:
    """Send a test to all targets at once, and wait for the results."""
    from threading import Thread

    from sesh.supervision.notify import message

    data = _data(message.body(events.new("test", None, None, None), None))
    receivers = targets_of(settings)
    results: dict[Target, Sent] = {}

    def serve(target: Target) -> None:
        results[target] = targets.send(target, data, settings.timeout)

    _at_once(Thread(target=serve, args=(target,), daemon=True) for target in receivers)
    return [(target, results[target]) for target in receivers]


def _data(found: Event) -> bytes:
    import json

    return json.dumps(found, separators=(",", ":")).encode() + b"\n"


def _at_once(threads: Iterable[Thread]) -> None:
    started = list(threads)
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


# --- delivering ----------------------------------------------------------------------------------


def deliver(config: Config) -> bool:
    """Try all due notifications once, each target by itself; the event log gets the results. True
    when something was tried and something remains for a later try."""
    from threading import Thread

    now = time.time()
    due: set[Target] = set()
    for path in waiting():
        with suppress(OSError):  # another process has delivered it meanwhile
            notice = _read(path)
            if notice is None:
                drop(path, "its file can't be read")
            elif notice.is_due(now):
                due.add(notice.target)
    tried: list[Notice] = []
    _at_once(Thread(target=_serve, args=(target, config.notify, tried)) for target in due)
    return bool(tried and waiting())


def _serve(target: Target, settings: Notify, tried: list[Notice]) -> None:
    """Deliver all notifications of one target. One process at a time does that; a second one leaves
    a request and ends."""
    again = f"{_key(target)}.again"
    with suppress(SeshError, OSError):
        wanted = True
        while wanted:
            with _serving(target) as mine:
                if not mine:
                    return
                with suppress(FileNotFoundError):
                    os.unlink(again)
                tried += _tried(target, settings)
            wanted = os.path.exists(again)


@contextmanager
def _serving(target: Target) -> Iterator[bool]:
    """True if this process delivers to a target; otherwise another one has got a request."""
    key = _key(target)
    files.write_private(f"{key}.again", b"", durable=False)
    with files.only_one(f"{key}.lock") as mine:
        yield mine


def _key(target: Target) -> str:
    name = crc32(f"{target.kind} {target.what}".encode(*_ANY))
    return f"{paths.notices_dir()}/.{name:08x}"


def _tried(target: Target, settings: Notify) -> Iterator[Notice]:
    """Try the due notifications of one target. A try that cannot be counted is not made."""
    now = time.time()
    for notice in [one for one in _outbox() if one.target == target and one.is_due(now)]:
        with suppress(SeshError, OSError):
            _try(notice, settings)
            yield notice


def _try(notice: Notice, settings: Notify) -> None:
    most = max(1, settings.tries)
    if notice.tries >= most:
        drop(notice.path, "the last try was interrupted")
        return
    if _age(notice.body) > KEEP:
        drop(notice.path, LATE)
        return
    delay = DELAYS[min(notice.tries, len(DELAYS) - 1)]
    _write(replace(notice, tries=notice.tries + 1, due=time.time() + delay))
    sent = targets.send(notice.target, _data(notice.body), settings.timeout)
    if sent.problem is None:
        os.unlink(notice.path)
        _note("notified", notice)
    elif notice.tries + 1 >= most:
        drop(notice.path, sent.problem)


def drop(path: str, reason: str) -> None:
    """Give up a notification. The event of that is written first; if that fails, the notification
    stays. Raises FileNotFoundError if it was delivered or given up meanwhile."""
    _note("notify-failed", _read(path), reason=reason)
    with suppress(FileNotFoundError):
        os.unlink(path)


def _note(kind: str, notice: Notice | None, **details: str) -> None:
    of = notice.body if notice else {}
    event = events.new(kind, of.get("name"), of.get("id"), of.get("generation"))
    target = notice.target.shown if notice else None
    events.write({**event, "target": target, "event": of.get("kind"), **details})


def failures(within: float) -> list[Event]:
    """The failed notifications of the last seconds, oldest first."""
    return [event for event in events.of_kind("notify-failed") if _age(event) < within]


# --- the outbox ----------------------------------------------------------------------------------


def waiting() -> list[str]:
    """The valid files of the outbox, oldest first."""
    directory = paths.notices_dir()
    cursor, known = _cursor(directory), _files(directory)
    return [f"{directory}/{name}" for name, batch in known if cursor is None or batch <= cursor[1]]


def _files(directory: str) -> list[tuple[str, int]]:
    """All files of the outbox with their batches."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    found = [match for name in names if (match := _NAME.fullmatch(name))]
    found.sort(key=lambda match: (int(match[1]), int(match[2])))
    return [(match[0], int(match[1])) for match in found]


def _outbox() -> list[Notice]:
    found = []
    for path in waiting():
        with suppress(FileNotFoundError):
            found.append(_read(path))
    return [notice for notice in found if notice is not None]


def _write_batch(
    directory: str,
    wanted: Sequence[tuple[Event, View | None]],
    receivers: Sequence[Target],
    batch: int,
) -> None:
    from sesh.supervision.notify import message

    pairs = [(event, session, target) for event, session in wanted for target in receivers]
    for number, (event, session, target) in enumerate(pairs):
        words = (event.get("id"), event.get("generation"), event["kind"], event["time"])
        stem = _UNSAFE.sub("_", "-".join(map(str, words)))[:_LONGEST]
        path = f"{directory}/{stem}.{batch}.{number}.json"
        _write(Notice(path, target, message.body(event, session)))
    files.sync_directory(directory)


def _write(notice: Notice) -> None:
    target = {"kind": notice.target.kind, "what": notice.target.what}
    text = {"target": target, "tries": notice.tries, "due": notice.due, "body": notice.body}
    files.write_private(notice.path, _data(text))


def _read(path: str) -> Notice | None:
    """The notification in a file; None when it is damaged. Raises FileNotFoundError when another
    process has delivered it."""
    import json

    try:
        found = json.loads(files.read_regular(path, _LIMIT))
        target = Target(Kind(found["target"]["kind"]), str(found["target"]["what"]))
        notice = Notice(path, target, found["body"], int(found["tries"]), float(found["due"]))
        _age(notice.body)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return notice


def _cursor(directory: str) -> tuple[Place, int] | None:
    """How far the log was read, and the last valid batch; None when that is lost."""
    try:
        words = files.read_regular(f"{directory}/cursor", 256).split()
        inode, offset, batch = map(int, words)
    except (OSError, ValueError):
        return None
    return Place(inode, offset), batch
