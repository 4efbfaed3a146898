"""Change what was asked for: labels, limits, retries and health checks of a session."""

from __future__ import annotations

from collections.abc import Mapping

from sesh.model.configuration import Config
from sesh.model.observation import Session
from sesh.model.record import BreakerLimits, Record, Spec, Status, Supervision
from sesh.model.states import ALIVE, Health
from sesh.model.value_object import Any, replace
from sesh.operations import pause
from sesh.operations.forget import Note
from sesh.operations.launch.start_request import check_breaker, check_supervision
from sesh.places import registry
from sesh.state import breakers, events, lookup
from sesh.state.judge import Seen

BREAKER = tuple(f"breaker_{name}" for name in BreakerLimits.fields)
LABELS = ("group", "tags")
OLDER = ("max_age", "max_idle")  # of sessions that were started with these options
OFFERED = (*LABELS, "launch_timeout", *Supervision.fields, *BREAKER)
KEYS = (*OFFERED, *OLDER)
_AT_LAUNCH = ("launch_timeout", "scope")  # used only when a session is launched


def change(found: Seen, given: Mapping[str, Any], config: Config, note: Note) -> Seen:
    """Set these values by their keys, all or none; None: as without the option. `note` gets remarks
    for the user."""
    if not set(given) <= {*LABELS, "notify"}:
        lookup.need_process(found)
    lookup.check_labels(given.get("group"), given.get("tags") or ())
    _with(found.intact.record, given, config, note)

    def changed(now: Seen) -> Record:
        lookup.check_same_launch(found, now)
        return _with(now.intact.record, given, config, lambda _: None)

    def tell(_: Session, after: Session) -> None:
        events.append("changed", after.record, keys=[shown(key) for key in given])

    written = lookup.update(found, changed, tell)
    assert written is not None
    if written.state in ALIVE:
        _note_later(found.intact.record, given, note)
        pause.supervise_again([found, written], config)
    return written


def shown(key: str) -> str:
    """A key as people write it."""
    return key.replace("_", "-")


def _with(record: Record, given: Mapping[str, Any], config: Config, note: Note) -> Record:
    spec = record.spec
    supervision = {name: value for name, value in given.items() if name in Supervision.fields}
    usual = {
        name: getattr(Supervision, name) if supervision[name] is None else supervision[name]
        for name in supervision
    }
    new = replace(
        spec,
        **{name: given[name] for name in ("group", "max_age", "max_idle") if name in given},
        supervision=replace(spec.supervision, **usual),
        breaker=_breaker(spec.breaker, given, config),
    )
    if "tags" in given:
        new = replace(new, tags=tuple(dict.fromkeys(given["tags"] or ())))
    if "launch_timeout" in given:
        new = replace(new, launch_timeout=given["launch_timeout"] or Spec.launch_timeout)
    check_supervision(new.supervision, note, "")
    return replace(record, spec=new, status=_status(record.status, new.supervision))


def _breaker(
    before: BreakerLimits | None, given: Mapping[str, Any], config: Config
) -> BreakerLimits | None:
    """The limits of its breaker; None: as in the settings at any time."""
    wanted = {name.removeprefix("breaker_"): given[name] for name in BREAKER if name in given}
    if not wanted:
        return before
    usual = breakers.usual(config)
    values = {n: getattr(usual, n) if value is None else value for n, value in wanted.items()}
    new = replace(before or usual, **values)
    check_breaker(new, "")
    return None if new == usual and set(wanted.values()) == {None} else new


def _status(status: Status, supervision: Supervision) -> Status:
    """Health that is not watched any more is forgotten."""
    unwatched = (status.health is Health.FAILING and not supervision.health_cmd) or (
        status.health is Health.HUNG and not supervision.max_silence
    )
    if unwatched:
        status = replace(status, health=None, health_reason=None)
    return replace(status, retries_max=supervision.retries)


def _note_later(record: Record, given: Mapping[str, Any], note: Note) -> None:
    """Remark on values that have no effect, or not their whole effect, before the next launch."""
    for key in given:
        if key in _AT_LAUNCH:
            note(f"{shown(key)} takes effect at the next restart of {record.name}")
    supervision, kind = record.spec.supervision, registry.requested(record.spec)
    if "max_cpu_time" in given and supervision.max_cpu_time:
        note("max-cpu-time: the limit of the kernel stays as it was until the next restart")
    limited = supervision.scope or (kind is not None and kind.limits_memory(record.spec))
    if "max_memory" in given and supervision.max_memory and limited:
        note("max-memory: the limit of the kernel stays as it was until the next restart")
