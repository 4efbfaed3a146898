"""What passes remember of a session that they look after, and its health command.

No pass waits for a health command: one begins it, in a session of its own, and it writes its exit
status into a file; the same pass, if it is quick, or a later one reads that. `ID.GEN.care` holds
what has to be known until then, in seconds since the boot, so that a moved clock changes nothing.
`ID.GEN.check` is there before the command is, and then says who that is: whoever is killed
meanwhile, one that hangs is found and ended.

None of these files is where a container could reach it. What can't be read is not known, and what
can't be written is forgotten: neither is a reason to look after nobody.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from math import ceil

from sesh.model import due
from sesh.model.place import Process
from sesh.model.record import Record
from sesh.model.text import quick_json
from sesh.model.text.pattern import lazy
from sesh.model.text.shell_words import quote
from sesh.model.value_object import Value, replace
from sesh.places import launch_files, registry
from sesh.places.host import terminate
from sesh.state import clocks
from sesh.system import files, process_marks, processes, subprocesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LIMIT = 1 << 16
_MOST = 1 << 60  # no number that is remembered is larger
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_WIDTH = 40  # of a pid and start ticks
_ROOM = 256  # what is written over itself keeps its length: nobody reads the rest of what was there
_BEGINNING = 50  # looks at most, until a command that has just been started has a command line
_SLACK = 10.0  # seconds after its time in which somebody may still want to hear a command

# $1 is the stem of where words go: an exit status (or the step that failed) and a newline, written
# at once. One shell does it all: a pass may begin a hundred of these. (Only a command that might
# replace the shell, or its trap, gets one of its own.)
_HOST = """\
umask 077
exec >/dev/null 2>&1
SESH_WORD=$1.health SESH_COMMAND={command} SESH_STEP=directory
trap 'echo "${{SESH_STEP:-$?}}" >"$SESH_WORD"' EXIT
cd {cwd} || exit
SESH_STEP=environment
. {snapshot} || exit
SESH_STEP=
export SESH_ID={id} SESH_NAME={name} SESH_RUN={run}
shift
{run_it}
"""
_PLAINLY, _APART = 'eval "$SESH_COMMAND"', '(trap - EXIT; eval "$SESH_COMMAND")'
_NEEDS_ITS_OWN = lazy(r"exec|trap|eval|source|SESH_|\.\s")
# An engine that does not answer prints no exit status: nobody knows then. That of its own command
# is told too, for what it could not even begin in there; a few bytes of all that it may say.
_ENGINE = """\
umask 077
word=$1.health; shift
ask() {
  "$@" 2>/dev/null 3>&-
  printf '\\nengine %d\\n' $? >&3
}
[ -x "$1" ] && said=$({ ask "$@" | head -c 4096; } 3>&1)
echo "$said" >"$word"
"""
# In whole seconds: not every `timeout` knows others, and not every image has one. Killed when its
# time was up is another thing than killed.
_INSIDE = """\
exec 3>&1 </dev/null >/dev/null 2>&1
read -r up rest </proc/uptime
late=$((${up%%.*} + $1))
if command -v timeout; then timeout -s KILL "$1" sh -c "$2" 3>&-
else
  sh -c "$2" 3>&- & pid=$!
  (sleep "$1"; kill -9 "$pid") 3>&- &
  wait "$pid"
fi
status=$?
read -r up rest </proc/uptime
[ $status = 137 ] && [ "${up%%.*}" -ge $late ] && status=late
echo $status >&3
"""
_NOT_RUN = {
    "directory": "its directory is gone or can't be entered",
    "environment": "its saved environment is gone or can't be read",
    "engine 126": "it can't be run in the container (exit 126)",
    "engine 127": "it can't be run in the container (exit 127)",
}
_UNDER_WAY = lazy(r"(?:(\d{1,10}) (\d{1,20}))? *\n(\d{1,10}) (\d{1,20}) (\d{1,12})\n")


class Memory(Value):
    """What is remembered of one launch, times in seconds since the boot."""

    measured: float | None = None
    begun: float | None = None  # when the last health command began
    process: Process | None = None  # the one that is under way
    checks: int = 0
    failures: int = 0  # in a row
    last_failure: str = ""
    peak: int = 0  # the most memory that was seen, in bytes


_TIMES, _COUNTS = ("measured", "begun"), ("checks", "failures", "peak")


def read(record: Record) -> Memory:
    """What the last pass knew; nothing, where that can't be read or understood."""
    memory, check = _read(launch_files.own(record)), _under_way(launch_files.own(record))
    if check is None:
        return memory
    now = processes.uptime()  # who began it may not have come to say so
    began = min(now, check.until - due.patience(record) - _SLACK)
    if check.process is not None:
        began = now - processes.age(check.process, now)
    return replace(memory, process=check.process, begun=max(memory.begun or 0.0, began))


def peak(stem: str) -> int | None:
    """The most memory that a launch was seen with; None: nobody has measured it. `stem` is that of
    its files."""
    return _read(stem).peak or None


def _read(stem: str) -> Memory:
    try:
        told = quick_json.loads(files.read_regular(f"{stem}.care", _LIMIT))
    except (OSError, ValueError, RecursionError):
        return Memory()
    return _decoded(told) if isinstance(told, dict) else Memory()


def _decoded(told: dict[str, Any]) -> Memory:
    """All of it as it was written, or nothing."""
    known: dict[str, Any] = {name: told.get(name) for name in (*_TIMES, *_COUNTS, "last_failure")}
    times = [known[name] for name in _TIMES if known[name] is not None]
    good = type(known["last_failure"]) is str
    good = good and all(type(one) in (int, float) and 0 <= one < _MOST for one in times)
    good = good and all(type(known[name]) is int and 0 <= known[name] < _MOST for name in _COUNTS)
    return Memory(**known) if good else Memory()


def write(record: Record, memory: Memory) -> None:
    """A memory that can't be written is lost: then it is begun anew."""
    told = {name: getattr(memory, name) for name in (*_TIMES, *_COUNTS, "last_failure")}
    text = quick_json.dumps(told)
    _put(f"{launch_files.own(record)}.care", text.ljust(_ROOM * ceil(len(text) / _ROOM)))


def _put(path: str, text: str) -> bool:
    try:
        files.jot(path, text.encode())
    except OSError:
        return False
    return True


# --- health commands -----------------------------------------------------------------------------


def begin(record: Record, memory: Memory, now: float) -> Memory:
    """Start its health command. Not where that can't be written down first: nobody would end it."""
    begun = replace(memory, begun=now, process=None)
    _forget(launch_files.own(record))
    if not _announce(record, now, None):
        return begun
    argv = ["/bin/sh", "-c", *_command(record)]
    env = {"SESH_ID": record.id, "SESH_RUN": record.place.run}
    if not record.place.calls_back:  # run through the engine: not a process of the session
        env = subprocesses.engine_environment()
    path = os.environ.get("PATH", _PATH)
    try:
        stat = processes.look(subprocesses.detach(argv, env={**env, "PATH": path}))
    except OSError:  # no more processes can be had: nobody knows how it is
        stat = None
    if stat is None:
        return begun
    _announce(record, now, stat.process)
    return replace(begun, process=stat.process)


def _announce(record: Record, now: float, process: Process | None) -> bool:
    """Write down who it is, as soon as that is known, on whose account it runs and for how long."""
    agent = record.place.agent
    seen = agent is not None and record.place.pids_here
    whose = f"{agent.process.pid} {agent.process.start}" if agent and seen else "0 0"
    until = ceil(now + due.patience(record) + _SLACK)
    who = f"{process.pid} {process.start}" if process else ""
    text = f"{who:<{_WIDTH}}\n{whose} {until}\n"
    return _put(f"{launch_files.own(record)}.check", text)


def _forget(stem: str) -> None:
    for kind in (".health", ".check"):
        with suppress(OSError):
            os.unlink(stem + kind)


def _command(record: Record) -> list[str]:
    """The script, and its arguments."""
    stem = launch_files.own(record)
    enter, care = registry.of(record).enter_command(record), record.spec.care
    if not enter:
        return [_on_this_machine(record), "sesh", stem]
    inner = ("sh", "-c", _INSIDE, "sesh", str(ceil(care.health_timeout)), care.health_cmd)
    return [_ENGINE, "sesh", stem, *enter, *inner]


def _on_this_machine(record: Record) -> str:
    command = record.spec.care.health_cmd
    return _HOST.format(
        command=quote(command),
        run_it=_APART if _NEEDS_ITS_OWN.search(command) else _PLAINLY,
        cwd=quote(record.spec.cwd),
        snapshot=quote(record.place.snapshot),
        id=quote(record.id),
        name=quote(record.name),
        run=quote(record.place.run),
    )


def collect(record: Record, memory: Memory, now: float, age: float) -> Memory:
    """Hear what its health command has said, or end it if it takes too long. `age` is for how long
    the agent has run, without what it was paused for."""
    if memory.process is None or memory.begun is None:
        return memory
    said = _heard(record, memory.process, now - memory.begun)
    if said is None:
        return memory
    subprocesses.reap(memory.process.pid)
    _forget(launch_files.own(record))
    if not said or _held_since(record, now - memory.begun):
        return replace(memory, process=None)  # nobody knows
    heard = replace(memory, process=None, checks=memory.checks + 1)
    if said == "0":
        return replace(heard, failures=0, last_failure="")
    if due.awake(now - memory.begun, clocks.naps()) < now - memory.begun:
        return replace(memory, process=None)  # the machine stood still while it ran
    if age - (now - memory.begun) < record.spec.care.health_start_period:
        return heard  # it was still starting up
    return replace(heard, failures=memory.failures + 1, last_failure=said)


def _heard(record: Record, process: Process, taken: float) -> str | None:
    """What its command says of it: 0 that it is well, nothing when nobody could ask, else what is
    wrong. None while it is under way."""
    said = _said(record)
    if said is not None:
        return said
    if not processes.alive(process):
        return _said(record) or ""  # between the two looks it may have spoken
    if taken < due.patience(record):
        return None
    _end(process, launch_files.own(record))
    return _too_long(record) if record.place.calls_back else ""


def _said(record: Record) -> str | None:
    try:
        word = files.read_regular(f"{launch_files.own(record)}.health", _LIMIT)
    except OSError:
        return None
    if not word.endswith(b"\n"):  # it is being written
        return None
    lines = word.decode("ascii", "replace").split("\n")
    return next(filter(None, (_meaning(record, line) for line in lines)), "")


def _meaning(record: Record, line: str) -> str:
    if re.fullmatch(r"\d{1,3}", line):
        return "0" if int(line) == 0 else f"exit {int(line)}"
    return _too_long(record) if line == "late" else _NOT_RUN.get(line, "")


def _too_long(record: Record) -> str:
    return f"took longer than {record.spec.care.health_timeout:g} s"


def _held_since(record: Record, taken: float) -> bool:
    """Was it paused at any time while its command ran, for `taken` seconds up to now?"""
    status = record.status
    resumed = status.resumed.timestamp() if status.resumed else 0.0
    return status.paused is not None or time.time() - taken < resumed


# --- ending them ---------------------------------------------------------------------------------


class UnderWay(Value):
    """A health command, as its file tells of it."""

    process: Process | None  # None: who began it did not come to say who it is
    agent: Process | None  # on whose account it runs; None: not to be seen from here
    until: float  # when nobody waits for it any more


def _under_way(stem: str) -> UnderWay | None:
    try:
        text = files.read_regular(f"{stem}.check", _LIMIT).decode("ascii", "replace")
    except OSError:
        return None
    told = _UNDER_WAY.fullmatch(text)
    if told is None:
        return None
    pid, start, agent, began, until = (int(field or 0) for field in told.groups())
    process = Process(pid, start) if pid > 1 else None
    return UnderWay(process, Process(agent, began) if agent > 1 else None, float(until))


def end_forsaken(directory: str) -> None:
    """End the commands that nobody will hear any more: their agent is gone, or its session was no
    more looked after when their time was up."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    now = processes.uptime()
    for name in names:
        if name.endswith(".check"):
            stem = f"{directory}/{name.removesuffix('.check')}"
            check = _under_way(stem)
            if check is None or _is_forsaken(check, now):
                _leave(check, stem)


def _is_forsaken(check: UnderWay, now: float) -> bool:
    """One of which it is not known yet who it is, or what it runs, may be about to be."""
    alone = check.agent is not None and not processes.alive(check.agent)
    begun = check.process is not None and not _is_beginning(check.process)
    return now >= check.until or (alone and begun)


def _is_beginning(process: Process) -> bool:
    """Who has started it goes on before the kernel has laid out its command line."""
    return processes.alive(process) and not processes.command(process.pid)


def _leave(check: UnderWay | None, stem: str) -> None:
    if check and check.process:
        _end(check.process, stem)
        subprocesses.reap(check.process.pid)
    elif check:  # whoever began it was killed just then: it is found by its command line
        for stat in processes.table().values():
            if _is_ours(stat, stem):
                _end(stat.process, stem)
    _forget(stem)


def _end(process: Process, stem: str) -> None:
    """End a command that hangs, and all that it has started; nothing else that a file may name."""
    for _ in range(_BEGINNING):
        if not _is_beginning(process):
            break
        time.sleep(0.01)
    leader = processes.look(process.pid)
    if leader is not None and leader.process == process and _is_ours(leader, stem):
        terminate.kill_all(lambda table: _members(table, process))


def _members(table: processes.Table, leader: Process) -> list[Process]:
    """Everything alive below a session's leader, and in its session. None once its pid means
    another process."""
    if leader.pid in table and table[leader.pid].process != leader:
        return []
    tree = processes.tree(processes.children(table), leader.pid)
    session = (stat.pid for stat in table.values() if stat.session == leader.pid)
    found = {*tree, *session} - processes.ancestors(table)
    return [table[pid].process for pid in found if pid in table and table[pid].alive]


def _is_ours(leader: processes.Stat, stem: str) -> bool:
    """Does it lead a session of its own, and run our script for this launch, as our user?"""
    leads = leader.session == leader.pid and processes.runs(leader.pid, stem)
    return leads and bool(process_marks.ours([leader.pid], os.path.dirname(stem)))
