"""The one place where a state is decided. PURE: no I/O, no clock, no environment.

First match wins, in the order damaged, unknown, stopping, orphan, paused, running, starting,
recovering, the ends. Reports (an exit file, a launch file) of another generation are ignored.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from signal import Signals

from sesh.model.observation import ExitReport, Observation, Sight, Verdict
from sesh.model.record import Damaged, Record, Spec
from sesh.model.states import ENDED_WELL, FROZEN, HELD, Cause, Desired, Health, State
from sesh.model.text import units
from sesh.model.text.pattern import lazy
from sesh.model.text.units import amount
from sesh.model.value_object import replace

_HIGHEST_SIGNAL = 64
_MEMORY_OPTION = lazy(r"--memory(=.*)?|-m.*", re.DOTALL)  # for the engine, by a person
_SHELL = lazy(r"(.*/)?(ash|bash|dash|fish|ksh|mksh|sh|zsh)", re.DOTALL)
_PLAINLY = {"-i", "-l", "-il", "-li", "--login"}  # options of a shell without a script or command
NO_PROCESS = "a record only: no process of sesh's"
MANY_TRIES = 5  # of a stop, after which the session needs attention


def reconcile(record: Record | Damaged, seen: Observation, now: datetime) -> Verdict:
    """Decide the state of one session from the arguments alone."""
    if isinstance(record, Damaged):
        return Verdict(
            State.DAMAGED,
            reason=record.reason,
            attention="its record can't be read",
            evidence=(f"record {record.path}: {record.reason}",),
        )
    if not record.place.has_process:
        return _as_reported(record)
    exit_report = _exit_report(record, seen)
    ended = exit_report is not None or record.status.outcome is not None
    if seen.agent.unknown and not ended:
        return Verdict(
            State.UNKNOWN,
            reason=seen.agent.what,
            last_known=_last_known(record),
            evidence=_evidence(record, seen),
        )
    if record.status.desired is Desired.STOPPED and record.status.outcome is None:
        return _stopping(record, seen, exit_report)
    if seen.agent.present:
        return _alive(record, seen, exit_report)
    begun = seen.launch is not None and seen.launch.generation == record.place.generation
    if not (ended or begun or record.place.agent):
        return _starting(record, seen, now)
    if record.status.retry_at is not None and record.status.desired is Desired.RUNNING:
        return _recovering(record, seen)
    return _ended(record, seen)


def _as_reported(record: Record) -> Verdict:
    """There is no process to look at. The program that keeps the record reported its end, so that
    needs no attention."""
    if record.status.outcome is not None:
        return replace(recorded_end(record), evidence=(NO_PROCESS, *_evidence_of_end(record)))
    return Verdict(State.RUNNING, reason=NO_PROCESS, evidence=(NO_PROCESS,))


def _exit_report(record: Record, seen: Observation) -> ExitReport | None:
    word = seen.exit
    return word if word is not None and word.generation == record.place.generation else None


def _last_known(record: Record) -> State:
    if record.status.desired is Desired.STOPPED:
        return State.STOPPING
    if record.place.agent is None:
        return State.STARTING
    return State.PAUSED if record.status.paused else State.RUNNING


def _stopping(record: Record, seen: Observation, word: ExitReport | None) -> Verdict:
    """A stop was asked for. `stopped` only when agent and remains are proven to be gone."""
    how = how_it_ended(record, seen)
    gone = seen.agent.absent or (word is not None and not seen.agent.present)
    if gone and seen.remains.absent:
        limit = record.status.stop_reason
        cause = record.status.stop_cause or Cause.LIMIT
        return replace(
            how,
            state=State.STOPPED if limit is None else ended_by(cause),
            reason=limit or "stopped on request",
            cause=Cause.STOPPED if limit is None else cause,
            attention=limit,
            evidence=_evidence(record, seen),
        )
    remaining = seen.remains.what if gone else seen.agent.what
    if not gone and seen.agent.present:
        remaining = f"agent {_stated('agent', seen.agent)}"
    tries = record.status.stop_tries
    hopeless = f"could not be stopped after {tries} tries: {remaining}"
    return Verdict(
        State.STOPPING,
        reason=f"stop not confirmed yet: {remaining}",
        attention=hopeless if tries >= MANY_TRIES else None,
        exit_code=how.exit_code if gone else None,
        signal=how.signal if gone else None,
        evidence=_evidence(record, seen),
    )


_OF_CAUSE = {
    Cause.HEALTH: State.FAILED,
    Cause.TERMINAL_GONE: State.LOST,
    Cause.UNKNOWN: State.LOST,
}


def ended_by(cause: Cause) -> State:
    """The state of a session that sesh has ended because of a limit. An orphan was lost before."""
    return _OF_CAUSE.get(cause, State.TIMEOUT)


def _alive(record: Record, seen: Observation, word: ExitReport | None) -> Verdict:
    evidence = _evidence(record, seen)
    if record.status.outcome is not None or word is not None:
        said = record.status.outcome or "ended"
        why = f"alive, but its record says {said}"
        return Verdict(State.ORPHAN, reason=why, attention=why, evidence=evidence)
    if seen.terminal.absent:
        why = "alive, but its terminal is gone"
        return Verdict(State.ORPHAN, reason=why, attention=why, evidence=evidence)
    astray = off_branch(record, seen)
    if record.status.paused is not None or seen.paused:
        return Verdict(
            State.PAUSED, reason=_how_paused(record, seen), attention=astray, evidence=evidence
        )
    attention = _unwell(record) or astray
    if seen.frozen:
        attention = "the agent is stopped by a signal (kill -CONT continues it)"
    return Verdict(State.RUNNING, reason=attention, attention=attention, evidence=evidence)


def _how_paused(record: Record, seen: Observation) -> str:
    if record.status.paused is None:
        return "frozen: its container is paused"
    frozen = record.status.frozen and not record.place.pids_here
    return FROZEN if frozen or seen.frozen or seen.paused else HELD


def off_branch(record: Record, seen: Observation) -> str | None:
    """The branch of its directory, if it is not the one that was asked for."""
    wanted, found = record.spec.branch, seen.branch
    if wanted is None or found.unknown or (found.present and found.what == wanted):
        return None
    where = f"on branch {found.what}" if found.present else found.what
    return f"{where}, should be on {wanted}"


def _unwell(record: Record) -> str | None:
    """Why a living agent needs attention."""
    status = record.status
    if status.health not in (Health.FAILING, Health.HUNG):
        return None
    return unhealthy(status.health, status.health_reason)


def unhealthy(health: Health, why: str | None) -> str:
    """The health of a session that needs attention, in words."""
    what = "unhealthy" if health is Health.FAILING else health.value
    return f"{what}: {why}" if why else what


def not_in_time(patience: float) -> Verdict:
    """The end of a launch that wrote nothing."""
    why = f"no sign of the agent within {patience:g} s, its launch timeout"
    return Verdict(State.TIMEOUT, reason=why, cause=Cause.LAUNCH)


def _starting(record: Record, seen: Observation, now: datetime) -> Verdict:
    if seen.rebooted:
        return _ended(record, seen)
    if seen.container.absent:  # the process that started it is gone, or its container is
        why = f"its start was interrupted: {seen.container.what}"
        return Verdict(
            State.FAILED,
            reason=why,
            cause=Cause.LAUNCH,
            attention=why,
            evidence=_evidence(record, seen),
        )
    deadline = record.status.launched + timedelta(seconds=record.spec.launch_timeout)
    if now < deadline:
        return Verdict(State.STARTING, valid_until=deadline, evidence=_evidence(record, seen))
    too_late = not_in_time(record.spec.launch_timeout)
    return replace(
        too_late, ended=deadline, attention=too_late.reason, evidence=_evidence(record, seen)
    )


def _recovering(record: Record, seen: Observation) -> Verdict:
    how = how_it_ended(record, seen)
    status = record.status
    return replace(
        how,
        state=State.RECOVERING,
        reason=f"{how.reason}; retry {status.retries + 1} of {status.retries_max}",
        attention=status.waits_for,
        evidence=_evidence(record, seen),
    )


def _ended(record: Record, seen: Observation) -> Verdict:
    how = how_it_ended(record, seen)
    no_failure_known = how.state is State.COMPLETED or how.cause is Cause.UNKNOWN
    if seen.others.present and no_failure_known:
        why = f"{how.reason}, {seen.others.what} still up"
        how = replace(how, state=State.STALE, reason=why)
    return replace(how, attention=_attention(record, how), evidence=_evidence(record, seen))


def _attention(record: Record, how: Verdict) -> str | None:
    if how.state in ENDED_WELL:
        return None
    # A person who stopped an ended session has seen its end.
    asked = record.status.desired is Desired.STOPPED and record.status.stop_reason is None
    acknowledged = asked and how.state is not State.STALE
    return None if acknowledged else how.reason


def how_it_ended(record: Record, seen: Observation) -> Verdict:
    """The end alone: from the record, from the exit file, or from what is gone."""
    word = _exit_report(record, seen)
    if record.status.outcome is not None:
        return recorded_end(record)
    if word is not None:
        return _by_exit_report(word, record.spec, oom=seen.oom)
    if seen.rebooted:
        return Verdict(State.LOST, reason="this machine was restarted", cause=Cause.REBOOT)
    if seen.container.absent:
        return _with_container(record.spec, seen)
    if not kept(record):
        why = "ended; exit status unknown (adopted, not restarted since)"
        return Verdict(State.LOST, reason=why, cause=Cause.UNKNOWN)
    if seen.terminal.absent:
        return Verdict(State.LOST, reason=seen.terminal.what, cause=Cause.TERMINAL_GONE)
    return Verdict(State.LOST, reason="ended; exit status unknown", cause=Cause.UNKNOWN)


def recorded_end(record: Record) -> Verdict:
    """The end that its record holds. A session whose retry was given up has failed, whatever its
    last end was."""
    status = record.status
    assert status.outcome is not None
    return Verdict(
        State.FAILED if status.gave_up else status.outcome,
        reason=f"{status.reason}; {status.gave_up}" if status.gave_up else status.reason,
        cause=status.cause,
        exit_code=status.exit_code,
        signal=status.signal,
        ended=status.ended,
    )


def _with_container(spec: Spec, seen: Observation) -> Verdict:
    """Gone with its container, which the kernel may have killed because of its memory."""
    gone = seen.container.what
    lost = Verdict(State.LOST, reason=gone, cause=Cause.CONTAINER_GONE)
    return _starved(spec, gone, gone) if seen.oom else lost


def _limits_engine(spec: Spec) -> bool:
    """Is the memory limit of its container the session's own?"""
    box = spec.box
    if (
        box is None
        or box.image is None
        or box.memory is not None
        or not spec.supervision.max_memory
    ):
        return False
    return not any(_MEMORY_OPTION.fullmatch(option) for option in box.options)


def _starved(spec: Spec, why: str, detail: str | None = None) -> Verdict:
    """Killed by the kernel because of its memory: at a limit that sesh set, or at another one."""
    if not _limits_engine(spec):
        return Verdict(State.FAILED, reason=why, cause=Cause.OOM)
    limit = f"killed at max-memory ({amount(spec.supervision.max_memory)})"
    why = f"{limit}: {detail}" if detail else limit
    return Verdict(State.TIMEOUT, reason=why, cause=Cause.LIMIT)


def _in_its_scope(signal: int, spec: Spec) -> str:
    """A systemd scope is gone with its last process, and with it the reason of the kill."""
    if (
        signal != Signals.SIGKILL
        or spec.box
        or not (spec.supervision.scope and spec.supervision.max_memory)
    ):
        return ""
    return f", perhaps by the kernel at max-memory ({amount(spec.supervision.max_memory)})"


def kept(record: Record) -> bool:
    """Does a keeper wait for its agent? An adopted agent has none until its first restart."""
    agent = record.place.agent
    return agent is None or agent.keeper > 0


def _by_exit_report(word: ExitReport, spec: Spec, *, oom: bool = False) -> Verdict:
    number = word.code - 128
    signal = number if 0 < number <= _HIGHEST_SIGNAL else None
    if signal == Signals.SIGINT and _is_interactive_shell(spec.command):
        signal = None
    how = _said(word, signal, spec, oom=oom)
    known = signal if word.problem is None else None
    return replace(how, exit_code=word.code, signal=known, ended=word.at)


def _is_interactive_shell(command: tuple[str, ...]) -> bool:
    """An interrupt does not end such a shell: a status of 130 is that of its last command."""
    return command != () and _SHELL.fullmatch(command[0]) is not None and {*command[1:]} <= _PLAINLY


def _said(word: ExitReport, signal: int | None, spec: Spec, *, oom: bool) -> Verdict:
    """The verdict that follows from an exit file."""
    if word.problem is not None:
        return Verdict(State.FAILED, reason=word.problem, cause=Cause.LAUNCH)
    if not word.terminal:  # in a container, the kernel may have chosen tmux instead of the agent
        why = "its terminal was closed"
        lost = Verdict(State.LOST, reason=why, cause=Cause.TERMINAL_GONE)
        return _starved(spec, f"{why}: out of memory", why) if oom else lost
    if signal == Signals.SIGXCPU and spec.supervision.max_cpu_time:
        why = (
            f"ended by the kernel beyond max-cpu-time ({units.time(spec.supervision.max_cpu_time)})"
        )
        return Verdict(State.TIMEOUT, reason=why, cause=Cause.LIMIT)
    if signal == Signals.SIGKILL and oom:
        return _starved(spec, "killed: out of memory")
    if signal is not None:
        why = f"killed by {signal_name(signal)}{_in_its_scope(signal, spec)}"
        return Verdict(State.FAILED, reason=why, cause=Cause.SIGNAL)
    state = State.COMPLETED if word.code == 0 else State.FAILED
    return Verdict(state, reason=f"exit {word.code}", cause=Cause.EXIT)


def signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def _evidence(record: Record, seen: Observation) -> tuple[str, ...]:
    lines = [
        f"{label}: {_stated(label, sight)}"
        for label, sight in (
            ("agent", seen.agent),
            ("terminal", seen.terminal),
            ("others", seen.others),
            ("remains", seen.remains),
            ("container", seen.container),
            ("branch", seen.branch),
        )
        if label == "agent" or sight.what != "not looked for"
    ]
    word = seen.exit
    if word is not None:
        where = "alive" if word.terminal else "gone"
        old = "" if word.generation == record.place.generation else ", old: ignored"
        lines.append(
            f"exit file: status {word.code}, terminal {where} (generation {word.generation}{old})"
        )
    return (*lines, *_evidence_of_end(record))


def _stated(label: str, sight: Sight) -> str:
    """`gone` instead of `its container is gone`; what is not known with the reason."""
    if sight.unknown:
        return f"unknown ({sight.what})"
    what = sight.what
    for words in (f"its {label} ", "it ", "is ", "was "):
        what = what.removeprefix(words)
    known = what.startswith(("alive", "gone", "has ")) or label != "agent"
    return what if known else f"{'alive' if sight.present else 'gone'} ({what})"


def _evidence_of_end(record: Record) -> tuple[str, ...]:
    outcome = record.status.outcome
    return () if outcome is None else (f"recorded state: {outcome}",)
