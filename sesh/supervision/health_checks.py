"""What passes remember of a supervised session, and its health command.

No pass waits for a health command. A pass starts it in a session of its own, and the command writes
its exit status to a file; the same pass, if the command is quick, or a later one reads the file.
`ID.GEN.care` holds what has to be known until then, in seconds since the boot, so that a clock that
is set changes nothing. `ID.GEN.check` exists before the command does and then names its process: a
command that hangs is found and ended, even if the pass that started it was killed.

No container can reach these files. What cannot be read is not known, and what cannot be written is
forgotten; supervision continues in both cases.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from math import ceil

from sesh.model import due
from sesh.model.place import Process
from sesh.model.record import Record
from sesh.model.text import quick_json
from sesh.model.text.pattern import lazy
from sesh.model.text.shell_words import quote
from sesh.model.value_object import Any, Value, replace
from sesh.places import launch_files, registry
from sesh.places.host import terminate
from sesh.state import clocks
from sesh.system import files, process_marks, processes, subprocesses

_LIMIT = 1 << 16
_MOST = 1 << 60  # no number that is remembered is larger
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_WIDTH = 40  # of a pid and start ticks
_ROOM = 256  # a file that is overwritten keeps its length: no rest of the old text is read
_BEGINNING = 50  # looks at most, until a command that has just been started has a command line
_SLACK = 10.0  # seconds after its time limit in which a pass may still collect a result

# $1 is the stem of the file for the result: an exit status (or the step that failed) and a newline,
# in one write. One shell does it all: a pass may start a hundred of these. (Only a command that may
# replace the shell, or its trap, gets a shell of its own.)
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
# An engine that does not answer prints no exit status: then the result is unknown. The exit status
# of the engine's own command is written too, for a command that could not be started in there. Only
# a few bytes of the output are read.
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
# In whole seconds: not every `timeout` takes fractions, and not every image has one. Killed at the
# time limit is different from killed.
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
    """What passes remember of one launch; times in seconds since the boot."""

    measured: float | None = None
    begun: float | None = None  # when the last health command began
    process: Process | None = None  # the health command that is running
    checks: int = 0
    failures: int = 0  # in a row
    last_failure: str = ""
    peak: int = 0  # the most memory that was measured, in bytes


_TIMES, _COUNTS = ("measured", "begun"), ("checks", "failures", "peak")


def read(record: Record) -> Memory:
    """What the last pass knew; nothing if that cannot be read."""
    memory, check = _read(launch_files.own(record)), _under_way(launch_files.own(record))
    if check is None:
        return memory
    now = processes.uptime()  # the pass that began it may have been killed before it wrote that
    began = min(now, check.until - due.patience(record) - _SLACK)
    if check.process is not None:
        began = now - processes.age(check.process, now)
    return replace(memory, process=check.process, begun=max(memory.begun or 0.0, began))


def peak(stem: str) -> int | None:
    """The most memory that was measured of a launch; None: never measured. `stem` is the common
    part of its file names."""
    return _read(stem).peak or None


def _read(stem: str) -> Memory:
    try:
        values = quick_json.loads(files.read_regular(f"{stem}.care", _LIMIT))
    except (OSError, ValueError, RecursionError):
        return Memory()
    return _decoded(values) if isinstance(values, dict) else Memory()


def _decoded(values: dict[str, Any]) -> Memory:
    """The whole memory as it was written, or an empty one."""
    known: dict[str, Any] = {name: values.get(name) for name in (*_TIMES, *_COUNTS, "last_failure")}
    times = [known[name] for name in _TIMES if known[name] is not None]
    good = type(known["last_failure"]) is str
    good = good and all(type(one) in (int, float) and 0 <= one < _MOST for one in times)
    good = good and all(type(known[name]) is int and 0 <= known[name] < _MOST for name in _COUNTS)
    return Memory(**known) if good else Memory()


def write(record: Record, memory: Memory) -> None:
    """Write the memory. If that fails, counting starts over."""
    values = {name: getattr(memory, name) for name in (*_TIMES, *_COUNTS, "last_failure")}
    text = quick_json.dumps(values)
    _put(f"{launch_files.own(record)}.care", text.ljust(_ROOM * ceil(len(text) / _ROOM)))


def _put(path: str, text: str) -> bool:
    try:
        files.jot(path, text.encode())
    except OSError:
        return False
    return True


# --- health commands -----------------------------------------------------------------------------


def begin(record: Record, memory: Memory, now: float) -> Memory:
    """Start the health command, unless its file cannot be written: no pass would end it then."""
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
    except OSError:  # no process can be started: its health is unknown
        stat = None
    if stat is None:
        return begun
    _announce(record, now, stat.process)
    return replace(begun, process=stat.process)


def _announce(record: Record, now: float, process: Process | None) -> bool:
    """Write the process of the command (if known), the agent that it checks, and its time limit."""
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
    """The script and its arguments."""
    stem = launch_files.own(record)
    enter, supervision = registry.of(record).enter_command(record), record.spec.supervision
    if not enter:
        return [_on_this_machine(record), "sesh", stem]
    inner = (
        "sh",
        "-c",
        _INSIDE,
        "sesh",
        str(ceil(supervision.health_timeout)),
        supervision.health_cmd,
    )
    return [_ENGINE, "sesh", stem, *enter, *inner]


def _on_this_machine(record: Record) -> str:
    command = record.spec.supervision.health_cmd
    return _HOST.format(
        command=quote(command),
        run_it=_APART if _NEEDS_ITS_OWN.search(command) else _PLAINLY,
        cwd=quote(record.spec.cwd),
        snapshot=quote(record.place.snapshot),
        id=quote(record.id),
        name=quote(record.name),
        run=quote(record.place.run),
    )


def collect(checks: Sequence[tuple[Record, Memory, float]], now: float) -> list[Memory]:
    """Read the results of health commands, and end the commands that take too long. Each comes with
    the number of seconds that its agent has run, without pauses."""
    results = [_result(record, memory) for record, memory, _ in checks]
    late = []
    for at, (record, memory, _) in enumerate(checks):
        overdue = memory.begun is not None and now - memory.begun >= due.patience(record)
        if results[at] is None and memory.process and overdue:
            late.append((memory.process, launch_files.own(record)))
            # In a container the command itself reports that; a late engine tells nothing about the
            # session.
            results[at] = _too_long(record) if record.place.calls_back else ""
    _end(late)
    return [
        _after(record, memory, result, now, age)
        for (record, memory, age), result in zip(checks, results, strict=True)
    ]


def _after(record: Record, memory: Memory, result: str | None, now: float, age: float) -> Memory:
    """The memory after a result; None: the command still runs."""
    if result is None or memory.process is None or memory.begun is None:
        return memory
    taken = now - memory.begun
    subprocesses.reap(memory.process.pid)
    _forget(launch_files.own(record))
    if not result or _held_since(record, taken):
        return replace(memory, process=None)  # the result is unknown
    heard = replace(memory, process=None, checks=memory.checks + 1)
    if result == "0":
        return replace(heard, failures=0, last_failure="")
    if due.awake(taken, clocks.naps()) < taken:
        return replace(memory, process=None)  # the machine was suspended meanwhile
    if age - taken < record.spec.supervision.health_start_period:
        return heard  # the agent was still starting
    return replace(heard, failures=memory.failures + 1, last_failure=result)


def _result(record: Record, memory: Memory) -> str | None:
    """The result of a health command: 0 for healthy, "" for unknown, else what is wrong. None while
    it runs."""
    result = _written(record)
    if result is None and memory.process and not processes.alive(memory.process):
        return _written(record) or ""  # it may have written between the two looks
    return result


def _written(record: Record) -> str | None:
    try:
        text = files.read_regular(f"{launch_files.own(record)}.health", _LIMIT)
    except OSError:
        return None
    if not text.endswith(b"\n"):  # it is being written
        return None
    lines = text.decode("ascii", "replace").split("\n")
    return next(filter(None, (_meaning(record, line) for line in lines)), "")


def _meaning(record: Record, line: str) -> str:
    if re.fullmatch(r"\d{1,3}", line):
        return "0" if int(line) == 0 else f"exit {int(line)}"
    return _too_long(record) if line == "late" else _NOT_RUN.get(line, "")


def _too_long(record: Record) -> str:
    return f"took longer than {record.spec.supervision.health_timeout:g}s"


def _held_since(record: Record, taken: float) -> bool:
    """Was the session paused at any time in the last `taken` seconds, while its command ran?"""
    status = record.status
    resumed = status.resumed.timestamp() if status.resumed else 0.0
    return status.paused is not None or time.time() - taken < resumed


# --- ending them ---------------------------------------------------------------------------------


class UnderWay(Value):
    """A running health command, as its file describes it."""

    process: Process | None  # None: not known yet
    agent: Process | None  # that it checks; None: not visible from here
    until: float  # no pass waits for it after that


def _under_way(stem: str) -> UnderWay | None:
    try:
        text = files.read_regular(f"{stem}.check", _LIMIT).decode("ascii", "replace")
    except OSError:
        return None
    found = _UNDER_WAY.fullmatch(text)
    if found is None:
        return None
    pid, start, agent, began, until = (int(field or 0) for field in found.groups())
    process = Process(pid, start) if pid > 1 else None
    return UnderWay(process, Process(agent, began) if agent > 1 else None, float(until))


def end_abandoned(directory: str) -> None:
    """End the commands whose result no pass will read: their agent is gone, or their session was
    not supervised any more when their time was over."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    now = processes.uptime()
    stems = [f"{directory}/{name[:-6]}" for name in names if name.endswith(".check")]
    checks = {stem: _under_way(stem) for stem in stems}
    left = {stem: one for stem, one in checks.items() if one is None or _is_abandoned(one, now)}
    known = [(one.process, stem) for stem, one in left.items() if one and one.process]
    unknown = [stem for stem, one in left.items() if one and not one.process]
    # The pass that started these was killed before it could write which process it is.
    table = processes.table() if unknown else {}
    _end(
        [
            *known,
            *((s.process, stem) for s in table.values() for stem in unknown if _is_ours(s, stem)),
        ]
    )
    for process, _ in known:
        subprocesses.reap(process.pid)
    for stem in left:
        _forget(stem)


def _is_abandoned(check: UnderWay, now: float) -> bool:
    """A command whose process, or command line, is not known yet may just be starting."""
    alone = check.agent is not None and not processes.alive(check.agent)
    begun = check.process is not None and not _is_beginning(check.process)
    return now >= check.until or (alone and begun)


def _is_beginning(process: Process) -> bool:
    """Has the kernel not set its command line yet? The process that starts it continues earlier."""
    return processes.alive(process) and not processes.command(process.pid)


def _end(commands: Sequence[tuple[Process, str]]) -> None:
    """End commands that hang and everything that they have started; no other process that a file
    may name."""
    leaders = [process for process, stem in commands if _leads(process, stem)]
    if leaders:
        terminate.kill_all(lambda table: [m for one in leaders for m in _members(table, one)])


def _leads(process: Process, stem: str) -> bool:
    """Is it our command? One that has just been started gets a moment for its command line."""
    for _ in range(_BEGINNING):
        if not _is_beginning(process):
            break
        time.sleep(0.01)
    leader = processes.look(process.pid)
    return leader is not None and leader.process == process and _is_ours(leader, stem)


def _members(table: processes.Table, leader: Process) -> list[Process]:
    """All living processes below a session's leader and in its session; none if the leader's pid
    belongs to another process by now."""
    if leader.pid in table and table[leader.pid].process != leader:
        return []
    tree = processes.tree(processes.children(table), leader.pid)
    session = (stat.pid for stat in table.values() if stat.session == leader.pid)
    found = {*tree, *session} - processes.ancestors(table)
    return [table[pid].process for pid in found if pid in table and table[pid].alive]


def _is_ours(leader: processes.Stat, stem: str) -> bool:
    """Does it lead a session and run our script for this launch, as our user?"""
    leads = leader.session == leader.pid and processes.runs(leader.pid, stem)
    return leads and bool(process_marks.ours([leader.pid], os.path.dirname(stem)))
