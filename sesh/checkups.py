"""What passes remember of a session that they look after, and its health command.

No pass waits for a health command: one begins it, in a session of its own, and it writes its exit
status into a file; the same pass, if it is quick, or a later one reads that. `ID.GEN.care` holds
what has to be known until then, in seconds since the boot, so that a moved clock changes nothing.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from math import ceil
from shlex import quote

from sesh import boxes, duties, engines, files, launchfiles, processes, run
from sesh.model import Process, Record
from sesh.values import Value, replace

_LIMIT = 1 << 16
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# $1 is where the word goes: an exit status and a newline, written at once. One shell does it all:
# a pass may begin a hundred of these.
_HOST = """\
exec >/dev/null 2>&1
umask 077
SESH_WORD=$1 SESH_COMMAND={command}
cd {cwd} && . {snapshot} || exit
export SESH_ID={id} SESH_NAME={name} SESH_RUN={run}
shift
(eval "$SESH_COMMAND")
echo $? >"$SESH_WORD"
"""
# An engine that does not answer prints no exit status: nobody knows then, says an empty line.
_ENGINE = 'word=$1; shift; umask 077; said=$("$@" 2>/dev/null); echo "$said" >"$word"'
# In whole seconds: not every `timeout` knows others, and not every image has one.
_BOXED = """\
exec 3>&1 </dev/null >/dev/null 2>&1
if command -v timeout; then timeout -s KILL "$1" sh -c "$2"
else
  sh -c "$2" & pid=$!
  (sleep "$1"; kill -9 "$pid") &
  wait "$pid"
fi
echo $? >&3
"""


class Memory(Value):
    """What is remembered of one launch, times in seconds since the boot."""

    measured: float | None = None
    begun: float | None = None  # when the last health command began
    process: Process | None = None  # the one that is under way
    checks: int = 0
    failures: int = 0  # in a row
    last_failure: str = ""
    peak: int = 0  # the most memory that was seen, in bytes


def read(record: Record) -> Memory:
    """What the last pass knew; nothing, where that can't be read or understood."""
    return _read(launchfiles.base(record))


def peak(stem: str) -> int | None:
    """The most memory that a launch was seen with; None: nobody has measured it. `stem` is that of
    its files."""
    return _read(stem).peak or None


def _read(stem: str) -> Memory:
    try:
        told = json.loads(files.read_regular(f"{stem}.care", _LIMIT))
        process = told.pop("process")
        known = Memory(**told, process=Process(*process) if process else None)
        numbers = (known.measured or 0, known.begun or 0, known.checks, known.failures, known.peak)
        return known if all(number >= 0 for number in numbers) else Memory()
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return Memory()


def write(record: Record, memory: Memory) -> None:
    """A memory that can't be written is lost: then it is begun anew."""
    process = memory.process
    told = {name: getattr(memory, name) for name in memory.fields}
    told["process"] = [process.pid, process.start] if process else None
    with suppress(OSError):
        files.write_private(
            f"{launchfiles.base(record)}.care", json.dumps(told).encode(), durable=False
        )


def _word(record: Record) -> str:
    return f"{launchfiles.base(record)}.health"


# --- health commands -----------------------------------------------------------------------------


def begin(record: Record, memory: Memory, now: float) -> Memory:
    """Start its health command."""
    with suppress(FileNotFoundError):
        os.unlink(_word(record))
    argv = ["/bin/sh", "-c", *_command(record)]
    env = run.engine_environment() if record.boxed else {}
    marker = {} if record.boxed else {"SESH_ID": record.id, "SESH_RUN": record.place.run}
    path = os.environ.get("PATH", _PATH)
    try:
        stat = processes.look(run.detach(argv, env={**env, **marker, "PATH": path}))
    except OSError:  # no more processes can be had: nobody knows how it is
        stat = None
    return replace(memory, begun=now, process=stat.process if stat else None)


def _command(record: Record) -> list[str]:
    """The script, and its arguments."""
    care, container, engine = record.spec.care, record.place.container, record.place.engine
    if container is None or engine is None:
        return [_on_this_machine(record), "sesh", _word(record)]
    where = ("-w", record.spec.cwd) if record.spec.cwd else ()
    how = (*boxes.as_user(record), *where, container.id)
    inner = ("sh", "-c", _BOXED, "sesh", str(ceil(care.health_timeout)), care.health_cmd)
    return [_ENGINE, "sesh", _word(record), *engines.argv(engine, "exec", *how, *inner)]


def _on_this_machine(record: Record) -> str:
    return _HOST.format(
        command=quote(record.spec.care.health_cmd),
        cwd=quote(record.spec.cwd),
        snapshot=quote(record.place.snapshot),
        id=quote(record.id),
        name=quote(record.name),
        run=quote(record.place.run),
    )


def collect(record: Record, memory: Memory, now: float, age: float) -> Memory:
    """Hear what its health command has said, or end it if it takes too long."""
    if memory.process is None or memory.begun is None:
        return memory
    care = record.spec.care
    said = _said(record)
    if said is None and processes.alive(memory.process):
        if now - memory.begun < duties.patience(record):
            return memory
        _end(memory.process)
        said = "" if record.boxed else f"took longer than {care.health_timeout:g} s"
    run.reap(memory.process.pid)
    with suppress(FileNotFoundError):
        os.unlink(_word(record))
    heard = replace(memory, process=None, checks=memory.checks + bool(said))
    if said == "0":
        return replace(heard, failures=0, last_failure="")
    if not said or age - (now - memory.begun) < care.health_start_period:
        return heard  # nobody knows, or it is still starting up
    why = f"exit {said}" if said.isdigit() else said
    return replace(heard, failures=memory.failures + 1, last_failure=why)


def _said(record: Record) -> str | None:
    """The exit status; empty when nobody could ask, None while there is none."""
    try:
        word = files.read_regular(_word(record), _LIMIT).decode("ascii", "replace")
    except OSError:
        return None
    if not word.endswith("\n"):
        return None
    return word.strip() if word.strip().isdigit() else ""


def _end(process: Process) -> None:
    """End a command that hangs, and all that it has started."""
    table = processes.table()
    family = processes.children(table)
    members = [pid for pid in processes.tree(family, process.pid) if pid in table]
    of_session = [stat.pid for stat in table.values() if stat.session == process.pid]
    _kill(table[pid].process for pid in {*members, *of_session})


def _kill(found: Iterable[Process]) -> None:
    for process in found:
        processes.send(process, signal.SIGKILL)
